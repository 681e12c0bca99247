/* A fleet takes over sandboxes that do not answer, because their engine or agent is stopped:
 * callers are answered so within their timeout, and no sandbox is given up. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "tests/unit/supervisor/fleet/fixture.h"

#define NEARLY_MS 7000 /* of the timeout of 10 s */

static int setup(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *f = *state;
    rename_instance(f, "main");
    f->config.grace_s = 60;
    return rc;
}

static void set_silent(const struct fixture *f, const char *id, bool silent)
{
    CLEANUP_FREE char *path = alloc_printf("%s/main/sandboxes/%s/silent", f->top, id);
    if (silent) {
        assert_int_equal(file_replace(path, "", 0, 0600, NULL), 0);
    } else {
        assert_int_equal(unlink(path), 0);
    }
}

static void on_first(void *arg, const struct fleet_info *info)
{
    *(int *)arg = info->worker_pid;
}

static int pid_of_worker(struct fixture *f)
{
    int pid = 0;
    fleet_list(f->fleet, "me", on_first, &pid);
    return pid;
}

/* Leaves one sandbox in which code runs, without its server. Returns its worker. */
static int leave_one(struct fixture *f, char id[FLEET_ID_SIZE], char execution[FLEET_ID_SIZE])
{
    const struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of("wait"), .keep_bytes = 1u << 20};
    fixture_start(f);
    open_one(f, NULL, id);
    fleet_execute(f->fleet, "me", id, &op, execution);
    check_run(f, id, "echo later", "later"); /* the earlier request has been delivered */
    int pid = pid_of_worker(f);
    fixture_leave(f);
    set_silent(f, id, true);
    return pid;
}

static void assert_not_known(const struct answer *a)
{
    assert_int_equal(a->rc, -ERR_ENGINE);
    assert_non_null(strstr(a->err.text, "not known yet"));
    assert_non_null(strstr(a->hint, "do not run the code again"));
}

/* Checks that the sandbox and its execution are unchanged. */
static void check_taken_over(struct fixture *f, const char *id, const char *execution,
                             const char *worker)
{
    struct answer a;
    struct err err = ERR_INIT;
    set_silent(f, id, false);
    wait_state(f, id, "ready");
    answer_init(&a);
    assert_int_equal(fleet_stop(f->fleet, "me", execution, &err), 0);
    fleet_await(f->fleet, "me", execution, WAIT_MS, on_outcome, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.status, OP_STATUS_CANCELLED);
    answer_finish(&a);
    check_run(f, id, "gen", worker);
}

static void who_asks_is_answered_in_time_and_what_ran_is_found_later(void **state)
{
    struct fixture *f = *state;
    struct answer status, now, later, for_ever;
    struct answer *all[] = {&status, &now, &later, &for_ever};
    char id[FLEET_ID_SIZE], execution[FLEET_ID_SIZE];
    int pid = leave_one(f, id, execution);
    fixture_start(f);
    fleet_adopt(f->fleet);
    for (size_t i = 0; i < 4; i++) {
        answer_init(all[i]);
    }
    fleet_status(f->fleet, id, on_info, &status);
    fleet_await(f->fleet, "me", execution, 0, on_outcome, &now);
    fleet_await(f->fleet, "me", execution, 3000, on_outcome, &later);
    fleet_await(f->fleet, "me", execution, FLEET_WAIT_FOR_EVER, on_outcome, &for_ever);
    run_past(f, NEARLY_MS);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(all[i]->times, 0);
    }
    assert_int_equal(pid_of_worker(f), pid); /* the worker is fine, though its sandbox is silent */
    wait_times(f, &now, 1);
    wait_times(f, &later, 1);
    wait_times(f, &status, 1);
    assert_not_known(&now);
    assert_not_known(&later);
    assert_int_equal(status.rc, 0);
    assert_string_equal(status.state, "recovering");
    assert_false(status.has_usage);
    assert_int_equal(for_ever.times, 0);
    check_taken_over(f, id, execution, "1");
    wait_times(f, &for_ever, 1);
    assert_int_equal(for_ever.status, OP_STATUS_CANCELLED);
    for (size_t i = 0; i < 4; i++) {
        answer_finish(all[i]);
    }
}

static void what_turns_up_is_waited_for_as_long_as_was_asked(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char id[FLEET_ID_SIZE], execution[FLEET_ID_SIZE];
    leave_one(f, id, execution);
    fixture_start(f);
    fleet_adopt(f->fleet);
    answer_init(&a);
    fleet_await(f->fleet, "me", execution, 500, on_outcome, &a);
    run_past(f, 500);
    assert_int_equal(a.times, 0);
    set_silent(f, id, false);
    wait_times(f, &a, 1); /* when the requested time is over, because the code goes on */
    assert_int_equal(a.rc, 0);
    answer_finish(&a);
}

static void a_next_worker_tries_as_long_as_nobody_answers(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE], execution[FLEET_ID_SIZE];
    int pid = leave_one(f, id, execution);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    forget_notes(f);
    fixture_start(f);
    fleet_adopt(f->fleet);
    for (int i = 0; i < 3; i++) { /* several are refused */
        wait_note(f, "open");
    }
    wait_state(f, id, "recovering");
    set_silent(f, id, false);
    wait_state(f, id, "ready");
}

static void a_server_that_ends_meanwhile_leaves_it_to_the_next_one(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char id[FLEET_ID_SIZE], execution[FLEET_ID_SIZE];
    leave_one(f, id, execution);
    forget_notes(f);
    fixture_start(f);
    fleet_adopt(f->fleet);
    answer_init(&a);
    fleet_await(f->fleet, "me", execution, WAIT_MS, on_outcome, &a);
    wait_note(f, "ops");
    fixture_leave(f);
    assert_int_equal(a.times, 1);
    assert_int_equal(a.rc, -ERR_SHUTTING_DOWN);
    answer_finish(&a);
    fixture_start(f);
    fleet_adopt(f->fleet);
    check_taken_over(f, id, execution, "1");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(who_asks_is_answered_in_time_and_what_ran_is_found_later),
        T(what_turns_up_is_waited_for_as_long_as_was_asked),
        T(a_next_worker_tries_as_long_as_nobody_answers),
        T(a_server_that_ends_meanwhile_leaves_it_to_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
