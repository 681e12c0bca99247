/*
 * The worker's link to the agent of its sandbox: requests out, replies and events in.
 *
 * The agent runs beside user code, so its messages are read strictly and passed on decoded, never
 * as bytes. A stream may be lost (a relay dies, a connection breaks) while the sandbox goes on.
 * Then the link opens another one and repeats unanswered requests, which all are idempotent: START
 * joins a known operation. Callers only notice the delay.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that takes them.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_H
#define CLOISTER_WORKER_AGENT_LINK_H

#include <uv.h>

#include "common/err.h"
#include "proto/msg.h"
#include "worker/backend/backend.h"

struct agent_link;
struct ipc_message;

/* reply is borrowed during the call. NULL: there will be none, err says why. */
typedef void (*agent_reply_fn)(void *arg, const struct msg *reply, const struct err *err);

struct agent_link_events {
    /* A stream is up and the agent has answered HELLO: the first stream, or a later one. */
    void (*on_up)(void *arg, const struct msg_hello_ok *hello);
    /* An event of the agent's: RUNNING, or one of a door. -ERR_PROTOCOL if it is malformed. */
    int (*on_event)(void *arg, const struct msg *event, struct err *err);
    /* The stream was lost; another one is being opened. */
    void (*on_lost)(void *arg);
    /* Called once when the link gives up: -ERR_GONE the sandbox is not running, -ERR_PROTOCOL the
     * agent sent a malformed message, -ERR_TIMEOUT it does not answer, -ERR_DENIED it refused this
     * worker, else the backend's error. Requests stay unanswered until agent_link_end(). */
    void (*on_failed)(void *arg, const struct err *err);
};

/* The content of HELLO. */
struct agent_link_greeting {
    const char *sandbox; /* borrowed during agent_link_create() */
    uint64_t generation;
    struct view_list runners; /* encoded RUNNER messages; borrowed for the life of the link */
};

/* Binds a link to a backend object whose sandbox exists. `events` is borrowed for good. Opens
 * nothing yet. */
struct agent_link *agent_link_create(uv_loop_t *loop, struct backend *backend,
                                     const struct agent_link_greeting *greeting,
                                     const struct agent_link_events *events, void *arg);

void agent_link_open(struct agent_link *link);

/* True between a hello and the loss of its stream. */
bool agent_link_is_up(const struct agent_link *link);

/* Sends a copy of the request with a seq of the link. The answer may take wait_ms longer than
 * usual. -ERR_BUSY if too many requests are unanswered, -ERR_GONE after agent_link_end(), or an
 * error of encoding. On an error `done` is not called. */
int agent_link_ask(struct agent_link *link, const struct msg *request, uint64_t wait_ms,
                   agent_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

/* The same for a START that was decoded from `message`, which this takes over, also on an error:
 * its data is written from there, and not copied. */
int agent_link_pass_on(struct agent_link *link, const struct msg *start,
                       struct ipc_message *message, uint64_t wait_ms, agent_reply_fn done,
                       void *arg, struct err *err) WARN_UNUSED;

/* Sends a message that has no answer and is never sent again, an event of a door or SHUTDOWN; it is
 * dropped if there is no stream. If it cannot be sent the stream is lost, which is told later. */
void agent_link_post(struct agent_link *link, const struct msg *event);

/* Answers every request with `err`, closes the stream and takes no more requests. May be
 * repeated. */
void agent_link_end(struct agent_link *link, const struct err *err);

/* After agent_link_end(), and after the backend object is closed, since that drops the callback of
 * a stream that is still being opened. Frees; then calls `closed`. */
void agent_link_destroy(struct agent_link *link, void (*closed)(void *arg), void *arg);

#endif
