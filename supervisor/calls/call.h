/*
 * One operation in flight: it is started once (or joined, if an earlier server started it),
 * followed through any number of workers, and answered once.
 *
 * Private to the calls. Loop thread only; nothing blocks. `done` never runs inside the function
 * that begins a call.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_CALL_H
#define CLOISTER_SUPERVISOR_CALLS_CALL_H

#include "supervisor/fleet/sandbox/sandbox.h"

#define CALL_ID_CHARS 16

/*
 *      sandbox can take it           reply: more to come
 *   WAITING ───────────────▶ ASKED ─┐ (next request)
 *    │  ▲                    ▲ │ │ └┘
 *    │  └── worker lost ─────┼─┘ │
 *    │                       │   ├── overdue ──▶ GIVEN_UP ── reply, lost ──┐
 *    │                           │                 │ told                  │
 *    │                           │ told            ▼                       │
 *    │                           └─────────────▶ UNSEEN                    │
 *    │ refused, cancelled unheard, overdue         │ reply, lost           │
 *    ├──────────────▶ SETTLED ◀────────────────────┼───────────────────────┘
 *    │ told             │ told                     ▼
 *    └──────────────────┴──────────────────────▶ DONE
 *
 * "told" is the moment of `done`. A reply with the outcome leads from ASKED to WAITING, where there
 * is nothing left to wait for, and on to DONE.
 */
enum call_state {
    CALL_WAITING,  /* nothing is out: the sandbox has no worker that could be asked */
    CALL_ASKED,    /* a request is out */
    CALL_SETTLED,  /* how it ends is decided, and told in the next turn of the loop */
    CALL_GIVEN_UP, /* the same, while a request is out */
    CALL_UNSEEN,   /* told; exists only because a request is out */
    CALL_DONE,     /* told, nothing is out: about to be freed */
    CALL_STATE_COUNT,
};
extern const struct sm_state call_states[CALL_STATE_COUNT];

/* Begins an operation in s, or makes it wait until s is ready. */
struct fleet_call *call_begin(struct sandbox *s, const struct fleet_op *op, fleet_outcome_fn done,
                              void *arg);

/* The same for an execution, whose id is chosen by the caller. Its `done` may be told of a state
 * other than OP_DONE: see call_leave_all(). */
struct fleet_call *call_execute(struct sandbox *s, const char id[FLEET_ID_SIZE],
                                const struct fleet_op *op, fleet_outcome_fn done, void *arg);

/* Follows an execution that an earlier server began, from its first byte (its id is shorter than
 * FLEET_ID_SIZE). Bytes that are not there any more are counted and not kept.
 * -ERR_EXECUTION_NOT_FOUND if the sandbox has forgotten it. */
struct fleet_call *call_join(struct sandbox *s, const struct msg_op_info *info,
                             fleet_outcome_fn done, void *arg);

/* A call that belongs to no sandbox: it is answered with the error, later. */
struct fleet_call *call_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                               fleet_outcome_fn done, void *arg);

/* Asks for the operation to be stopped. */
void call_cancel(struct fleet_call *call);

/* Somebody follows it: `more` is told of output as it comes, with the arg of `done`, and not of
 * what comes with the outcome. NULL: nobody does any more. It must not touch the call. */
typedef void (*call_more_fn)(void *arg, struct view out, struct view err);
void call_follow(struct fleet_call *call, call_more_fn more);

/* How it stands. Borrows from the call till the loop's next turn. */
struct fleet_outcome call_look(const struct fleet_call *call);

/* The agent has it, so that even the next server will find it. */
bool call_is_known(const struct fleet_call *call);

enum call_state call_state(const struct fleet_call *call);

/* The sandbox has a worker (again): all its calls go on. */
void call_resume_all(struct sandbox *s);

/* About once a second: what should have been over by now? */
void call_check_all(struct sandbox *s);

/* Answer all calls of s, inside. Code that ran when s failed has crashed, with what it has shown.
 */
void call_fail_all(struct sandbox *s, const struct err *err, const char *hint);
void call_cancel_all(struct sandbox *s);

/* The server leaves: executions that the agent has are told how they stand, other calls fail with
 * -ERR_SHUTTING_DOWN. Nothing is cancelled. */
void call_leave_all(struct sandbox *s);

#endif
