/* Stdin for a call that runs: what is asked of its sandbox, and what its writers are told. */
#include "tests/unit/supervisor/fleet/call_lab.h"

#include <stdio.h>
#include <string.h>

/* The answer to a writer. */
struct wrote {
    unsigned times;
    int rc;
    uint64_t next;
    char err[512];
    char hint[256];
};

static void on_wrote(void *arg, int rc, const struct fleet_input_state *state,
                     const struct err *err, const char *hint)
{
    struct wrote *wrote = arg;
    wrote->times++;
    wrote->rc = rc;
    wrote->next = rc == 0 ? state->next : 0;
    snprintf(wrote->err, sizeof(wrote->err), "%s", rc < 0 ? err->text : "");
    snprintf(wrote->hint, sizeof(wrote->hint), "%s", hint);
}

static void begin_write(const char *id, const char *text, struct wrote *wrote)
{
    const struct fleet_input in = {.data = view_of(text)};
    memset(wrote, 0, sizeof(*wrote));
    executions_input(w.host.executions, "me", id, &in, on_wrote, wrote);
    assert_int_equal(wrote->times, 0);
}

static void assert_asked(const char *data, uint64_t at)
{
    assert_true(w.input.out);
    assert_string_equal(w.input.data, data);
    assert_int_equal(w.input.at, at);
}

static void assert_wrote(const struct wrote *wrote, uint64_t next)
{
    assert_int_equal(wrote->times, 1);
    assert_int_equal(wrote->rc, 0);
    assert_int_equal(wrote->next, next);
}

static void assert_refused(const struct wrote *wrote, enum err_code code, const char *why,
                           const char *hint)
{
    assert_int_equal(wrote->times, 1);
    assert_int_equal(wrote->rc, -(int)code);
    assert_non_null(strstr(wrote->err, why));
    assert_non_null(strstr(wrote->hint, hint));
}

/* An execution that runs, and its first writers; the second one may be NULL. */
static void begin_writing(char id[FLEET_ID_SIZE], struct told *told, struct wrote *one,
                          struct wrote *two)
{
    begin(id, told);
    reply(OP_RUNNING, "");
    begin_write(id, "one", one);
    if (two != NULL) {
        begin_write(id, "two", two);
    }
}

/* An execution of an earlier server, of whose stdin nothing is known. */
static void join(void)
{
    const struct msg_op_info info = {.op = view_of("adopted"),
                                     .kind = OP_EVAL,
                                     .state = OP_RUNNING,
                                     .language = view_of("bash"),
                                     .timeout_ms = 5000};
    executions_adopt(w.host.executions, &w.s, &info);
    reply(OP_RUNNING, "");
}

static void a_joined_call_looks_first_where_it_stands(void **state)
{
    struct wrote one, two;
    join();
    begin_write("adopted", "one", &one);
    begin_write("adopted", "two", &two);
    assert_asked("", 0);
    reply_input(7);
    assert_asked("one", 7);
    reply_input(10);
    assert_wrote(&one, 10);
    assert_asked("two", 10);
    reply_input(13);
    assert_wrote(&two, 13);
    reply(OP_DONE, "");
}

static void a_lost_worker_s_input_is_asked_again_as_it_was(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct wrote one;
    begin_writing(id, &told, &one, NULL);
    assert_asked("one", 0);
    lose_worker();
    assert_int_equal(one.times, 0);
    resume();
    assert_asked("one", 0);
    reply_input(3);
    assert_wrote(&one, 3);
    reply(OP_DONE, "");
}

static void what_cannot_be_sent_does_not_hold_up_the_next(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct wrote one, two, three;
    begin_writing(id, &told, &one, &two);
    begin_write(id, "three", &three);
    w.input.unsent = 1;
    reply_input(3);
    assert_asked("", 0); /* an earlier worker might have been sent the one that was refused */
    reply_input(3);
    assert_asked("three", 3);
    reply_input(8);
    turn();
    assert_wrote(&one, 3);
    assert_refused(&two, ERR_NO_MEMORY, "no memory", "");
    assert_wrote(&three, 8);
    reply(OP_DONE, "");
}

static void what_was_only_looked_for_is_not_written_when_the_code_ends(void **state)
{
    struct wrote one;
    join();
    begin_write("adopted", "one", &one);
    assert_asked("", 0);
    reply(OP_DONE, "");
    reply_input(7);
    turn();
    assert_refused(&one, ERR_INVALID, "has ended", "get_execution");
}

static void what_was_taken_before_the_end_is_written(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct wrote one, two;
    begin_writing(id, &told, &one, &two);
    reply(OP_DONE, "");
    reply_input(3);
    turn();
    assert_wrote(&one, 3);
    assert_refused(&two, ERR_INVALID, "has ended", "get_execution");
}

static void a_server_that_leaves_does_not_say_that_the_code_has_ended(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct wrote one, two, three;
    begin_writing(id, &told, &one, &two);
    w.state = SANDBOX_LEFT;
    call_leave_all(&w.s);
    assert_int_equal(letter(&told), 'r');
    lose_requests();
    begin_write(id, "three", &three);
    turn();
    const struct wrote *all[] = {&one, &two, &three};
    for (size_t i = 0; i < 3; i++) {
        assert_refused(all[i], ERR_SHUTTING_DOWN, "shutting down", "repeat it with stdin_offset");
    }
}

static void pass_patience(void)
{
    w.loop.time += 45000;
    call_check_all(&w.s);
}

static void assert_given_up(const struct wrote *wrote)
{
    assert_refused(wrote, ERR_ENGINE, "has not answered for 45 s", "repeat it with stdin_offset");
}

static void nobody_waits_longer_than_a_call_may_for_a_silent_sandbox(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct wrote one, two, three;
    begin_writing(id, &told, &one, &two);
    w.loop.time += 44999;
    call_check_all(&w.s);
    turn();
    assert_int_equal(one.times + two.times, 0);
    pass_patience();
    turn();
    assert_given_up(&one);
    assert_given_up(&two);
    assert_int_equal(told.times, 0);
    /* the one that is out comes first: only its answer says where the next one belongs */
    begin_write(id, "three", &three);
    assert_asked("one", 0);
    reply_input(3);
    assert_asked("three", 3);
    reply_input(8);
    assert_wrote(&three, 8);
    assert_int_equal(one.times, 1);
    reply(OP_DONE, "");
}

/* Where the next one belongs is asked then. */
static void what_was_given_up_is_not_asked_of_the_next_worker(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct wrote one, two;
    for (int late = 0; late < 2; late++) {
        begin_writing(id, &told, &one, NULL);
        if (late) {
            lose_worker();
            pass_patience();
        } else {
            pass_patience();
            lose_worker();
        }
        turn();
        assert_given_up(&one);
        resume();
        assert_false(w.input.out);
        begin_write(id, "two", &two);
        assert_asked("", 0);
        reply_input(3);
        assert_asked("two", 3);
        reply_input(6);
        assert_wrote(&two, 6);
        reply(OP_DONE, "");
    }
}

static void a_look_that_was_given_up_writes_nothing(void **state)
{
    struct wrote one;
    join();
    begin_write("adopted", "one", &one);
    pass_patience();
    turn();
    assert_given_up(&one);
    reply_input(7);
    assert_false(w.input.out);
    begin_write("adopted", "one", &one);
    assert_asked("one", 7);
    pass_patience();
    reply(OP_DONE, "");
    turn();
    assert_given_up(&one);
    reply_input(10); /* of a writer that was told */
    assert_int_equal(one.times, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_joined_call_looks_first_where_it_stands),
        TEST(a_lost_worker_s_input_is_asked_again_as_it_was),
        TEST(what_cannot_be_sent_does_not_hold_up_the_next),
        TEST(what_was_only_looked_for_is_not_written_when_the_code_ends),
        TEST(what_was_taken_before_the_end_is_written),
        TEST(a_server_that_leaves_does_not_say_that_the_code_has_ended),
        TEST(nobody_waits_longer_than_a_call_may_for_a_silent_sandbox),
        TEST(what_was_given_up_is_not_asked_of_the_next_worker),
        TEST(a_look_that_was_given_up_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
