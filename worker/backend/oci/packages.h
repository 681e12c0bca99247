/*
 * The directory with a sandbox's packages, on this host. An installer writes it and the sandbox
 * reads it, so it outlives containers; it ends with the sandbox.
 *
 *     <place>/<name>/        0700, of the root user inside, so nobody else of this host gets in
 *                    of      in the second place: link to the sandbox's directory, whose it is
 *                    in      and which mounts that path is meant with
 *                    tree/   what is mounted, with the subdirectories python and node
 *
 * The place is the instance's shared directory, or /var/tmp/cloister-<uid> where the first is in
 * memory or forbids to run programs, as /run does on most hosts. The name is made of the sandbox's
 * id, so whoever removes a sandbox finds it without having written down anything.
 *
 * Thread: any for what returns at once; the loop's for what takes a callback.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_PACKAGES_H
#define CLOISTER_WORKER_BACKEND_OCI_PACKAGES_H

#include <stdbool.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host.h"
#include "worker/backend/task.h"

/* The sandbox whose ids are mapped: an installer is given those of the sandbox that it works for,
 * so each can read what the other wrote. */
const char *oci_packages_ids_of(const struct backend_spec *spec);

/* The way users are mapped in an installer. Files of subordinate ids could not be removed by an
 * ordinary user, so there the installer has the user's own id alone. */
struct oci_mode oci_packages_mode(const struct backend_spec *spec, const struct oci_mode *mode,
                                  const struct oci_host *host);

/* Makes the directory of spec->packages if that is the sandbox itself, else finds it: -ERR_GONE if
 * there is none. *ret_tree is what to mount (free). `apart` is "" for the usual second place; tests
 * name another. */
int oci_packages_prepare(const struct backend_spec *spec, const struct oci_mode *mode,
                         const struct oci_host *host, const char *apart, char **ret_tree,
                         struct err *err) WARN_UNUSED;

/* Takes the sandbox's packages away, in both places, without waiting for their removal, which may
 * take long: into spec->dir, or under another name, where a process of its own (the agent's
 * program) removes them. Having none is a success. */
int oci_packages_retire(struct tasks *tasks, const struct backend_spec *spec, const char *apart,
                        struct err *err) WARN_UNUSED;

/* Begins to remove from the second place what belongs to nobody: of an earlier boot, without the
 * directory that `of` names, or of a removal that was cut short. */
void oci_packages_tidy(struct tasks *tasks, const char *apart, const char *agent_path);

#endif
