/*
 * One sandbox, one link, no process. The latest request is kept in `w`; a test replies to it, or
 * loses the worker. Every callback comes from the loop, as in the real code, so that a test sees
 * the order of events.
 */
#include "tests/unit/supervisor/fleet/call_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/log.h"

struct world w;

/* ---- replacements for the rest of the fleet ---- */

enum sandbox_state sandbox_state(const struct sandbox *s)
{
    (void)s;
    return w.state;
}

bool sandbox_is_leaving(const struct sandbox *s)
{
    (void)s;
    return w.state != SANDBOX_READY && w.state != SANDBOX_RECOVERING;
}

void sandbox_touch(struct sandbox *s)
{
    (void)s;
}

void sandbox_changed(struct sandbox *s, enum sandbox_change change)
{
    (void)s, (void)change;
}

void sandbox_ack(struct sandbox *s, const char op[FLEET_ID_SIZE], bool is_execution)
{
    (void)s, (void)op, (void)is_execution;
    w.acks++;
}

struct view_list sandbox_acks(const struct sandbox *s, struct view *items)
{
    (void)s;
    return (struct view_list){items, 0};
}

void sandbox_gone(struct sandbox *s, const char *reason)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_GONE, "%s", reason);
    w.state = SANDBOX_FAILED;
    call_fail_all(s, &err, "");
}

void worker_policy_success(struct worker_policy *p)
{
    (void)p;
}

bool worker_link_is_ending(const struct worker_link *link)
{
    (void)link;
    return false;
}

void worker_link_kill(struct worker_link *link, const char *fmt, ...)
{
    (void)link, (void)fmt;
    w.killed = true;
}

int worker_link_ask(struct worker_link *link, struct msg *m, uint64_t timeout_ms,
                    worker_reply_fn done, void *arg, struct err *err)
{
    (void)link, (void)timeout_ms;
    if (m->type == MSG_CANCEL) {
        w.interrupts += !m->cancel.force;
        w.kills += m->cancel.force;
        return 0;
    }
    if (m->type == MSG_INPUT) {
        assert_false(w.input.out);
        if (w.input.unsent > 0) {
            w.input.unsent--;
            return err_set(err, ERR_NO_MEMORY, "no memory");
        }
        w.input.out = true;
        w.input.at = m->input.at;
        snprintf(w.input.data, sizeof(w.input.data), "%.*s", VIEW_ARG(m->input.data));
        w.input.done = done;
        w.input.arg = arg;
        return 0;
    }
    assert_false(w.out); /* one request at a time */
    w.out = true;
    w.is_start = m->type == MSG_START;
    w.starts += w.is_start;
    w.began_ms = w.starts == 1 ? uv_now(&w.loop) : w.began_ms;
    w.start = m->start;
    w.out_from = w.is_start ? m->start.out_from : m->wait.out_from;
    w.skip = w.is_start ? m->start.skip : m->wait.skip;
    struct view op = w.is_start ? m->start.op : m->wait.op;
    snprintf(w.op, sizeof(w.op), "%.*s", VIEW_ARG(op));
    w.done = done;
    w.arg = arg;
    return 0;
}

/* ---- the world ---- */

static void on_released(struct fleet_host *host)
{
    (void)host;
}

int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    uv_loop_init(&w.loop);
    w.config.max_timeout_s = 3600;
    w.config.sync_budget_s = 45;
    w.host.loop = &w.loop;
    w.host.config = &w.config;
    w.host.on_released = on_released;
    deferred_init(&w.host.deferred, &w.loop);
    w.host.executions = executions_create(&w.host);
    w.s.host = &w.host;
    w.s.owner = (char *)(uintptr_t) "me";
    w.s.link = (struct worker_link *)&w;
    w.s.generation = 1;
    w.s.timeout_ms = 1000;
    snprintf(w.s.id, sizeof(w.s.id), "sandbox");
    TAILQ_INIT(&w.s.calls);
    w.state = SANDBOX_READY;
    return 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

void turn(void)
{
    uv_run(&w.loop, UV_RUN_NOWAIT);
}

int teardown(void **state)
{
    (void)state;
    assert_int_equal(w.host.held, 0);
    executions_close(w.host.executions, on_closed, &w.closed);
    deferred_close(&w.host.deferred, on_closed, &w.closed);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_true(w.closed);
    journal_finish(&w.host.journal);
    return uv_loop_close(&w.loop);
}

/* ---- replies ---- */

void reply_with(int rc, const struct msg *m, const struct err *err)
{
    assert_true(w.out);
    w.out = false;
    w.done(w.arg, rc, m, err, "a hint");
}

struct msg output(enum op_state op_state, const char *text, uint64_t from)
{
    struct msg m = {.type = MSG_OUTPUT};
    m.output.op = view_of(w.op);
    m.output.state = op_state;
    m.output.out = view_of(text);
    m.output.out_from = from;
    m.output.status = op_state == OP_DONE ? OP_STATUS_OK : 0;
    m.output.duration_us = op_state == OP_QUEUED ? 0 : (uv_now(&w.loop) - w.began_ms) * 1000;
    return m;
}

void reply(enum op_state op_state, const char *text)
{
    struct msg m = output(op_state, text, w.out_from);
    reply_with(0, &m, NULL);
}

void reply_error(enum err_code code)
{
    struct err err = ERR_INIT;
    reply_with(err_set(&err, code, "the worker says no"), NULL, &err);
}

void reply_input(uint64_t next)
{
    struct msg m = {.type = MSG_INPUT_OK};
    m.input_ok.next = next;
    assert_true(w.input.out);
    w.input.out = false;
    w.input.done(w.input.arg, 0, &m, NULL, "");
}

void lose_requests(void)
{
    reply_with(-ERR_IO, NULL, NULL);
    if (w.input.out) {
        w.input.out = false;
        w.input.done(w.input.arg, -ERR_IO, NULL, NULL, "");
    }
}

void lose_worker(void)
{
    w.state = SANDBOX_RECOVERING;
    lose_requests();
}

void resume(void)
{
    w.s.generation += w.state == SANDBOX_RECOVERING;
    w.state = SANDBOX_READY;
    call_resume_all(&w.s);
}

/* ---- callers that wait ---- */

void on_told(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
             const char *hint)
{
    struct told *told = arg;
    told->times++;
    told->rc = rc;
    assert_non_null(hint);
    if (rc < 0) {
        assert_int_equal(rc, -err->code);
        snprintf(told->err, sizeof(told->err), "%s", err->text);
        return;
    }
    told->state = o->state;
    told->status = o->end->status;
    told->out_bytes = o->out_bytes;
    told->unconfirmed = o->unconfirmed;
    snprintf(told->op, sizeof(told->op), "%s", o->op);
    snprintf(told->language, sizeof(told->language), "%s", o->language);
    snprintf(told->out, sizeof(told->out), "%.*s", VIEW_ARG(o->out));
    assert_string_equal(o->sandbox, "sandbox");
}

char letter(const struct told *t)
{
    if (t->times == 0) {
        return '.';
    }
    assert_int_equal(t->times, 1);
    if (t->rc < 0) {
        return 'f';
    }
    return t->state != OP_DONE ? 'r' : t->status == OP_STATUS_CANCELLED ? 'c' : 'o';
}

struct fleet_await *begin(char id[FLEET_ID_SIZE], struct told *told)
{
    const struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of("1"), .keep_bytes = 1000};
    executions_begin(w.host.executions, &w.s, &op, id);
    memset(told, 0, sizeof(*told));
    return executions_await(w.host.executions, "me", id, FLEET_WAIT_FOR_EVER, on_told, told);
}

void ask(const char *owner, const char *id, struct told *told)
{
    memset(told, 0, sizeof(*told));
    executions_await(w.host.executions, owner, id, 0, on_told, told);
    assert_int_equal(told->times, 0);
    turn();
    assert_int_equal(told->times, 1);
}
