/*
 * The body of POST /containers/create: every default of a sandbox on a Docker engine, next to its
 * reason. The counterpart of oci_spec for an engine that composes the container itself.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_SPEC_H
#define CLOISTER_WORKER_BACKEND_DOCKER_SPEC_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/engine.h"
#include "worker/backend/docker/shares.h"

#define DOCKER_AGENT_DIR    "/.cloister" /* where the agent's volume is mounted */
#define DOCKER_AGENT_PATH   "/.cloister/cloister-agent"
#define DOCKER_SOCKET_DIR   "/run/cloister" /* tmpfs, 0700 */
#define DOCKER_AGENT_SOCKET "/run/cloister/agent.sock"

/* Processes beside user code's: agent, keepers, relays, and the engine's for an exec. */
#define DOCKER_PIDS_ROOM 32

struct docker_spec_input {
    const struct backend_spec *spec;
    const struct docker_engine *engine;
    const char *image;   /* id or reference */
    const char *volume;  /* name of the agent's volume */
    const char *runtime; /* name of an OCI runtime of the engine; "" = its default */
    const cJSON *labels; /* an object of strings */
    char *const *copies; /* mount points of volumes for copied files */
    size_t copy_count;
    struct docker_user user; /* as shares decide it */
};

/* Uid and gid of user code: 1000 if the container has its own user namespace, else unused ids of
 * the engine's host that are derived from the sandbox's id, because the kernel counts processes by
 * uid over all containers, and 1000 may be a user there. Podman may map fewer ids than it reports;
 * the agent then chooses an existing one (worker/agent/process/ids.h). */
uint32_t docker_spec_uid(const struct docker_engine *engine, const char *sandbox);

/* JSON text, owned by the caller. Limits of 0 are those of spec_copy_limits(). -ERR_INVALID: an
 * environment entry that is none. */
int docker_spec_build(const struct docker_spec_input *in, char **ret_text,
                      struct err *err) WARN_UNUSED;

/* Lists the limits that this engine does not apply, as "name: reason". `warnings` are those of the
 * create response. Returns their number; the caller frees each text. */
size_t docker_spec_unapplied(const struct docker_engine *engine, const char *const *warnings,
                             size_t warning_count, char *ret[BACKEND_UNAPPLIED_MAX]);

/* Appends to `count` texts what is not applied of limits that are only there if they are asked for.
 * Returns the new number; the caller frees them. */
size_t docker_spec_unapplied_asked(const struct docker_engine *engine,
                                   const struct backend_spec *spec, size_t count,
                                   char *texts[BACKEND_UNAPPLIED_MAX]);

#endif
