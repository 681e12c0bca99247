/*
 * Connections to ports: what the program says is handed on as it comes, and a pause makes it wait.
 */
#include "tests/unit/supervisor/fleet/call_lab.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "supervisor/calls/input.h"

struct flow {
    struct told told; /* first: the `arg` of the call */
    char said[64];
    struct fleet_call *call;
    bool pauses; /* as soon as something is said */
};

static void on_more(void *arg, struct view bytes)
{
    struct flow *f = arg;
    size_t len = strlen(f->said);
    assert_int_equal(f->told.times, 0);
    snprintf(f->said + len, sizeof(f->said) - len, "%.*s", VIEW_ARG(bytes));
    if (f->pauses) {
        call_pause(f->call, true);
    }
}

static void begin_flow(struct flow *f)
{
    const struct fleet_op op = {.kind = OP_CONNECT, .path = "", .offset = 8000};
    memset(f, 0, sizeof(*f));
    f->call = call_begin(&w.s, &op, on_told, f);
    call_flow(f->call, on_more);
    assert_true(w.out && w.is_start);
    assert_int_equal(w.start.kind, OP_CONNECT);
}

static void all_that_is_said_is_handed_on_and_nothing_kept(void **state)
{
    (void)state;
    struct flow f;
    begin_flow(&f);
    reply(OP_RUNNING, "one ");
    reply(OP_RUNNING, "two ");
    reply(OP_DONE, "three");
    assert_string_equal(f.said, "one two three");
    assert_int_equal(letter(&f.told), 'o');
    assert_string_equal(f.told.out, "");
    assert_int_equal(f.told.out_bytes, 13);
}

static void nothing_is_asked_for_during_a_pause(void **state)
{
    (void)state;
    struct flow f;
    begin_flow(&f);
    f.pauses = true;
    reply(OP_RUNNING, "one ");
    assert_false(w.out);
    call_check_all(&w.s);
    resume();
    assert_false(w.out);
    call_pause(f.call, false);
    assert_true(w.out && !w.is_start);
    assert_int_equal(w.out_from, 4);
    reply(OP_DONE, "two");
    assert_string_equal(f.said, "one two");
    assert_int_equal(letter(&f.told), 'o');
}

static void a_pause_outlives_its_worker(void **state)
{
    (void)state;
    struct flow f;
    begin_flow(&f);
    f.pauses = true;
    reply(OP_RUNNING, "one ");
    w.state = SANDBOX_RECOVERING; /* no request was out when the worker died */
    resume();
    assert_false(w.out);
    f.pauses = false;
    call_pause(f.call, false);
    assert_true(w.out && w.is_start);
    assert_int_equal(w.out_from, 4);
    reply(OP_DONE, "two");
    assert_string_equal(f.said, "one two");
    assert_int_equal(letter(&f.told), 'o');
}

static void check_after(uint64_t ms)
{
    uint64_t now_ms = w.loop.time + ms;
    w.loop.time = now_ms;
    call_check_all(&w.s);
    turn(); /* which makes the time the real one */
    w.loop.time = now_ms;
}

static void an_old_connection_has_the_patience_of_a_new_one(void **state)
{
    (void)state;
    struct flow f;
    begin_flow(&f);
    w.loop.time += 100000;
    reply(OP_RUNNING, "one ");
    lose_worker();
    check_after(44999);
    assert_int_equal(f.told.times, 0);
    check_after(1);
    assert_int_equal(f.told.rc, -ERR_ENGINE);
    assert_non_null(strstr(f.told.err, "has not answered for 45 s"));
}

static void a_pause_is_no_silence(void **state)
{
    (void)state;
    struct flow f;
    begin_flow(&f);
    f.pauses = true;
    reply(OP_RUNNING, "one ");
    w.state = SANDBOX_RECOVERING;
    check_after(100000);
    call_pause(f.call, false);
    check_after(44999);
    assert_int_equal(f.told.times, 0);
    resume();
    f.pauses = false;
    assert_true(w.out && w.is_start);
    reply(OP_DONE, "two");
    assert_string_equal(f.said, "one two");
}

static void a_paused_call_that_is_cancelled_goes_on_to_its_end(void **state)
{
    (void)state;
    struct flow f;
    begin_flow(&f);
    f.pauses = true;
    reply(OP_RUNNING, "one ");
    call_cancel(f.call);
    assert_int_equal(w.interrupts, 1);
    assert_true(w.out);
    struct msg m = output(OP_DONE, "", w.out_from);
    m.output.status = OP_STATUS_CANCELLED;
    reply_with(0, &m, NULL);
    assert_int_equal(letter(&f.told), 'c');
}

static void on_written(void *arg, int rc, const struct fleet_input_state *in, const struct err *err,
                       const char *hint)
{
    (void)in, (void)err, (void)hint;
    *(int *)arg = rc;
}

static void what_is_told_to_a_refused_connection_is_refused(void **state)
{
    (void)state;
    struct flow f = {.told = {.times = 0}};
    struct err err = ERR_INIT;
    int rc = 0;
    const struct fleet_input in = {.data = view_of("hello"), .has_at = true};
    err_set(&err, ERR_SANDBOX_NOT_FOUND, "no such sandbox");
    f.call = call_refuse(&w.host, &err, "", on_told, &f);
    call_flow(f.call, on_more);
    call_pause(f.call, true);
    call_cancel(f.call);
    call_input(f.call, &in, on_written, &rc);
    assert_int_equal(rc, 0);
    turn();
    assert_int_equal(rc, -ERR_INVALID);
    assert_int_equal(f.told.rc, -ERR_SANDBOX_NOT_FOUND);
}

static void a_refused_connection_is_no_line_of_the_log(void **state)
{
    (void)state;
    struct flow f;
    FILE *log = tmpfile();
    int stderr_fd = dup(STDERR_FILENO);
    assert_true(log != NULL && dup2(fileno(log), STDERR_FILENO) >= 0);
    log_set_level(LOG_INFO);
    begin_flow(&f);
    reply_error(ERR_BUSY);
    log_set_level(LOG_ERROR);
    assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
    close(stderr_fd);
    assert_int_equal(f.told.rc, -ERR_BUSY);
    assert_int_equal(lseek(fileno(log), 0, SEEK_END), 0);
    fclose(log);
}

int main(void)
{
    log_set_level(LOG_ERROR);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_that_is_said_is_handed_on_and_nothing_kept),
        TEST(nothing_is_asked_for_during_a_pause),
        TEST(a_pause_outlives_its_worker),
        TEST(an_old_connection_has_the_patience_of_a_new_one),
        TEST(a_pause_is_no_silence),
        TEST(a_paused_call_that_is_cancelled_goes_on_to_its_end),
        TEST(a_refused_connection_is_no_line_of_the_log),
        TEST(what_is_told_to_a_refused_connection_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
