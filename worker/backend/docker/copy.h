/*
 * What an installer is shown of this host (backend_mount), on an engine that need not see any of
 * it: copied into volumes of the container before that starts.
 *
 * Thread: the loop thread. Nothing blocks for longer than reading a directory, or a piece of a
 * file, takes.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_COPY_H
#define CLOISTER_WORKER_BACKEND_DOCKER_COPY_H

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"

/* Where a mount's volume is: at its path for a directory, else at the directory of its path, which
 * therefore cannot be the root. The caller frees. -ERR_CONFIG: there is nothing to show, or it
 * cannot be shown there. */
int docker_copy_target(const struct backend_mount *mount, char **ret, struct err *err) WARN_UNUSED;

struct docker_copy;

typedef void (*docker_copy_fn)(void *arg, int rc, const struct err *err);

/* Copies all of them into a container that has the volumes and does not run yet. `mounts` must live
 * until `done`, which never runs inside this call; the object is gone then. -ERR_TOO_BIG for what
 * is meant to be served by a package index instead. */
struct docker_copy *docker_copy_start(struct docker_api *api, const char *container,
                                      const struct backend_mount *mounts, size_t count,
                                      docker_copy_fn done, void *arg);

/* No callback follows. NULL is fine. */
void docker_copy_cancel(struct docker_copy *c);

#endif
