/*
 * nng req/rep on a libuv loop.
 *
 * nng completes its operations on its own threads. A completion puts a record on a locked queue and
 * wakes the loop, so every callback below runs on the loop thread. Nothing blocks. nng appears in
 * ipc_*.c only.
 *
 * Roles: the supervisor listens with REQ (ipc_client), the worker dials with REP (ipc_server),
 * which nng allows. So a worker is ready as soon as its dial succeeds, the supervisor need not poll
 * for a socket, and a worker that outlives its supervisor finds the next one on the same path.
 *
 * REQ's automatic resend is off, so nng delivers a request at most once. The ids in the messages
 * make a repetition harmless.
 */
#ifndef CLOISTER_COMMON_IO_IPC_H
#define CLOISTER_COMMON_IO_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/buf.h"
#include "common/err.h"

/* Called when the link to the other side comes up or is lost. */
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

/* Writes `what` into the empty *room, whose storage is nng's message and cannot grow. Returns a
 * negative code if it cannot. */
typedef int (*ipc_write_fn)(const void *what, struct buf *room, struct err *err);

/* Sends what `write`, called at once, writes: at most most_bytes. Waits for a link if there is none
 * yet. The timeout covers both; timeout_ms 0 = none. Any number of requests may be pending. `done`
 * is called exactly once, unless this returns an error. */
int ipc_client_ask(struct ipc_client *c, size_t most_bytes, ipc_write_fn write, const void *what,
                   uint64_t timeout_ms, ipc_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

/* Ends pending requests with -ERR_IO, from the loop; answers that have arrived are still delivered.
 * For use when the peer is known to be dead. */
void ipc_client_end_calls(struct ipc_client *c);

/* True if a peer has ever connected. Set before anything is sent to it, so possibly before on_link
 * is called.
 */
bool ipc_client_was_reached(struct ipc_client *c);

/* Ends pending requests with -ERR_SHUTTING_DOWN, from the loop, then calls `closed` (may be NULL)
 * and frees the object. No callback follows `closed`.
 *
 * Before `closed`, nng has closed its socket and the path is free; this takes a millisecond. If nng
 * hangs, its socket is abandoned after 1 s, with a warning. The same holds for
 * ipc_server_close(). */
void ipc_client_close(struct ipc_client *c, ipc_closed_fn closed, void *arg);

/* ---- answering side ---- */
struct ipc_server;
struct ipc_request;

/* data is borrowed during the call, unless it is taken. Every request must be answered exactly once
 * with ipc_reply(), now or later. Up to `contexts` requests can be unanswered at a time. A request
 * whose link is lost does not count any more, but must be answered as well, which frees it. */
typedef void (*ipc_request_fn)(void *arg, struct ipc_request *request, const void *data,
                               size_t len);

/* Dials "ipc://<path>", and redials after a lost link: a new listener is found within 200 ms. */
int ipc_server_open(uv_loop_t *loop, const char *path, size_t contexts, size_t max_bytes,
                    ipc_request_fn on_request, ipc_link_fn on_link, void *arg,
                    struct ipc_server **ret, struct err *err) WARN_UNUSED;

/* The data of a request, in nng's memory. */
struct ipc_message;

/* For ipc_request_fn only, and once: its data stays where it is until ipc_message_free(), which may
 * be after the request was answered. */
struct ipc_message *ipc_request_take(struct ipc_request *request);

/* NULL is fine. */
void ipc_message_free(struct ipc_message *message);

/* Sends a copy of data as the answer and frees the request. If the link is lost, the answer is
 * dropped. */
void ipc_reply(struct ipc_request *request, const void *data, size_t len);

/* Flushes earlier answers for at most 500 ms, then closes. Unanswered requests may be passed to
 * ipc_reply() until `closed`; their answers are dropped. */
void ipc_server_close(struct ipc_server *s, ipc_closed_fn closed, void *arg);

#endif
