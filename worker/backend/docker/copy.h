/*
 * Shows an installer files of this host (backend_mount) on an engine that may not see them: copies
 * them into volumes of its container before the start.
 *
 * Thread: the loop thread. Nothing blocks for longer than reading a directory, or a piece of a
 * file, takes.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_COPY_H
#define CLOISTER_WORKER_BACKEND_DOCKER_COPY_H

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"

/* The mount point of a mount's volume: its path for a directory, else the parent of its path, which
 * must not be the root. The caller frees it. -ERR_CONFIG if the source does not exist or the path
 * is not possible. */
int docker_copy_target(const struct backend_mount *mount, char **ret, struct err *err) WARN_UNUSED;

struct docker_copy;

typedef void (*docker_copy_fn)(void *arg, int rc, const struct err *err);

/* Copies all of them into a container that has the volumes and does not run yet. `mounts` must live
 * until `done`, which never runs inside this call; the object is gone then. -ERR_TOO_BIG for a
 * directory that a package index should serve instead. */
struct docker_copy *docker_copy_start(struct docker_api *api, const char *container,
                                      const struct backend_mount *mounts, size_t count,
                                      docker_copy_fn done, void *arg);

/* No callback follows. NULL is fine. */
void docker_copy_cancel(struct docker_copy *c);

#endif
