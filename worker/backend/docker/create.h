/*
 * Creates a container on an engine and opens the first stream to its agent.
 *
 * Thread: the loop thread. Nothing blocks. The callback never runs inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_CREATE_H
#define CLOISTER_WORKER_BACKEND_DOCKER_CREATE_H

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"
#include "worker/backend/docker/engine.h"
#include "worker/backend/task.h"

struct docker_create;

/* fd is the first stream (see backend_stream_fn), info as in backend_create_fn. If rc < 0 the
 * container was removed, provided that the engine could be reached. */
typedef void (*docker_create_fn)(void *arg, int rc, int fd, const struct backend_info *info,
                                 const struct err *err, const char *hint);

/* The object is gone when fn is called. `spec` is copied, the rest borrowed until then. */
struct docker_create *docker_create_start(struct tasks *tasks, struct docker_api *api,
                                          const struct docker_engine *engine,
                                          const struct backend_spec *spec, docker_create_fn fn,
                                          void *arg);

/* Aborts when the pending answer of the engine has come, removes what exists, and calls fn with
 * -ERR_SHUTTING_DOWN. */
void docker_create_cancel(struct docker_create *c);

/* For an owner that closes before fn was called, just before tasks and api are closed. NULL is
 * fine. */
void docker_create_free(struct docker_create *c);

/* Name of a sandbox's container. The caller frees. */
char *docker_container_name(const char *sandbox);

#endif
