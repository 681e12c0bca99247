/*
 * The parts of the agent that need no interpreter: reports of hostile drivers, packed requests,
 * operations and their output, namespaces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "proto/outcome.h"
#include "worker/agent/link/report.h"
#include "worker/agent/link/request.h"
#include "worker/agent/process/ids.h"
#include "worker/agent/process/namespace.h"
#include "worker/agent/process/share.h"
#include "worker/agent/process/within.h"
#include "worker/agent/run/op.h"

/* ---- reports --------------------------------------------------------------------------------- */

static void put(struct buf *b, char kind, const char *text)
{
    assert_int_equal(report_put(b, kind, text, strlen(text), NULL), 0);
}

/* A valid report with every kind of record that a run may have. */
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

static void a_report_is_read_in_any_pieces(void **state)
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

static void a_report_ends_where_it_says(void **state)
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

static void a_bad_report_is_refused(void **state)
{
    REFUSE(REPORT_OF_RUN, "Z00000001x");           /* unknown kind */
    REFUSE(REPORT_OF_RUN, "S000000011");           /* not valid for a run */
    REFUSE(REPORT_OF_FILE, "R00000001x");          /* not valid for a file operation */
    REFUSE(REPORT_OF_RUN, "R00000001xR00000001x"); /* twice */
    REFUSE(REPORT_OF_RUN, "Rffffffff");            /* longer than any record */
    REFUSE(REPORT_OF_RUN, "R00040001");            /* one byte over the limit */
    REFUSE(REPORT_OF_RUN, "R0000000Gx");           /* malformed length */
    REFUSE(REPORT_OF_RUN, "R 0000001x");
    REFUSE(REPORT_OF_RUN, "X00000000");    /* the content must be digits */
    REFUSE(REPORT_OF_RUN, "X00000003256"); /* out of range as an exit code */
    REFUSE(REPORT_OF_RUN, "X00000002-1");
    REFUSE(REPORT_OF_RUN, "D00000002 1");
    REFUSE(REPORT_OF_RUN, "D000000021\0");
    REFUSE(REPORT_OF_RUN, "D0000001499999999999999999999");
    REFUSE(REPORT_OF_RUN, "I00000001x"); /* must be empty */
    char gap[256];
    memset(gap, '\n', sizeof(gap));
    refuse(REPORT_OF_RUN, gap, sizeof(gap));  /* nothing, for ever */
    REFUSE(REPORT_OF_FILE, "F0000000565535"); /* not an error code of ours */
}

static void displays_in_a_report_are_read_up_to_a_limit(void **state)
{
    struct buf b;
    struct report r;
    struct view items[LIMIT_DISPLAYS];
    struct err err = ERR_INIT;
    buf_init(&b, 1 << 20);
    put(&b, 'V', "1\nimage/png\n12\n/tmp/d/0001-1.png");
    put(&b, 'V', "1\ntext/plain\n9223372036854775807\n/tmp/d/0001-1.txt");
    put(&b, 'V', "7\napplication/vnd.a-b+json\n0\n/x");
    put(&b, 'D', "1");
    report_init(&r, REPORT_OF_RUN);
    assert_int_equal(feed_all(&r, b.data, b.len, 5), 0);
    struct view_list list = framed_list(&r.displays, items, LIMIT_DISPLAYS);
    assert_int_equal(list.count, 3);
    assert_int_equal(outcome_check_displays(list, &err), 0);
    struct msg m;
    assert_int_equal(msg_decode(MSG_LINK_A, items[1].data, items[1].len, &m, &err), 0);
    assert_int_equal(m.display.number, 1);
    assert_int_equal(m.display.size, INT64_MAX);
    assert_true(view_is(m.display.mime, "text/plain"));
    assert_true(view_is(m.display.path, "/tmp/d/0001-1.txt"));
    msg_finish(&m);
    report_reset(&r);
    assert_int_equal(framed_list(&r.displays, items, LIMIT_DISPLAYS).count, 0);

    /* as many displays as are allowed, and one more */
    buf_reset(&b, 0);
    for (size_t i = 0; i < LIMIT_DISPLAYS; i++) {
        put(&b, 'V', "4294967295\na/b\n1\n/y");
    }
    assert_int_equal(feed_all(&r, b.data, b.len, 64), 0);
    assert_int_equal(framed_list(&r.displays, items, LIMIT_DISPLAYS).count, LIMIT_DISPLAYS);
    buf_reset(&b, 0);
    put(&b, 'V', "4294967295\na/b\n1\n/y");
    assert_int_equal(feed_all(&r, b.data, b.len, 64), -ERR_PROTOCOL);
    report_finish(&r);

    static const char *const bad[] = {
        "",
        "1",
        "1\nimage/png\n12\n",              /* path missing */
        "1\nimage/png\n12\ntmp/a",         /* relative path */
        "1\nimage/png\n12\n/tmp/a\nb",     /* trailing text after the path */
        "1\nimage/png\n12\n/tmp/\303\244", /* path is not ASCII */
        "1\nimage/png\n-1\n/tmp/a",        /* invalid size */
        "1\nimage/png\n\n/tmp/a",
        "1\nimage/PNG\n1\n/tmp/a", /* invalid type */
        "1\nimage\n1\n/tmp/a",
        "1\nimage/\n1\n/tmp/a",
        "1\na/b/c\n1\n/tmp/a",
        "1\nimage/png; x\n1\n/tmp/a",
        "0\nimage/png\n1\n/tmp/a", /* invalid number */
        "4294967296\nimage/png\n1\n/tmp/a",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        buf_reset(&b, 0);
        put(&b, 'V', bad[i]);
        refuse(REPORT_OF_RUN, b.data, b.len);
    }
    buf_reset(&b, 0);
    put(&b, 'V', "2\nimage/png\n1\n/tmp/a");
    put(&b, 'V', "1\nimage/png\n1\n/tmp/a"); /* numbers must not decrease */
    refuse(REPORT_OF_RUN, b.data, b.len);
    buf_finish(&b);
}

/* Every bit flip and every truncation of a valid report: refused, or read without harm. */
static void a_damaged_report_does_no_harm(void **state)
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

/* ---- requests -------------------------------------------------------------------------------- */

static void a_request_arrives_as_it_was_sent(void **state)
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

/* Code, arguments and environment are the same afterwards, and only open stdin is still said. */
static void a_request_without_stdin_keeps_all_else(void **state)
{
    const struct {
        const char *input;
        uint32_t flags;
        uint8_t kind;
    } cases[] = {{"input", 0, 0}, {"", 0, 0}, {NULL, 0, 0}, {NULL, OP_FLAG_STDIN_OPEN, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct view arg = view_of("a");
        struct view env = view_of("K=v");
        const struct msg_start m = {
            .data = view_of("code"),
            .has_stdin = cases[i].input != NULL,
            .stdin_data = view_of(cases[i].input),
            .flags = cases[i].flags,
            .args = {&arg, 1},
            .env = {&env, 1},
        };
        static const char fields[] = "\0\0\0\1\0\0\0\1\0\0\0\4code\0\0\0\1a\0\0\0\3K=v";
        struct buf b;
        buf_init(&b, LIMIT_FRAME);
        assert_int_equal(request_pack(&m, &b, NULL), 0);
        request_set_run(&b, 7);
        request_drop_stdin(&b);
        const uint8_t head[] = {0, 0, 0, 5 + sizeof(fields) - 1, 0, 0, 0, 7, cases[i].kind};
        assert_int_equal(b.len, sizeof(head) + sizeof(fields) - 1);
        assert_memory_equal(b.data, head, sizeof(head));
        assert_memory_equal(b.data + sizeof(head), fields, sizeof(fields) - 1);
        buf_finish(&b);
    }
}

static void a_bad_request_is_refused(void **state)
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

/* ---- operations ------------------------------------------------------------------------------ */

static struct op *create(struct op_table *t, const char *id)
{
    struct op *op = NULL;
    assert_int_equal(op_create(t, view_of(id), OP_EVAL, &op, NULL), 0);
    return op;
}

static void an_operation_makes_declared_moves_only(void **state)
{
    static const uint32_t allowed[OP_STATES] = {
        [0] = SM_BIT(OP_QUEUED),
        [OP_QUEUED] = SM_BIT(OP_RUNNING) | SM_BIT(OP_DONE), /* DONE: cancelled, or no interpreter */
        [OP_RUNNING] = SM_BIT(OP_DONE),
        [OP_DONE] = 0,
    };
    for (unsigned from = 0; from < OP_STATES; from++) {
        struct sm sm;
        sm_init(&sm, op_states, OP_STATES, from);
        assert_true(strlen(sm_name(&sm)) > 0);
        for (unsigned to = 0; to < 32; to++) {
            assert_int_equal(sm_may(&sm, to), (allowed[from] & SM_BIT(to)) != 0);
        }
    }
}

static int ack(struct op *op, uint64_t out_from, uint64_t err_from)
{
    struct op_waiter w = {.out_from = out_from, .err_from = err_from};
    return op_ack(op, &w, false, NULL);
}

static struct op_lists lists; /* lists of the OUTPUT that was filled last */

static void output_is_kept_from_what_was_acknowledged(void **state)
{
    struct op_table t;
    op_table_init(&t);
    struct op *op = create(&t, "a");
    op_run(&t, op);
    assert_int_equal(op_stream_add(&op->out, "0123456789", 10, NULL), 0);
    assert_true(op_has_progress(op, 0, 0));
    assert_false(op_has_progress(op, 10, 0));
    assert_int_equal(ack(op, 4, 0), 0);
    assert_int_equal(ack(op, 4, 0), 0); /* acknowledging again is no error */
    assert_int_equal(ack(op, 3, 0), 0); /* kept anyway */
    assert_int_equal(ack(op, 11, 0), -ERR_INVALID);
    assert_int_equal(ack(op, 4, 1), -ERR_INVALID);

    struct op_waiter w = {.seq = 9, .out_from = 6};
    struct msg m;
    op_output(op, &w, true, &lists, &m);
    assert_int_equal(m.seq, 9);
    assert_int_equal(m.output.state, OP_RUNNING);
    assert_true(view_is(m.output.out, "6789"));
    op_output(op, &w, false, &lists, &m);
    assert_int_equal(m.output.out.len, 0);

    op->status = OP_STATUS_OK;
    op_done(&t, op);
    op_output(op, &w, true, &lists, &m);
    assert_int_equal(m.output.state, OP_DONE);
    assert_int_equal(m.output.status, OP_STATUS_OK);
    assert_true(view_is(m.output.out, "6789"));
    op_output(op, &w, false, &lists, &m); /* without the last bytes: not done */
    assert_int_equal(m.output.state, OP_RUNNING);
    op_table_finish(&t);
}

static void large_output_is_given_in_chunks(void **state)
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
    op_output(op, &w, true, &lists, &m);
    assert_int_equal(m.output.err.len, LIMIT_CHUNK);
    assert_int_equal(m.output.state, OP_RUNNING); /* there is more output */
    assert_int_equal(m.output.status, 0);
    w.err_from = LIMIT_CHUNK;
    assert_int_equal(ack(op, 0, LIMIT_CHUNK), 0);
    op_output(op, &w, true, &lists, &m);
    assert_int_equal(m.output.err.len, 1000);
    assert_int_equal(m.output.state, OP_DONE);
    free(data);
    op_table_finish(&t);
}

/* Sends one of these, which is far longer than the kept head and tail together, in pieces of odd
 * sizes. */
static void the_beginning_and_the_end_of_output_are_kept(void **state)
{
    const size_t kinds[] = {OP_EVAL, OP_FILE_READ};
    const size_t size = 5u * LIMIT_OP_KEPT + 77;
    char *data = alloc_array(size, 1);
    for (size_t i = 0; i < size; i++) {
        data[i] = (char)(i * 31 + i / 251);
    }
    for (size_t k = 0; k < 2; k++) {
        struct op_table t;
        struct op *op = NULL;
        struct msg m;
        op_table_init(&t);
        assert_int_equal(op_create(&t, view_of("a"), (enum op_kind)kinds[k], &op, NULL), 0);
        op_run(&t, op);
        for (size_t at = 0, step = 1; at < size; at += step, step = step * 7 % 60013) {
            step = size - at < step ? size - at : step;
            assert_int_equal(op_stream_add(&op->out, data + at, step, NULL), 0);
            struct op_waiter w = {.out_from = at};
            assert_int_equal(op_ack(op, &w, false, NULL), 0);
            assert_int_equal(w.out_from, at);
            op_output(op, &w, true, &lists, &m); /* the bytes just written */
            assert_true(m.output.out.len > 0 && m.output.out.len <= step);
            assert_memory_equal(m.output.out.data, data + at, m.output.out.len);
            assert_int_equal(op_stream_room(&op->out), LIMIT_OP_OUTPUT - step);
        }
        assert_int_equal(ack(op, size, 0), 0);
        op_done(&t, op);
        size_t kept = kinds[k] == OP_EVAL ? LIMIT_OP_KEPT : 0;
        const size_t asked[] = {0, 1, kept / 2, kept - (kept > 0), kept, kept + 1, size - 1, size};
        for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
            struct op_waiter w = {.out_from = asked[i]};
            bool there = asked[i] < kept || asked[i] == size;
            assert_int_equal(op_ack(op, &w, false, NULL), there ? 0 : -ERR_INVALID);
            assert_int_equal(op_ack(op, &w, true, NULL), 0);
            assert_int_equal(w.out_from, there ? asked[i] : size);
            op_output(op, &w, true, &lists, &m);
            assert_int_equal(m.output.out.len, asked[i] < kept ? kept - asked[i] : 0);
            if (m.output.out.len > 0) {
                assert_memory_equal(m.output.out.data, data + asked[i], m.output.out.len);
            }
            /* the outcome comes only with the last bytes */
            assert_int_equal(m.output.state, asked[i] < kept ? OP_RUNNING : OP_DONE);
        }
        struct op_waiter far = {.out_from = size + 1};
        assert_int_equal(op_ack(op, &far, true, NULL), -ERR_INVALID);
        op_table_finish(&t);
    }
    free(data);
}

static void unacknowledged_output_is_bounded(void **state)
{
    struct op_table t;
    op_table_init(&t);
    struct op *op = create(&t, "a");
    op_run(&t, op);
    size_t most = LIMIT_OP_OUTPUT + OP_TAIL_MAX;
    char *data = alloc_array(most + 1, 1);
    assert_int_equal(op_stream_add(&op->out, data, most + 1, NULL), -ERR_TOO_BIG);
    assert_true(op_has_progress(op, 0, 0) == false); /* all of it or nothing */
    assert_int_equal(op_stream_add(&op->out, data, most, NULL), 0);
    assert_int_equal(op_stream_add(&op->out, data, 1, NULL), -ERR_TOO_BIG);
    assert_int_equal(ack(op, 5, 0), 0);
    assert_int_equal(op_stream_add(&op->out, data, 5, NULL), 0);
    assert_int_equal(op_stream_add(&op->out, data, 1, NULL), -ERR_TOO_BIG);
    free(data);
    op_table_finish(&t);
}

static void a_refused_start_counts_for_nothing(void **state)
{
    struct op_table t;
    op_table_init(&t);
    create(&t, "a");
    op_refuse(&t, create(&t, "b"));
    assert_int_equal(t.started, 1);
    assert_int_equal(t.evals, 1);
    assert_int_equal(t.count, 1);
    op_table_finish(&t);
}

static void the_oldest_finished_operation_is_forgotten_first(void **state)
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
    assert_null(op_find(&t, view_of("op7"))); /* it has ended first */
    assert_non_null(op_find(&t, view_of("op3")));
    assert_int_equal(t.started, LIMIT_OPS + 1);
    assert_int_equal(op_create(&t, view_of(""), OP_EVAL, &op, NULL), -ERR_INVALID);
    op_table_finish(&t);
}

static void waiting_requests_are_bounded(void **state)
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

static void turns_come_in_the_order_of_starts(void **state)
{
    struct op_table t;
    struct interp *one = (struct interp *)(void *)&t; /* only compared, never dereferenced */
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
    op_done(&t, op_next(&t, one)); /* cancelled while queued */
    assert_string_equal(op_next(&t, one)->id, "op4");
    op_table_finish(&t);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static const char *write_map(char path[64], const char *text)
{
    snprintf(path, 64, "/tmp/cloister-map-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void user_code_gets_an_id_that_the_container_has(void **state)
{
    (void)state;
    char all[64], few[64], gaps[64];
    write_map(all, "         0          0 4294967295\n");
    write_map(few, "         0     100000      65536\n");
    write_map(gaps, "0 100000 1000\n2000000000 5000 147483647\n");
    assert_int_equal(ids_fit(all, all, 2013265999u), 2013265999u);
    assert_int_equal(ids_fit(gaps, all, 2013265999u), 2013265999u);
    assert_int_equal(ids_fit("/no/such/map", "/no/such/map", 2013265999u), 2013265999u);
    uint32_t one = ids_fit(few, few, 2013265999u), other = ids_fit(few, few, 2013266000u);
    assert_true(one >= 20000 && one < 60000 && other >= 20000 && other < 60000 && one != other);
    assert_int_equal(ids_fit(all, few, 2013265999u), one);
    assert_int_equal(ids_fit(few, few, 1000), 1000);
    assert_true(ids_has(gaps, 999) && !ids_has(gaps, 1000) && ids_has(gaps, 2000000000u));
    unlink(all);
    unlink(few);
    unlink(gaps);
}

struct refusal {
    const char *words[12];
    int code;
    const char *text;
};

/* Requires that a part of the agent that is run by a command line refuses each of these. */
static void refuses(int (*run)(int argc, char **argv, struct err *err), const struct refusal *rows,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *argv[13] = {NULL};
        int argc = 0;
        struct err err = ERR_INIT;
        for (; argc < 12 && rows[i].words[argc] != NULL; argc++) {
            argv[argc] = (char *)(uintptr_t)rows[i].words[argc];
        }
        assert_int_equal(run(argc, argv, &err), rows[i].code);
        if (strstr(err.text, rows[i].text) == NULL) {
            fail_msg("row %zu: %s", i, err.text);
        }
    }
}

/* What it mounts is in tests/integration/test_share.py; nothing is when its words are wrong. */
static void a_share_that_cannot_be_is_refused(void **state)
{
    static const struct refusal rows[] = {
        {{"--at", "/tmp", "--notes", "/n"}, EXIT_CODE_USAGE, "-- with a command"},
        {{"--at", "/tmp", "--", "/bin/true"}, EXIT_CODE_USAGE, "--notes"},
        {{"--what", "x", "--", "/bin/true"}, EXIT_CODE_USAGE, "no such option"},
        {{"--uid", "4294967295", "--", "/bin/true"}, EXIT_CODE_USAGE, ""},
        {{"--ro", "data", "--", "/bin/true"}, EXIT_CODE_USAGE, "NAME=/path"},
        {{"--rw", "=/srv", "--", "/bin/true"}, EXIT_CODE_USAGE, "NAME=/path"},
        {{"--ro", "data=srv", "--", "/bin/true"}, EXIT_CODE_USAGE, "NAME=/path"},
        {{"--at", "/tmp", "--notes", "/n", "--ro", "data=/no/such", "--", "/bin/true"},
         EXIT_CODE_SETUP,
         "share data: cannot open /no/such"},
        {{"--at", "/tmp", "--notes", "/n", "--rw", "me=/proc/self/cwd", "--", "/bin/true"},
         EXIT_CODE_SETUP,
         "share me: a symbolic link is in"},
    };
    (void)state;
    refuses(share_run, rows, sizeof(rows) / sizeof(rows[0]));
}

/* The helper of a network is run by a command line as well. */
static void a_helper_needs_a_process_and_a_command(void **state)
{
    static const struct refusal rows[] = {
        {{"--pid", "1", "--"}, EXIT_CODE_USAGE, "-- with a command"},
        {{"--pid", "1", "/bin/true", "--"}, EXIT_CODE_USAGE, "-- with a command"},
        {{"--pid", "0", "--", "/bin/true"}, EXIT_CODE_USAGE, "--pid"},
        {{"--pid", "-5", "--", "/bin/true"}, EXIT_CODE_USAGE, "--pid"},
        {{"--pid", "1/../self", "--", "/bin/true"}, EXIT_CODE_USAGE, "--pid"},
        {{"--pid", "2147483647", "--", "/bin/true"}, EXIT_CODE_SETUP, "/proc/2147483647/ns/user"},
    };
    (void)state;
    refuses(within_run, rows, sizeof(rows) / sizeof(rows[0]));
}

static bool write_text(pid_t pid, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* In a child: enters the namespace of the process, and looks at what it is then. */
static void become_root_there(pid_t pid)
{
    const gid_t group = 4711;
    struct err err = ERR_INIT;
    bool own = true;
    int fd = -1;
    bool good = setgroups(1, &group) == 0 &&
                namespace_open((uint64_t)pid, "user", &fd, &own, &err) == 0 && !own &&
                namespace_enter_user(fd, true, &err) == 0 && getgroups(0, NULL) == 0 &&
                geteuid() == 0;
    _exit(good ? 0 : 1);
}

static void who_enters_a_user_namespace_gives_up_its_groups(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    bool own = false;
    int ends[2], fd = -1, status = -1;
    char ready = 'n';
    assert_int_equal(namespace_open((uint64_t)getpid(), "user", &fd, &own, &err), 0);
    assert_true(own);
    close(fd);
    assert_int_equal(pipe(ends), 0);
    pid_t there = fork();
    if (there == 0) {
        ready = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
        (void)!write(ends[1], &ready, 1);
        pause();
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    if (geteuid() == 0 && ready == 'y' && write_text(there, "uid_map", "0 0 1") &&
        write_text(there, "gid_map", "0 0 1")) {
        pid_t child = fork();
        if (child == 0) {
            become_root_there(there);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    } else { /* only root has groups to give up */
        status = 0;
    }
    kill(there, SIGKILL);
    waitpid(there, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_read_in_any_pieces),
        cmocka_unit_test(a_report_ends_where_it_says),
        cmocka_unit_test(a_bad_report_is_refused),
        cmocka_unit_test(displays_in_a_report_are_read_up_to_a_limit),
        cmocka_unit_test(a_damaged_report_does_no_harm),
        cmocka_unit_test(a_request_arrives_as_it_was_sent),
        cmocka_unit_test(a_request_without_stdin_keeps_all_else),
        cmocka_unit_test(a_bad_request_is_refused),
        cmocka_unit_test(an_operation_makes_declared_moves_only),
        cmocka_unit_test(output_is_kept_from_what_was_acknowledged),
        cmocka_unit_test(large_output_is_given_in_chunks),
        cmocka_unit_test(the_beginning_and_the_end_of_output_are_kept),
        cmocka_unit_test(unacknowledged_output_is_bounded),
        cmocka_unit_test(a_refused_start_counts_for_nothing),
        cmocka_unit_test(the_oldest_finished_operation_is_forgotten_first),
        cmocka_unit_test(waiting_requests_are_bounded),
        cmocka_unit_test(turns_come_in_the_order_of_starts),
        cmocka_unit_test(user_code_gets_an_id_that_the_container_has),
        cmocka_unit_test(a_share_that_cannot_be_is_refused),
        cmocka_unit_test(a_helper_needs_a_process_and_a_command),
        cmocka_unit_test(who_enters_a_user_namespace_gives_up_its_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
