/*
 * The requests of the supervisor to a running sandbox: START, WAIT, INPUT, CANCEL, STATUS and OPS.
 * They are passed on to the agent; the worker enforces deadlines and tells memory kills from
 * crashes.
 *
 * Thread: the loop thread. Nothing blocks. Answers never come from inside the call, except
 * refusals.
 */
#ifndef CLOISTER_WORKER_OPERATIONS_H
#define CLOISTER_WORKER_OPERATIONS_H

#include <uv.h>

#include "proto/msg.h"
#include "worker/agent_link.h"
#include "worker/figures.h"

struct operations;
struct ipc_request;

/* Answers a request, exactly once each. The answer has the request's seq and is borrowed. */
typedef void (*operations_answer_fn)(void *arg, struct ipc_request *request,
                                     const struct msg *answer);

struct operations_setup {
    uv_loop_t *loop;
    struct agent_link *link; /* borrowed for good, as the next */
    struct figures *figures;
    uint64_t memory_bytes; /* the sandbox's limit, for a message */
    operations_answer_fn answer;
    void *arg;
};

struct operations *operations_create(const struct operations_setup *setup);

/* `request` is only passed back to the answer function; m is borrowed. */
void operations_start(struct operations *o, struct ipc_request *request, const struct msg *m);
void operations_wait(struct operations *o, struct ipc_request *request, const struct msg *m);
void operations_cancel(struct operations *o, struct ipc_request *request, const struct msg *m);
void operations_status(struct operations *o, struct ipc_request *request, const struct msg *m);
void operations_input(struct operations *o, struct ipc_request *request, const struct msg *m);
void operations_list(struct operations *o, struct ipc_request *request, const struct msg *m);

/* The sandbox has another limit of memory now. */
void operations_set_memory(struct operations *o, uint64_t memory_bytes);

/* Progress that the agent link tells. */
void operations_running(struct operations *o, const struct msg_running *m);

/* Cancels all operations at once with force; calls `done` when every request is answered or after
 * grace_ms, whichever comes first. */
void operations_stop(struct operations *o, uint64_t grace_ms, void (*done)(void *arg), void *arg);

/* When agent_link_end() and figures_destroy() have answered what was left. Frees, then calls
 * `closed`. */
void operations_destroy(struct operations *o, void (*closed)(void *arg), void *arg);

#endif
