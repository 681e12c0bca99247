/*
 * The table of operations. LIMIT_OPS is small, so looking one up is a walk over a few pointers and
 * needs no index; what matters is that nothing here grows without a bound: output by
 * LIMIT_OP_OUTPUT (plus one last pipe full), results by the caps of report.h, waiting requests by
 * LIMIT_AGENT_QUEUE.
 */
#include "worker/agent/op.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/clock.h"

#define STREAM_KEEP_BYTES 4096 /* storage that an emptied stream may keep */

void op_table_init(struct op_table *t)
{
    *t = (struct op_table){0};
}

static void op_destroy(struct op *op)
{
    assert(op->file == NULL);
    buf_finish(&op->out.data);
    buf_finish(&op->err.data);
    buf_finish(&op->request);
    report_finish(&op->report);
    free(op);
}

void op_table_finish(struct op_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        op_destroy(t->items[i]);
    }
    op_table_init(t);
}

struct op *op_find(const struct op_table *t, struct view id)
{
    for (size_t i = 0; i < t->count; i++) {
        if (view_is(id, t->items[i]->id)) {
            return t->items[i];
        }
    }
    return NULL;
}

static struct op *oldest_done(const struct op_table *t)
{
    struct op *oldest = NULL;
    for (size_t i = 0; i < t->count; i++) {
        struct op *op = t->items[i];
        if (op->state == OP_DONE && (oldest == NULL || op->order < oldest->order)) {
            oldest = op;
        }
    }
    return oldest;
}

int op_create(struct op_table *t, struct view id, enum op_kind kind, struct op **ret,
              struct err *err)
{
    if (id.len == 0 || id.len > LIMIT_NAME) {
        return err_set(err, ERR_INVALID, "operation id of %zu bytes", id.len);
    }
    if (t->count == LIMIT_OPS) {
        struct op *old = oldest_done(t);
        if (old == NULL) {
            return err_set(err, ERR_BUSY, "%d operations are under way already", LIMIT_OPS);
        }
        op_forget(t, old);
    }
    struct op *op = alloc_one(struct op);
    memcpy(op->id, id.data, id.len);
    op->kind = kind;
    op->state = OP_QUEUED;
    op->order = ++t->ordinal;
    buf_init(&op->out.data, LIMIT_OP_OUTPUT + OP_TAIL_MAX);
    buf_init(&op->err.data, LIMIT_OP_OUTPUT + OP_TAIL_MAX);
    buf_init(&op->request, LIMIT_FRAME);
    report_init(&op->report, kind == OP_EVAL ? REPORT_OF_RUN : REPORT_OF_FILE);
    t->items[t->count++] = op;
    t->started++;
    *ret = op;
    return 0;
}

void op_forget(struct op_table *t, struct op *op)
{
    assert(op->state != OP_RUNNING);
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i] == op) {
            t->items[i] = t->items[--t->count];
            break;
        }
    }
    t->held_bytes -= op->request.len;
    op_destroy(op);
}

int op_hold_request(struct op_table *t, struct op *op, struct buf *request, struct err *err)
{
    assert(op->request.len == 0);
    if (request->len > LIMIT_AGENT_QUEUE - t->held_bytes) {
        return err_set(err, ERR_BUSY, "%zu bytes of code wait for their turn already",
                       t->held_bytes);
    }
    buf_finish(&op->request);
    op->request = *request;
    t->held_bytes += request->len;
    buf_init(request, request->max);
    return 0;
}

void op_take_request(struct op_table *t, struct op *op, struct buf *ret)
{
    *ret = op->request;
    t->held_bytes -= op->request.len;
    buf_init(&op->request, op->request.max);
}

struct op *op_next(const struct op_table *t, const struct interp *interp)
{
    struct op *next = NULL;
    for (size_t i = 0; i < t->count; i++) {
        struct op *op = t->items[i];
        if (op->interp == interp && op->state == OP_QUEUED &&
            (next == NULL || op->order < next->order)) {
            next = op;
        }
    }
    return next;
}

size_t op_stream_room(const struct op_stream *s)
{
    return s->data.len < LIMIT_OP_OUTPUT ? LIMIT_OP_OUTPUT - s->data.len : 0;
}

int op_stream_add(struct op_stream *s, const void *data, size_t len, struct err *err)
{
    return buf_add(&s->data, data, len, err);
}

static uint64_t stream_end(const struct op_stream *s)
{
    return s->from + s->data.len;
}

static int check_offset(const struct op_stream *s, uint64_t from, const char *name, struct err *err)
{
    if (from < s->from) {
        return err_set(err, ERR_INVALID, "%s before byte %" PRIu64 " is acknowledged and forgotten",
                       name, s->from);
    }
    if (from > stream_end(s)) {
        return err_set(err, ERR_INVALID, "%s has %" PRIu64 " bytes, not %" PRIu64, name,
                       stream_end(s), from);
    }
    return 0;
}

static void stream_ack(struct op_stream *s, uint64_t from)
{
    if (from == s->from) {
        return;
    }
    buf_consume(&s->data, (size_t)(from - s->from));
    s->from = from;
    if (s->data.len == 0) {
        buf_reset(&s->data, STREAM_KEEP_BYTES);
    }
}

int op_ack(struct op *op, uint64_t out_from, uint64_t err_from, struct err *err)
{
    int rc = check_offset(&op->out, out_from, "output", err);
    if (rc == 0) {
        rc = check_offset(&op->err, err_from, "error output", err);
    }
    if (rc < 0) {
        return rc;
    }
    stream_ack(&op->out, out_from);
    stream_ack(&op->err, err_from);
    return 0;
}

bool op_has_news(const struct op *op, uint64_t out_from, uint64_t err_from)
{
    return op->state == OP_DONE || stream_end(&op->out) > out_from ||
           stream_end(&op->err) > err_from;
}

/* At most one chunk from `from` on; *ret_rest is what lies behind it. */
static struct view slice(const struct op_stream *s, uint64_t from, bool bytes, size_t *ret_rest)
{
    size_t skip = (size_t)(from - s->from);
    size_t len = s->data.len - skip;
    size_t part = !bytes ? 0 : len > LIMIT_CHUNK ? LIMIT_CHUNK : len;
    *ret_rest = len - part;
    return view_bytes(part > 0 ? s->data.data + skip : NULL, part);
}

static void put_outcome(const struct op *op, struct msg_output *o)
{
    const struct report *r = &op->report;
    o->status = op->status;
    o->exit_code = op->exit_code;
    o->interpreter = op->interpreter;
    o->has_result = r->has_result;
    o->result = view_bytes(r->result.data, r->result.len);
    o->error_name = view_bytes(r->error_name.data, r->error_name.len);
    o->error_message = view_bytes(r->message.data, r->message.len);
    o->traceback = view_bytes(r->traceback.data, r->traceback.len);
    o->fail_code = r->fail_code;
    o->file_type = r->file_type;
    o->file_size = r->file_size;
    o->truncated = r->truncated;
    o->duration_us = op->duration_us;
    o->cpu_us = op->cpu_us;
    o->max_rss_kb = op->max_rss_kb;
}

void op_output(const struct op *op, const struct op_waiter *w, bool bytes, struct msg *ret)
{
    size_t out_rest = 0;
    size_t err_rest = 0;
    memset(ret, 0, sizeof(*ret));
    ret->type = MSG_OUTPUT;
    ret->seq = w->seq;
    struct msg_output *o = &ret->output;
    o->op = view_of(op->id);
    o->out_from = w->out_from;
    o->err_from = w->err_from;
    o->out = slice(&op->out, w->out_from, bytes, &out_rest);
    o->err = slice(&op->err, w->err_from, bytes, &err_rest);
    if (op->state == OP_DONE && out_rest == 0 && err_rest == 0) {
        o->state = OP_DONE;
        put_outcome(op, o);
    } else {
        o->state = op->state == OP_DONE ? OP_RUNNING : op->state;
    }
}

void op_run(struct op *op)
{
    assert(op->state == OP_QUEUED);
    op->state = OP_RUNNING;
    op->begun_us = clock_us();
    if (op->timeout_ms > 0) {
        op->kill_at_ms =
            op->begun_us / 1000 + op->timeout_ms + TIME_INTERRUPT_MS + TIME_BACKSTOP_MS;
    }
}

void op_done(struct op_table *t, struct op *op)
{
    assert(op->state != OP_DONE);
    if (op->begun_us > 0) {
        op->duration_us = clock_us() - op->begun_us;
    }
    t->held_bytes -= op->request.len;
    buf_finish(&op->request);
    op->state = OP_DONE;
    op->order = ++t->ordinal;
    op->kill_at_ms = 0;
}

void op_fail(struct op_table *t, struct op *op, enum err_code code, const char *message)
{
    report_reset(&op->report);
    op->status = OP_STATUS_FAILED;
    op->report.fail_code = code;
    err_ignore(
        buf_add_str(&op->report.message, message, NULL)); /* out of memory: the code must do */
    op_done(t, op);
}
