/*
 * An INPUT says where its bytes belong, and the agent passes over what it has. So one whose answer
 * was lost with its worker is sent again to the next, as it is, and nothing is written twice. One
 * is out at a time, because the next one's place depends on whether this one was taken.
 *
 * A call of an earlier server begins with a question: an INPUT without bytes is answered with the
 * number of those that were taken.
 *
 * When the call ends while an INPUT with bytes is out, its answer is waited for, since it says
 * whether they were taken.
 */
#include "supervisor/calls/input.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "supervisor/calls/call_internal.h"

#define WAITING_MAX 16 /* that wait for one call */
#define HINT_ENDED  "get_execution has its result"
#define HINT_LEFT   "it may have been written: repeat it with stdin_offset when the server is back"

struct call_input {
    TAILQ_ENTRY(call_input) node;
    struct fleet_host *host;
    struct fleet_call *call; /* NULL: it has ended */
    struct buf data;
    bool eof, has_at;
    uint64_t rows, cols, at;
    bool asked;
    bool looks; /* the request that is out asks for the number of bytes only */
    fleet_input_fn done;
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
    fleet_host_hold(host);
    buf_init(&in->data, LIMIT_INPUT);
    in->done = done;
    in->arg = arg;
    in->err = (struct err)ERR_INIT;
    in->hint = "";
    return in;
}

/* Answers and frees; it is in no list. */
static void tell_input(struct call_input *in, int rc, const struct msg_input_ok *ok,
                       const struct err *err, const char *hint)
{
    struct fleet_host *host = in->host;
    struct fleet_input_state state = {.next = ok != NULL ? ok->next : 0,
                                      .unread = ok != NULL ? ok->unread : 0};
    in->done(in->arg, rc, &state, err, hint);
    buf_finish(&in->data);
    free(in);
    fleet_host_release(host);
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
    sandbox_touch(call->sandbox);
    call_inputs_ask(call);
}

static void take_off(struct call_input *in)
{
    TAILQ_REMOVE(&in->call->inputs.waiting, in, node);
    in->call->inputs.count--;
    in->call = NULL;
}

static void on_input_reply(void *arg, int rc, const struct msg *reply, const struct err *err,
                           const char *hint)
{
    struct call_input *in = arg;
    struct fleet_call *call = in->call;
    in->asked = false;
    if (call == NULL && (rc < 0 || in->looks)) {
        tell_refused(in);
        return;
    }
    if (rc < 0 && err == NULL) {
        return; /* the worker is lost: call_inputs_ask() asks the next one the same */
    }
    if (call != NULL && rc == 0) {
        call->inputs.next = reply->input_ok.next;
        call->inputs.known = true;
    }
    if (call != NULL && rc == 0 && in->looks) {
        call_inputs_ask(call);
        return;
    }
    if (call != NULL) {
        take_off(in);
    }
    if (rc == 0) {
        tell_input(in, 0, &reply->input_ok, NULL, "");
    } else if (rc == -ERR_EXECUTION_NOT_FOUND) {
        in->hint = call_input_over(false, &in->err);
        tell_refused(in);
    } else {
        tell_input(in, rc, NULL, err, hint);
    }
    if (call != NULL) {
        call_inputs_ask(call);
    }
}

void call_inputs_ask(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    struct call_input *in = TAILQ_FIRST(&call->inputs.waiting);
    struct err err = ERR_INIT;
    if (in == NULL || in->asked || !call->known || sandbox_state(s) != SANDBOX_READY ||
        worker_link_is_ending(s->link)) {
        return;
    }
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
    int rc = worker_link_ask(s->link, &m, 0, on_input_reply, in, &err);
    if (rc == 0) {
        in->asked = true;
    } else if (!worker_link_is_ending(s->link)) {
        take_off(in);
        in->err = err;
        refuse_later(in);
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
