/*
 * A call keeps everything that is needed to say its START again: the agent knows operations by id,
 * so repeating a START to the next worker joins what is running, and only if the first one never
 * got there does it begin to run. The offsets say which output has been taken, so nothing is lost
 * and nothing comes twice.
 *
 * One request is out at a time (START, then WAIT again and again). A call that has been answered
 * while its request is out lives on, unseen, until the link gives the request back.
 *
 * Deadlines are the worker's and the agent's. What is kept here is how much time is left for a
 * repeated START, and a limit far behind the others, for the case that neither of them acts. The
 * clock of a call begins with its START, unless another one is in line before it at the same
 * interpreter: then with the first reply that says "running". Such a call may get a bit more time
 * when its worker is replaced, never less.
 */
#include "supervisor/call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/buf.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/config.h"

#define REPLY_SLACK_MS 5000 /* how much later than wait_ms an answer may come */
#define OVERDUE_MS     6000 /* after interrupt and backstop: then nobody will end it any more */
#define EMPTY_MAX      200  /* replies without news before their time, until it is a fault */

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
    struct buf text;    /* behind the views of start */
    struct view *items; /* behind the lists of start */

    struct buf out, err; /* what is kept */
    uint64_t out_bytes, err_bytes;

    bool asked;             /* a request is out */
    bool answered;          /* `done` was called: exists for its request only */
    uint64_t generation;    /* of the worker that knows it; 0 before the first START */
    uint64_t acks_to;       /* acknowledgements that the START under way carries */
    uint64_t asked_ms;      /* when the request went out */
    uint64_t asked_wait_ms; /* and how long it may wait */
    unsigned empty;         /* replies without news before their time */
    uint64_t timeout_ms;
    uint64_t began_ms; /* the deadline counts from here; 0 if it may still be queued */

    bool cancelled;
    bool forced;
    uint64_t cancelled_ms;
    uint64_t cancel_generation; /* worker that was told */

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
    buf_finish(&call->text);
    buf_finish(&call->out);
    buf_finish(&call->err);
    free(call->items);
    if (call->failure != NULL) {
        free(call->failure->hint);
        free(call->failure);
    }
    free(call);
    fleet_host_release(host);
}

static void answer(struct fleet_call *call, int rc, const struct fleet_outcome *outcome,
                   const struct err *err, const char *hint)
{
    struct sandbox *s = call->sandbox;
    call->answered = true;
    deferred_cancel(&call->host->deferred, &call->task);
    if (s != NULL) {
        TAILQ_REMOVE(&s->calls, call, node);
        s->call_count--;
        sandbox_touch(s);
        if (call->generation != 0) {
            sandbox_ack(s, call->op);
        }
    }
    call->done(call->arg, rc, outcome, err, hint);
    if (!call->asked) {
        free_call(call);
    }
}

static void answer_outcome(struct fleet_call *call, const struct msg_output *end)
{
    struct fleet_outcome outcome = {
        .op = call->op,
        .sandbox = call->sandbox->id,
        .out = view_bytes(call->out.data, call->out.len),
        .err = view_bytes(call->err.data, call->err.len),
        .out_bytes = call->out_bytes,
        .err_bytes = call->err_bytes,
        .end = end,
        .duration_us = end->duration_us,
    };
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

static void fail_later(struct fleet_call *call, const struct err *err, const char *hint)
{
    if (call->failure != NULL || call->answered) {
        return;
    }
    call->failure = alloc_one(struct failure);
    call->failure->err = *err;
    call->failure->hint = alloc_strdup(hint);
    deferred_post(&call->host->deferred, &call->task, on_answer_later, call);
}

/* ---- cancelling ---- */

static void on_cancel_told(void *arg, int rc, const struct msg *reply, const struct err *err,
                           const char *hint)
{
    /* Nothing to do: the operation's own outcome is what counts, and call_check() insists. */
    (void)arg, (void)rc, (void)reply, (void)err, (void)hint;
}

static void tell_cancel(struct fleet_call *call, bool force)
{
    struct sandbox *s = call->sandbox;
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = view_of(call->op);
    m.cancel.reason = OP_STOP_CANCEL;
    m.cancel.force = force;
    if (s->link != NULL &&
        worker_link_ask(s->link, &m, TIME_WAIT_MS, on_cancel_told, NULL, NULL) == 0) {
        call->cancel_generation = s->generation;
    }
}

void call_cancel(struct fleet_call *call)
{
    if (call->cancelled || call->answered || call->failure != NULL) {
        return;
    }
    call->cancelled = true;
    call->cancelled_ms = now_ms(call);
    log_info("call cancelled op=%s sandbox=%s gen=%" PRIu64, call->op, call->sandbox->id,
             call->sandbox->generation);
    if (call->generation == 0) { /* no worker has heard of it */
        deferred_post(&call->host->deferred, &call->task, on_answer_later, call);
    } else if (call->generation == call->sandbox->generation) {
        tell_cancel(call, false);
    } /* else the next worker is told as soon as it knows the operation */
}

/* ---- replies ---- */

/* Counts all, keeps what fits. */
static void take_bytes(struct buf *kept, uint64_t *total, struct view bytes)
{
    size_t room = kept->max - kept->len;
    *total += bytes.len;
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

static void take_output(struct fleet_call *call, const struct msg_output *o)
{
    struct sandbox *s = call->sandbox;
    if (!view_is(o->op, call->op) || o->out_from != call->out_bytes ||
        o->err_from != call->err_bytes || o->state < OP_QUEUED || o->state > OP_DONE) {
        worker_link_kill(s->link, "answered for another operation or place in its output");
        return;
    }
    call->generation = s->generation;
    if (s->acks_from < call->acks_to) {
        s->acks_from = call->acks_to;
    }
    call->acks_to = 0;
    take_bytes(&call->out, &call->out_bytes, o->out);
    take_bytes(&call->err, &call->err_bytes, o->err);
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
    if (call->cancelled && call->cancel_generation != s->generation) {
        tell_cancel(call, call->forced);
    }
    ask(call);
}

static void on_reply(void *arg, int rc, const struct msg *reply, const struct err *err,
                     const char *hint)
{
    struct fleet_call *call = arg;
    call->asked = false;
    if (call->answered) {
        free_call(call);
    } else if (rc == 0) {
        take_output(call, &reply->output);
    } else if (err == NULL) {
        call->acks_to = 0; /* the worker is lost; call_resume_all() goes on with the next one */
    } else if (rc == -ERR_GONE) {
        sandbox_gone(call->sandbox, err->text); /* answers this call, too */
    } else {
        log_warn("call refused: %s op=%s sandbox=%s gen=%" PRIu64, err->text, call->op,
                 call->sandbox->id, call->sandbox->generation);
        tell_cancel(call, true); /* it may be running all the same */
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
        if (other->start.kind == OP_EVAL && other->generation != 0 &&
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
    int rc = worker_link_ask(s->link, &m, wait_ms + REPLY_SLACK_MS, on_reply, call, err);
    if (rc < 0) {
        return rc;
    }
    call->acks_to = s->acks_to;
    if (call->generation == 0) {
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
    return worker_link_ask(call->sandbox->link, &m, wait_ms + REPLY_SLACK_MS, on_reply, call, err);
}

/* Sends the next request if the sandbox can take it now; if not, somebody resumes us. */
static void ask(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    if (call->asked || call->answered || call->failure != NULL ||
        sandbox_state(s) != SANDBOX_READY || worker_link_is_ending(s->link) ||
        (call->cancelled && call->generation == 0)) {
        return;
    }
    struct err err = ERR_INIT;
    uint64_t wait_ms = TIME_WAIT_MS;
    int rc;
    if (call->generation == s->generation) {
        rc = ask_wait(call, wait_ms, &err);
    } else {
        /* A cancelled call is made known to the new worker first, and cancelled by the reply. */
        wait_ms = call->cancelled ? 0 : wait_ms;
        rc = ask_start(call, wait_ms, &err);
    }
    if (rc == 0) {
        call->asked = true;
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
    if (call->cancelled && call->generation == s->generation) {
        if (!call->forced && now - call->cancelled_ms >= TIME_INTERRUPT_MS) {
            call->forced = true;
            tell_cancel(call, true);
        }
        overdue = overdue || now - call->cancelled_ms > last_ms;
    }
    if (overdue && call->failure == NULL) {
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

/* ---- beginning ---- */

static size_t list_bytes(const struct view_list *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        n += list->items[i].len;
    }
    return n;
}

/* There is room: it was reserved. */
static struct view copy_view(struct fleet_call *call, struct view v)
{
    if (v.len == 0) {
        return view_bytes(NULL, 0);
    }
    size_t at = call->text.len;
    err_ignore(buf_add(&call->text, v.data, v.len, NULL));
    return view_bytes(call->text.data + at, v.len);
}

static struct view_list copy_list(struct fleet_call *call, struct view **at,
                                  const struct view_list *from)
{
    struct view_list list = {*at, from->count};
    for (size_t i = 0; i < from->count; i++) {
        *(*at)++ = copy_view(call, from->items[i]);
    }
    return list;
}

static int copy_op(struct fleet_call *call, const struct fleet_op *op, struct err *err)
{
    struct msg_start *start = &call->start;
    struct view language = view_of(op->language);
    struct view path = view_of(op->path);
    size_t bytes = op->data.len + op->stdin_data.len + list_bytes(&op->env) +
                   list_bytes(&op->args) + language.len + path.len;
    int rc = bytes > 0 ? buf_reserve(&call->text, bytes, err) : 0;
    if (rc < 0) {
        return rc;
    }
    call->items = alloc_array(op->env.count + op->args.count + 1, sizeof(call->items[0]));
    struct view *at = call->items;
    start->op = view_of(call->op);
    start->kind = op->kind;
    start->language = copy_view(call, language);
    start->data = copy_view(call, op->data);
    start->has_stdin = op->has_stdin;
    start->stdin_data = copy_view(call, op->stdin_data);
    start->env = copy_list(call, &at, &op->env);
    start->args = copy_list(call, &at, &op->args);
    start->path = copy_view(call, path);
    start->offset = op->offset;
    start->length = op->length;
    start->mode = op->mode;
    start->flags = op->flags;
    return 0;
}

static struct fleet_call *new_call(struct fleet_host *host, size_t keep_bytes,
                                   fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = alloc_one(struct fleet_call);
    call->host = host;
    fleet_host_hold(host);
    call->done = done;
    call->arg = arg;
    buf_init(&call->text, 2 * (size_t)LIMIT_FRAME);
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

struct fleet_call *call_begin(struct sandbox *s, const struct fleet_op *op, fleet_outcome_fn done,
                              void *arg)
{
    struct fleet_call *call = new_call(s->host, op->keep_bytes, done, arg);
    struct err err = ERR_INIT;
    uint64_t most_ms = s->host->config->max_timeout_s * 1000;
    call->timeout_ms = op->timeout_ms != 0 ? op->timeout_ms : s->timeout_ms;
    if (most_ms != 0 && call->timeout_ms > most_ms) {
        call->timeout_ms = most_ms;
    }
    call->sandbox = s;
    TAILQ_INSERT_TAIL(&s->calls, call, node);
    s->call_count++;
    sandbox_touch(s);
    if (random_id(call->op, 16, &err) < 0 || copy_op(call, op, &err) < 0) {
        fail_later(call, &err, "");
    } else {
        ask(call);
    }
    return call;
}
