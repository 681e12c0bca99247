/* A supervisor dies and another one takes over the worker, or starts a new one. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "tests/unit/worker/driver.h"

#define WAITS (LIMIT_OPS / 2) /* waiting calls of one sandbox when a supervisor dies */

static struct msg make_join(const char *op, const char *language, uint64_t timeout_ms,
                            uint64_t wait_ms)
{
    struct msg m = make_start(op, "", timeout_ms, wait_ms);
    m.start.language = view_of(language);
    m.start.join = true;
    m.start.skip = true;
    return m;
}

static void expect_failed(struct driver *d, struct msg m, enum err_code code)
{
    struct answer a;
    driver_ask(d, &m, &a, MSG_FAILED);
    assert_int_equal(a.m.failed.code, code);
    answer_finish(&a);
}

/* Sends OPS; the answer is for op_info_of(). */
static void ask_ops(struct driver *d, struct answer *a)
{
    struct msg m = {.type = MSG_OPS};
    driver_ask(d, &m, a, MSG_OPS_OK);
}

/* The result borrows from the answer. */
static struct msg_op_info op_info_of(const struct answer *a, size_t i)
{
    struct msg m;
    struct err err = ERR_INIT;
    struct view item = a->m.ops_ok.ops.items[i];
    assert_true(i < a->m.ops_ok.ops.count);
    assert_int_equal(msg_decode(MSG_LINK_W, item.data, item.len, &m, &err), 0);
    assert_int_equal(m.type, MSG_OP_INFO);
    struct msg_op_info info = m.op_info;
    msg_finish(&m);
    return info;
}

/* Sends START without waiting. */
static void begin(struct driver *d, const char *op, const char *language, const char *script,
                  uint64_t timeout_ms)
{
    struct answer a;
    struct msg m = make_start(op, script, timeout_ms, 0);
    m.start.language = view_of(language);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
}

/* Waits until the end of an operation and returns its status. */
static uint64_t follow(struct driver *d, const char *op)
{
    for (;;) {
        struct answer a;
        struct msg m = make_wait(op, 0, 1000);
        driver_ask(d, &m, &a, MSG_OUTPUT);
        bool done = a.m.output.state == OP_DONE;
        uint64_t status = a.m.output.status;
        answer_finish(&a);
        if (done) {
            return status;
        }
    }
}

/* Requests arrive in order, so all earlier ones have arrived after this. */
static void ping(struct driver *d)
{
    struct answer a;
    struct msg m = {.type = MSG_PING};
    driver_ask(d, &m, &a, MSG_PONG);
    answer_finish(&a);
}

/* ---- the worker lives ----------------------------------------------------------------------- */

/* Each supervisor waits for other operations than the one before, because a repeated WAIT would end
 * the first one. */
static void supervisors_that_die_with_their_calls_leave_nothing_taken(void **state)
{
    struct driver *d = *state;
    struct answer waiting[WAITS];
    struct answer a;
    char ops[2 * WAITS][16];
    driver_start(d, 1);
    driver_open(d, "", false);
    for (size_t i = 0; i < 2 * WAITS; i++) {
        snprintf(ops[i], sizeof(ops[i]), "op%zu", i);
        begin(d, ops[i], "python", i == 0 ? "stubborn 60000" : "sleep 1", 0);
    }
    for (size_t life = 0; life < 10; life++) {
        for (size_t i = 0; i < WAITS; i++) {
            struct msg m = make_wait(ops[life % 2 * WAITS + i], 0, 20000);
            driver_send(d, &m, &waiting[i]);
        }
        ping(d);
        driver_succeed(d, 1);
        for (size_t i = 0; i < WAITS; i++) {
            assert_true(waiting[i].done && waiting[i].rc < 0);
            answer_finish(&waiting[i]);
        }
        driver_open(d, "", true);
        ask_ops(d, &a);
        assert_int_equal(a.m.ops_ok.ops.count, 2 * WAITS);
        answer_finish(&a);
    }
    struct msg kill = make_cancel("op0", true);
    driver_ask(d, &kill, &a, MSG_OK);
    answer_finish(&a);
    assert_int_equal(follow(d, "op0"), OP_STATUS_CANCELLED);
    assert_int_equal(follow(d, ops[2 * WAITS - 1]), OP_STATUS_OK);
    driver_close(d);
}

static void a_creation_goes_on_for_the_next_supervisor(void **state)
{
    struct driver *d = *state;
    struct answer lost, a;
    struct msg m = make_open("fault:create=slow:700", false);
    driver_start(d, 1);
    driver_send(d, &m, &lost);
    ping(d);
    driver_succeed(d, 1);
    assert_true(lost.done && lost.rc < 0);
    answer_finish(&lost);
    driver_open(d, "", true); /* joins the pending OPEN, whatever its arguments */
    driver_run(d, "op1", "echo x", 1000, &a, NULL);
    answer_finish(&a);
    driver_open(d, "", true); /* and gets the same answer again */
    driver_close(d);
}

static void a_removal_goes_on_and_the_next_supervisor_is_told_its_end(void **state)
{
    struct driver *d = *state;
    struct answer lost, first, second;
    struct msg bye = {.type = MSG_CLOSE};
    driver_start(d, 1);
    driver_open(d, "fault:destroy=slow:1500", false);
    driver_send(d, &bye, &lost);
    ping(d);
    driver_succeed(d, 1);
    assert_true(lost.done && lost.rc < 0);
    answer_finish(&lost);
    expect_failed(d, make_open("", true), ERR_SHUTTING_DOWN);
    expect_failed(d, (struct msg){.type = MSG_OPS}, ERR_SHUTTING_DOWN);
    driver_send(d, &bye, &first);
    driver_send(d, &bye, &second);
    driver_wait(d, &first, MSG_OK);
    driver_wait(d, &second, MSG_OK);
    answer_finish(&first);
    answer_finish(&second);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
}

static void a_join_begins_nothing(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    expect_failed(d, make_join("op1", "python", 1000, 1000), ERR_EXECUTION_NOT_FOUND);
    ask_ops(d, &a);
    assert_int_equal(a.m.ops_ok.ops.count, 0);
    answer_finish(&a);
    driver_run(d, "op1", "runs", 1000, &a, NULL);
    assert_true(view_is(a.m.output.out, "1"));
    answer_finish(&a);
    driver_close(d);
}

/* More of them than a worker keeps deadlines for. */
static void what_is_over_leaves_no_deadline(void **state)
{
    struct driver *d = *state;
    struct answer a;
    char op[2][16] = {"", ""};
    driver_start(d, 1);
    driver_open(d, "", false);
    for (int i = 0; i < 2 * LIMIT_OPS + 10; i++) {
        char *now = op[i % 2];
        struct view ack = view_of(op[(i + 1) % 2]);
        snprintf(now, sizeof(op[0]), "op%d", i);
        struct msg m = make_start(now, "echo x", 0, 1000);
        m.start.acks = (struct view_list){&ack, i > 0 ? 1 : 0};
        driver_ask(d, &m, &a, MSG_OUTPUT);
        answer_finish(&a);
        m = make_join(now, "python", 0, 1000);
        driver_ask(d, &m, &a, MSG_OUTPUT);
        assert_int_equal(a.m.output.state, OP_DONE);
        answer_finish(&a);
    }
    driver_close(d);
}

/* ---- the worker died as well ---------------------------------------------------------------- */

static void die_and_take_over(struct driver *d)
{
    driver_kill(d, SIGKILL);
    driver_unlisten(d);
    driver_listen(d);
    driver_start(d, 2);
    driver_open(d, "", true);
}

static void all_operations_are_told_and_can_be_joined(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "echo first", 1000, &a, NULL);
    answer_finish(&a);
    begin(d, "op2", "python", "sleep 900", 5000);
    begin(d, "op3", "python", "echo third", 0);
    begin(d, "op4", "bash", "sleep 60000", 7000);
    die_and_take_over(d);
    ask_ops(d, &a);
    assert_int_equal(a.m.ops_ok.ops.count, 4);
    assert_int_equal(a.m.ops_ok.evals, 4);
    static const struct {
        const char *op, *language;
        enum op_state state;
        uint64_t timeout_ms;
    } want[] = {{"op1", "python", OP_DONE, 1000},
                {"op2", "python", OP_RUNNING, 5000},
                {"op3", "python", OP_QUEUED, 0},
                {"op4", "bash", OP_RUNNING, 7000}};
    for (size_t i = 0; i < 4; i++) {
        struct msg_op_info info = op_info_of(&a, i);
        assert_true(view_is(info.op, want[i].op));
        assert_true(view_is(info.language, want[i].language));
        assert_int_equal(info.kind, OP_EVAL);
        assert_int_equal(info.state, want[i].state);
        assert_int_equal(info.timeout_ms, want[i].timeout_ms);
    }
    answer_finish(&a);
    struct msg m = make_join("op1", "python", 0, 20000);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_true(view_is(a.m.output.out, "first")); /* from its first byte */
    assert_int_equal(a.m.output.state, OP_DONE);
    answer_finish(&a);
    m = make_join("op2", "python", 0, 20000);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.state, OP_DONE);
    answer_finish(&a);
    assert_int_equal(follow(d, "op2"), OP_STATUS_OK);
    assert_int_equal(follow(d, "op3"), OP_STATUS_OK);
    driver_close(d);
}

static void what_is_joined_has_its_deadline_in_the_next_worker(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    begin(d, "op1", "python", "sleep 700", 0);
    begin(d, "op2", "python", "sleep 60000", 50000); /* queued after it */
    uint64_t begin_ms = clock_ms();
    begin(d, "op3", "bash", "stubborn 60000", 50000);
    die_and_take_over(d);
    static const char *const ops[][2] = {{"op1", "python"}, {"op2", "python"}, {"op3", "bash"}};
    for (size_t i = 0; i < 3; i++) {
        struct msg m = make_join(ops[i][0], ops[i][1], i == 0 ? 0 : 300, 20000);
        driver_ask(d, &m, &a, MSG_OUTPUT);
        answer_finish(&a);
    }
    assert_int_equal(follow(d, "op3"), OP_STATUS_TIMEOUT); /* interrupted, then killed */
    assert_true(clock_ms() - begin_ms >= 300 + TIME_INTERRUPT_MS);
    assert_int_equal(follow(d, "op1"), OP_STATUS_OK);
    assert_int_equal(follow(d, "op2"), OP_STATUS_TIMEOUT);
    driver_close(d);
}

static void a_deadline_counts_from_the_turn_of_what_is_joined(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    begin(d, "op1", "python", "sleep 1500", 0);
    begin(d, "op2", "python", "sleep 700", 50000);
    die_and_take_over(d);
    struct msg m = make_join("op2", "python", 1200, 0); /* less than the time until its turn */
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.state, OP_QUEUED);
    answer_finish(&a);
    assert_int_equal(follow(d, "op2"), OP_STATUS_OK);
    driver_close(d);
}

/* START is repeated to the next worker, and the time of what waits begins with its turn even so. */
static void what_lost_its_worker_in_the_queue_is_timed_from_its_turn(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    uint64_t begin_ms = clock_ms();
    begin(d, "op1", "python", "sleep 1500", 0);
    begin(d, "op2", "python", "sleep 60000", 300);
    die_and_take_over(d);
    struct msg m = make_start("op2", "sleep 60000", 300, 0); /* the same supervisor repeats it */
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.state, OP_QUEUED);
    assert_int_equal(a.m.output.duration_us, 0);
    answer_finish(&a);
    assert_int_equal(follow(d, "op1"), OP_STATUS_OK);
    assert_int_equal(follow(d, "op2"), OP_STATUS_TIMEOUT);
    assert_true(clock_ms() - begin_ms >= 1500 + 300);
    driver_close(d);
}

static void an_agent_that_tells_nonsense_loses_its_sandbox(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "forger", 1000, &a, NULL);
    answer_finish(&a);
    expect_failed(d, (struct msg){.type = MSG_OPS}, ERR_PROTOCOL);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_SANDBOX_GONE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(supervisors_that_die_with_their_calls_leave_nothing_taken),
        CASE(a_creation_goes_on_for_the_next_supervisor),
        CASE(a_removal_goes_on_and_the_next_supervisor_is_told_its_end),
        CASE(a_join_begins_nothing),
        CASE(what_is_over_leaves_no_deadline),
        CASE(all_operations_are_told_and_can_be_joined),
        CASE(what_is_joined_has_its_deadline_in_the_next_worker),
        CASE(a_deadline_counts_from_the_turn_of_what_is_joined),
        CASE(what_lost_its_worker_in_the_queue_is_timed_from_its_turn),
        CASE(an_agent_that_tells_nonsense_loses_its_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
