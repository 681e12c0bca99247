/* Everything that can fail around a worker: lost streams, hostile agents, dead workers, dead
 * supervisors. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/lib/ipc_ask.h"
#include "tests/unit/worker/driver.h"

/* Keeps the log of the next worker, for log_has(). */
static void keep_log(struct driver *d)
{
    d->log = memfd_create("log", MFD_CLOEXEC);
    assert_true(d->log >= 0);
    setenv("TEST_LOG_LEVEL", "warn", 1);
}

/* Whether the log contains the text; it is dropped. */
static bool log_has(struct driver *d, const char *text)
{
    char log[4096];
    ssize_t n = pread(d->log, log, sizeof(log) - 1, 0);
    assert_true(n >= 0);
    log[n] = '\0';
    close(d->log);
    d->log = STDERR_FILENO;
    unsetenv("TEST_LOG_LEVEL");
    return strstr(log, text) != NULL;
}

static void wait_agent_gone(struct driver *d)
{
    uint64_t end = clock_ms() + 10000;
    while (driver_agent_runs(d) && clock_ms() < end) {
        driver_idle(d, 10);
    }
    assert_false(driver_agent_runs(d));
}

/* Requires that OPEN fails with this code, and the worker ends with this exit code. */
static void open_fails(struct driver *d, struct msg m, enum err_code code, int exit_code)
{
    struct answer a;
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_FAILED);
    if (a.m.failed.code != code) {
        fail_msg("%d: %.*s", (int)a.m.failed.code, VIEW_ARG(a.m.failed.message));
    }
    answer_finish(&a);
    assert_int_equal(driver_wait_exit(d), exit_code);
    driver_wait_link(d, false);
    wait_agent_gone(d);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void what_cannot_be_created_is_reported(void **state)
{
    struct driver *d = *state;
    struct msg m = make_open("", false);
    open_fails(d, make_open("fault:create=fail", false), ERR_ENGINE, EXIT_CODE_SETUP);
    open_fails(d, make_open("fault:agent=none", false), ERR_ENGINE, EXIT_CODE_SANDBOX_GONE);
    open_fails(d, make_open("fault:stream=garbage", false), ERR_ENGINE, EXIT_CODE_SANDBOX_GONE);
    m.open.backend = view_of("nonsense");
    open_fails(d, m, ERR_ENGINE, EXIT_CODE_SETUP);
    m = make_open("", false);
    m.open.strict = true;
    open_fails(d, m, ERR_ENGINE, EXIT_CODE_SETUP);
}

static void nothing_can_be_taken_over_where_nothing_is(void **state)
{
    open_fails(*state, make_open("", true), ERR_GONE, EXIT_CODE_SANDBOX_GONE);
}

static void an_agent_that_says_a_wrong_hello_is_not_used(void **state)
{
    struct driver *d = *state;
    static const char *const faults[] = {"FAKE_HELLO=version", "FAKE_HELLO=garbage"};
    for (size_t i = 0; i < 2; i++) {
        struct view env = view_of(faults[i]);
        struct msg m = make_open("", false);
        m.open.env.items = &env;
        m.open.env.count = 1;
        open_fails(d, m, ERR_ENGINE, EXIT_CODE_SANDBOX_GONE);
    }
}

/* As when there are no descriptors for a moment: it cannot say yet which languages there are. */
static void an_agent_that_is_not_ready_yet_is_asked_again(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct view env = view_of("FAKE_HELLO=later");
    struct msg m = make_open("", false);
    m.open.env = (struct view_list){&env, 1};
    keep_log(d);
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_OPENED);
    assert_int_equal(a.m.opened.languages.count, 2);
    answer_finish(&a);
    driver_close(d);
    driver_wait_link(d, false);
    assert_true(log_has(d, "not ready: cannot look for python3: Too many open files"));
}

static void what_an_agent_without_languages_has_looked_at_is_passed_on(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct view env = view_of("FAKE_HELLO=mute");
    struct msg m = make_open("", false);
    m.open.env = (struct view_list){&env, 1};
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_OPENED);
    assert_int_equal(a.m.opened.languages.count, 0);
    assert_true(view_is(a.m.opened.looked, "/bin: Permission denied"));
    answer_finish(&a);
    driver_close(d);
}

static void an_agent_that_is_never_ready_is_given_up_with_its_reason(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct view env = view_of("FAKE_HELLO=never");
    struct msg m = make_open("", false);
    m.open.env = (struct view_list){&env, 1};
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_FAILED);
    assert_int_equal(a.m.failed.code, ERR_ENGINE);
    CLEANUP_FREE char *text = alloc_viewdup(a.m.failed.message);
    assert_non_null(strstr(text, "does not answer: cannot look for python3"));
    answer_finish(&a);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_SANDBOX_GONE);
    driver_wait_link(d, false);
    wait_agent_gone(d);
}

static void an_agent_that_says_nothing_is_given_up(void **state)
{
    struct driver *d = *state;
    uint64_t begin = clock_ms();
    open_fails(d, make_open("fault:agent=silent", false), ERR_ENGINE, EXIT_CODE_SANDBOX_GONE);
    assert_true(clock_ms() - begin >= TIME_HELLO_MS - 1000);
}

static void streams_that_fail_at_first_are_tried_again(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "fault:stream=refuse:4", false);
    driver_run(d, "op1", "echo x", 1000, &a, NULL);
    answer_finish(&a);
    driver_close(d);
    driver_wait_link(d, false);
    driver_start(d, 2);
    driver_open(d, "fault:stream=eof:3", false);
    driver_run(d, "op1", "echo x", 1000, &a, NULL);
    answer_finish(&a);
    driver_close(d);
}

static void closing_a_sandbox_that_is_being_created_ends_both(void **state)
{
    struct driver *d = *state;
    struct answer open, close;
    struct msg m = make_open("fault:create=slow:300", false);
    struct msg bye = {.type = MSG_CLOSE};
    driver_start(d, 1);
    driver_send(d, &m, &open);
    driver_send(d, &bye, &close);
    driver_wait(d, &open, MSG_FAILED);
    assert_int_equal(open.m.failed.code, ERR_SHUTTING_DOWN);
    driver_wait(d, &close, MSG_OK);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
    assert_false(driver_agent_runs(d));
    answer_finish(&open);
    answer_finish(&close);
}

static void a_removal_that_fails_is_reported(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg bye = {.type = MSG_CLOSE};
    driver_start(d, 1);
    driver_open(d, "fault:destroy=fail", false);
    driver_ask(d, &bye, &a, MSG_FAILED);
    answer_finish(&a);
    driver_wait_exit(d);
}

/* ---- the agent ------------------------------------------------------------------------------ */

static void a_lost_stream_is_replaced_and_nobody_notices(void **state)
{
    struct driver *d = *state;
    struct answer a, other;
    struct msg m = make_start("op1", "sleep 600", 5000, 20000);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_send(d, &m, &other); /* pending while the stream breaks */
    m = make_start("op2", "drop", 1000, 1000);
    m.start.language = view_of("bash");
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_true(view_is(a.m.output.out, "dropped"));
    answer_finish(&a);
    driver_wait(d, &other, MSG_OUTPUT);
    uint64_t state_now = other.m.output.state;
    answer_finish(&other);
    if (state_now != OP_DONE) { /* it was answered early, with the current state */
        m = make_wait("op1", 0, 20000);
        driver_ask(d, &m, &a, MSG_OUTPUT);
        assert_int_equal(a.m.output.status, OP_STATUS_OK);
        answer_finish(&a);
    }
    m = make_start("op3", "runs", 1000, 1000);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_true(view_is(a.m.output.out, "3")); /* no operation ran twice */
    answer_finish(&a);
    driver_close(d);
}

static void deadlines_survive_a_lost_stream(void **state)
{
    struct driver *d = *state;
    struct answer run, a;
    struct msg m = make_start("op1", "sleep 60000", 800, 20000);
    driver_start(d, 1);
    driver_open(d, "", false);
    uint64_t begin = clock_ms();
    driver_send(d, &m, &run);
    m = make_start("op2", "drop", 1000, 1000);
    m.start.language = view_of("bash");
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    driver_wait(d, &run, MSG_OUTPUT);
    answer_finish(&run);
    m = make_wait("op1", 0, 20000);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    assert_true(clock_ms() - begin >= 700);
    answer_finish(&a);
    driver_close(d);
}

static void a_hostile_agent_loses_its_sandbox_and_nothing_else(void **state)
{
    struct driver *d = *state;
    static const char *const crimes[] = {"garbage", "liar", "offset", "event", "number"};
    for (size_t i = 0; i < sizeof(crimes) / sizeof(crimes[0]); i++) {
        struct answer waiting, a;
        struct msg m = make_start("op1", "sleep 60000", 0, 20000);
        driver_start(d, i + 1);
        driver_open(d, "", false);
        driver_send(d, &m, &waiting);
        m = make_start("op2", crimes[i], 1000, 1000);
        m.start.language = view_of("bash");
        driver_ask(d, &m, &a, MSG_FAILED);
        driver_wait(d, &waiting, MSG_FAILED);
        assert_int_equal(waiting.m.failed.code, ERR_GONE);
        assert_non_null(strstr((const char *)waiting.data.data, "protocol")); /* gives the reason */
        answer_finish(&a);
        answer_finish(&waiting);
        assert_int_equal(driver_wait_exit(d), EXIT_CODE_SANDBOX_GONE);
        driver_wait_link(d, false);
        assert_false(driver_agent_runs(d));
    }
}

static void a_sandbox_that_ends_by_itself_is_noticed(void **state)
{
    struct driver *d = *state;
    struct answer waiting[4];
    static const char *const ops[] = {"op1", "op2", "op3", "op4"};
    driver_start(d, 1);
    driver_open(d, "fault:agent=dies:500", false);
    /* running and queued operations, half of them with a deadline */
    for (size_t i = 0; i < 4; i++) {
        struct msg m = make_start(ops[i], "sleep 60000", i % 2 * 30000, 0);
        driver_ask(d, &m, &waiting[i], MSG_OUTPUT);
        answer_finish(&waiting[i]);
        m = make_wait(ops[i], 0, 20000);
        driver_send(d, &m, &waiting[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        driver_wait(d, &waiting[i], MSG_FAILED);
        assert_int_equal(waiting[i].m.failed.code, ERR_GONE);
        assert_true(view_is(waiting[i].m.failed.message, "the sandbox has ended"));
        answer_finish(&waiting[i]);
    }
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_SANDBOX_GONE);
}

static void a_sandbox_that_ran_out_of_memory_is_said_to_have(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_start("op1", "exit", 0, 20000);
    driver_start(d, 1);
    driver_open(d, "fault:usage=oom", false);
    driver_ask(d, &m, &a, MSG_FAILED);
    assert_true(view_is(a.m.failed.message, "the sandbox has ended: it ran out of memory"));
    answer_finish(&a);
    driver_wait_exit(d);
}

/* ---- the worker ----------------------------------------------------------------------------- */

static void a_call_survives_the_death_of_its_worker(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    struct msg m = make_start("op1", "sleep 700", 5000, 0);
    buf_init(&out, 1 << 20);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    m = make_wait("op1", 0, 20000);
    driver_send(d, &m, &a);
    driver_kill(d, SIGKILL);
    driver_wait_flag(d, &a.done, "the loss of the call");
    assert_int_equal(a.rc, -ERR_IO);
    answer_finish(&a);
    driver_wait_link(d, false);

    driver_start(d, 2);
    driver_open(d, "", true);
    driver_run(d, "op1", "sleep 700", 4900, &a, &out); /* the same START as before */
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_run(d, "op2", "runs", 1000, &a, NULL);
    assert_true(view_is(a.m.output.out, "2")); /* it ran once */
    answer_finish(&a);
    driver_close(d);
    buf_finish(&out);
}

static void output_goes_on_where_it_was(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_start("op1", "flood 600000", 5000, 1000);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    uint64_t have = a.m.output.out.len;
    assert_int_equal(have, LIMIT_CHUNK);
    answer_finish(&a);
    driver_replace(d, 2);
    m.start.out_from = have;
    for (;;) {
        driver_ask(d, &m, &a, MSG_OUTPUT);
        have += a.m.output.out.len;
        bool done = a.m.output.state == OP_DONE;
        answer_finish(&a);
        if (done) {
            break;
        }
        m = make_wait("op1", have, 1000);
    }
    assert_int_equal(have, 600000);
    driver_close(d);
}

static void a_deadline_is_kept_by_the_next_worker(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_start("op1", "sleep 600000", 600000, 0);
    driver_start(d, 1);
    driver_open(d, "", false);
    uint64_t begin = clock_ms();
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    driver_replace(d, 2);
    driver_run(d, "op1", "sleep 60000", 300, &a, NULL); /* all of it, from its beginning on */
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    assert_true(clock_ms() - begin >= 300);
    answer_finish(&a);
    driver_close(d);
}

static void a_worker_that_was_replaced_leaves_the_sandbox_alone(void **state)
{
    struct driver *d = *state;
    struct view env = view_of("FAKE_HELLO=refuse");
    struct msg m = make_open("", false);
    struct answer a;
    m.open.env.items = &env;
    m.open.env.count = 1;
    driver_start(d, 1);
    driver_send(d, &m, &a);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_REPLACED);
    driver_wait_flag(d, &a.done, "the end of the link");
    assert_int_equal(a.rc, -ERR_IO);
    assert_true(driver_agent_runs(d));
    answer_finish(&a);
}

/* ---- the supervisor ------------------------------------------------------------------------- */

static void send_bytes(struct driver *d, const void *data, size_t len, struct answer *a);

static void on_any_reply(void *arg, int rc, const void *data, size_t len)
{
    struct answer *a = arg;
    a->done = true;
    a->rc = rc;
}

static void send_bytes(struct driver *d, const void *data, size_t len, struct answer *a)
{
    struct err err = ERR_INIT;
    memset(a, 0, sizeof(*a));
    assert_int_equal(ipc_ask_bytes(d->client, data, len, 0, on_any_reply, a, &err), 0);
}

static void garbage_from_the_supervisor_ends_the_worker_but_not_the_sandbox(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    struct err err = ERR_INIT;
    struct msg reply = {.type = MSG_PONG, .seq = 1}; /* valid, but not a request */
    buf_init(&out, 1000);
    assert_int_equal(msg_encode(&out, &reply, &err), 0);
    driver_start(d, 1);
    driver_open(d, "", false);
    send_bytes(d, "\xc1\xff garbage", 10, &a);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_PROTOCOL);
    driver_wait_flag(d, &a.done, "the end of the link");
    assert_int_equal(a.rc, -ERR_IO);
    driver_wait_link(d, false);
    assert_true(driver_agent_runs(d));

    driver_start(d, 2);
    driver_open(d, "", true);
    send_bytes(d, out.data, out.len, &a);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_PROTOCOL);
    driver_wait_flag(d, &a.done, "the end of the link");
    driver_wait_link(d, false);
    assert_true(driver_agent_runs(d));

    driver_start(d, 3);
    driver_open(d, "", true);
    driver_close(d);
    buf_finish(&out);
}

static void without_a_supervisor_the_sandbox_ends_after_the_grace_period(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_open("", false);
    m.open.grace_ms = 400;
    keep_log(d);
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_OPENED);
    answer_finish(&a);
    driver_unlisten(d);
    uint64_t begin = clock_ms();
    assert_true(driver_agent_runs(d));
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_ORPHANED);
    assert_true(clock_ms() - begin >= 250);
    assert_true(log_has(d, "no supervisor for 400 ms"));
    assert_false(driver_agent_runs(d));
}

static void a_supervisor_that_comes_back_in_time_finds_everything(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_start("op1", "sleep 500", 5000, 0);
    struct msg hello = make_hello(1);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    driver_unlisten(d);
    driver_listen(d);
    driver_wait_link(d, true);
    m = make_wait("op1", 0, 20000);
    driver_ask(d, &m, &a, MSG_FAILED); /* HELLO must come first */
    answer_finish(&a);
    driver_ask(d, &hello, &a, MSG_HELLO_OK);
    answer_finish(&a);
    driver_open(d, "", true);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_close(d);
}

/* The first supervisor's end is noticed by the lifeline only after the next one has said HELLO. */
static void
a_supervisor_that_comes_before_the_end_of_the_last_is_heard_keeps_the_sandbox(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_open("", false);
    struct msg hello = make_hello(1);
    m.open.grace_ms = 1500;
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_OPENED);
    answer_finish(&a);
    driver_unlisten(d);
    driver_listen(d);
    driver_wait_link(d, true);
    driver_ask(d, &hello, &a, MSG_HELLO_OK);
    answer_finish(&a);
    close(d->lifeline);
    d->lifeline = -1;
    driver_idle(d, 2500);
    assert_true(driver_agent_runs(d));
    driver_close(d);
}

/* A supervisor of another build has found the socket. */
static void refused_by_version(struct driver *d)
{
    struct answer a;
    struct msg hello = make_hello(1);
    struct msg status = {.type = MSG_STATUS};
    hello.hello.version = 99;
    driver_unlisten(d);
    driver_listen(d);
    driver_wait_link(d, true);
    driver_ask(d, &hello, &a, MSG_FAILED);
    assert_int_equal(a.m.failed.code, ERR_VERSION);
    assert_non_null(memchr(a.m.failed.message.data, '9', a.m.failed.message.len));
    answer_finish(&a);
    driver_ask(d, &status, &a, MSG_FAILED); /* its requests are refused */
    assert_int_equal(a.m.failed.code, ERR_PROTOCOL);
    answer_finish(&a);
    assert_true(driver_agent_runs(d));
}

static void a_supervisor_of_another_build_can_end_the_sandbox_in_order(void **state)
{
    struct driver *d = *state;
    driver_start(d, 1);
    driver_open(d, "", false);
    refused_by_version(d);
    uv_process_kill(d->process, SIGTERM);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
    assert_false(driver_agent_runs(d));
}

static void a_supervisor_of_another_build_counts_as_none(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg hello = make_hello(1);
    struct msg m = make_open("", false);
    m.open.grace_ms = 1500;
    keep_log(d);
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_OPENED);
    answer_finish(&a);
    refused_by_version(d);
    driver_ask(d, &hello, &a, MSG_HELLO_OK); /* a supervisor of the same build is accepted */
    answer_finish(&a);
    driver_idle(d, 2000);
    assert_true(driver_agent_runs(d));
    uint64_t begin = clock_ms();
    refused_by_version(d);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_ORPHANED);
    assert_true(clock_ms() - begin >= 1200);
    assert_true(log_has(d, "no supervisor for 1500 ms"));
    assert_false(driver_agent_runs(d));
}

/* A log whose supervisor has ended and that no process reads, or can read, any more. */
static void a_log_without_a_reader_stops_nothing(void **state)
{
    struct driver *d = *state;
    const char *level = getenv("TEST_LOG_LEVEL");
    char *kept = level != NULL ? alloc_strdup(level) : NULL;
    int pipe_fds[2];
    char op[16];
    struct answer a;
    setenv("TEST_LOG_LEVEL", "debug", 1);
    for (int closed = 0; closed < 2; closed++) {
        assert_int_equal(pipe(pipe_fds), 0);
        assert_true(fcntl(pipe_fds[1], F_SETPIPE_SZ, 4096) > 0);
        d->log = pipe_fds[1];
        driver_start(d, (uint64_t)closed + 1);
        driver_open(d, "", false);
        close(pipe_fds[1]);
        if (closed != 0) {
            close(pipe_fds[0]);
        }
        for (int i = 0; i < 60; i++) { /* at least one line each */
            snprintf(op, sizeof(op), "op%d", i);
            driver_run(d, op, "echo hello", 5000, &a, NULL);
            assert_int_equal(a.m.output.status, OP_STATUS_OK);
            answer_finish(&a);
            driver_unlisten(d);
            driver_listen(d);
            driver_wait_link(d, true);
            struct msg hello = make_hello((uint64_t)closed + 1);
            driver_ask(d, &hello, &a, MSG_HELLO_OK);
            answer_finish(&a);
        }
        driver_close(d);
        if (closed == 0) {
            char text[4096];
            assert_true(read(pipe_fds[0], text, sizeof(text)) > 2048); /* the pipe was full */
            close(pipe_fds[0]);
        }
        driver_wait_link(d, false);
    }
    if (kept != NULL) {
        setenv("TEST_LOG_LEVEL", kept, 1);
    } else {
        unsetenv("TEST_LOG_LEVEL");
    }
    free(kept);
}

static void a_worker_with_nothing_to_guard_leaves_with_its_supervisor(void **state)
{
    struct driver *d = *state;
    keep_log(d);
    driver_start(d, 1);
    driver_unlisten(d);
    close(d->lifeline);
    d->lifeline = -1;
    driver_wait_exit(d);
    assert_int_equal(d->exit_code, EXIT_CODE_ORPHANED);
    assert_false(log_has(d, "no supervisor for")); /* that is, not by the grace period */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_cannot_be_created_is_reported),
        CASE(nothing_can_be_taken_over_where_nothing_is),
        CASE(an_agent_that_says_a_wrong_hello_is_not_used),
        CASE(an_agent_that_is_not_ready_yet_is_asked_again),
        CASE(what_an_agent_without_languages_has_looked_at_is_passed_on),
        CASE(an_agent_that_is_never_ready_is_given_up_with_its_reason),
        CASE(an_agent_that_says_nothing_is_given_up),
        CASE(streams_that_fail_at_first_are_tried_again),
        CASE(closing_a_sandbox_that_is_being_created_ends_both),
        CASE(a_removal_that_fails_is_reported),
        CASE(a_lost_stream_is_replaced_and_nobody_notices),
        CASE(deadlines_survive_a_lost_stream),
        CASE(a_hostile_agent_loses_its_sandbox_and_nothing_else),
        CASE(a_sandbox_that_ends_by_itself_is_noticed),
        CASE(a_sandbox_that_ran_out_of_memory_is_said_to_have),
        CASE(a_call_survives_the_death_of_its_worker),
        CASE(output_goes_on_where_it_was),
        CASE(a_deadline_is_kept_by_the_next_worker),
        CASE(a_worker_that_was_replaced_leaves_the_sandbox_alone),
        CASE(garbage_from_the_supervisor_ends_the_worker_but_not_the_sandbox),
        CASE(without_a_supervisor_the_sandbox_ends_after_the_grace_period),
        CASE(a_supervisor_that_comes_back_in_time_finds_everything),
        CASE(a_supervisor_that_comes_before_the_end_of_the_last_is_heard_keeps_the_sandbox),
        CASE(a_supervisor_of_another_build_can_end_the_sandbox_in_order),
        CASE(a_supervisor_of_another_build_counts_as_none),
        CASE(a_log_without_a_reader_stops_nothing),
        CASE(a_worker_with_nothing_to_guard_leaves_with_its_supervisor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
