/*
 * nng req/rep on a libuv loop.
 *
 * nng completes its operations on threads of its own. This file is the one bridge: a completion
 * puts a record on a locked queue and wakes the loop; every callback below runs on the loop
 * thread. Nothing blocks. nng appears in ipc_*.c only.
 *
 * Roles: the supervisor listens with REQ (ipc_client), the worker dials with REP (ipc_server),
 * which nng allows. So a worker is ready the moment its dial succeeds, nobody polls for a socket to
 * appear, and a worker that outlives its supervisor finds the next one on the same path.
 *
 * REQ's automatic resend is switched off: a request reaches a worker at most once, and the ids
 * inside the messages make even that harmless.
 */
#ifndef CLOISTER_COMMON_IO_IPC_H
#define CLOISTER_COMMON_IO_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"

/* The one link to the other side came up or went away. */
typedef void (*ipc_link_fn)(void *arg, bool up);
typedef void (*ipc_closed_fn)(void *arg);

/* ---- asking side ---- */
struct ipc_client;

/* rc 0: data is the reply, borrowed during the call. rc < 0: no reply will come (-ERR_TIMEOUT,
 * -ERR_IO link lost after sending, -ERR_SHUTTING_DOWN closed): the request may or may not have been
 * carried out. */
typedef void (*ipc_reply_fn)(void *arg, int rc, const void *data, size_t len);

/* Listens on "ipc://<path>"; a stale socket file is replaced. At most one peer is served; a
 * second one is refused. -ERR_TOO_BIG if the path does not fit a socket address. */
int ipc_client_open(uv_loop_t *loop, const char *path, size_t max_bytes, ipc_link_fn on_link,
                    void *arg, struct ipc_client **ret, struct err *err) WARN_UNUSED;

/* Sends a copy of data; waits for a link if there is none yet, within the timeout. Any number may
 * be under way. `done` is called exactly once unless this returns an error. timeout_ms 0 = none. */
int ipc_client_ask(struct ipc_client *c, const void *data, size_t len, uint64_t timeout_ms,
                   ipc_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

/* Ends what is unanswered with -ERR_IO, from the loop. An answer that has arrived still counts: for
 * when it is known that no other will come. */
void ipc_client_end_calls(struct ipc_client *c);

/* Whether a peer has ever come. Known before anything is sent to it, and so before on_link hears.
 */
bool ipc_client_was_reached(struct ipc_client *c);

/* Ends all requests under way with -ERR_SHUTTING_DOWN, from the loop, then calls `closed` and
 * frees. No other callback after `closed`. `closed` may be NULL.
 *
 * By then nng has closed its socket, and the path is free for another; this takes a millisecond.
 * Should nng hang, the socket is left behind after 1 s, with a warning. The same holds for the
 * other side. */
void ipc_client_close(struct ipc_client *c, ipc_closed_fn closed, void *arg);

/* ---- answering side ---- */
struct ipc_server;
struct ipc_request;

/* data is borrowed during the call. Every request is answered exactly once with ipc_reply(), now
 * or later; `contexts` of them can be unanswered at a time. A request whose link is lost counts no
 * more, but is answered all the same: that frees it. */
typedef void (*ipc_request_fn)(void *arg, struct ipc_request *request, const void *data,
                               size_t len);

/* Dials "ipc://<path>", and again whenever the link is lost: a listener is found within 200 ms. */
int ipc_server_open(uv_loop_t *loop, const char *path, size_t contexts, size_t max_bytes,
                    ipc_request_fn on_request, ipc_link_fn on_link, void *arg,
                    struct ipc_server **ret, struct err *err) WARN_UNUSED;

/* Sends a copy of data as the answer and releases the request. If the link is gone the answer is
 * dropped. */
void ipc_reply(struct ipc_request *request, const void *data, size_t len);

/* Requests not yet answered may still be passed to ipc_reply() until `closed` (their answers are
 * dropped). Answers already given are flushed first, for at most 500 ms. */
void ipc_server_close(struct ipc_server *s, ipc_closed_fn closed, void *arg);

#endif
