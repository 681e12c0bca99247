/*
 * An INPUT says where its bytes belong, and the agent passes over what it has. So one whose answer
 * was lost with its worker is sent again to the next, as it is, and nothing is written twice. One
 * is out at a time, because the next one's place depends on whether this one was taken.
 *
 * A call of an earlier server begins with a question: an INPUT without bytes is answered with the
 * number of those that were taken.
 *
 * An INPUT that is not answered in time is given up: its writer is told, and may repeat it. If it
 * is out, its answer is still waited for, since it says where the next one belongs. What is lost
 * leaves that unknown, so the next one begins with that question.
 *
 * When the call ends while an INPUT with bytes is out, its answer is waited for, since it says
 * whether they were taken.
 */
#include "supervisor/calls/input.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "supervisor/calls/call_internal.h"

#define WAITING_MAX 16 /* that wait for one call */
#define HINT_ENDED  "get_execution has its result"
#define HINT_SILENT                                                                                \
    "it may have been written: repeat it with stdin_offset when the sandbox answers; its engine "  \
    "may be busy or stopped"
#define HINT_LEFT "it may have been written: repeat it with stdin_offset when the server is back"

struct call_input {
    TAILQ_ENTRY(call_input) node;
    struct fleet_host *host;
    struct fleet_call *call; /* NULL: it has ended */
    struct buf data;
    bool eof, has_at;
    uint64_t rows, cols, at;
    uint64_t entered_ms;
    bool asked;
    bool looks;          /* the request that is out asks for the number of bytes only */
    fleet_input_fn done; /* NULL: given up, but a request is still out */
    void *arg;
    struct deferred_task task;
    struct err err; /* of the deferred answer; or why its call takes no input any more */
    const char *hint;
};

void call_inputs_init(struct call_inputs *inputs, bool known)
{
    *inputs = (struct call_inputs){.known = known};
    TAILQ_INIT(&inputs->waiting);
}

static struct call_input *new_input(struct fleet_host *host, fleet_input_fn done, void *arg)
{
    struct call_input *in = alloc_one(struct call_input);
    in->host = host;
    in->entered_ms = uv_now(host->loop);
    fleet_host_hold(host);
    buf_init(&in->data, LIMIT_INPUT);
    in->done = done;
    in->arg = arg;
    in->err = (struct err)ERR_INIT;
    in->hint = "";
    return in;
}

/* It is in no list. */
static void free_input(struct call_input *in)
{
    struct fleet_host *host = in->host;
    buf_finish(&in->data);
    free(in);
    fleet_host_release(host);
}

/* Answers, unless it is given up, and frees it. */
static void tell_input(struct call_input *in, int rc, const struct msg_input_ok *ok,
                       const struct err *err, const char *hint)
{
    struct fleet_input_state state = {.next = ok != NULL ? ok->next : 0,
                                      .unread = ok != NULL ? ok->unread : 0};
    if (in->done != NULL) {
        in->done(in->arg, rc, &state, err, hint);
    }
    free_input(in);
}

static void tell_refused(struct call_input *in)
{
    tell_input(in, -in->err.code, NULL, &in->err, in->hint);
}

static void on_refuse_later(void *in)
{
    tell_refused(in);
}

static void refuse_later(struct call_input *in)
{
    deferred_post(&in->host->deferred, &in->task, on_refuse_later, in);
}

void call_input_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                       fleet_input_fn done, void *arg)
{
    struct call_input *in = new_input(host, done, arg);
    in->err = *err;
    in->hint = hint;
    refuse_later(in);
}

const char *call_input_over(bool left, struct err *err)
{
    if (left) {
        err_set(err, ERR_SHUTTING_DOWN, "the server is shutting down");
        return HINT_LEFT;
    }
    err_set(err, ERR_INVALID, "the execution has ended, so nothing reads its stdin");
    return HINT_ENDED;
}

void call_input(struct fleet_call *call, const struct fleet_input *what, fleet_input_fn done,
                void *arg)
{
    struct call_inputs *inputs = &call->inputs;
    struct call_input *in = new_input(call->host, done, arg);
    in->eof = what->eof;
    in->rows = what->rows;
    in->cols = what->cols;
    in->has_at = what->has_at;
    in->at = what->at;
    if (call->sandbox == NULL) { /* it was refused from the start */
        in->hint = call_input_over(false, &in->err);
        refuse_later(in);
        return;
    }
    if (inputs->count == WAITING_MAX) {
        err_set(&in->err, ERR_BUSY, "%d earlier writes to its stdin wait for an answer",
                WAITING_MAX);
        in->hint = "wait for these";
        refuse_later(in);
        return;
    }
    if (buf_add(&in->data, what->data.data, what->data.len, &in->err) < 0) {
        in->hint = "write it in parts, or put it into a file";
        refuse_later(in);
        return;
    }
    in->call = call;
    TAILQ_INSERT_TAIL(&inputs->waiting, in, node);
    inputs->count++;
    call_inputs_ask(call);
}

static void take_off(struct call_input *in)
{
    TAILQ_REMOVE(&in->call->inputs.waiting, in, node);
    in->call->inputs.count--;
    in->call = NULL;
}

/* Without an answer: a worker may have been asked, so where the next one belongs is not known. */
static void take_off_unanswered(struct call_input *in)
{
    in->call->inputs.known = false;
    take_off(in);
}

/* Its call has ended. */
static void on_late_reply(struct call_input *in, int rc, const struct msg *reply)
{
    if (rc == 0 && !in->looks) {
        tell_input(in, 0, &reply->input_ok, NULL, "");
    } else {
        tell_refused(in);
    }
}

static void on_input_reply(void *arg, int rc, const struct msg *reply, const struct err *err,
                           const char *hint)
{
    struct call_input *in = arg;
    struct fleet_call *call = in->call;
    in->asked = false;
    if (call == NULL) {
        on_late_reply(in, rc, reply);
        return;
    }
    if (rc < 0 && err == NULL) {
        if (in->done == NULL) {
            take_off_unanswered(in);
            free_input(in);
        }
        return; /* the worker is lost: call_inputs_ask() asks the next one the same */
    }
    if (rc == 0) {
        call->inputs.next = reply->input_ok.next;
        call->inputs.known = true;
    }
    if (rc == 0 && in->looks && in->done != NULL) {
        call_inputs_ask(call);
        return;
    }
    take_off(in);
    if (rc == 0) {
        tell_input(in, 0, &reply->input_ok, NULL, "");
    } else if (rc == -ERR_EXECUTION_NOT_FOUND) {
        in->hint = call_input_over(false, &in->err);
        tell_refused(in);
    } else {
        tell_input(in, rc, NULL, err, hint);
    }
    call_inputs_ask(call);
}

/* Sends it, or refuses it later. */
static void ask_input(struct fleet_call *call, struct call_input *in)
{
    struct worker_link *link = call->sandbox->link;
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_INPUT};
    m.input.op = view_of(call->op);
    in->looks = !call->inputs.known && !in->has_at;
    if (!in->looks) {
        m.input.at = in->has_at ? in->at : call->inputs.next;
        m.input.data = view_bytes(in->data.data, in->data.len);
        m.input.eof = in->eof;
        m.input.rows = in->rows;
        m.input.cols = in->cols;
    }
    /* where it belongs is fixed now, whatever becomes of its answer */
    in->has_at = in->has_at || !in->looks;
    in->at = m.input.at;
    int rc = worker_link_ask(link, &m, 0, on_input_reply, in, &err);
    if (rc == 0) {
        in->asked = true;
    } else if (!worker_link_is_ending(link)) {
        take_off_unanswered(in);
        in->err = err;
        refuse_later(in);
    }
}

void call_inputs_ask(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    struct call_input *in;
    while ((in = TAILQ_FIRST(&call->inputs.waiting)) != NULL && !in->asked && call->known &&
           sandbox_state(s) == SANDBOX_READY && !worker_link_is_ending(s->link)) {
        ask_input(call, in);
    }
}

static void give_up(struct call_input *in, uint64_t passed_ms)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_ENGINE,
            "the sandbox has not answered for %" PRIu64 " s; it is not known to have ended",
            passed_ms / 1000);
    call_input_refuse(in->host, &err, HINT_SILENT, in->done, in->arg);
    in->done = NULL;
    if (!in->asked) {
        take_off_unanswered(in);
        free_input(in);
    }
}

void call_inputs_check(struct fleet_call *call)
{
    uint64_t patience_ms = fleet_host_patience_ms(call->host);
    struct call_input *in = TAILQ_FIRST(&call->inputs.waiting);
    while (in != NULL) {
        struct call_input *next = TAILQ_NEXT(in, node);
        uint64_t passed_ms = call_now_ms(call) - in->entered_ms;
        if (in->done != NULL && passed_ms >= patience_ms) {
            give_up(in, passed_ms);
        }
        in = next;
    }
}

void call_inputs_end(struct fleet_call *call)
{
    struct call_input *in;
    bool left = sandbox_state(call->sandbox) == SANDBOX_LEFT;
    while ((in = TAILQ_FIRST(&call->inputs.waiting)) != NULL) {
        take_off(in);
        in->hint = call_input_over(left, &in->err);
        if (!in->asked) {
            refuse_later(in);
        }
    }
}
