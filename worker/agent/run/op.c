/*
 * The table of operations. LIMIT_OPS is small, so a lookup walks over a few pointers and needs no
 * index. Everything has a bound: output LIMIT_OP_KEPT and LIMIT_OP_OUTPUT (plus the last content of
 * one pipe), stdin that waits for its reader LIMIT_INPUT and an end (input.c), results the caps of
 * report.h, queued requests LIMIT_AGENT_QUEUE.
 *
 * A stream has two parts. Each byte is written into one of them once and never moves to the other:
 *
 *     0 ............ LIMIT_OP_KEPT ......... max(acked, LIMIT_OP_KEPT) ......... end
 *     |---- head ----|      forgotten        |------------- tail --------------|
 *
 * Nearly all output fits into the head, so it costs one copy and is acknowledged by changing a
 * number. The bytes between `acked` and the end are unacknowledged; only their number makes the
 * agent stop reading the program's pipe.
 */
#include "worker/agent/run/op.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "worker/agent/run/changes.h"

#define TAIL_KEEP_BYTES 4096 /* storage that an emptied tail may keep */
#define UNACKED_MAX     (LIMIT_OP_OUTPUT + OP_TAIL_MAX)
#define FILES_MAX       (LIMIT_CHANGED * (LIMIT_PATH + 64u))
#define SCAN_KILL_MS    1500 /* a backstop: a scan stops by itself before, see changescan.c */

const struct sm_state op_states[OP_STATES] = {
    [0] = {"unknown", SM_BIT(OP_QUEUED)},
    [OP_QUEUED] = {"queued", SM_BIT(OP_RUNNING) | SM_BIT(OP_DONE)},
    [OP_RUNNING] = {"running", SM_BIT(OP_DONE)},
    [OP_DONE] = {"done", 0},
};

void op_table_init(struct op_table *t)
{
    *t = (struct op_table){.active_ms = clock_ms()};
}

static void stream_init(struct op_stream *s, size_t kept)
{
    buf_init(&s->head, kept);
    buf_init(&s->tail, UNACKED_MAX);
}

static void stream_finish(struct op_stream *s)
{
    buf_finish(&s->head);
    buf_finish(&s->tail);
}

static void op_destroy(struct op *op)
{
    assert(op->file == NULL && op->scan == NULL && op->connect == NULL);
    stream_finish(&op->out);
    stream_finish(&op->err);
    buf_finish(&op->request);
    input_finish(&op->input);
    report_finish(&op->report);
    framed_finish(&op->files);
    free(op);
}

void op_table_finish(struct op_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        changes_drop(t->items[i]);
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
        if (op_state(op) == OP_DONE && (oldest == NULL || op->ended_as < oldest->ended_as)) {
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
    op->language = "";
    op->started_ms = clock_ms();
    sm_init(&op->sm, op_states, OP_STATES, 0);
    sm_move(&op->sm, OP_QUEUED);
    stream_init(&op->out, op_is_execution(kind) ? LIMIT_OP_KEPT : 0);
    stream_init(&op->err, op_is_execution(kind) ? LIMIT_OP_KEPT : 0);
    buf_init(&op->request, LIMIT_FRAME);
    input_init(&op->input);
    report_init(&op->report, op_is_run(kind) ? REPORT_OF_RUN : REPORT_OF_FILE);
    framed_init(&op->files, FILES_MAX);
    t->items[t->count++] = op;
    t->started++;
    t->evals += op_is_execution(kind);
    *ret = op;
    return 0;
}

void op_forget(struct op_table *t, struct op *op)
{
    assert(op_state(op) != OP_RUNNING);
    size_t at = 0;
    while (t->items[at] != op) {
        at++;
    }
    t->count--;
    memmove(&t->items[at], &t->items[at + 1], (t->count - at) * sizeof(t->items[0]));
    t->held_bytes -= op->request.len;
    op_destroy(op);
}

void op_refuse(struct op_table *t, struct op *op)
{
    t->started--;
    t->evals -= op_is_execution(op->kind);
    op_forget(t, op);
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
    for (size_t i = 0; i < t->count; i++) {
        struct op *op = t->items[i];
        if (op->interp == interp && op_state(op) == OP_QUEUED) {
            return op;
        }
    }
    return NULL;
}

/* ---- output --------------------------------------------------------------------------------- */

static uint64_t tail_from(const struct op_stream *s)
{
    return s->acked > s->head.len ? s->acked : s->head.len;
}

static uint64_t stream_end(const struct op_stream *s)
{
    return tail_from(s) + s->tail.len;
}

size_t op_stream_room(const struct op_stream *s)
{
    uint64_t unacked = stream_end(s) - s->acked;
    return unacked < LIMIT_OP_OUTPUT ? (size_t)(LIMIT_OP_OUTPUT - unacked) : 0;
}

int op_stream_add(struct op_stream *s, const void *data, size_t len, struct err *err)
{
    size_t room = s->head.max - s->head.len;
    size_t first = len < room ? len : room;
    if (len > UNACKED_MAX - (stream_end(s) - s->acked)) {
        return err_set(err, ERR_TOO_BIG, "more than %u bytes of output wait for their reader",
                       UNACKED_MAX);
    }
    int rc = buf_reserve(&s->tail, len - first, err); /* all of it or nothing */
    if (rc == 0) {
        rc = buf_add(&s->head, data, first, err);
    }
    return rc < 0 ? rc : buf_add(&s->tail, (const char *)data + first, len - first, err);
}

/* The offset at which a reader that asks for `from` goes on. */
static int find_offset(const struct op_stream *s, uint64_t from, bool skip, const char *name,
                       uint64_t *ret, struct err *err)
{
    uint64_t there = tail_from(s);
    if (from > stream_end(s)) {
        return err_set(err, ERR_INVALID, "%s has %" PRIu64 " bytes, not %" PRIu64, name,
                       stream_end(s), from);
    }
    if (from >= s->head.len && from < there && !skip) {
        return err_set(err, ERR_INVALID,
                       "%s from byte %zu to %" PRIu64 " is acknowledged and forgotten", name,
                       s->head.len, there);
    }
    *ret = from < s->head.len || from > there ? from : there;
    return 0;
}

static void stream_ack(struct op_stream *s, uint64_t from)
{
    if (from <= s->acked) {
        return; /* read once more */
    }
    uint64_t there = tail_from(s);
    s->acked = from;
    if (from > there) {
        buf_consume(&s->tail, (size_t)(from - there));
        if (s->tail.len == 0) {
            buf_reset(&s->tail, TAIL_KEEP_BYTES);
        }
    }
}

int op_ack(struct op *op, struct op_waiter *w, bool skip, struct err *err)
{
    uint64_t out_from = 0;
    uint64_t err_from = 0;
    int rc = find_offset(&op->out, w->out_from, skip, "output", &out_from, err);
    if (rc == 0) {
        rc = find_offset(&op->err, w->err_from, skip, "error output", &err_from, err);
    }
    if (rc < 0) {
        return rc;
    }
    w->out_from = out_from;
    w->err_from = err_from;
    stream_ack(&op->out, out_from);
    stream_ack(&op->err, err_from);
    return 0;
}

bool op_has_progress(const struct op *op, uint64_t out_from, uint64_t err_from)
{
    return op_state(op) == OP_DONE || stream_end(&op->out) > out_from ||
           stream_end(&op->err) > err_from;
}

/* At most one chunk from `from`, an offset that op_ack() accepted; *ret_more tells whether more
 * follows.
 */
static struct view slice(const struct op_stream *s, uint64_t from, bool bytes, bool *ret_more)
{
    bool in_head = from < s->head.len;
    const struct buf *b = in_head ? &s->head : &s->tail;
    size_t skip = (size_t)(in_head ? from : from - tail_from(s));
    size_t len = b->len - skip;
    size_t part = !bytes ? 0 : len > LIMIT_CHUNK ? LIMIT_CHUNK : len;
    *ret_more = from + part < stream_end(s);
    return view_bytes(part > 0 ? b->data + skip : NULL, part);
}

static void put_outcome(const struct op *op, struct op_lists *lists, struct msg_output *o)
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
    o->file_stamp = r->file_stamp;
    o->truncated = r->truncated;
    o->duration_us = op->duration_us;
    o->cpu_us = op->cpu_us;
    o->max_rss_kb = op->max_rss_kb;
    o->files = framed_list(&op->files, lists->files, LIMIT_CHANGED);
    o->files_more = op->files_more;
    o->displays = framed_list(&r->displays, lists->displays, LIMIT_DISPLAYS);
}

void op_output(const struct op *op, const struct op_waiter *w, bool bytes, struct op_lists *lists,
               struct msg *ret)
{
    bool out_more = false;
    bool err_more = false;
    *ret = msg_answer(MSG_WAIT, w->seq);
    struct msg_output *o = &ret->output;
    o->op = view_of(op->id);
    o->out_from = w->out_from;
    o->err_from = w->err_from;
    o->out = slice(&op->out, w->out_from, bytes, &out_more);
    o->err = slice(&op->err, w->err_from, bytes, &err_more);
    if (op_state(op) == OP_DONE && !out_more && !err_more) {
        o->state = OP_DONE;
        put_outcome(op, lists, o);
    } else {
        o->state = op_state(op) == OP_DONE ? OP_RUNNING : op_state(op);
        o->duration_us = op_ran_us(op);
    }
}

void op_info(const struct op *op, uint64_t now_ms, struct msg *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->type = MSG_OP_INFO;
    ret->op_info.op = view_of(op->id);
    ret->op_info.kind = op->kind;
    ret->op_info.state = op_state(op);
    ret->op_info.language = view_of(op->language);
    ret->op_info.timeout_ms = op->timeout_ms;
    ret->op_info.ran_us = op_ran_us(op);
    ret->op_info.age_ms = now_ms > op->started_ms ? now_ms - op->started_ms : 0;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

void op_run(struct op_table *t, struct op *op)
{
    sm_move(&op->sm, OP_RUNNING);
    op->begun_us = clock_us();
    t->active_ms = op->begun_us / 1000;
    if (op->timeout_ms > 0) {
        op->kill_at_ms =
            op->begun_us / 1000 + op->timeout_ms + TIME_INTERRUPT_MS + TIME_BACKSTOP_MS;
    }
    if (t->changes != NULL && op_is_run(op->kind)) {
        changes_begin(t->changes, op);
    }
}

uint64_t op_ran_us(const struct op *op)
{
    bool over = op->begun_us == 0 || op->duration_us > 0;
    return over ? op->duration_us : clock_us() - op->begun_us;
}

void op_stop_clock(struct op *op)
{
    op->duration_us = op_ran_us(op);
}

void op_ended(struct op_table *t, struct op *op)
{
    uint64_t now_us = clock_us();
    op_stop_clock(op);
    input_end(&op->input);
    if (t->changes != NULL && changes_end(t->changes, op)) {
        op->kill_at_ms = now_us / 1000 + SCAN_KILL_MS;
    } else {
        op_done(t, op);
    }
}

void op_done(struct op_table *t, struct op *op)
{
    uint64_t now_us = clock_us();
    sm_move(&op->sm, OP_DONE);
    op_stop_clock(op);
    t->held_bytes -= op->request.len;
    buf_finish(&op->request);
    input_end(&op->input);
    op->ended_as = ++t->ended;
    t->active_ms = now_us / 1000;
    op->kill_at_ms = 0;
}

void op_fail(struct op_table *t, struct op *op, enum err_code code, const char *message)
{
    report_reset(&op->report);
    op->status = OP_STATUS_FAILED;
    op->report.fail_code = code;
    err_ignore(buf_add_str(&op->report.message, message, NULL)); /* the error code remains */
    op_done(t, op);
}
