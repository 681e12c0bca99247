/*
 * The package directory of a sandbox on this host. Installers write it and the sandbox reads it, so
 * it outlives containers; it is removed with the sandbox.
 *
 *     <place>/<name>/        0700, of the root user inside, so nobody else of this host gets in
 *                    of      in the second place: link to the sandbox's directory, whose it is
 *                    in      and which mounts that path is meant with
 *                    tree/   what is mounted, with the subdirectories python and node
 *
 * The place is the instance's shared directory, or /var/tmp/cloister-<uid> if the first is in
 * memory or noexec, as /run is on most hosts. The name is derived from the sandbox's id, so
 * removing a sandbox needs no record of it.
 *
 * Thread: any for what returns at once; the loop's for what takes a callback.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_PACKAGES_H
#define CLOISTER_WORKER_BACKEND_OCI_PACKAGES_H

#include <stdbool.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/task.h"

/* What helps if the second place is not ours. */
#define OCI_PACKAGES_HINT                                                                          \
    "look whose that is and remove it, or choose a --runtime-dir on a disk without noexec, or "    \
    "start with --packages=no"

/* The sandbox whose ids are mapped. An installer gets the ids of the sandbox that it works for, so
 * that each can read the other's files. Borrowed from spec. */
const char *oci_packages_ids_of(const struct backend_spec *spec);

/* The user mapping of an installer. An ordinary user could not remove files of subordinate ids, so
 * there the installer maps only the user's own id. */
struct oci_mode oci_packages_mode(const struct backend_spec *spec, const struct oci_mode *mode,
                                  const struct oci_host *host);

/* Makes the directory of spec->packages if that is the sandbox itself, else finds it: -ERR_GONE if
 * there is none, -ERR_CONFIG if the second place is needed and not ours. *ret_tree is what to mount
 * (free). `apart` is "" for the usual second place; tests name another. */
int oci_packages_prepare(const struct backend_spec *spec, const struct oci_mode *mode,
                         const struct oci_host *host, const char *apart, char **ret_tree,
                         struct err *err) WARN_UNUSED;

/* Finds the tree of another sandbox, for an installer: *ret_tree (free), or -ERR_GONE. */
int oci_packages_find(const struct backend_spec *spec, const char *apart, char **ret_tree,
                      struct err *err) WARN_UNUSED;

/* Puts an empty subdirectory ("python" or "node") in the place of one in the tree, at once; what
 * was there is removed by a process. -ERR_IO or -ERR_NO_SPACE if that cannot be. */
int oci_packages_drop(struct tasks *tasks, const char *tree, const char *name,
                      const char *agent_path, struct err *err) WARN_UNUSED;

/* Retires the sandbox's packages in both places without waiting for their removal, which may take
 * long. They are moved into spec->dir, or renamed and removed by a process (the agent's program).
 * No packages is a success. */
int oci_packages_retire(struct tasks *tasks, const struct backend_spec *spec, const char *apart,
                        struct err *err) WARN_UNUSED;

/* Starts to remove entries without an owner from the second place: from an earlier boot, without
 * the directory that `of` names, or left by a removal that was cut short. */
void oci_packages_tidy(struct tasks *tasks, const char *apart, const char *agent_path);

#endif
