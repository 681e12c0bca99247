/*
 * A byte stream to the agent through an engine: copies bytes between a hijacked connection and a
 * descriptor.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that takes them, and
 * never after the tasks are closed, which also ends all streams.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_STREAM_H
#define CLOISTER_WORKER_BACKEND_DOCKER_STREAM_H

#include "common/err.h"
#include "worker/backend/docker/api.h"
#include "worker/backend/task.h"

struct docker_stream;

/* fd is non-blocking, close-on-exec and owned by the receiver, who closes it to end the stream. On
 * failure err quotes the engine or the relay. The object frees itself: do not use it after the
 * callback.
 */
typedef void (*docker_stream_fn)(void *arg, int rc, int fd, const struct err *err);

/* Starts a relay in a running container. -ERR_GONE if it is not running. */
struct docker_stream *docker_stream_exec(struct tasks *tasks, struct docker_api *api,
                                         const char *container, docker_stream_fn done, void *arg);

/* Attaches to stdin and stdout of a container before its start. `attached` is called first, when
 * the container may be started (if rc < 0, nothing follows), and `done` when the agent's relay has
 * sent its greeting.
 */
struct docker_stream *docker_stream_attach(struct tasks *tasks, struct docker_api *api,
                                           const char *container, docker_stream_fn attached,
                                           docker_stream_fn done, void *arg);

/* Ends it; no callback follows. Only before `done`. */
void docker_stream_cancel(struct docker_stream *s);

#endif
