/*
 * One operation in flight. It is started once (or joined, if an earlier server started it),
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
 * "told" means that `done` is called. A reply with the outcome leads from ASKED to WAITING, where
 * nothing is left to wait for, and on to DONE.
 */
enum call_state {
    CALL_WAITING,  /* no request in flight: the sandbox has no usable worker */
    CALL_ASKED,    /* a request is in flight */
    CALL_SETTLED,  /* its end is decided, and reported in the next turn of the loop */
    CALL_GIVEN_UP, /* the same, while a request is in flight */
    CALL_UNSEEN,   /* answered; exists only because a request is in flight */
    CALL_DONE,     /* answered, no request in flight: about to be freed */
    CALL_STATE_COUNT,
};
extern const struct sm_state call_states[CALL_STATE_COUNT];

/* Starts an operation in s, or queues it until s is ready. */
struct fleet_call *call_begin(struct sandbox *s, const struct fleet_op *op, fleet_outcome_fn done,
                              void *arg);

/* The same for an execution, whose id the caller chooses. Its `done` may get a state other than
 * OP_DONE: see call_leave_all(). */
struct fleet_call *call_execute(struct sandbox *s, const char id[FLEET_ID_SIZE],
                                const struct fleet_op *op, fleet_outcome_fn done, void *arg);

/* Follows an execution of an earlier server from its first byte (its id is shorter than
 * FLEET_ID_SIZE). Bytes that the agent has dropped are counted but not kept.
 * -ERR_EXECUTION_NOT_FOUND if the sandbox has forgotten it. */
struct fleet_call *call_join(struct sandbox *s, const struct msg_op_info *info,
                             fleet_outcome_fn done, void *arg);

/* Makes a call without a sandbox, which is answered with the error later. */
struct fleet_call *call_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                               fleet_outcome_fn done, void *arg);

/* Asks the agent to stop the operation. */
void call_cancel(struct fleet_call *call);

/* Follows the call: `more` gets output as it arrives, with the arg of `done`, but not the output
 * that comes with the outcome. NULL: ends that. `more` must not touch the call. */
typedef void (*call_more_fn)(void *arg, struct view out, struct view err);
void call_follow(struct fleet_call *call, call_more_fn more);

/* The same for a connection: all of its output, also what comes with the outcome, before that. */
void call_flow(struct fleet_call *call, fleet_more_fn more);

/* A paused call asks for nothing more until it goes on, is cancelled, or its sandbox ends. */
void call_pause(struct fleet_call *call, bool paused);

/* The present state. Borrowed from the call until the loop's next turn. */
struct fleet_outcome call_look(const struct fleet_call *call);

/* Whether the agent has the operation, so that even the next server will find it. */
bool call_is_known(const struct fleet_call *call);

enum call_state call_state(const struct fleet_call *call);

/* The sandbox has a worker (again): continues all its calls. */
void call_resume_all(struct sandbox *s);

/* Called about once a second: ends overdue calls, and writes to their stdin. */
void call_check_all(struct sandbox *s);

/* Answer all calls of s, before they return. Code that was running when s failed has crashed; its
 * output is kept. */
void call_fail_all(struct sandbox *s, const struct err *err, const char *hint);
void call_cancel_all(struct sandbox *s);

/* The server leaves: executions that the agent has are reported with their state, other calls fail
 * with -ERR_SHUTTING_DOWN. Nothing is cancelled. */
void call_leave_all(struct sandbox *s);

#endif
