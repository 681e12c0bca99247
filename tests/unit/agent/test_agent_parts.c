/*
 * The parts of the agent that need no process: reports of hostile drivers, packed requests,
 * operations and their output.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "worker/agent/op.h"
#include "worker/agent/report.h"
#include "worker/agent/request.h"

/* ---- reports -----------------------------------------------------------------------------------
 */

static void put(struct buf *b, char kind, const char *text)
{
    assert_int_equal(report_put(b, kind, text, strlen(text), NULL), 0);
}

/* A good report of every kind that a run may have. */
static void good_report(struct buf *b)
{
    buf_init(b, 1 << 20);
    put(b, 'R', "result");
    put(b, 'N', "Name");
    put(b, 'M', "");
    put(b, 'T', "trace\nback");
    put(b, 'X', "3");
    put(b, 'D', "17");
}

static int feed_all(struct report *r, const uint8_t *data, size_t len, size_t step)
{
    for (size_t at = 0; at < len && !r->done;) {
        size_t n = len - at < step ? len - at : step;
        size_t used = 0;
        int rc = report_feed(r, data + at, n, &used, NULL);
        if (rc < 0) {
            return rc;
        }
        assert_true(used <= n);
        assert_true(used == n || r->done);
        at += used;
    }
    return 0;
}

static void test_report_in_any_pieces(void **state)
{
    struct buf b;
    good_report(&b);
    for (size_t step = 1; step <= b.len; step++) {
        struct report r;
        report_init(&r, REPORT_OF_RUN);
        assert_int_equal(feed_all(&r, b.data, b.len, step), 0);
        assert_true(r.done);
        assert_int_equal(r.run, 17);
        assert_true(r.has_result);
        assert_int_equal(r.result.len, 6);
        assert_memory_equal(r.traceback.data, "trace\nback", 10);
        assert_int_equal(r.message.len, 0);
        assert_int_equal(r.exit_code, 3);
        report_finish(&r);
    }
    buf_finish(&b);
}

static void test_report_stops_at_done(void **state)
{
    struct buf b;
    struct report r;
    size_t used = 0;
    good_report(&b);
    size_t len = b.len;
    put(&b, 'D', "18");
    report_init(&r, REPORT_OF_RUN);
    assert_int_equal(report_feed(&r, b.data, b.len, &used, NULL), 0);
    assert_int_equal(used, len);
    report_reset(&r);
    assert_false(r.has_result);
    assert_int_equal(report_feed(&r, b.data + used, b.len - used, &used, NULL), 0);
    assert_int_equal(r.run, 18);
    report_finish(&r);
    buf_finish(&b);
}

static void refuse(const char *allowed, const void *data, size_t len)
{
    struct report r;
    report_init(&r, allowed);
    assert_int_equal(feed_all(&r, data, len, len), -ERR_PROTOCOL);
    report_finish(&r);
}

#define REFUSE(allowed, text) refuse((allowed), (text), sizeof(text) - 1)

static void test_report_refuses(void **state)
{
    REFUSE(REPORT_OF_RUN, "Z00000001x");           /* unknown */
    REFUSE(REPORT_OF_RUN, "S000000011");           /* not of a run */
    REFUSE(REPORT_OF_FILE, "R00000001x");          /* not of a file */
    REFUSE(REPORT_OF_RUN, "R00000001xR00000001x"); /* twice */
    REFUSE(REPORT_OF_RUN, "Rffffffff");            /* too long */
    REFUSE(REPORT_OF_RUN, "R00040001");            /* one over the cap */
    REFUSE(REPORT_OF_RUN, "R0000000Gx");           /* no length */
    REFUSE(REPORT_OF_RUN, "R 0000001x");
    REFUSE(REPORT_OF_RUN, "X00000000");    /* no digits */
    REFUSE(REPORT_OF_RUN, "X00000003256"); /* no exit code */
    REFUSE(REPORT_OF_RUN, "X00000002-1");
    REFUSE(REPORT_OF_RUN, "D00000002 1");
    REFUSE(REPORT_OF_RUN, "D000000021\0");
    REFUSE(REPORT_OF_RUN, "D0000001499999999999999999999");
    REFUSE(REPORT_OF_RUN, "I00000001x");      /* has no content */
    REFUSE(REPORT_OF_FILE, "F0000000565535"); /* not one of our codes */
}

/* Every bit flip and every truncation of a good report: refused, or read without harm. */
static void test_report_mutations(void **state)
{
    struct buf b;
    good_report(&b);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        struct report r;
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        report_init(&r, REPORT_OF_RUN);
        int rc = feed_all(&r, b.data, b.len, 7);
        assert_true(rc == 0 || rc == -ERR_PROTOCOL);
        report_finish(&r);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t len = 0; len < b.len; len++) {
        struct report r;
        report_init(&r, REPORT_OF_RUN);
        assert_int_equal(feed_all(&r, b.data, len, 3), 0);
        assert_false(r.done);
        report_finish(&r);
    }
    buf_finish(&b);
}

/* ---- requests ----------------------------------------------------------------------------------
 */

static void test_request_round_trip(void **state)
{
    struct view args[] = {view_of("a"), view_of("")};
    struct view env[] = {view_of("K=v=w"), view_of("_X1=")};
    struct msg_start m = {.data = view_of("code"), .has_stdin = true, .stdin_data = view_of("in")};
    m.args = (struct view_list){args, 2};
    m.env = (struct view_list){env, 2};
    struct buf b;
    buf_init(&b, LIMIT_FRAME);
    assert_int_equal(request_pack(&m, &b, NULL), 0);
    struct request r;
    request_open(&b, &r);
    assert_true(view_is(r.code, "code"));
    assert_true(r.has_stdin);
    assert_true(view_is(r.stdin_data, "in"));
    assert_int_equal(r.arg_count, 2);
    assert_int_equal(r.env_count, 2);
    assert_true(view_is(request_next(&r), "a"));
    assert_true(view_is(request_next(&r), ""));
    assert_true(view_is(request_next(&r), "K=v=w"));
    assert_true(view_is(request_next(&r), "_X1="));
    assert_ptr_equal(r.rest, b.data + b.len);
    buf_finish(&b);
}

static void test_request_refuses(void **state)
{
    const struct view bad_env[] = {view_of("NOVALUE"), view_of("=x"), view_of("A B=x"),
                                   view_of("1A=x"),    view_of(""),   view_bytes("A=\0", 3)};
    for (size_t i = 0; i < sizeof(bad_env) / sizeof(bad_env[0]); i++) {
        struct msg_start m = {.env = {&bad_env[i], 1}};
        struct buf b;
        buf_init(&b, LIMIT_FRAME);
        assert_int_equal(request_pack(&m, &b, NULL), -ERR_INVALID);
        buf_finish(&b);
    }
    const struct view bad_arg = view_bytes("a\0b", 3);
    struct msg_start m = {.args = {&bad_arg, 1}};
    struct buf b;
    buf_init(&b, LIMIT_FRAME);
    assert_int_equal(request_pack(&m, &b, NULL), -ERR_INVALID);
    buf_finish(&b);
}

/* ---- operations --------------------------------------------------------------------------------
 */

static struct op *create(struct op_table *t, const char *id)
{
    struct op *op = NULL;
    assert_int_equal(op_create(t, view_of(id), OP_EVAL, &op, NULL), 0);
    return op;
}

static int ack(struct op *op, uint64_t out_from, uint64_t err_from)
{
    struct op_waiter w = {.out_from = out_from, .err_from = err_from};
    return op_ack(op, &w, false, NULL);
}

static void test_output_offsets(void **state)
{
    struct op_table t;
    op_table_init(&t);
    struct op *op = create(&t, "a");
    op_run(&t, op);
    assert_int_equal(op_stream_add(&op->out, "0123456789", 10, NULL), 0);
    assert_true(op_has_news(op, 0, 0));
    assert_false(op_has_news(op, 10, 0));
    assert_int_equal(ack(op, 4, 0), 0);
    assert_int_equal(ack(op, 4, 0), 0); /* asking again is fine */
    assert_int_equal(ack(op, 3, 0), 0); /* kept all the same */
    assert_int_equal(ack(op, 11, 0), -ERR_INVALID);
    assert_int_equal(ack(op, 4, 1), -ERR_INVALID);

    struct op_waiter w = {.seq = 9, .out_from = 6};
    struct msg m;
    op_output(op, &w, true, &m);
    assert_int_equal(m.seq, 9);
    assert_int_equal(m.output.state, OP_RUNNING);
    assert_true(view_is(m.output.out, "6789"));
    op_output(op, &w, false, &m);
    assert_int_equal(m.output.out.len, 0);

    op->status = OP_STATUS_OK;
    op_done(&t, op);
    op_output(op, &w, true, &m);
    assert_int_equal(m.output.state, OP_DONE);
    assert_int_equal(m.output.status, OP_STATUS_OK);
    assert_true(view_is(m.output.out, "6789"));
    op_output(op, &w, false, &m); /* not the last bytes: not done */
    assert_int_equal(m.output.state, OP_RUNNING);
    op_table_finish(&t);
}

static void test_output_in_chunks(void **state)
{
    struct op_table t;
    op_table_init(&t);
    struct op *op = create(&t, "a");
    op_run(&t, op);
    size_t size = LIMIT_CHUNK + 1000;
    char *data = alloc_array(size, 1);
    assert_int_equal(op_stream_room(&op->err), LIMIT_OP_OUTPUT);
    assert_int_equal(op_stream_add(&op->err, data, size, NULL), 0);
    assert_int_equal(op_stream_room(&op->err), 0);
    op_done(&t, op);
    struct op_waiter w = {0};
    struct msg m;
    op_output(op, &w, true, &m);
    assert_int_equal(m.output.err.len, LIMIT_CHUNK);
    assert_int_equal(m.output.state, OP_RUNNING); /* there is more */
    assert_int_equal(m.output.status, 0);
    w.err_from = LIMIT_CHUNK;
    assert_int_equal(ack(op, 0, LIMIT_CHUNK), 0);
    op_output(op, &w, true, &m);
    assert_int_equal(m.output.err.len, 1000);
    assert_int_equal(m.output.state, OP_DONE);
    free(data);
    op_table_finish(&t);
}

static void test_table_forgets_oldest_finished(void **state)
{
    struct op_table t;
    char id[16];
    op_table_init(&t);
    for (int i = 0; i < LIMIT_OPS; i++) {
        snprintf(id, sizeof(id), "op%d", i);
        op_run(&t, create(&t, id));
    }
    struct op *op = NULL;
    assert_int_equal(op_create(&t, view_of("more"), OP_EVAL, &op, NULL), -ERR_BUSY);
    op_done(&t, op_find(&t, view_of("op7")));
    op_done(&t, op_find(&t, view_of("op3")));
    create(&t, "more");
    assert_null(op_find(&t, view_of("op7"))); /* it finished first */
    assert_non_null(op_find(&t, view_of("op3")));
    assert_int_equal(t.started, LIMIT_OPS + 1);
    assert_int_equal(op_create(&t, view_of(""), OP_EVAL, &op, NULL), -ERR_INVALID);
    op_table_finish(&t);
}

static void test_waiting_requests_are_bounded(void **state)
{
    struct op_table t;
    op_table_init(&t);
    size_t size = 20u << 20;
    for (int i = 0; i < 2; i++) {
        struct op *op = create(&t, i == 0 ? "a" : "b");
        struct buf b;
        buf_init(&b, LIMIT_FRAME);
        assert_int_equal(buf_reserve(&b, size, NULL), 0);
        b.len = size; /* never read */
        assert_int_equal(op_hold_request(&t, op, &b, NULL), i == 0 ? 0 : -ERR_BUSY);
        buf_finish(&b);
    }
    op_forget(&t, op_find(&t, view_of("a")));
    assert_int_equal(t.held_bytes, 0);
    op_table_finish(&t);
}

static void test_turns_in_order(void **state)
{
    struct op_table t;
    struct interp *one = (struct interp *)(void *)&t; /* only compared */
    op_table_init(&t);
    for (int i = 0; i < 5; i++) {
        char id[16];
        snprintf(id, sizeof(id), "op%d", i);
        create(&t, id)->interp = i == 2 ? NULL : one;
    }
    op_forget(&t, op_find(&t, view_of("op0")));
    assert_string_equal(op_next(&t, one)->id, "op1");
    op_run(&t, op_next(&t, one));
    assert_string_equal(op_next(&t, one)->id, "op3");
    op_done(&t, op_next(&t, one)); /* cancelled before its turn */
    assert_string_equal(op_next(&t, one)->id, "op4");
    op_table_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_in_any_pieces),
        cmocka_unit_test(test_report_stops_at_done),
        cmocka_unit_test(test_report_refuses),
        cmocka_unit_test(test_report_mutations),
        cmocka_unit_test(test_request_round_trip),
        cmocka_unit_test(test_request_refuses),
        cmocka_unit_test(test_output_offsets),
        cmocka_unit_test(test_output_in_chunks),
        cmocka_unit_test(test_table_forgets_oldest_finished),
        cmocka_unit_test(test_waiting_requests_are_bounded),
        cmocka_unit_test(test_turns_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
