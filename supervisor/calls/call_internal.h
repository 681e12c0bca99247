/*
 * What call.c (the life of a call), begin.c (its start) and all.c (all calls of a sandbox) share,
 * and nothing else uses. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_CALL_INTERNAL_H
#define CLOISTER_SUPERVISOR_CALLS_CALL_INTERNAL_H

#include "supervisor/calls/call.h"
#include "supervisor/calls/input.h"
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
    struct sandbox *sandbox; /* NULL: refused from the start */
    char op[FLEET_ID_SIZE];
    struct msg_start start;
    struct start_memory memory; /* owns the texts of start */

    struct stream_keep out, err;
    struct call_inputs inputs;

    struct sm sm;
    bool is_execution;   /* it may end without an outcome */
    bool joined;         /* an earlier server started it */
    bool was_over;       /* … and it had ended before we came, so it does not use the sandbox */
    bool is_look;        /* it does not count as use of the sandbox */
    bool heard_of;       /* a worker may know it, so it may run */
    bool known;          /* the agent has it: it has started or will, even if workers die */
    uint64_t generation; /* of the worker that knows it; 0 if none of ours does */
    uint64_t acks_to;    /* acknowledgements that the START in flight carries */
    uint64_t entered_ms; /* when the call was made */
    uint64_t heard_ms;   /* when the latest reply came, or its OP_INFO; 0: none has */
    /* when a reply said that it goes on although it should have ended; 0: never */
    uint64_t late_ms;
    uint64_t asked_ms;      /* when the request was sent */
    uint64_t asked_wait_ms; /* and how long it may wait */
    unsigned empty;         /* early replies without output */
    unsigned wishes;        /* for packages, that came with its replies */
    uint64_t timeout_ms;    /* of its run, not of its wait for its turn */
    bool runs;              /* by the latest reply; false before it, and while it is queued */
    uint64_t ran_us;        /* … and how long it had done so then */

    enum stop stop;
    uint64_t stopped_ms;      /* when the stop was requested */
    uint64_t stop_generation; /* of the worker that knows about the stop */
    uint64_t started_wall_ms;

    fleet_outcome_fn done;
    call_more_fn more;  /* may be NULL */
    fleet_more_fn flow; /* of a connection, else NULL */
    bool paused;
    uint64_t resumed_ms; /* when its last pause ended; 0: there was none */
    void *arg;
    struct deferred_task task; /* the deferred answer: failed or cancelled */
    struct failure *failure;
};

static inline uint64_t call_now_ms(const struct fleet_call *call)
{
    return uv_now(call->host->loop);
}

/* Whether its end is not decided yet. */
static inline bool call_is_open(const struct fleet_call *call)
{
    return call_state(call) <= CALL_ASKED;
}

/* Whether the sandbox owes a late reply, or has no usable worker. */
bool call_is_silent(const struct fleet_call *call);

/* Sends the next request if the sandbox can take it now; otherwise call_resume_all() will. */
void call_ask(struct fleet_call *call);

/* wishes.c: passes on what code in the sandbox wants to have installed. False: that is malformed.
 */
bool call_take_wishes(struct fleet_call *call, const struct msg_output *o, bool *ret_new);

/* Tells the worker to stop the operation, if there is a worker. */
void call_tell_stop(struct fleet_call *call, enum stop stop);

/* Takes it off the sandbox's list; the caller then calls `done`. */
void call_leave_sandbox(struct fleet_call *call);
void call_tell(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
               const struct err *err, const char *hint);

/* Both at once; also lets the agent forget the operation. */
void call_answer(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
                 const struct err *err, const char *hint);
void call_answer_cancelled(struct fleet_call *call);

/* Answers that it ran, and its sandbox ended during that. */
void call_answer_crashed(struct fleet_call *call, const struct err *cause);

/* Fails it in the next turn of the loop. */
void call_fail_later(struct fleet_call *call, const struct err *err, const char *hint);

/* The deferred_fn of call_fail_later(). */
void call_on_answer_later(void *call);

#endif
