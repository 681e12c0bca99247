/*
 * A call keeps everything that is needed to repeat its START. The agent knows operations by id, so
 * a repeated START to the next worker joins the running operation; only if the first START never
 * arrived does it begin. The offsets say which output was taken, so no output is lost or doubled.
 *
 * One request is in flight at a time (START, then WAIT again and again). A call that is answered
 * while its request is in flight lives on, unseen, until the link returns the request. The states
 * are drawn in the header. The progress of stopping is a separate field, since a call may be
 * stopped in any state.
 *
 * The worker and the agent enforce deadlines. A call knows only a much later limit, in case neither
 * of them acts. Whether an operation runs, and for how long, is known by what the agent said last:
 * it may have to wait for its turn, which only the agent decides. So a repeated START is the same
 * as the first one, and the agent tells the next worker how much of the time is used.
 */
#include "supervisor/calls/call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/calls/call_internal.h"

#define START_WAIT_MS 100  /* of the first request; its reply says that the agent has it */
#define LOOK_WAIT_MS  2000 /* of later ones, unless it is an execution */
#define SILENT_MS     2000 /* a reply this much later than wait_ms means a fault */
#define EXIT_KILLED   137  /* 128 + 9: the sandbox's processes were killed */
#define EMPTY_MAX     200  /* early replies without output, before they count as a fault */

const struct sm_state call_states[CALL_STATE_COUNT] = {
    [CALL_WAITING] = {"waiting", SM_BIT(CALL_ASKED) | SM_BIT(CALL_SETTLED) | SM_BIT(CALL_DONE)},
    [CALL_ASKED] = {"asked", SM_BIT(CALL_WAITING) | SM_BIT(CALL_GIVEN_UP) | SM_BIT(CALL_UNSEEN)},
    [CALL_SETTLED] = {"settled", SM_BIT(CALL_DONE)},
    [CALL_GIVEN_UP] = {"given up", SM_BIT(CALL_SETTLED) | SM_BIT(CALL_UNSEEN)},
    [CALL_UNSEEN] = {"unseen", SM_BIT(CALL_DONE)},
    [CALL_DONE] = {"done", 0},
};

/* ---- the answer ---- */

static void free_call(struct fleet_call *call)
{
    struct fleet_host *host = call->host;
    call_start_finish(&call->memory);
    stream_keep_finish(&call->out);
    stream_keep_finish(&call->err);
    if (call->failure != NULL) {
        free(call->failure->hint);
        free(call->failure);
    }
    free(call);
    fleet_host_release(host);
}

enum call_state call_state(const struct fleet_call *call)
{
    return (enum call_state)call->sm.state;
}

static void move(struct fleet_call *call, enum call_state next)
{
    sm_move(&call->sm, next);
}

static bool is_asked(const struct fleet_call *call)
{
    return call_state(call) == CALL_ASKED || call_state(call) == CALL_GIVEN_UP;
}

static bool writes_files(const struct fleet_call *call)
{
    return call->start.kind != OP_FILE_READ && call->start.kind != OP_FILE_LIST &&
           call->start.kind != OP_TELL && call->start.kind != OP_CONNECT;
}

static bool runs_code(const struct fleet_call *call)
{
    return op_is_execution((enum op_kind)call->start.kind);
}

/* Removes it from the sandbox. From now on only a request in flight keeps it alive. */
void call_leave_sandbox(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    move(call, is_asked(call) ? CALL_UNSEEN : CALL_DONE);
    deferred_cancel(&call->host->deferred, &call->task);
    if (s != NULL) {
        TAILQ_REMOVE(&s->calls, call, node);
        s->call_count--;
        call_inputs_end(call);
        if (!call->was_over && !call->is_look) {
            sandbox_touch(s);
        }
        if (call->heard_of && !call->was_over && writes_files(call)) {
            sandbox_changed(s, SANDBOX_CHANGE_FILES);
        }
    }
}

void call_tell(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
               const struct err *err, const char *hint)
{
    call->done(call->arg, rc, outcome, err, hint);
    if (call_state(call) == CALL_DONE) {
        free_call(call);
    }
}

void call_answer(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
                 const struct err *err, const char *hint)
{
    call_leave_sandbox(call);
    if (call->heard_of) {
        sandbox_ack(call->sandbox, call->op, runs_code(call));
    }
    call_tell(call, rc, outcome, err, hint);
}

/* How long it has run so far; 0 while that is not known. */
static uint64_t ran_us(const struct fleet_call *call)
{
    return call->runs ? call->ran_us + (call_now_ms(call) - call->heard_ms) * 1000 : 0;
}

struct fleet_outcome call_look(const struct fleet_call *call)
{
    static const struct msg_output none = {.state = OP_RUNNING};
    struct stream_view out = stream_keep_look(&call->out);
    struct stream_view err = stream_keep_look(&call->err);
    struct fleet_outcome outcome = {
        .op = call->op,
        .sandbox = call->sandbox->id,
        .language = call->start.language.len > 0 ? call->start.language.data : "",
        .state = call->runs ? OP_RUNNING : OP_QUEUED,
        .out = out.head,
        .out_tail = out.tail,
        .err = err.head,
        .err_tail = err.tail,
        .out_bytes = call->out.total,
        .err_bytes = call->err.total,
        .end = &none,
        .duration_us = ran_us(call),
        .started_wall_ms = call->started_wall_ms,
        .unconfirmed = !call->known,
        .silent = call_is_silent(call),
    };
    return outcome;
}

void call_follow(struct fleet_call *call, call_more_fn more)
{
    call->more = more;
}

void call_flow(struct fleet_call *call, fleet_more_fn more)
{
    call->flow = more;
}

void call_pause(struct fleet_call *call, bool paused)
{
    call->paused = paused;
    call->resumed_ms = call_now_ms(call);
    call_ask(call);
}

bool call_is_silent(const struct fleet_call *call)
{
    if (call_state(call) == CALL_ASKED) {
        return call_now_ms(call) - call->asked_ms > call->asked_wait_ms + SILENT_MS;
    }
    return call_state(call) == CALL_WAITING && sandbox_state(call->sandbox) == SANDBOX_RECOVERING;
}

bool call_is_known(const struct fleet_call *call)
{
    return call->known;
}

static void answer_outcome(struct fleet_call *call, const struct msg_output *end)
{
    struct fleet_outcome outcome = call_look(call);
    outcome.state = OP_DONE;
    outcome.unconfirmed = outcome.silent = false;
    outcome.end = end;
    outcome.duration_us = end->duration_us;
    call_answer(call, 0, &outcome, NULL, "");
}

void call_answer_cancelled(struct fleet_call *call)
{
    struct msg_output end = {.state = OP_DONE, .status = OP_STATUS_CANCELLED};
    const struct sandbox *s = call->sandbox;
    bool closing = sandbox_state(s) >= SANDBOX_CLOSING;
    CLEANUP_FREE char *why =
        closing ? alloc_printf("the sandbox was closed: %s", s->reason) : alloc_strdup("");
    end.op = view_of(call->op);
    end.duration_us = call_look(call).duration_us;
    end.error_message = view_of(why);
    answer_outcome(call, &end);
}

void call_answer_crashed(struct fleet_call *call, const struct err *cause)
{
    struct msg_output end = {.state = OP_DONE, .status = OP_STATUS_CRASHED};
    struct fleet_outcome outcome = call_look(call);
    end.op = view_of(call->op);
    end.duration_us = outcome.duration_us;
    end.exit_code = EXIT_KILLED;
    end.error_message = view_of(cause->text);
    outcome.state = OP_DONE;
    outcome.unconfirmed = outcome.silent = false;
    outcome.end = &end;
    outcome.sandbox_ended = true;
    call_answer(call, 0, &outcome, NULL, "");
}

void call_on_answer_later(void *arg)
{
    struct fleet_call *call = arg;
    if (call->failure != NULL) {
        struct failure *f = call->failure;
        call_answer(call, -f->err.code, NULL, &f->err, f->hint);
    } else {
        call_answer_cancelled(call);
    }
}

/* Decides the end: failed or, without a failure, cancelled. */
static void settle_call(struct fleet_call *call)
{
    move(call, is_asked(call) ? CALL_GIVEN_UP : CALL_SETTLED);
    deferred_post(&call->host->deferred, &call->task, call_on_answer_later, call);
}

void call_fail_later(struct fleet_call *call, const struct err *err, const char *hint)
{
    call->failure = alloc_one(struct failure);
    call->failure->err = *err;
    call->failure->hint = alloc_strdup(hint);
    settle_call(call);
}

/* ---- cancelling ---- */

static void on_cancel_told(void *arg, int rc, const struct msg *reply, const struct err *err,
                           const char *hint)
{
    /* Nothing to do: only the operation's own outcome counts, and the stop is repeated to each
     * worker that has not heard of it. */
    (void)arg, (void)rc, (void)reply, (void)err, (void)hint;
}

void call_tell_stop(struct fleet_call *call, enum stop stop)
{
    struct sandbox *s = call->sandbox;
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = view_of(call->op);
    m.cancel.reason = OP_STOP_CANCEL;
    m.cancel.force = stop == STOP_KILL;
    if (s->link != NULL && worker_link_ask(s->link, &m, 0, on_cancel_told, NULL, NULL) == 0) {
        call->stop_generation = s->generation;
    }
}

void call_cancel(struct fleet_call *call)
{
    if (!call_is_open(call) || call->stop != STOP_NONE) {
        return;
    }
    call->stop = STOP_INTERRUPT;
    call->stopped_ms = call_now_ms(call);
    if (call->flow == NULL) { /* a connection is closed so whenever its answer is whole */
        log_info("call cancelled op=%s sandbox=%s gen=%" PRIu64, call->op, call->sandbox->id,
                 call->sandbox->generation);
    }
    if (!call->heard_of) {
        settle_call(call);
    } else if (call->generation == call->sandbox->generation) {
        call_tell_stop(call, call->stop);
    } /* otherwise the next worker is told once it knows the operation */
    if (call->paused) {
        call_ask(call);
    }
}

/* ---- replies ---- */

/* Whether the worker answers WAITs too early and without output, which would keep us busy for
 * ever. */
static bool is_idle_chatter(struct fleet_call *call, const struct msg_output *o, bool wishes)
{
    bool early = call_now_ms(call) - call->asked_ms + 10 < call->asked_wait_ms;
    if (o->out.len > 0 || o->err.len > 0 || wishes || !early) {
        call->empty = 0;
        return false;
    }
    return ++call->empty > EMPTY_MAX;
}

/* Checks the offset: only output that an earlier server took may be missing. */
static bool fits_call(const struct fleet_call *call, uint64_t from, uint64_t expected)
{
    return from == expected || (call->joined && from > expected);
}

/* Whether its deadline or stop is over, and the backstop after that. */
static bool should_be_over(const struct fleet_call *call)
{
    uint64_t end_ms = TIME_INTERRUPT_MS + TIME_BACKSTOP_MS;
    bool late = call->runs && call->ran_us / 1000 > call->timeout_ms + end_ms;
    return late || (call->stop != STOP_NONE && call_now_ms(call) > call->stopped_ms + end_ms);
}

static void take_output(struct fleet_call *call, const struct msg_output *o)
{
    struct sandbox *s = call->sandbox;
    if (!view_is(o->op, call->op) || !fits_call(call, o->out_from, call->out.total) ||
        !fits_call(call, o->err_from, call->err.total) || o->state < OP_QUEUED ||
        o->state > OP_DONE) {
        worker_link_kill(s->link, "answered for another operation or place in its output");
        return;
    }
    bool wishes = false;
    if (!call_take_wishes(call, o, &wishes)) {
        worker_link_kill(s->link, "passed on an impossible wish for packages");
        return;
    }
    call->generation = s->generation;
    call->known = true;
    call->heard_ms = call_now_ms(call);
    if (s->acks_from < call->acks_to) {
        s->acks_from = call->acks_to;
    }
    call->acks_to = 0;
    stream_keep_add(&call->out, o->out_from, o->out);
    stream_keep_add(&call->err, o->err_from, o->err);
    if (call->flow != NULL && o->out.len > 0) {
        call->flow(call->arg, o->out);
    }
    if (o->state == OP_DONE) {
        worker_policy_success(&s->policy);
        answer_outcome(call, o);
        return;
    }
    if (call->more != NULL && o->out.len + o->err.len > 0) {
        call->more(call->arg, o->out, o->err);
    }
    call->runs = o->state == OP_RUNNING;
    call->ran_us = o->duration_us;
    if (call->late_ms == 0 && should_be_over(call)) {
        call->late_ms = call->heard_ms;
    }
    if (is_idle_chatter(call, o, wishes)) {
        worker_link_kill(s->link, "answers waits early and without output");
        return;
    }
    if (call->stop != STOP_NONE && call->stop_generation != s->generation) {
        call_tell_stop(call, call->stop);
    }
    call_ask(call);
    call_inputs_ask(call);
}

static void on_call_reply(void *arg, int rc, const struct msg *reply, const struct err *err,
                          const char *hint)
{
    struct fleet_call *call = arg;
    if (call_state(call) == CALL_UNSEEN) {
        move(call, CALL_DONE);
        free_call(call);
        return;
    }
    if (call_state(call) == CALL_GIVEN_UP) {
        move(call, CALL_SETTLED);
        return;
    }
    move(call, CALL_WAITING);
    if (rc == 0) {
        take_output(call, &reply->output);
    } else if (err == NULL) {
        call->acks_to = 0; /* the worker is lost; call_resume_all() continues with the next one */
    } else if (rc == -ERR_GONE || rc == -ERR_SHUTTING_DOWN) { /* or the sandbox is being removed */
        sandbox_gone(call->sandbox, err->text);               /* answers this call, too */
    } else if (rc == -ERR_EXECUTION_NOT_FOUND && call->joined) {
        call_answer(call, rc, NULL, err, hint);
    } else {
        /* whoever has an address of a port may open as many connections as he likes */
        log_line(call->flow != NULL ? LOG_DEBUG : LOG_WARN,
                 "call refused: %s op=%s sandbox=%s gen=%" PRIu64, err->text, call->op,
                 call->sandbox->id, call->sandbox->generation);
        call_tell_stop(call, STOP_KILL); /* it may be running all the same */
        call_answer(call, rc, NULL, err, hint);
    }
}

/* ---- requests ---- */

static int ask_start(struct fleet_call *call, uint64_t wait_ms, struct err *err)
{
    struct sandbox *s = call->sandbox;
    struct view items[SANDBOX_ACKS_MAX];
    struct msg m = {.type = MSG_START};
    m.start = call->start;
    m.start.timeout_ms = call->timeout_ms;
    m.start.out_from = call->out.total;
    m.start.err_from = call->err.total;
    m.start.wait_ms = wait_ms;
    m.start.acks = sandbox_acks(s, items);
    m.start.join = call->joined;
    m.start.skip = call->joined;
    int rc = worker_link_ask(s->link, &m, 0, on_call_reply, call, err);
    if (rc < 0) {
        return rc;
    }
    call->acks_to = s->acks_to;
    if (!call->heard_of) {
        call->heard_of = true;
        s->executions += runs_code(call) ? 1 : 0;
    }
    call->generation = s->generation;
    return 0;
}

static int ask_wait(struct fleet_call *call, uint64_t wait_ms, struct err *err)
{
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of(call->op);
    m.wait.out_from = call->out.total;
    m.wait.err_from = call->err.total;
    m.wait.wait_ms = wait_ms;
    m.wait.skip = call->joined;
    return worker_link_ask(call->sandbox->link, &m, 0, on_call_reply, call, err);
}

/* Sends the next request if the sandbox can take it now; otherwise call_resume_all() will. */
void call_ask(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    bool held = call->paused && call->stop == STOP_NONE;
    if (held || call_state(call) != CALL_WAITING || sandbox_state(s) != SANDBOX_READY ||
        worker_link_is_ending(s->link)) {
        return;
    }
    struct err err = ERR_INIT;
    uint64_t more_ms = call->is_execution ? TIME_WAIT_MS : LOOK_WAIT_MS;
    uint64_t wait_ms = call->known ? more_ms : START_WAIT_MS;
    int rc;
    if (call->generation == s->generation) {
        rc = ask_wait(call, wait_ms, &err);
    } else {
        /* A cancelled call is announced to the new worker first; its reply leads to the
         * cancellation. */
        wait_ms = call->stop != STOP_NONE ? 0 : wait_ms;
        rc = ask_start(call, wait_ms, &err);
    }
    if (rc == 0) {
        move(call, CALL_ASKED);
        call->asked_ms = call_now_ms(call);
        call->asked_wait_ms = wait_ms;
    } else if (!worker_link_is_ending(s->link)) {
        bool ours = rc == -ERR_TOO_BIG || rc == -ERR_PROTOCOL;
        err.code = ours ? ERR_INVALID : err.code;
        call_fail_later(call, &err, ours ? "make it shorter; file names and texts are UTF-8" : "");
    }
}

void call_resume_all(struct sandbox *s)
{
    struct fleet_call *call = TAILQ_FIRST(&s->calls);
    while (call != NULL) {
        struct fleet_call *next = TAILQ_NEXT(call, node);
        call_ask(call);
        call_inputs_ask(call);
        call = next;
    }
}
