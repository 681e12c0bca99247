/*
 * A byte stream to the agent in a pod: an exec of the relay over a WebSocket, joined to a
 * descriptor.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that takes them, and
 * never after the tasks are closed, which also ends all streams.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_STREAM_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_STREAM_H

#include "common/err.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/task.h"

struct kube_stream;

/* fd is non-blocking, close-on-exec and owned by the receiver, who closes it to end the stream. On
 * failure err quotes the cluster or the relay. The object frees itself: do not use it after the
 * callback. */
typedef void (*kube_stream_fn)(void *arg, int rc, int fd, const struct err *err);

struct kube_stream *kube_stream_open(struct tasks *tasks, struct kube_api *api, const char *pod,
                                     kube_stream_fn done, void *arg);

/* Ends it; no callback follows. Only before `done`. */
void kube_stream_cancel(struct kube_stream *s);

/* The Status at the end of an exec, as one line for people; to be freed. */
char *kube_stream_outcome(struct view status);

#endif
