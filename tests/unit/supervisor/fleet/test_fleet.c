/* Sandboxes that behave well, as all callers of the fleet expect. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "tests/unit/supervisor/fleet/fixture.h"

static void nothing_is_touched_before_the_first_sandbox(void **state)
{
    struct fixture *f = *state;
    const char *id;
    struct err err = ERR_INIT;
    fixture_start(f);
    assert_int_equal(fleet_find(f->fleet, "me", "x", &id, &err), -ERR_SANDBOX_NOT_FOUND);
    uv_run(&f->loop, UV_RUN_NOWAIT); /* runs callbacks that the question may have deferred */
    assert_int_equal(count_entries(f->top), 0);
    fixture_end_by_itself(f, FLEET_END_CLOSE, NULL);
    assert_int_equal(count_entries(f->top), 0);
}

static void a_sandbox_opens_runs_and_closes(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_open(f, "first", NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.state, "ready");
    assert_string_equal(a.languages, "python,bash");
    assert_string_equal(a.unapplied, "disk: this is a stub");
    assert_string_equal(a.runtime, "runc");
    assert_int_equal(a.memory_mb, 512);
    assert_true(process_exists(a.pid));

    const char *id;
    struct err err = ERR_INIT;
    assert_int_equal(fleet_find(f->fleet, "me", "first", &id, &err), 0);
    assert_string_equal(id, a.id);
    assert_int_equal(fleet_find(f->fleet, "me", a.id, &id, &err), 0);
    assert_int_equal(fleet_find(f->fleet, "you", "first", &id, &err), -ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(fleet_find(f->fleet, "you", a.id, &id, &err), -ERR_SANDBOX_NOT_FOUND);

    check_run(f, a.id, "echo hello", "hello");
    check_run(f, a.id, "slow 5 10", "line 0\nline 1\nline 2\nline 3\nline 4\n");
    check_run(f, a.id, "runs", "3");
    close_one(f, a.id);
    assert_int_equal(fleet_find(f->fleet, "me", "first", &id, &err), -ERR_SANDBOX_NOT_FOUND);
    wait_state(f, a.id, NULL);
    assert_false(process_exists(a.pid));
    answer_finish(&a);
}

static void both_streams_are_kept_apart_counted_and_capped(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    begin_run(f, id, "both", &a);
    wait_times(f, &a, 1);
    assert_true(out_is(&a, "to out"));
    assert_int_equal(a.errout.len, 6);
    answer_finish(&a);

    struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of("big 1000000"), .keep_bytes = 1000};
    answer_init(&a);
    fleet_run(f->fleet, id, &op, on_outcome, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.out.len, 1000);
    assert_int_equal(a.out_bytes, 1000000);
    assert_memory_equal(a.out.data, "abcdefghij", 10);
    answer_finish(&a);

    op.keep_bytes = 2000000;
    answer_init(&a);
    fleet_run(f->fleet, id, &op, on_outcome, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.out.len, 1000000);
    for (size_t i = 0; i < a.out.len; i++) {
        assert_int_equal(a.out.data[i], 'a' + i % 26);
    }
    answer_finish(&a);
}

static void arguments_travel_and_are_copied(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char code[] = "stdin";
    char input[] = "typed\0in";
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    struct fleet_op op = {.kind = OP_EVAL,
                          .language = "python",
                          .data = view_of(code),
                          .has_stdin = true,
                          .stdin_data = view_bytes(input, sizeof(input) - 1),
                          .keep_bytes = 100};
    answer_init(&a);
    fleet_run(f->fleet, id, &op, on_outcome, &a);
    memset(code, 'x', sizeof(code) - 1);
    memset(input, 'x', sizeof(input) - 1);
    wait_times(f, &a, 1);
    assert_int_equal(a.out.len, 8);
    assert_memory_equal(a.out.data, "typed\0in", 8);
    answer_finish(&a);
    check_run(f, id, "timeout", "30000");
    op.data = view_of("timeout");
    op.timeout_ms = 1500;
    answer_init(&a);
    fleet_run(f->fleet, id, &op, on_outcome, &a);
    wait_times(f, &a, 1);
    assert_true(out_is(&a, "1500"));
    answer_finish(&a);
}

static void calls_run_side_by_side(void **state)
{
    struct fixture *f = *state;
    char one[FLEET_ID_SIZE];
    char two[FLEET_ID_SIZE];
    struct answer slow;
    fixture_start(f);
    open_one(f, NULL, one);
    open_one(f, NULL, two);
    struct fleet_call *call = begin_run(f, one, "wait", &slow);
    check_run(f, two, "echo other", "other");
    check_run(f, one, "echo same", "same");
    assert_int_equal(slow.times, 0);
    fleet_cancel(call);
    fleet_cancel(call);
    wait_times(f, &slow, 1);
    assert_int_equal(slow.rc, 0);
    assert_int_equal(slow.status, OP_STATUS_CANCELLED);
    answer_finish(&slow);
}

static void a_call_that_resists_is_killed(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    struct fleet_call *call = begin_run(f, id, "stubborn", &a);
    wait_begun(f, id, 1);
    uint64_t begin_ms = clock_ms();
    fleet_cancel(call);
    wait_times(f, &a, 1);
    assert_int_equal(a.status, OP_STATUS_CANCELLED);
    assert_true(clock_ms() - begin_ms >= TIME_INTERRUPT_MS - 100);
    answer_finish(&a);
}

static void a_refusal_is_passed_on(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    begin_run(f, id, "refuse", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_LANGUAGE);
    assert_string_equal(a.err.text, "no such language");
    assert_string_equal(a.hint, "use another one");
    answer_finish(&a);
    check_run(f, id, "echo still here", "still here");
    check_run(f, id, "gen", "1");
}

static void what_cannot_be_said_is_an_invalid_argument(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    struct fleet_op op = {
        .kind = OP_EVAL, .language = "py\xff", .data = view_of("echo"), .keep_bytes = 10};
    answer_init(&a);
    fleet_run(f->fleet, id, &op, on_outcome, &a);
    assert_int_equal(a.times, 0);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_INVALID);
    answer_finish(&a);
    check_run(f, id, "echo fine", "fine");
}

static void too_many_calls_are_busy(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer waiting[32];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    for (size_t i = 0; i < 32; i++) {
        begin_run(f, id, "wait", &waiting[i]);
    }
    begin_run(f, id, "echo", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_BUSY);
    assert_true(a.hint[0] != '\0');
    answer_finish(&a);
    close_one(f, id);
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(waiting[i].times, 1);
        assert_int_equal(waiting[i].rc, 0);
        assert_int_equal(waiting[i].status, OP_STATUS_CANCELLED);
        answer_finish(&waiting[i]);
    }
}

static void many_calls_in_a_row_are_acknowledged(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    /* The stub remembers 64 operations and refuses more unless some are acknowledged. */
    for (int i = 0; i < 200; i++) {
        check_run(f, id, "echo x", "x");
    }
    check_run(f, id, "runs", "201");
}

static void unknown_sandboxes_are_not_found(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_run(f, "nosuch", "echo", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_SANDBOX_NOT_FOUND);
    assert_true(a.hint[0] != '\0');
    answer_finish(&a);
    get_status(f, "nosuch", &a);
    assert_int_equal(a.rc, -ERR_SANDBOX_NOT_FOUND);
    answer_finish(&a);
    answer_init(&a);
    fleet_close(f->fleet, "nosuch", on_done, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_SANDBOX_NOT_FOUND);
    answer_finish(&a);
}

static void names_are_unique_per_owner(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct answer b;
    struct answer c;
    fixture_start(f);
    begin_open(f, "lab", NULL, &a);
    begin_open(f, "lab", NULL, &b); /* while the first is being created */
    struct fleet_spec spec = {.name = "lab"};
    answer_init(&c);
    fleet_open(f->fleet, "you", &spec, on_info, &c);
    wait_times(f, &b, 1);
    assert_int_equal(b.rc, -ERR_INVALID);
    wait_times(f, &a, 1);
    wait_times(f, &c, 1);
    assert_int_equal(a.rc, 0);
    assert_int_equal(c.rc, 0);
    assert_string_not_equal(a.id, c.id);
    close_one(f, a.id);
    begin_open(f, "lab", NULL, &b);
    wait_times(f, &b, 1);
    assert_int_equal(b.rc, 0);
    begin_open(f, "bad\nname", NULL, &b);
    wait_times(f, &b, 1);
    assert_int_equal(b.rc, -ERR_INVALID);
}

static void there_are_at_most_so_many_sandboxes(void **state)
{
    struct fixture *f = *state;
    char one[FLEET_ID_SIZE];
    char two[FLEET_ID_SIZE];
    struct answer a;
    f->config.max_sandboxes = 2;
    fixture_start(f);
    open_one(f, NULL, one);
    open_one(f, NULL, two);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_SANDBOX_LIMIT);
    assert_non_null(strstr(a.hint, "close"));
    close_one(f, one);
    wait_state(f, one, NULL);
    open_one(f, NULL, one);
}

static void an_idle_sandbox_closes_and_a_used_one_stays(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct answer run;
    fixture_start(f);
    struct fleet_spec spec = {.ttl_ms = 200};
    answer_init(&a);
    fleet_open(f->fleet, "me", &spec, on_info, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    begin_run(f, a.id, "sleep 500", &run); /* longer than the ttl, during which it is not idle */
    wait_times(f, &run, 1);
    uint64_t begin_ms = clock_ms();
    assert_int_equal(run.rc, 0);
    assert_int_equal(run.status, OP_STATUS_OK);
    answer_finish(&run);
    wait_state(f, a.id, NULL); /* with the ttl of the configuration it would stay for ten minutes */
    assert_true(clock_ms() - begin_ms >= 150);
    begin_run(f, a.id, "echo", &run);
    wait_times(f, &run, 1);
    assert_int_equal(run.rc, -ERR_SANDBOX_NOT_FOUND);
    answer_finish(&run);
    answer_finish(&a);
}

static void a_sandbox_ends_with_its_life_whatever_it_does(void **state)
{
    struct fixture *f = *state;
    struct answer run;
    struct answer status;
    char busy[FLEET_ID_SIZE];
    char idle[FLEET_ID_SIZE];
    f->config.max_lifetime_s = 1;
    fixture_start(f);
    uint64_t begin_ms = clock_ms();
    open_one(f, NULL, busy);
    uint64_t before_ms = clock_wall_ms();
    open_one(f, NULL, idle);
    uint64_t opened_ms = clock_wall_ms();
    get_status(f, idle, &status);
    uint64_t told_ms = clock_wall_ms();
    assert_int_equal(status.lifetime_ms, 1000);
    assert_int_equal(status.ends_wall_ms, status.expires_wall_ms); /* its ttl is longer */
    assert_in_range(status.created_wall_ms, before_ms, opened_ms);
    /* The date is the wall clock and what is left by another: between those the process may have
     * waited for its turn, but not for longer than the question took. */
    assert_in_range(status.ends_wall_ms + 2, before_ms + 1000 - (told_ms - opened_ms),
                    opened_ms + 1000 + 4);
    answer_finish(&status);
    begin_run(f, busy, "sleep 60000", &run);
    wait_times(f, &run, 1);
    assert_true(clock_ms() - begin_ms >= 950);
    assert_int_equal(run.rc, 0);
    assert_int_equal(run.status, OP_STATUS_CANCELLED);
    assert_non_null(strstr(run.message, "maximum lifetime"));
    wait_state(f, busy, NULL);
    wait_state(f, idle, NULL);
    answer_finish(&run);
}

static void status_shows_use_and_comes_without_it_too(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    check_run(f, id, "echo", "");
    get_status(f, id, &a);
    assert_int_equal(a.rc, 0);
    assert_true(a.has_usage);
    assert_int_equal(a.memory_bytes, 1234567);
    assert_int_equal(a.executions, 1);
    assert_int_equal(a.restarts, 0);
    answer_finish(&a);
    open_one(f, "status-hangs", id);
    get_status(f, id, &a);
    assert_int_equal(a.rc, 0);
    assert_false(a.has_usage);
    answer_finish(&a);
    check_run(f, id, "gen", "1"); /* a slow answer to STATUS does not cost the worker */
}

static void calls_wait_for_a_sandbox_that_is_being_created(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct answer run;
    struct answer cancelled;
    const char *id;
    struct err err = ERR_INIT;
    fixture_start(f);
    begin_open(f, "slow", "open-slow", &a);
    assert_int_equal(fleet_find(f->fleet, "me", "slow", &id, &err), 0);
    begin_run(f, id, "echo at last", &run);
    fleet_cancel(begin_run(f, id, "crash-always", &cancelled));
    assert_int_equal(cancelled.times, 0);
    wait_times(f, &cancelled, 1);
    assert_int_equal(cancelled.status, OP_STATUS_CANCELLED);
    assert_int_equal(a.times, 0);
    wait_times(f, &run, 1);
    assert_true(out_is(&run, "at last"));
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    check_run(f, a.id, "runs", "2"); /* the cancelled one never ran */
    answer_finish(&run);
    answer_finish(&cancelled);
    answer_finish(&a);
}

static void directories_are_private_and_go_away(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char path[256];
    struct stat st;
    fixture_start(f);
    open_one(f, NULL, id);
    char *dir = instance_dir(f);
    snprintf(path, sizeof(path), "%s/sandboxes", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "%s/sandboxes/%s/record", dir, id);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    fixture_stop(f);
    assert_int_equal(count_entries(f->top), 0);
    free(dir);
}

/* ---- executions ---- */

static void execute(struct fixture *f, const char *id, const char *code, char ret[FLEET_ID_SIZE])
{
    const struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of(code), .keep_bytes = 1000};
    fleet_execute(f->fleet, "me", id, &op, ret);
}

static void await_answer(struct fixture *f, const char *execution, uint64_t wait_ms,
                         struct answer *a)
{
    answer_init(a);
    fleet_await(f->fleet, "me", execution, wait_ms, on_outcome, a);
    assert_int_equal(a->times, 0);
    wait_times(f, a, 1);
}

static void executions_are_followed_stopped_and_found_after_the_close(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char done[FLEET_ID_SIZE];
    char waits[FLEET_ID_SIZE];
    char refused[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    execute(f, id, "echo hello", done);
    await_answer(f, done, FLEET_WAIT_FOR_EVER, &a);
    assert_int_equal(a.status, OP_STATUS_OK);
    assert_true(out_is(&a, "hello"));
    assert_string_equal(a.op, done);
    answer_finish(&a);
    execute(f, id, "slow 3 0", waits);
    execute(f, id, "wait", waits);
    await_answer(f, waits, 30, &a);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.status, 0); /* there is no deadline yet */
    answer_finish(&a);
    assert_int_equal(fleet_stop(f->fleet, "you", waits, NULL), -ERR_EXECUTION_NOT_FOUND);
    assert_int_equal(fleet_stop(f->fleet, "me", waits, NULL), 0);
    await_answer(f, waits, FLEET_WAIT_FOR_EVER, &a);
    assert_int_equal(a.status, OP_STATUS_CANCELLED);
    answer_finish(&a);
    execute(f, id, "wait", waits);
    close_one(f, id);
    await_answer(f, waits, 0, &a);
    assert_int_equal(a.status, OP_STATUS_CANCELLED);
    answer_finish(&a);
    await_answer(f, done, 0, &a);
    assert_true(out_is(&a, "hello"));
    answer_finish(&a);
    execute(f, id, "echo more", refused);
    await_answer(f, refused, FLEET_WAIT_FOR_EVER, &a);
    assert_int_equal(a.rc, -ERR_SANDBOX_NOT_FOUND);
    answer_finish(&a);
}

static void a_crash_of_the_worker_does_not_end_an_execution(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char execution[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    execute(f, id, "crash", execution);
    await_answer(f, execution, FLEET_WAIT_FOR_EVER, &a);
    assert_true(out_is(&a, "survived"));
    answer_finish(&a);
}

static int kept_by_the_agent(const struct fixture *f, const char *id)
{
    char *instance = instance_dir(f);
    char *path = alloc_printf("%s/sandboxes/%s", instance, id);
    DIR *dir = opendir(path);
    struct dirent *entry;
    int n = 0;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        n += strncmp(entry->d_name, "op-", 3) == 0;
    }
    closedir(dir);
    free(path);
    free(instance);
    return n;
}

static void the_agent_may_forget_all_but_the_latest_executions(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    for (int i = 0; i < 2 * SANDBOX_LATE_ACKS; i++) {
        check_run(f, id, "echo x", "x");
    }
    assert_int_equal(kept_by_the_agent(f, id),
                     SANDBOX_LATE_ACKS + 1); /* one is acknowledged by the next START */
    const struct fleet_op op = {.kind = OP_FILE_READ, .data = view_of("echo y"), .keep_bytes = 9};
    for (int i = 0; i < 5; i++) { /* these are acknowledged and forgotten at once */
        struct answer a;
        answer_init(&a);
        fleet_run(f->fleet, id, &op, on_outcome, &a);
        wait_times(f, &a, 1);
        answer_finish(&a);
    }
    assert_int_equal(kept_by_the_agent(f, id), SANDBOX_LATE_ACKS + 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(nothing_is_touched_before_the_first_sandbox),
        T(a_sandbox_opens_runs_and_closes),
        T(both_streams_are_kept_apart_counted_and_capped),
        T(arguments_travel_and_are_copied),
        T(calls_run_side_by_side),
        T(a_call_that_resists_is_killed),
        T(a_refusal_is_passed_on),
        T(what_cannot_be_said_is_an_invalid_argument),
        T(too_many_calls_are_busy),
        T(many_calls_in_a_row_are_acknowledged),
        T(executions_are_followed_stopped_and_found_after_the_close),
        T(a_crash_of_the_worker_does_not_end_an_execution),
        T(the_agent_may_forget_all_but_the_latest_executions),
        T(unknown_sandboxes_are_not_found),
        T(names_are_unique_per_owner),
        T(there_are_at_most_so_many_sandboxes),
        T(an_idle_sandbox_closes_and_a_used_one_stays),
        T(a_sandbox_ends_with_its_life_whatever_it_does),
        T(status_shows_use_and_comes_without_it_too),
        T(calls_wait_for_a_sandbox_that_is_being_created),
        T(directories_are_private_and_go_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
