/*
 * Operations as a worker uses them: executed exactly once, in order, resumable, with limits.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"

static struct msg ask(struct fixture *f, struct msg m)
{
    struct err err = ERR_INIT;
    struct msg reply;
    if (agent_ask(&f->link, &m, &reply, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return reply;
}

static struct msg ask_wait(struct fixture *f, const char *op, uint64_t out_from, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of(op);
    m.wait.out_from = out_from;
    m.wait.wait_ms = wait_ms;
    return ask(f, m);
}

static void starting_twice_runs_once(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python", "n = 0");
    struct msg_start s = agent_code(&f->link, "python", "n += 1\nprint('ran')\nn");
    const char *op = s.op.data;
    s.op = view_of(op);
    start_only(f, &s, 0);
    start_only(f, &s, 0);
    s.data = view_of("something else that is ignored");
    s.kind = 0;
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "ran\n");
    assert_string_equal(r->result, "1");
    s.out_from = strlen("ran\n");
    r = run_start(f, &s); /* after its end as well */
    assert_string_equal(r->out, "");
    assert_string_equal(r->result, "1");
    /* kept until it is acknowledged */
    struct view acks[] = {view_of(op), view_of("unknown")};
    struct msg_start next = agent_code(&f->link, "python", "n");
    next.acks = (struct view_list){acks, 2};
    r = run_start(f, &next);
    assert_string_equal(r->result, "1");
    struct msg reply = ask_wait(f, op, 0, 0);
    assert_int_equal(reply.type, MSG_FAILED);
    assert_int_equal(reply.failed.code, ERR_EXECUTION_NOT_FOUND);
}

static void a_link_lost_in_the_middle_costs_no_output(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "python",
                                    "import time\nfor i in range(2000):\n"
                                    "    print(i)\n    if i % 100 == 0: time.sleep(0.01)\n'end'");
    const char *op = s.op.data;
    char *all = alloc_array(1 << 20, 1);
    size_t len = 0;
    s.op = view_of(op);
    start_only(f, &s, 0);
    for (unsigned life = 2;; life++) {
        struct msg m = {.type = MSG_START};
        m.start = s;
        m.start.out_from = len;
        m.start.wait_ms = 1000;
        struct msg reply = ask(f, m);
        assert_int_equal(reply.type, MSG_OUTPUT);
        assert_int_equal(reply.output.out_from, len);
        memcpy(all + len, reply.output.out.data != NULL ? reply.output.out.data : "",
               reply.output.out.len);
        len += reply.output.out.len;
        if (reply.output.state == OP_DONE) {
            assert_true(view_is(reply.output.result, "'end'"));
            break;
        }
        if (life < 6) {
            reconnect(f, life);
        }
    }
    char *expected = alloc_array(1 << 20, 1);
    for (int i = 0, at = 0; i < 2000; i++) {
        at += snprintf(expected + at, 16, "%d\n", i);
    }
    assert_string_equal(all, expected);
    free(expected);
    free(all);
}

/* Code that runs until there is a file `go`. */
#define PYTHON_UNTIL_GO "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
#define BASH_UNTIL_GO   "until [ -e go ]; do sleep 0.01; done"

/* Makes that file without asking the agent, so without an operation of its own. */
static void let_go(const struct fixture *f)
{
    CLEANUP_FREE char *path = alloc_printf("%s/go", f->agent.workspace);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
}

static void code_of_an_interpreter_runs_in_order_and_others_go_on_beside_it(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "rm -f go");
    struct msg_start first = agent_code(&f->link, "python", PYTHON_UNTIL_GO "order = [1]");
    struct msg_start second = agent_code(&f->link, "python", "order.append(2)");
    struct msg_start third = agent_code(&f->link, "python", "order.append(3)");
    struct msg_start fourth = agent_code(&f->link, "python", "order");
    f->link.turns = 0;
    start_only(f, &first, 0);
    struct msg m = {.type = MSG_START};
    m.start = second;
    struct msg reply = ask(f, m);
    assert_int_equal(reply.output.state, OP_QUEUED);
    start_only(f, &third, 0);
    /* if another interpreter waited for this one, both would wait for ever */
    struct agent_result *r = run(f, "bash", "echo beside");
    assert_string_equal(r->out, "beside\n");
    assert_int_equal(f->link.turns, 0);
    start_only(f, &fourth, 0); /* while the first still runs, so that it waits, too */
    run(f, "bash", "touch go");
    r = follow(f, fourth.op.data);
    assert_string_equal(r->result, "[1, 2, 3]");
    assert_int_equal(f->link.turns, 3); /* of all but the first */
}

/* Waits for a RUNNING of this operation, and returns its ran_us. */
static uint64_t expect_running(struct fixture *f, const char *op, bool waited)
{
    struct msg m;
    struct err err = ERR_INIT;
    assert_int_equal(agent_receive(&f->link, &m, AGENT_CLIENT_WAIT_MS, &err), 0);
    assert_int_equal(m.type, MSG_RUNNING);
    assert_int_equal(m.seq, 0);
    assert_true(view_is(m.running.op, op));
    assert_int_equal(m.running.waited, waited);
    return m.running.ran_us;
}

static void what_runs_is_told_after_each_start_and_hello(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "rm -f go");
    struct msg_start first = agent_code(&f->link, "python", PYTHON_UNTIL_GO);
    struct msg_start second = agent_code(&f->link, "python", "time.sleep(0.1)");
    const char *op = first.op.data;
    const char *next = second.op.data;
    struct msg m = {.type = MSG_START};
    m.start = first;
    struct msg reply = ask(f, m);
    assert_int_equal(reply.output.state, OP_RUNNING);
    uint64_t ran_us = expect_running(f, op, false);
    assert_true(ran_us > TIME_RUNNING_MS * 1000 - 1000); /* clocks are read in ms */
    m.start = second;
    reply = ask(f, m);
    assert_int_equal(reply.output.state, OP_QUEUED);
    assert_int_equal(reply.output.duration_us, 0);

    reconnect(f, 10); /* this worker may be a new one */
    uint64_t later_us = expect_running(f, op, false);
    assert_true(later_us > ran_us);
    f->link.events = 0;
    m.start = first;
    m.start.join = true;
    reply = ask(f, m);
    assert_int_equal(f->link.events, 1);
    assert_string_equal(f->link.last_event, op);
    assert_true(f->link.last_ran_us > later_us);
    assert_true(reply.output.duration_us >= f->link.last_ran_us);
    reply = ask_wait(f, op, 0, 0); /* which tells it as well, by its answer */
    assert_true(reply.output.duration_us > f->link.last_ran_us);
    assert_int_equal(f->link.events, 1);

    f->link.turns = 0;
    let_go(f);
    assert_status(follow(f, next), OP_STATUS_OK);
    assert_int_equal(f->link.turns, 1);
    assert_string_equal(f->link.last_event, next);
    assert_true(f->link.last_waited && f->link.last_ran_us < f->r.last.duration_us);
    f->link.events = 0;
    reconnect(f, 11);
    ask(f, (struct msg){.type = MSG_STATUS}); /* nothing runs, so nothing is told */
    assert_int_equal(f->link.events, 0);
}

static void what_is_over_soon_is_not_told(void **state)
{
    struct fixture *f = fixture_of(state);
    uint64_t until_ms = clock_ms() + AGENT_CLIENT_WAIT_MS;
    unsigned short_ones = 0;
    for (int i = 0; i < 100 || short_ones == 0; i++) {
        if (clock_ms() > until_ms) {
            fail_msg("%u of %d runs were over soon", short_ones, i);
        }
        f->link.events = 0;
        if (run(f, "python", "1 + 1")->last.duration_us < TIME_RUNNING_MS * 1000 - 1000) {
            assert_int_equal(f->link.events, 0);
            short_ones++;
        }
    }
}

static void what_is_cancelled_before_its_turn_never_runs(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "rm -f go");
    run(f, "python", "touched = False");
    struct msg_start first = agent_code(&f->link, "python", PYTHON_UNTIL_GO);
    struct msg_start second = agent_code(&f->link, "python", "touched = True");
    const char *op = second.op.data;
    start_only(f, &first, 0);
    start_only(f, &second, 0);
    cancel(f, op, OP_STOP_CANCEL, false);
    struct agent_result *r = follow(f, op);
    assert_status(r, OP_STATUS_CANCELLED);
    assert_int_equal(r->last.duration_us, 0);
    run(f, "bash", "touch go");
    r = run(f, "python", "touched");
    assert_string_equal(r->result, "False");
    cancel(f, op, OP_STOP_CANCEL, true);         /* it has finished: no error */
    cancel(f, "unknown", OP_STOP_TIMEOUT, true); /* unknown: no error */
    r = follow(f, op);
    assert_status(r, OP_STATUS_CANCELLED);
}

static void what_ignores_its_interrupt_costs_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python", "lost = 1");
    struct msg_start s = agent_code(&f->link, "python",
                                    "import signal\nsignal.signal(signal.SIGINT, "
                                    "signal.SIG_IGN)\nprint('in')\nwhile True: pass");
    const char *op = s.op.data;
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    struct msg_start queued = agent_code(&f->link, "python", "'lost' in globals()");
    const char *after = queued.op.data;
    start_only(f, &queued, 0);
    cancel(f, op, OP_STOP_TIMEOUT, false);
    struct msg reply = ask_wait(f, op, 3, 100);
    assert_int_equal(reply.output.state, OP_RUNNING);
    cancel(f, op, OP_STOP_CANCEL, true); /* the first reason is kept */
    struct agent_result *r = follow(f, after);
    assert_string_equal(r->result, "False");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    struct err err = ERR_INIT;
    agent_result_finish(&f->r);
    assert_int_equal(agent_follow(&f->link, op, 3, 0, &f->r, &err), 0);
    assert_status(&f->r, OP_STATUS_TIMEOUT);
    assert_int_equal(f->r.last.exit_code, 128 + 9);
    assert_int_equal(f->r.last.interpreter, OP_INTERPRETER_RESTARTED);
}

static void a_deadline_holds_though_the_worker_does_nothing(void **state)
{
    struct fixture *f = fixture_of(state);
    /* nothing else ends it within AGENT_CLIENT_WAIT_MS */
    struct msg_start s = agent_code(&f->link, "bash", "trap '' INT; sleep 600");
    s.timeout_ms = 100;
    uint64_t before = clock_ms();
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_TIMEOUT);
    assert_true(clock_ms() - before >= 100 + TIME_INTERRUPT_MS + TIME_BACKSTOP_MS);
}

static void a_slow_reader_slows_the_writer(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "bash", "yes | head -c 20000000");
    const char *op = s.op.data;
    start_only(f, &s, 0);
    uint64_t until_ms = clock_ms() + AGENT_CLIENT_WAIT_MS;
    struct msg reply = ask_wait(f, op, 0, AGENT_CLIENT_WAIT_MS); /* it has begun to write */
    while (reply.output.out.len < LIMIT_CHUNK && reply.output.state == OP_RUNNING) {
        assert_true(clock_ms() < until_ms);
        pass_much(f);
        reply = ask_wait(f, op, 0, 0);
    }
    pass_much(f); /* it would have written everything by now, if nothing stopped it */
    reply = ask_wait(f, op, 0, 0);
    assert_int_equal(reply.output.state, OP_RUNNING);
    assert_int_equal(reply.output.out.len, LIMIT_CHUNK);
    uint64_t from = LIMIT_CHUNK;
    reply = ask_wait(f, op, from, 0);
    assert_true(reply.output.out.len < LIMIT_OP_OUTPUT + (128u << 10));
    reply = ask_wait(f, op, 1000, 0);
    assert_int_equal(reply.type, MSG_OUTPUT); /* the beginning is kept */
    assert_int_equal(reply.output.out.len, LIMIT_OP_KEPT - 1000);
    assert_true(reply.output.out.data[0] == 'y');
    ask_wait(f, op, from + 1, 0);
    reply = ask_wait(f, op, from, 0);
    assert_int_equal(reply.type, MSG_FAILED); /* acknowledged and forgotten */
    assert_int_equal(reply.failed.code, ERR_INVALID);
    from++;
    struct err err = ERR_INIT;
    agent_result_finish(&f->r);
    assert_int_equal(agent_follow(&f->link, op, from, 0, &f->r, &err), 0);
    assert_status(&f->r, OP_STATUS_OK);
    assert_int_equal(from + f->r.out_len, 20000000);
}

static void the_end_of_output_does_not_need_a_reader(void **state)
{
    struct fixture *f = fixture_of(state);
    /* more than the agent reads from a running program: the rest is in the pipe when it ends */
    struct msg_start s =
        agent_code(&f->link, "python", "import sys, threading\nn = sys.stdout.write('x' * 300000)");
    const char *op = s.op.data;
    start_only(f, &s, 0);
    struct agent_result *r = run(f, "python", "n"); /* the interpreter is idle again */
    assert_string_equal(r->result, "300000");
    r = follow(f, op);
    assert_int_equal(r->out_len, 300000);
}

static void a_second_wait_ends_the_first(void **state)
{
    struct fixture *f = fixture_of(state);
    struct err err = ERR_INIT;
    run(f, "bash", "rm -f go");
    struct msg_start s = agent_code(&f->link, "python", PYTHON_UNTIL_GO "print('x')");
    const char *op = s.op.data;
    start_only(f, &s, 0);
    struct msg first = {.type = MSG_WAIT};
    first.wait.op = view_of(op);
    first.wait.wait_ms = AGENT_CLIENT_WAIT_MS;
    struct msg second = first;
    assert_int_equal(agent_send_msg(&f->link, &first, &err), 0);
    assert_int_equal(agent_send_msg(&f->link, &second, &err), 0);
    struct msg reply;
    assert_int_equal(agent_receive_reply(&f->link, &reply, AGENT_CLIENT_WAIT_MS, &err), 0);
    assert_int_equal(reply.seq, first.seq);
    assert_int_equal(reply.output.out.len, 0);
    assert_int_equal(reply.output.state, OP_RUNNING);
    let_go(f);
    assert_int_equal(agent_receive_reply(&f->link, &reply, AGENT_CLIENT_WAIT_MS, &err), 0);
    assert_int_equal(reply.seq, second.seq);
    assert_true(view_is(reply.output.out, "x\n"));
}

static void a_wait_ends_before_its_operation(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "rm -f go");
    struct msg_start s = agent_code(&f->link, "bash", BASH_UNTIL_GO);
    const char *op = s.op.data;
    start_only(f, &s, 0);
    uint64_t before = clock_ms();
    struct msg reply = ask_wait(f, op, 0, 100);
    assert_true(clock_ms() - before >= 100);
    assert_int_equal(reply.output.state, OP_RUNNING);
    let_go(f);
    follow(f, op);
}

static void bad_requests_are_refused_and_say_why(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "cobol", "DISPLAY 'x'.");
    assert_int_equal(r->failed, ERR_LANGUAGE);
    assert_contains(r->result, "this sandbox has python"); /* the hint */
    assert_contains(r->result, " and bash");
    struct msg_start s = agent_code(&f->link, "python", "1");
    s.kind = 99;
    assert_int_equal(run_start(f, &s)->failed, ERR_INVALID);
    s = agent_code(&f->link, "python", "1");
    s.op = view_of("");
    assert_int_equal(run_start(f, &s)->failed, ERR_INVALID);
    struct view env = view_of("NOT AN ENTRY");
    s = agent_code(&f->link, "python", "1");
    s.env = (struct view_list){&env, 1};
    r = run_start(f, &s);
    assert_int_equal(r->failed, ERR_INVALID);
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = view_of("x");
    m.cancel.reason = 9;
    assert_int_equal(ask(f, m).type, MSG_FAILED);
    r = run(f, "python", "'fine'");
    assert_string_equal(r->result, "'fine'");
}

static void more_operations_than_allowed_are_refused(void **state)
{
    struct fixture *f = fixture_of(state);
    for (int i = 0; i < 3 * LIMIT_OPS; i++) {
        struct agent_result *r = run(f, "python", "1 + 1");
        assert_string_equal(r->result, "2");
    }
    struct msg_start s = agent_code(&f->link, "bash", "sleep 600");
    char ids[LIMIT_OPS + 1][16];
    struct err err = ERR_INIT;
    unsigned busy = 0;
    for (int i = 0; i <= LIMIT_OPS; i++) {
        snprintf(ids[i], sizeof(ids[i]), "many%d", i);
        struct msg m = {.type = MSG_START};
        struct msg reply;
        m.start = s;
        m.start.op = view_of(ids[i]);
        assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
        if (reply.type == MSG_FAILED) {
            assert_int_equal(reply.failed.code, ERR_BUSY);
            busy++;
        }
    }
    assert_int_equal(busy, 1);
    for (int i = 0; i <= LIMIT_OPS; i++) {
        cancel(f, ids[i], OP_STOP_CANCEL, true);
    }
    struct agent_result *r = run(f, "bash", "echo free");
    assert_string_equal(r->out, "free\n");
}

static bool is_gone(pid_t pid)
{
    uint64_t until = clock_ms() + AGENT_CLIENT_WAIT_MS;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    while (access(path, F_OK) == 0 && clock_ms() < until) {
        poll(NULL, 0, 5);
    }
    return access(path, F_OK) < 0;
}

/* Only the kernel or the machine's root can do that; even then no process may be left. */
static void without_its_keeper_no_process_is_left(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python",
        "import os, subprocess\nprint(os.getppid(), "
        "subprocess.Popen(['setsid', 'sleep', '600']).pid)");
    char *end = NULL;
    pid_t keeper = (pid_t)strtol(f->r.out, &end, 10);
    pid_t escaped = (pid_t)strtol(end, NULL, 10);
    struct msg_start s = agent_code(&f->link, "python", "print('in')\nwhile True: pass");
    const char *op = s.op.data;
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    assert_int_equal(kill(keeper, SIGKILL), 0);
    struct agent_result *r = follow(f, op);
    assert_status(r, OP_STATUS_CRASHED);
    assert_true(is_gone(escaped));
    r = run(f, "python", "'again'");
    assert_string_equal(r->result, "'again'");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
}

static void the_status_has_figures(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg reply = ask(f, (struct msg){.type = MSG_STATUS});
    assert_int_equal(reply.type, MSG_STATUS_OK);
    assert_true(reply.status_ok.ops_total > 0);
    assert_int_equal(reply.status_ok.ops_running, 0);
    assert_true(reply.status_ok.disk_bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_twice_runs_once),
        cmocka_unit_test(a_link_lost_in_the_middle_costs_no_output),
        cmocka_unit_test(code_of_an_interpreter_runs_in_order_and_others_go_on_beside_it),
        cmocka_unit_test(what_runs_is_told_after_each_start_and_hello),
        cmocka_unit_test(what_is_over_soon_is_not_told),
        cmocka_unit_test(what_is_cancelled_before_its_turn_never_runs),
        cmocka_unit_test(what_ignores_its_interrupt_costs_the_interpreter),
        cmocka_unit_test(a_deadline_holds_though_the_worker_does_nothing),
        cmocka_unit_test(a_slow_reader_slows_the_writer),
        cmocka_unit_test(the_end_of_output_does_not_need_a_reader),
        cmocka_unit_test(a_second_wait_ends_the_first),
        cmocka_unit_test(a_wait_ends_before_its_operation),
        cmocka_unit_test(bad_requests_are_refused_and_say_why),
        cmocka_unit_test(more_operations_than_allowed_are_refused),
        cmocka_unit_test(without_its_keeper_no_process_is_left),
        cmocka_unit_test(the_status_has_figures),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
