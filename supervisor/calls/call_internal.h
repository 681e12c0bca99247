/*
 * The inside of a call: call.c (its life), begin.c (its beginning) and all.c (all calls
 * of a sandbox), and nothing else. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_CALL_INTERNAL_H
#define CLOISTER_SUPERVISOR_CALLS_CALL_INTERNAL_H

#include "supervisor/calls/call.h"
#include "supervisor/calls/start.h"
#include "supervisor/calls/stream_keep.h"

enum stop { STOP_NONE, STOP_INTERRUPT, STOP_KILL };

struct failure {
    struct err err;
    char *hint;
};

struct fleet_call {
    TAILQ_ENTRY(fleet_call) node;
    struct fleet_host *host;
    struct sandbox *sandbox; /* NULL: refused from the beginning */
    char op[FLEET_ID_SIZE];
    struct msg_start start;
    struct start_memory memory; /* behind start */

    struct stream_keep out, err;

    struct sm sm;
    bool is_execution;   /* may be left without an outcome */
    bool joined;         /* an earlier server began it */
    bool was_over;       /* and it had ended before we came: nobody has used the sandbox for it */
    bool is_look;        /* nobody uses the sandbox for it either */
    bool heard_of;       /* a worker may have heard of it, so it may run */
    bool known;          /* the agent has it: it has begun or will, whoever dies */
    uint64_t generation; /* of the worker that knows it; 0 if none of ours does */
    uint64_t acks_to;    /* acknowledgements that the START under way carries */
    uint64_t entered_ms; /* when the call came */
    uint64_t heard_ms;   /* when the latest reply came; 0: none has */
    uint64_t late_ms;    /* when a reply came that said it goes on, though it should be over; 0 */
    uint64_t asked_ms;   /* when the request went out */
    uint64_t asked_wait_ms; /* and how long it may wait */
    unsigned empty;         /* replies without news before their time */
    uint64_t timeout_ms;
    uint64_t began_ms;  /* the deadline counts from here; 0 if it may still be queued */
    uint64_t before_ms; /* it ran so long before that, under an earlier server */

    enum stop stop;
    uint64_t stopped_ms;      /* when that began */
    uint64_t stop_generation; /* worker that was told */
    uint64_t started_wall_ms;

    fleet_outcome_fn done;
    call_more_fn more; /* may be NULL */
    void *arg;
    struct deferred_task task; /* answers later: with the failure, or as cancelled */
    struct failure *failure;
};

static inline uint64_t call_now_ms(const struct fleet_call *call)
{
    return uv_now(call->host->loop);
}

/* How it ends is not decided yet. */
static inline bool call_is_open(const struct fleet_call *call)
{
    return call_state(call) <= CALL_ASKED;
}

/* The sandbox owes an answer that is late, or has no worker that could be asked. */
bool call_is_silent(const struct fleet_call *call);

/* Sends the next request if the sandbox can take it now; if not, somebody resumes us. */
void call_ask(struct fleet_call *call);

/* Tells the worker, if there is one. */
void call_tell_stop(struct fleet_call *call, enum stop stop);

/* Takes it off the sandbox's list: whoever waits is told next. */
void call_leave_sandbox(struct fleet_call *call);
void call_tell(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
               const struct err *err, const char *hint);

/* Both at once, and the agent may forget the operation. */
void call_answer(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
                 const struct err *err, const char *hint);
void call_answer_cancelled(struct fleet_call *call);

/* It ran, and its sandbox has ended under it. */
void call_answer_crashed(struct fleet_call *call, const struct err *cause);

/* In the next turn of the loop. */
void call_fail_later(struct fleet_call *call, const struct err *err, const char *hint);

/* What that leads to: a deferred_fn. */
void call_on_answer_later(void *call);

#endif
