/* Every request to a sandbox in every state of it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/fleet/sandbox/sandbox.h"
#include "supervisor/fleet/workers/policy.h"
#include "tests/unit/supervisor/fleet/fixture.h"

/* ---- the table ---- */

static void check_moves(const struct sm_state *table, unsigned count, const char *const *expected)
{
    for (unsigned from = 0; from < count; from++) {
        struct sm m;
        sm_init(&m, table, count, from);
        for (unsigned to = 0; to < count; to++) {
            if (sm_may(&m, to) != (expected[from][to] == '+')) {
                fail_msg("%s -> %s", table[from].name, table[to].name);
            }
        }
        assert_false(sm_may(&m, count));
    }
}

static void only_declared_moves_are_possible(void **state)
{
    /* rows: from; columns: creating ready recovering failed closing closed left */
    static const char *const expected[SANDBOX_STATE_COUNT] = {
        [SANDBOX_CREATING] = ".+..+..",   [SANDBOX_READY] = "..+++.+",
        [SANDBOX_RECOVERING] = ".+.++.+", [SANDBOX_FAILED] = "....+..",
        [SANDBOX_CLOSING] = ".....+.",    [SANDBOX_CLOSED] = ".......",
        [SANDBOX_LEFT] = ".......",
    };
    check_moves(sandbox_states, SANDBOX_STATE_COUNT, expected);
}

/* The machines beside the state: worker, creation, removal, adoption. */
static void only_declared_moves_are_possible_beside_it(void **state)
{
    /* unasked asked reached refused silent */
    static const char *const attempts[] = {"++...", "+.+++", "+....", "+....", "+...."};
    /* not once mute unmade pending again destroyed */
    static const char *const mades[] = {".+....+", "..+...+", "...+..+", "....+.+",
                                        ".....++", "......+", "......."};
    /* none installers worker sweep record files done */
    static const char *const cleanups[] = {".+.....", "..+....", "...++++", "....+++",
                                           ".....+.", "......+", "......."};
    /* none running queued starting settled */
    static const char *const adoptions[] = {".+...", "..+.+", "...++", ".+..+", "....."};
    check_moves(sandbox_attempts, ATTEMPT_COUNT, attempts);
    check_moves(sandbox_mades, MADE_COUNT, mades);
    check_moves(sandbox_cleanups, CLEANUP_COUNT, cleanups);
    check_moves(sandbox_adoptions, ADOPTION_COUNT, adoptions);
    /* no filling kept sought claimed given lost */
    static const char *const pooleds[] = {".+.+...", "..+....", "....+..", "....+.+",
                                          ".....++", ".......", "......."};
    check_moves(sandbox_pooleds, POOLED_COUNT, pooleds);
}

/* ---- the policy ---- */

static void the_first_death_is_repaired_at_once_and_the_fifth_not(void **state)
{
    struct worker_policy p = {.deaths = 0};
    static const uint64_t delays[] = {0, 50, 100, 200};
    uint64_t delay_ms;
    for (unsigned i = 0; i < 4; i++) {
        assert_true(worker_policy_died(&p, 1000 + i, 1000, &delay_ms));
        assert_int_equal(delay_ms, delays[i]);
    }
    assert_false(worker_policy_died(&p, 2000, 1000, &delay_ms));
}

static void a_success_or_much_time_between_deaths_forgives(void **state)
{
    struct worker_policy p = {.deaths = 0};
    uint64_t delay_ms;
    for (unsigned i = 0; i < 20; i++) {
        assert_true(worker_policy_died(&p, 1000 + i, 1000 + i, &delay_ms));
        if (i % 3 == 0) {
            worker_policy_success(&p);
        }
    }
    worker_policy_success(&p);
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(worker_policy_died(&p, i * 10000, i * 10000, &delay_ms));
        assert_true(delay_ms <= 2000);
    }
}

static void a_sandbox_is_not_repaired_for_ever(void **state)
{
    struct worker_policy p = {.deaths = 0};
    uint64_t delay_ms;
    assert_true(worker_policy_died(&p, 20000, 0, &delay_ms));
    assert_true(worker_policy_died(&p, 40000, 0, &delay_ms));
    assert_false(worker_policy_died(&p, 60000, 0, &delay_ms));
}

static void a_host_in_need_is_given_time_not_attempts(void **state)
{
    struct worker_policy p = {.deaths = 0};
    static const uint64_t delays[] = {50, 100, 200, 400, 800, 1000, 1000};
    uint64_t delay_ms = 0;
    uint64_t now_ms = 1000;
    for (unsigned i = 0; now_ms - 1000 < WORKER_POLICY_REPAIR_MS; i++) {
        assert_true(worker_policy_refused(&p, now_ms, 1000, &delay_ms));
        assert_int_equal(delay_ms, delays[i < 6 ? i : 6]);
        now_ms += delay_ms;
    }
    assert_false(worker_policy_refused(&p, now_ms, 1000, &delay_ms));
    assert_true(worker_policy_died(&p, now_ms, now_ms, &delay_ms));
    assert_int_equal(delay_ms, 0); /* that exit was no death */
    worker_policy_reached(&p);
    assert_true(worker_policy_refused(&p, now_ms, now_ms, &delay_ms));
    assert_int_equal(delay_ms, delays[0]);
}

/* ---- state x event ---- */

enum event {
    EVENT_RUN,
    EVENT_RUN_AND_CANCEL,
    EVENT_STATUS,
    EVENT_CLOSE,
    EVENT_CLOSE_TWICE,
    EVENT_KILL_WORKER,
    EVENT_SHUTDOWN,
    EVENT_COUNT,
};

static int pid_now(struct fixture *f, const char *id);

/* Brings a sandbox into the state; `opened` receives the answer of the open. */
static void reach(struct fixture *f, enum sandbox_state wanted, struct answer *opened,
                  struct answer *waiting, char id[FLEET_ID_SIZE])
{
    static const char *const images[] = {
        [SANDBOX_CREATING] = "open-slow",     [SANDBOX_READY] = NULL,
        [SANDBOX_RECOVERING] = "attach-slow", [SANDBOX_FAILED] = NULL,
        [SANDBOX_CLOSING] = "close-stays",
    };
    const char *found;
    struct err err = ERR_INIT;
    struct answer a;
    begin_open(f, "it", images[wanted], opened);
    assert_int_equal(fleet_find(f->fleet, "me", "it", &found, &err), 0);
    snprintf(id, FLEET_ID_SIZE, "%s", found);
    answer_init(waiting);
    if (wanted == SANDBOX_CREATING) {
        begin_run(f, id, "wait", waiting);
        return;
    }
    wait_times(f, opened, 1);
    assert_int_equal(opened->rc, 0);
    begin_run(f, id, "wait", waiting);
    wait_begun(f, id, 1);
    switch (wanted) {
    case SANDBOX_RECOVERING:
        kill(opened->pid, SIGKILL);
        wait_state(f, id, "recovering");
        break;
    case SANDBOX_FAILED:
        begin_run(f, id, "gone", &a);
        wait_times(f, &a, 1);
        answer_finish(&a);
        wait_state(f, id, "failed");
        break;
    case SANDBOX_CLOSING:
        answer_init(&a);
        fleet_close(f->fleet, id, on_done, &a);
        wait_state(f, id, "closing");
        wait_times(f, &a, 1);
        break;
    default:
        break;
    }
}

struct pid_search {
    const char *id;
    int pid;
};

static void on_pid(void *arg, const struct fleet_info *info)
{
    struct pid_search *search = arg;
    if (strcmp(info->id, search->id) == 0) {
        search->pid = info->worker_pid;
    }
}

static int pid_now(struct fixture *f, const char *id)
{
    struct pid_search search = {.id = id};
    fleet_list(f->fleet, "me", on_pid, &search);
    return search.pid;
}

/* The error of a new call in a state; 0 if it runs. */
static int refusal_in(enum sandbox_state s)
{
    return s == SANDBOX_FAILED ? -ERR_GONE : s == SANDBOX_CLOSING ? -ERR_SANDBOX_NOT_FOUND : 0;
}

static void do_event(struct fixture *f, enum sandbox_state s, bool adopting, enum event event,
                     const char *id)
{
    struct answer a;
    struct answer b;
    int pid;
    answer_init(&a);
    answer_init(&b);
    switch (event) {
    case EVENT_RUN:
        begin_run(f, id, "echo done", &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, refusal_in(s));
        assert_true(a.rc < 0 || out_is(&a, "done"));
        break;
    case EVENT_RUN_AND_CANCEL:
        fleet_cancel(begin_run(f, id, "wait", &a));
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, refusal_in(s));
        assert_true(a.rc < 0 || a.status == OP_STATUS_CANCELLED);
        break;
    case EVENT_STATUS:
        get_status(f, id, &a);
        assert_int_equal(a.rc, s == SANDBOX_CLOSING ? -ERR_SANDBOX_NOT_FOUND : 0);
        assert_int_equal(a.has_usage, s == SANDBOX_READY || adopting); /* then it waits */
        break;
    case EVENT_CLOSE:
    case EVENT_CLOSE_TWICE:
        fleet_close(f->fleet, id, on_done, &a);
        if (event == EVENT_CLOSE_TWICE) {
            fleet_close(f->fleet, id, on_done, &b);
            wait_times(f, &b, 1);
            assert_int_equal(b.rc, -ERR_SANDBOX_NOT_FOUND);
        }
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, s == SANDBOX_CLOSING ? -ERR_SANDBOX_NOT_FOUND : 0);
        wait_state(f, id, NULL);
        break;
    case EVENT_KILL_WORKER:
        pid = pid_now(f, id);
        if (pid > 0) {
            kill(pid, SIGKILL);
        }
        if (pid > 0 && !adopting) { /* else it is no child any more */
            wait_gone(f, pid);
        }
        if (s == SANDBOX_READY || s == SANDBOX_RECOVERING) { /* another worker takes over */
            wait_state(f, id, "ready");
        }
        break;
    default:
        break; /* the test always ends by a shutdown */
    }
    answer_finish(&a);
    answer_finish(&b);
}

/* Checks that every callback ran, with the expected result. */
static void check_answers(const struct answer *opened, const struct answer *waiting)
{
    assert_int_equal(opened->times, 1);
    assert_int_equal(waiting->times, 1);
    assert_true(waiting->rc == -ERR_GONE || waiting->rc == -ERR_ENGINE ||
                waiting->rc == -ERR_SHUTTING_DOWN || waiting->status == OP_STATUS_CANCELLED);
}

/* The worker of a sandbox that is being closed does not exit by itself. */
static const char *late_in(enum sandbox_state s)
{
    return s == SANDBOX_CLOSING ? "did not exit" : NULL;
}

static void every_event_in_every_state(void **state)
{
    struct fixture *f = *state;
    for (unsigned s = SANDBOX_CREATING; s < SANDBOX_CLOSED; s++) {
        for (unsigned e = 0; e < EVENT_COUNT; e++) {
            struct answer opened;
            struct answer waiting; /* a call that was begun before */
            char id[FLEET_ID_SIZE];
            fixture_start(f);
            reach(f, s, &opened, &waiting, id);
            do_event(f, s, false, e, id);
            fixture_end_by_itself(f, FLEET_END_CLOSE, late_in(s));
            check_answers(&opened, &waiting);
            answer_finish(&opened);
            answer_finish(&waiting);
        }
    }
}

static void a_supervisor_may_leave_in_every_state(void **state)
{
    struct fixture *f = *state;
    char path[96];
    rename_instance(f, "main");
    snprintf(path, sizeof(path), "%s/main/sandboxes", f->top);
    for (unsigned s = SANDBOX_CREATING; s < SANDBOX_CLOSED; s++) {
        for (unsigned e = 0; e < EVENT_COUNT; e++) {
            bool stays = s == SANDBOX_READY || s == SANDBOX_RECOVERING;
            struct answer opened;
            struct answer waiting;
            char id[FLEET_ID_SIZE];
            fixture_start(f);
            reach(f, s, &opened, &waiting, id);
            fixture_end_by_itself(f, FLEET_END_LEAVE, late_in(s));
            check_answers(&opened, &waiting);
            assert_int_equal(stays, waiting.rc == -ERR_SHUTTING_DOWN);
            answer_finish(&opened);
            answer_finish(&waiting);
            assert_int_equal(count_entries(path), stays ? 1 : 0);
            fixture_start(f);
            fleet_adopt(f->fleet);
            wait_state(f, id, stays ? "recovering" : NULL);
            if (stays) { /* a server that has not found its workers yet may answer this, too */
                do_event(f, SANDBOX_RECOVERING, true, e, id);
                fixture_end_by_itself(f, FLEET_END_LEAVE, NULL);
                fixture_start(f);
                fleet_adopt(f->fleet);
            }
            fixture_end_by_itself(f, FLEET_END_CLOSE, NULL);
            assert_int_equal(count_entries(path), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_declared_moves_are_possible),
        cmocka_unit_test(only_declared_moves_are_possible_beside_it),
        cmocka_unit_test(the_first_death_is_repaired_at_once_and_the_fifth_not),
        cmocka_unit_test(a_success_or_much_time_between_deaths_forgives),
        cmocka_unit_test(a_sandbox_is_not_repaired_for_ever),
        cmocka_unit_test(a_host_in_need_is_given_time_not_attempts),
        cmocka_unit_test_setup_teardown(every_event_in_every_state, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_supervisor_may_leave_in_every_state, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
