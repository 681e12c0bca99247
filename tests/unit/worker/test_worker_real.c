/* The worker with the real agent and a real interpreter, without a sandbox around them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "tests/unit/worker/driver.h"

static int setup(void **state)
{
    struct driver *d = alloc_one(struct driver);
    driver_init(d);
    d->agent = getenv("CLOISTER_AGENT");
    *state = d;
    return 0;
}

static int teardown(void **state)
{
    driver_finish(*state);
    free(*state);
    return 0;
}

static void expect_text(struct buf *out, const char *text)
{
    if (out->len != strlen(text) || memcmp(out->data, text, out->len) != 0) {
        fail_msg("\"%.*s\" instead of \"%s\"", (int)out->len, (const char *)out->data, text);
    }
    buf_reset(out, 0);
}

static void python_keeps_its_variables_and_tells_results(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    buf_init(&out, 1 << 20);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "x = 20\nprint('set')", 20000, &a, &out);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    assert_int_equal(a.m.output.interpreter, OP_INTERPRETER_FRESH);
    expect_text(&out, "set\n");
    answer_finish(&a);
    driver_run(d, "op2", "x + 22", 20000, &a, &out);
    assert_true(a.m.output.has_result);
    assert_true(view_is(a.m.output.result, "42"));
    assert_int_equal(a.m.output.interpreter, OP_INTERPRETER_KEPT);
    answer_finish(&a);
    driver_run(d, "op3", "1/0", 20000, &a, &out);
    assert_int_equal(a.m.output.status, OP_STATUS_ERROR);
    assert_true(view_is(a.m.output.error_name, "ZeroDivisionError"));
    answer_finish(&a);
    driver_close(d);
    buf_finish(&out);
}

static void a_deadline_interrupts_and_the_variables_stay(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "x = 7", 20000, &a, NULL);
    answer_finish(&a);
    driver_run(d, "op2", "import time\ntime.sleep(60)", 500, &a, NULL);
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    answer_finish(&a);
    driver_run(d, "op3", "x", 20000, &a, NULL);
    assert_true(view_is(a.m.output.result, "7"));
    answer_finish(&a);
    driver_close(d);
}

static void tell(struct driver *d, const char *op, uint64_t at, const char *text, bool eof)
{
    struct answer a;
    struct msg m = {.type = MSG_INPUT};
    m.input.op = view_of(op);
    m.input.at = at;
    m.input.data = view_of(text);
    m.input.eof = eof;
    driver_ask(d, &m, &a, MSG_INPUT_OK);
    assert_int_equal(a.m.input_ok.next, at + strlen(text));
    answer_finish(&a);
}

static void stdin_that_is_repeated_to_the_next_worker_arrives_once(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    struct msg m = make_start("op1", "import sys\nprint(sys.stdin.read())", 20000, 0);
    buf_init(&out, 1 << 20);
    driver_start(d, 1);
    driver_open(d, "", false);
    m.start.flags = OP_FLAG_STDIN_OPEN;
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    tell(d, "op1", 0, "one ", false);
    driver_replace(d, 2);
    tell(d, "op1", 0, "one ", false);
    tell(d, "op1", 4, "two", true);
    driver_run(d, "op1", "", 20000, &a, &out);
    expect_text(&out, "one two\n");
    answer_finish(&a);
    driver_close(d);
    buf_finish(&out);
}

static void a_call_and_its_output_survive_the_death_of_the_worker(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    static const char code[] = "import time\n"
                               "for i in range(20):\n"
                               "    print(i, flush=True)\n"
                               "    time.sleep(0.05)\n";
    struct msg m = make_start("op1", code, 20000, 5000);
    struct err err = ERR_INIT;
    buf_init(&out, 1 << 20);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(buf_add(&out, a.m.output.out.data, a.m.output.out.len, &err), 0);
    answer_finish(&a);
    m = make_wait("op1", out.len, 5000);
    driver_send(d, &m, &a); /* while this one runs */
    driver_kill(d, SIGKILL);
    driver_wait_flag(d, &a.done, "the loss of the call");
    if (a.rc == 0) {
        assert_int_equal(buf_add(&out, a.m.output.out.data, a.m.output.out.len, &err), 0);
    }
    answer_finish(&a);
    driver_wait_link(d, false);

    driver_start(d, 2);
    driver_open(d, "", true);
    m = make_start("op1", code, 20000, 5000);
    m.start.out_from = out.len;
    driver_ask(d, &m, &a, MSG_OUTPUT);
    while (a.m.output.state != OP_DONE) {
        assert_int_equal(buf_add(&out, a.m.output.out.data, a.m.output.out.len, &err), 0);
        answer_finish(&a);
        m = make_wait("op1", out.len, 5000);
        driver_ask(d, &m, &a, MSG_OUTPUT);
    }
    assert_int_equal(buf_add(&out, a.m.output.out.data, a.m.output.out.len, &err), 0);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    expect_text(&out, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n");
    driver_close(d);
    buf_finish(&out);
}

/* Output that was read from the agent and lost with the supervisor can be read again. */
static void output_and_outcome_survive_the_death_of_everybody_above(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    buf_init(&out, 1 << 20);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "x = 6\nprint('first')\nx * 7", 20000, &a, NULL);
    answer_finish(&a);
    struct msg m =
        make_start("op2", "import time\nprint('second', flush=True)\nwhile True: time.sleep(0.05)",
                   60000, 20000);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    uint64_t have = a.m.output.out.len;
    assert_true(have > 0);
    answer_finish(&a);
    m = make_wait("op2", have, 0); /* acknowledged */
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    driver_kill(d, SIGKILL);
    driver_unlisten(d);

    driver_listen(d);
    driver_start(d, 2);
    driver_open(d, "", true);
    m = (struct msg){.type = MSG_OPS};
    driver_ask(d, &m, &a, MSG_OPS_OK);
    assert_int_equal(a.m.ops_ok.ops.count, 2);
    assert_int_equal(a.m.ops_ok.evals, 2);
    answer_finish(&a);
    m = make_start("op1", "", 0, 5000);
    m.start.join = true;
    m.start.skip = true;
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_true(view_is(a.m.output.out, "first\n"));
    assert_true(view_is(a.m.output.result, "42"));
    answer_finish(&a);
    m.start.op = view_of("op2");
    m.start.timeout_ms = 300; /* the rest of its time, for a worker that does not know it */
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_true(view_is(a.m.output.out, "second\n"));
    assert_int_equal(a.m.output.state, OP_RUNNING);
    have = a.m.output.out.len;
    answer_finish(&a);
    m = make_wait("op2", have, 20000);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    assert_int_equal(a.m.output.interpreter, OP_INTERPRETER_KEPT);
    answer_finish(&a);
    driver_run(d, "op3", "x", 20000, &a, &out);
    assert_true(view_is(a.m.output.result, "6"));
    answer_finish(&a);
    driver_close(d);
    buf_finish(&out);
}

static void operations_on_one_interpreter_queue_and_each_has_its_own_time(void **state)
{
    struct driver *d = *state;
    struct answer first, a;
    struct msg m = make_start("op1", "import time\ntime.sleep(1)", 20000, 20000);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op0", "0", 20000, &a, NULL);
    answer_finish(&a);
    driver_send(d, &m, &first);
    driver_run(d, "op2", "time.sleep(0.3)\n5", 800, &a, NULL);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_wait(d, &first, MSG_OUTPUT);
    answer_finish(&first);
    driver_close(d);
}

static void files_are_written_and_read(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = {.type = MSG_START};
    driver_start(d, 1);
    driver_open(d, "", false);
    m.start.op = view_of("op1");
    m.start.kind = OP_FILE_WRITE;
    m.start.path = view_of("a/b.txt");
    m.start.data = view_of("content");
    m.start.timeout_ms = 20000;
    m.start.wait_ms = 20000;
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    m.start.op = view_of("op2");
    m.start.kind = OP_FILE_READ;
    m.start.data = view_of("");
    driver_ask(d, &m, &a, MSG_OUTPUT);
    while (a.m.output.state != OP_DONE && a.m.output.out.len == 0) {
        answer_finish(&a);
        struct msg wait = make_wait("op2", 0, 5000);
        driver_ask(d, &wait, &a, MSG_OUTPUT);
    }
    assert_true(view_is(a.m.output.out, "content"));
    answer_finish(&a);
    driver_close(d);
}

/* More than a socket takes at once. */
static void code_of_any_size_arrives_whole(void **state)
{
    struct driver *d = *state;
    static const size_t sizes[] = {10, 70000, 900000};
    driver_start(d, 1);
    driver_open(d, "", false);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct answer a;
        char op[16];
        char want[32];
        char *code = alloc_array(sizes[i] + 64, 1);
        int at = snprintf(code, 32, "sum(b\"");
        memset(code + at, 'a', sizes[i]);
        snprintf(code + (size_t)at + sizes[i], 32, "\")");
        snprintf(op, sizeof(op), "op%zu", i);
        snprintf(want, sizeof(want), "%zu", 97 * sizes[i]);
        driver_run(d, op, code, 20000, &a, NULL);
        assert_int_equal(a.m.output.status, OP_STATUS_OK);
        assert_true(view_is(a.m.output.result, want));
        answer_finish(&a);
        free(code);
    }
    driver_close(d);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(python_keeps_its_variables_and_tells_results),
        CASE(a_deadline_interrupts_and_the_variables_stay),
        CASE(stdin_that_is_repeated_to_the_next_worker_arrives_once),
        CASE(a_call_and_its_output_survive_the_death_of_the_worker),
        CASE(output_and_outcome_survive_the_death_of_everybody_above),
        CASE(operations_on_one_interpreter_queue_and_each_has_its_own_time),
        CASE(files_are_written_and_read),
        CASE(code_of_any_size_arrives_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
