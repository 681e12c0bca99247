/*
 * Removes containers and volumes: those of one sandbox, and those of dead servers.
 *
 * Thread: the loop thread. Nothing blocks. `done` never runs inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_END_H
#define CLOISTER_WORKER_BACKEND_DOCKER_END_H

#include "common/err.h"
#include "worker/backend/docker/api.h"
#include "worker/backend/task.h"

struct docker_end;

typedef void (*docker_end_fn)(void *arg, int rc, const struct err *err);

/* Kills and removes a container with its anonymous volumes, and then the package volumes of sandbox
 * `packages` (may be NULL). Absent objects are a success. The object is gone at `done`. */
struct docker_end *docker_end_start(struct tasks *tasks, struct docker_api *api,
                                    const char *container, const char *packages, docker_end_fn done,
                                    void *arg);

/* For an owner that closes before `done`, together with tasks and api. NULL is fine. */
void docker_end_free(struct docker_end *e);

struct docker_sweep;

/* Removes stopped containers and unused volumes whose servers are provably dead (owner.h), agents'
 * volumes that are not needed any more (volume.h), and package volumes without labels that no
 * container uses; a bounded number at a time. */
struct docker_sweep *docker_sweep_start(struct docker_api *api, void (*done)(void *arg), void *arg);
void docker_sweep_free(struct docker_sweep *s);

#endif
