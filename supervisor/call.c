/*
 * A call keeps everything that is needed to say its START again: the agent knows operations by id,
 * so repeating a START to the next worker joins what is running, and only if the first one never
 * got there does it begin to run. The offsets say which output has been taken, so nothing is lost
 * and nothing comes twice.
 *
 * One request is out at a time (START, then WAIT again and again). A call that has been answered
 * while its request is out lives on, unseen, until the link gives the request back. The states are
 * drawn in the header; how far stopping has gone is a figure beside them, since a call may be
 * stopped in any of them.
 *
 * Deadlines are the worker's and the agent's. What is kept here is how much time is left for a
 * repeated START, and a limit far behind the others, for the case that neither of them acts. The
 * clock of a call begins with its START, unless another one is in line before it at the same
 * interpreter: then with the first reply that says "running". Such a call may get a bit more time
 * when its worker is replaced, never less.
 *
 * A joined call has no code to say again, only an id, so its START never begins anything. It reads
 * the streams from their first byte, and where bytes are forgotten the agent goes on behind them:
 * what is kept stays a beginning of the stream without a gap.
 */
#include "supervisor/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/call_start.h"
#include "supervisor/config.h"

#define START_WAIT_MS  100  /* of the first request, whose answer says that the agent has it */
#define REPLY_SLACK_MS 5000 /* how much later than wait_ms an answer may come */
#define OVERDUE_MS     6000 /* after interrupt and backstop: then nobody will end it any more */
#define HINT_LEFT                                                                                  \
    "it may have been carried out: look, before doing it again, when the server is back"
#define HINT_UNHEARD "it was not begun; do it again when the server is back"
#define EMPTY_MAX    200 /* replies without news before their time, until it is a fault */

const struct sm_state call_states[CALL_STATE_COUNT] = {
    [CALL_WAITING] = {"waiting", SM_BIT(CALL_ASKED) | SM_BIT(CALL_SETTLED) | SM_BIT(CALL_DONE)},
    [CALL_ASKED] = {"asked", SM_BIT(CALL_WAITING) | SM_BIT(CALL_GIVEN_UP) | SM_BIT(CALL_UNSEEN)},
    [CALL_SETTLED] = {"settled", SM_BIT(CALL_DONE)},
    [CALL_GIVEN_UP] = {"given up", SM_BIT(CALL_SETTLED) | SM_BIT(CALL_UNSEEN)},
    [CALL_UNSEEN] = {"unseen", SM_BIT(CALL_DONE)},
    [CALL_DONE] = {"done", 0},
};

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

    struct buf out, err; /* what is kept */
    uint64_t out_bytes, err_bytes;

    struct sm sm;
    bool is_execution;   /* may be left without an outcome */
    bool joined;         /* an earlier server began it */
    bool was_over;       /* and it had ended before we came: nobody has used the sandbox for it */
    bool heard_of;       /* a worker may have heard of it, so it may run */
    bool known;          /* the agent has it: it has begun or will, whoever dies */
    uint64_t generation; /* of the worker that knows it; 0 if none of ours does */
    uint64_t acks_to;    /* acknowledgements that the START under way carries */
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
    void *arg;
    struct deferred_task task; /* answers later: with the failure, or as cancelled */
    struct failure *failure;
};

static void ask(struct fleet_call *call);

static uint64_t now_ms(const struct fleet_call *call)
{
    return uv_now(call->host->loop);
}

/* ---- the answer ---- */

static void free_call(struct fleet_call *call)
{
    struct fleet_host *host = call->host;
    call_start_finish(&call->memory);
    buf_finish(&call->out);
    buf_finish(&call->err);
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

/* How it ends is not decided yet. */
static bool is_open(const struct fleet_call *call)
{
    return call_state(call) <= CALL_ASKED;
}

static bool is_asked(const struct fleet_call *call)
{
    return call_state(call) == CALL_ASKED || call_state(call) == CALL_GIVEN_UP;
}

/* From now on a request that is out is all that keeps it. */
static void leave_sandbox(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    move(call, is_asked(call) ? CALL_UNSEEN : CALL_DONE);
    deferred_cancel(&call->host->deferred, &call->task);
    if (s != NULL) {
        TAILQ_REMOVE(&s->calls, call, node);
        s->call_count--;
        if (!call->was_over) {
            sandbox_touch(s);
        }
    }
}

static void tell(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
                 const struct err *err, const char *hint)
{
    call->done(call->arg, rc, outcome, err, hint);
    if (call_state(call) == CALL_DONE) {
        free_call(call);
    }
}

static void answer(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
                   const struct err *err, const char *hint)
{
    leave_sandbox(call);
    if (call->heard_of) {
        sandbox_ack(call->sandbox, call->op, call->start.kind == OP_EVAL);
    }
    tell(call, rc, outcome, err, hint);
}

struct fleet_outcome call_look(const struct fleet_call *call)
{
    static const struct msg_output none = {.state = OP_RUNNING};
    bool running = call->began_ms != 0;
    struct fleet_outcome outcome = {
        .op = call->op,
        .sandbox = call->sandbox->id,
        .language = call->start.language.len > 0 ? call->start.language.data : "",
        .state = running ? OP_RUNNING : OP_QUEUED,
        .out = view_bytes(call->out.data, call->out.len),
        .err = view_bytes(call->err.data, call->err.len),
        .out_bytes = call->out_bytes,
        .err_bytes = call->err_bytes,
        .end = &none,
        .duration_us = running ? (call->before_ms + now_ms(call) - call->began_ms) * 1000 : 0,
        .started_wall_ms = call->started_wall_ms,
    };
    return outcome;
}

bool call_is_known(const struct fleet_call *call)
{
    return call->known;
}

static void answer_outcome(struct fleet_call *call, const struct msg_output *end)
{
    struct fleet_outcome outcome = call_look(call);
    outcome.state = OP_DONE;
    outcome.end = end;
    outcome.duration_us = end->duration_us;
    answer(call, 0, &outcome, NULL, "");
}

static void answer_cancelled(struct fleet_call *call)
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

static void on_answer_later(void *arg)
{
    struct fleet_call *call = arg;
    if (call->failure != NULL) {
        struct failure *f = call->failure;
        answer(call, -f->err.code, NULL, &f->err, f->hint);
    } else {
        answer_cancelled(call);
    }
}

/* As failed, or (without a failure) as cancelled. */
static void settle(struct fleet_call *call)
{
    move(call, is_asked(call) ? CALL_GIVEN_UP : CALL_SETTLED);
    deferred_post(&call->host->deferred, &call->task, on_answer_later, call);
}

static void fail_later(struct fleet_call *call, const struct err *err, const char *hint)
{
    call->failure = alloc_one(struct failure);
    call->failure->err = *err;
    call->failure->hint = alloc_strdup(hint);
    settle(call);
}

/* ---- cancelling ---- */

static void on_cancel_told(void *arg, int rc, const struct msg *reply, const struct err *err,
                           const char *hint)
{
    /* Nothing to do: the operation's own outcome is what counts, and call_check() insists. */
    (void)arg, (void)rc, (void)reply, (void)err, (void)hint;
}

static void tell_stop(struct fleet_call *call, enum stop stop)
{
    struct sandbox *s = call->sandbox;
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = view_of(call->op);
    m.cancel.reason = OP_STOP_CANCEL;
    m.cancel.force = stop == STOP_KILL;
    if (s->link != NULL &&
        worker_link_ask(s->link, &m, TIME_WAIT_MS, on_cancel_told, NULL, NULL) == 0) {
        call->stop_generation = s->generation;
    }
}

void call_cancel(struct fleet_call *call)
{
    if (!is_open(call) || call->stop != STOP_NONE) {
        return;
    }
    call->stop = STOP_INTERRUPT;
    call->stopped_ms = now_ms(call);
    log_info("call cancelled op=%s sandbox=%s gen=%" PRIu64, call->op, call->sandbox->id,
             call->sandbox->generation);
    if (!call->heard_of) {
        settle(call);
    } else if (call->generation == call->sandbox->generation) {
        tell_stop(call, call->stop);
    } /* else the next worker is told as soon as it knows the operation */
}

/* ---- replies ---- */

/* Counts all, keeps what fits behind what is kept already. */
static void take_bytes(struct buf *kept, uint64_t *total, uint64_t from, struct view bytes)
{
    size_t room = from == kept->len ? kept->max - kept->len : 0;
    *total = from + bytes.len;
    if (room > 0 && bytes.len > 0) {
        /* Out of memory shows as what it is: fewer bytes kept than written. */
        err_ignore(buf_add(kept, bytes.data, bytes.len < room ? bytes.len : room, NULL));
    }
}

/* A worker that answers waits at once and without news would keep us busy for ever. */
static bool is_idle_chatter(struct fleet_call *call, const struct msg_output *o)
{
    bool early = now_ms(call) - call->asked_ms + 10 < call->asked_wait_ms;
    if (o->out.len > 0 || o->err.len > 0 || !early) {
        call->empty = 0;
        return false;
    }
    return ++call->empty > EMPTY_MAX;
}

/* Only what an earlier server has taken may be missing. */
static bool fits(const struct fleet_call *call, uint64_t from, uint64_t expected)
{
    return from == expected || (call->joined && from > expected);
}

static void take_output(struct fleet_call *call, const struct msg_output *o)
{
    struct sandbox *s = call->sandbox;
    if (!view_is(o->op, call->op) || !fits(call, o->out_from, call->out_bytes) ||
        !fits(call, o->err_from, call->err_bytes) || o->state < OP_QUEUED || o->state > OP_DONE) {
        worker_link_kill(s->link, "answered for another operation or place in its output");
        return;
    }
    call->generation = s->generation;
    call->known = true;
    if (s->acks_from < call->acks_to) {
        s->acks_from = call->acks_to;
    }
    call->acks_to = 0;
    take_bytes(&call->out, &call->out_bytes, o->out_from, o->out);
    take_bytes(&call->err, &call->err_bytes, o->err_from, o->err);
    if (o->state == OP_DONE) {
        worker_policy_success(&s->policy);
        answer_outcome(call, o);
        return;
    }
    if (o->state == OP_QUEUED) {
        call->began_ms = 0;
    } else if (call->began_ms == 0) {
        call->began_ms = now_ms(call);
    }
    if (is_idle_chatter(call, o)) {
        worker_link_kill(s->link, "answers waits without news");
        return;
    }
    if (call->stop != STOP_NONE && call->stop_generation != s->generation) {
        tell_stop(call, call->stop);
    }
    ask(call);
}

static void on_reply(void *arg, int rc, const struct msg *reply, const struct err *err,
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
        call->acks_to = 0; /* the worker is lost; call_resume_all() goes on with the next one */
    } else if (rc == -ERR_GONE || rc == -ERR_SHUTTING_DOWN) { /* or is being removed */
        sandbox_gone(call->sandbox, err->text);               /* answers this call, too */
    } else if (rc == -ERR_EXECUTION_NOT_FOUND && call->joined) {
        answer(call, rc, NULL, err, hint);
    } else {
        log_warn("call refused: %s op=%s sandbox=%s gen=%" PRIu64, err->text, call->op,
                 call->sandbox->id, call->sandbox->generation);
        tell_stop(call, STOP_KILL); /* it may be running all the same */
        answer(call, rc, NULL, err, hint);
    }
}

/* ---- requests ---- */

static uint64_t time_left_ms(const struct fleet_call *call)
{
    if (call->began_ms == 0) {
        return call->timeout_ms;
    }
    uint64_t used_ms = now_ms(call) - call->began_ms;
    return used_ms < call->timeout_ms ? call->timeout_ms - used_ms : 1;
}

static bool same_view(struct view a, struct view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Is another call before this one in the line of the same interpreter? */
static bool has_to_queue(const struct fleet_call *call)
{
    const struct fleet_call *other;
    if (call->start.kind != OP_EVAL) {
        return false;
    }
    TAILQ_FOREACH(other, &call->sandbox->calls, node)
    {
        if (other == call) {
            break;
        }
        if (other->start.kind == OP_EVAL && other->heard_of &&
            same_view(other->start.language, call->start.language)) {
            return true;
        }
    }
    return false;
}

static int ask_start(struct fleet_call *call, uint64_t wait_ms, struct err *err)
{
    struct sandbox *s = call->sandbox;
    struct view items[SANDBOX_ACKS_MAX];
    struct msg m = {.type = MSG_START};
    m.start = call->start;
    m.start.timeout_ms = time_left_ms(call);
    m.start.out_from = call->out_bytes;
    m.start.err_from = call->err_bytes;
    m.start.wait_ms = wait_ms;
    m.start.acks = sandbox_acks(s, items);
    m.start.join = call->joined;
    m.start.skip = call->joined;
    int rc = worker_link_ask(s->link, &m, wait_ms + REPLY_SLACK_MS, on_reply, call, err);
    if (rc < 0) {
        return rc;
    }
    call->acks_to = s->acks_to;
    if (!call->heard_of) {
        call->heard_of = true;
        call->began_ms = has_to_queue(call) ? 0 : now_ms(call);
        s->executions += call->start.kind == OP_EVAL ? 1 : 0;
    }
    call->generation = s->generation;
    return 0;
}

static int ask_wait(struct fleet_call *call, uint64_t wait_ms, struct err *err)
{
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of(call->op);
    m.wait.out_from = call->out_bytes;
    m.wait.err_from = call->err_bytes;
    m.wait.wait_ms = wait_ms;
    m.wait.skip = call->joined;
    return worker_link_ask(call->sandbox->link, &m, wait_ms + REPLY_SLACK_MS, on_reply, call, err);
}

/* Sends the next request if the sandbox can take it now; if not, somebody resumes us. */
static void ask(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    if (call_state(call) != CALL_WAITING || sandbox_state(s) != SANDBOX_READY ||
        worker_link_is_ending(s->link)) {
        return;
    }
    struct err err = ERR_INIT;
    uint64_t wait_ms = call->known ? TIME_WAIT_MS : START_WAIT_MS;
    int rc;
    if (call->generation == s->generation) {
        rc = ask_wait(call, wait_ms, &err);
    } else {
        /* A cancelled call is made known to the new worker first, and cancelled by the reply. */
        wait_ms = call->stop != STOP_NONE ? 0 : wait_ms;
        rc = ask_start(call, wait_ms, &err);
    }
    if (rc == 0) {
        move(call, CALL_ASKED);
        call->asked_ms = now_ms(call);
        call->asked_wait_ms = wait_ms;
    } else if (!worker_link_is_ending(s->link)) {
        bool ours = rc == -ERR_TOO_BIG || rc == -ERR_PROTOCOL;
        err.code = ours ? ERR_INVALID : err.code;
        fail_later(call, &err, ours ? "make it shorter; file names and texts are UTF-8" : "");
    }
}

void call_resume_all(struct sandbox *s)
{
    struct fleet_call *call = TAILQ_FIRST(&s->calls);
    while (call != NULL) {
        struct fleet_call *next = TAILQ_NEXT(call, node);
        ask(call);
        call = next;
    }
}

/* ---- what takes too long ---- */

static void check(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    uint64_t now = now_ms(call);
    uint64_t last_ms = TIME_INTERRUPT_MS + TIME_BACKSTOP_MS + OVERDUE_MS;
    bool overdue = call->began_ms != 0 && now - call->began_ms > call->timeout_ms + last_ms;
    if (!is_open(call)) {
        return;
    }
    if (call->stop != STOP_NONE && call->generation == s->generation) {
        if (call->stop != STOP_KILL && now - call->stopped_ms >= TIME_INTERRUPT_MS) {
            call->stop = STOP_KILL;
            tell_stop(call, call->stop);
        }
        overdue = overdue || now - call->stopped_ms > last_ms;
    }
    if (overdue) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_INTERNAL, "the sandbox did not end the operation in time");
        log_error("call given up: neither deadline nor kill had an effect op=%s sandbox=%s "
                  "gen=%" PRIu64,
                  call->op, s->id, s->generation);
        fail_later(call, &err, "close this sandbox and create a new one");
    }
}

void call_check_all(struct sandbox *s)
{
    struct fleet_call *call;
    TAILQ_FOREACH(call, &s->calls, node)
    {
        check(call); /* answers later, so the list does not change here */
    }
}

/* ---- all at once ---- */

void call_fail_all(struct sandbox *s, const struct err *err, const char *hint)
{
    struct fleet_call *call;
    while ((call = TAILQ_FIRST(&s->calls)) != NULL) {
        answer(call, -err->code, NULL, err, hint);
    }
}

void call_cancel_all(struct sandbox *s)
{
    struct fleet_call *call;
    while ((call = TAILQ_FIRST(&s->calls)) != NULL) {
        answer_cancelled(call);
    }
}

void call_leave_all(struct sandbox *s)
{
    struct fleet_call *call;
    struct err err = ERR_INIT;
    err_set(&err, ERR_SHUTTING_DOWN, "the server ends");
    while ((call = TAILQ_FIRST(&s->calls)) != NULL) {
        struct fleet_outcome outcome = call_look(call);
        if (!is_open(call)) {
            on_answer_later(call);
            continue;
        }
        leave_sandbox(call);
        if (call->is_execution && call->known) {
            tell(call, 0, &outcome, NULL, "");
        } else {
            tell(call, -ERR_SHUTTING_DOWN, NULL, &err, call->heard_of ? HINT_LEFT : HINT_UNHEARD);
        }
    }
}

/* ---- beginning ---- */

static struct fleet_call *new_call(struct fleet_host *host, size_t keep_bytes,
                                   fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = alloc_one(struct fleet_call);
    call->host = host;
    fleet_host_hold(host);
    call->done = done;
    call->arg = arg;
    sm_init(&call->sm, call_states, CALL_STATE_COUNT, CALL_WAITING);
    call_start_init(&call->memory);
    buf_init(&call->out, keep_bytes);
    buf_init(&call->err, keep_bytes);
    return call;
}

struct fleet_call *call_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                               fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = new_call(host, 0, done, arg);
    fail_later(call, err, hint);
    return call;
}

static struct fleet_call *enter(struct sandbox *s, size_t keep_bytes, uint64_t timeout_ms,
                                fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = new_call(s->host, keep_bytes, done, arg);
    call->timeout_ms = timeout_ms;
    call->sandbox = s;
    call->started_wall_ms = clock_wall_ms();
    TAILQ_INSERT_TAIL(&s->calls, call, node);
    s->call_count++;
    sandbox_touch(s);
    return call;
}

static void start(struct fleet_call *call, const struct fleet_op *op)
{
    struct err err = ERR_INIT;
    call->start.op = view_of(call->op);
    if (call_start_copy(&call->start, &call->memory, op, &err) < 0) {
        fail_later(call, &err, "");
    } else {
        ask(call);
    }
}

static uint64_t timeout_of(const struct sandbox *s, const struct fleet_op *op)
{
    uint64_t wanted_ms = op->timeout_ms != 0 ? op->timeout_ms : s->timeout_ms;
    uint64_t most_ms = s->host->config->max_timeout_s * 1000;
    return most_ms != 0 && wanted_ms > most_ms ? most_ms : wanted_ms;
}

struct fleet_call *call_begin(struct sandbox *s, const struct fleet_op *op, fleet_outcome_fn done,
                              void *arg)
{
    struct fleet_call *call = enter(s, op->keep_bytes, timeout_of(s, op), done, arg);
    struct err err = ERR_INIT;
    if (random_id(call->op, CALL_ID_CHARS, &err) < 0) {
        fail_later(call, &err, "");
    } else {
        start(call, op);
    }
    return call;
}

struct fleet_call *call_execute(struct sandbox *s, const char id[FLEET_ID_SIZE],
                                const struct fleet_op *op, fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = enter(s, op->keep_bytes, timeout_of(s, op), done, arg);
    call->is_execution = true;
    memcpy(call->op, id, sizeof(call->op));
    start(call, op);
    return call;
}

struct fleet_call *call_join(struct sandbox *s, const struct msg_op_info *info,
                             fleet_outcome_fn done, void *arg)
{
    /* The deadline is the worker's, by the word of the server that began it. */
    uint64_t left_ms = info->left_ms != 0 ? info->left_ms : UINT32_MAX;
    struct fleet_call *call = enter(s, LIMIT_OP_KEPT, left_ms, done, arg);
    char language[LIMIT_NAME + 1];
    snprintf(language, sizeof(language), "%.*s", VIEW_ARG(info->language));
    const struct fleet_op op = {.kind = OP_EVAL, .language = language};
    call->is_execution = true;
    call->known = true;
    call->joined = true;
    call->was_over = info->state == OP_DONE;
    call->heard_of = true;
    call->started_wall_ms -= info->age_ms;
    call->began_ms = info->state == OP_QUEUED ? 0 : now_ms(call);
    call->before_ms = info->age_ms;
    memcpy(call->op, info->op.data, info->op.len);
    start(call, &op);
    return call;
}
