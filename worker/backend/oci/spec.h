/*
 * Writes the OCI configuration (config.json) of a sandbox.
 *
 * Thread: any. Nothing blocks; no file is touched.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_SPEC_H
#define CLOISTER_WORKER_BACKEND_OCI_SPEC_H

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/oci/root.h"

#define OCI_SPEC_AGENT_FD  3  /* the listening socket in the agent */
#define OCI_SPEC_PIDS_ROOM 32 /* added to the pids limit for the agent and the runtime's init */

struct oci_spec_input {
    const struct backend_spec *spec; /* limits must be filled in (spec_copy_limits) */
    const struct oci_mode *mode;
    const struct oci_host *host;
    const struct oci_root *root;
    const char *container; /* id of the container, also the last part of its cgroup */
    const char *verb;      /* the agent's command: "serve" or "check" */
};

/* The whole text; the caller owns *ret_text (free). -ERR_INVALID for an environment entry that is
 * no "K=V", -ERR_ENGINE if the mode does not fit the host. */
int oci_spec_build(const struct oci_spec_input *in, char **ret_text, struct err *err) WARN_UNUSED;

/* Uid and gid of user code as this host counts them. `in` needs spec, mode and host only.
 * -ERR_ENGINE if the mode does not fit the host. */
int oci_spec_user(const struct oci_spec_input *in, uint32_t *ret_uid, uint32_t *ret_gid,
                  struct err *err) WARN_UNUSED;

#endif
