/*
 * Opens a stream to the agent: a process stream of its relay, with a socket pair on our side.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that takes them, and
 * never after the tasks are closed, which also ends all streams.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_STREAM_H
#define CLOISTER_WORKER_BACKEND_E2B_STREAM_H

#include "common/err.h"
#include "worker/backend/e2b/host.h"
#include "worker/backend/task.h"

#define E2B_AGENT_SOCKET "/run/cloister/agent.sock"

struct e2b_stream;

/* fd is non-blocking, close-on-exec and owned by the receiver, who closes it to end the stream. On
 * failure `status` is that of HTTP, 0 if there was none, and err quotes daemon or relay. The object
 * frees itself: do not use it after the callback. */
typedef void (*e2b_stream_fn)(void *arg, int rc, int fd, int status, const struct err *err);

/* `agent` is the path of the agent in the sandbox. */
struct e2b_stream *e2b_stream_open(struct tasks *tasks, struct e2b_host *envd, const char *agent,
                                   e2b_stream_fn done, void *arg);

/* Ends it; no callback follows. Only before `done`. */
void e2b_stream_cancel(struct e2b_stream *s);

#endif
