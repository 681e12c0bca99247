/* Deadlines: when an operation is interrupted, when it is killed, and when its time begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "worker/job.h"

static const struct view python = {"python", 6};
static const struct view bash = {"bash", 4};
static const struct view none = {NULL, 0};

static struct job *start(struct jobs *jobs, const char *op, struct view language, uint64_t now_ms)
{
    struct job *job = jobs_start(jobs, view_of(op), language, 1000, now_ms);
    assert_non_null(job);
    return job;
}

static void an_operation_is_interrupted_at_its_deadline_and_killed_two_seconds_later(void **state)
{
    struct jobs jobs;
    struct job *due = NULL;
    jobs_init(&jobs, true);
    struct job *job = start(&jobs, "a", python, 5000);
    assert_int_equal(jobs_next_due_ms(&jobs), 6000);
    assert_int_equal(jobs_tick(&jobs, 5999, &due), JOB_NOTHING);
    assert_int_equal(jobs_tick(&jobs, 6000, &due), JOB_INTERRUPT);
    assert_ptr_equal(due, job);
    assert_int_equal(job->reason, OP_STOP_TIMEOUT);
    assert_int_equal(jobs_tick(&jobs, 6000, &due), JOB_NOTHING);
    assert_int_equal(jobs_next_due_ms(&jobs), 6000 + TIME_INTERRUPT_MS);
    assert_int_equal(jobs_tick(&jobs, 6000 + TIME_INTERRUPT_MS, &due), JOB_KILL);
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    jobs_finish(&jobs);
}

static void one_that_ends_in_time_leaves_nothing_due(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, true);
    jobs_remove(&jobs, start(&jobs, "a", python, 0));
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    assert_null(jobs_find(&jobs, view_of("a")));
    jobs_finish(&jobs);
}

static void time_in_the_queue_does_not_count(void **state)
{
    struct jobs jobs;
    struct job *due = NULL;
    jobs_init(&jobs, true);
    start(&jobs, "a", python, 0);
    struct job *second = start(&jobs, "b", python, 0);
    assert_int_equal(jobs_tick(&jobs, 1000, &due), JOB_INTERRUPT);
    assert_string_equal(due->op, "a");
    jobs_remove(&jobs, due);
    assert_int_equal(jobs_tick(&jobs, 100000, &due), JOB_NOTHING);
    job_set_state(second, OP_RUNNING, 100000);
    assert_int_equal(jobs_next_due_ms(&jobs), 101000);
    jobs_finish(&jobs);
}

static void other_interpreters_and_files_do_not_queue(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, true);
    start(&jobs, "a", python, 0);
    assert_int_equal(start(&jobs, "b", bash, 10)->due_ms, 1010);
    assert_int_equal(start(&jobs, "c", none, 20)->due_ms, 1020);
    assert_int_equal(start(&jobs, "d", none, 30)->due_ms, 1030);
    jobs_finish(&jobs);
}

static void a_repeated_start_does_not_buy_time(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, true);
    struct job *job = start(&jobs, "a", python, 0);
    assert_ptr_equal(start(&jobs, "a", python, 900), job);
    assert_int_equal(job->due_ms, 1000);
    assert_int_equal(jobs.count, 1);
    jobs_finish(&jobs);
}

static void a_doubtful_job_asks_without_waiting_until_the_agent_has_told(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, false); /* after a takeover it is unknown what is running */
    struct job *job = start(&jobs, "a", python, 0);
    assert_int_equal(job_wait_ms(job, 5000), 0);
    job_set_state(job, OP_QUEUED, 10);
    assert_int_equal(job_wait_ms(job, 5000), 5000);
    jobs_link_lost(&jobs);
    assert_int_equal(job_wait_ms(job, 5000), 0);
    job_set_state(job, OP_RUNNING, 50);
    assert_int_equal(job_wait_ms(job, 5000), 5000);
    assert_int_equal(job->due_ms, 1050);
    jobs_finish(&jobs);
}

static void a_job_that_was_thought_to_run_may_turn_out_to_be_queued(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, true);
    struct job *job = start(&jobs, "a", python, 0);
    job_set_state(job, OP_QUEUED, 10);
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    job_set_state(job, OP_RUNNING, 500);
    assert_int_equal(jobs_next_due_ms(&jobs), 1500);
    jobs_finish(&jobs);
}

static void waits_are_capped(void **state)
{
    assert_int_equal(job_wait_ms(NULL, UINT32_MAX), TIME_WAIT_MS);
    assert_int_equal(job_wait_ms(NULL, 7), 7);
}

static void a_cancelled_operation_is_killed_two_seconds_later(void **state)
{
    struct jobs jobs;
    struct job *due = NULL;
    jobs_init(&jobs, true);
    struct job *job = start(&jobs, "a", python, 0);
    job_cancel(job, OP_STOP_CANCEL, false, 100);
    job_cancel(job, OP_STOP_TIMEOUT, false, 150); /* the first reason is kept */
    assert_int_equal(jobs_next_due_ms(&jobs), 100 + TIME_INTERRUPT_MS);
    assert_int_equal(jobs_tick(&jobs, 100 + TIME_INTERRUPT_MS, &due), JOB_KILL);
    assert_int_equal(due->reason, OP_STOP_CANCEL);
    jobs_finish(&jobs);
}

static void without_a_timeout_nothing_is_due_until_it_is_cancelled(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, true);
    struct job *job = jobs_start(&jobs, view_of("a"), python, 0, 5);
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    job_cancel(job, OP_STOP_CANCEL, true, 100);
    assert_int_equal(job->sm.state, JOB_KILLED);
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    jobs_finish(&jobs);
}

/* Only the agent knows whether the others are interpreters or programs. */
static void behind_as_many_as_run_side_by_side_it_may_be_queued(void **state)
{
    struct jobs jobs;
    struct job *due = NULL;
    jobs_init(&jobs, true);
    for (int i = 0; i <= LIMIT_PROGRAMS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "of%d", i);
        assert_int_equal(jobs_next_due_ms(&jobs), i == 0 ? 0 : 1000);
        struct job *job = start(&jobs, name, view_of(name), (uint64_t)i);
        start(&jobs, name + 1, none, 5000); /* file operations do not count */
        assert_int_equal(job_wait_ms(job, 100), i < LIMIT_PROGRAMS ? 100 : 0);
    }
    struct job *last = jobs_find(&jobs, view_of("of8"));
    job_set_state(last, OP_QUEUED, 10);
    assert_int_equal(job_wait_ms(last, 100), 100);
    job_set_state(last, OP_RUNNING, 500);
    while (jobs_tick(&jobs, 1499, &due) != JOB_NOTHING) {
        assert_ptr_not_equal(due, last);
    }
    assert_int_equal(jobs_tick(&jobs, 1500, &due), JOB_INTERRUPT);
    assert_ptr_equal(due, last);
    jobs_finish(&jobs);
}

/* Killing may take a while. */
static void behind_one_that_was_killed_it_is_queued_until_that_is_over(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs, true);
    struct job *first = start(&jobs, "a", python, 0);
    job_cancel(first, OP_STOP_CANCEL, true, 100);
    jobs_killed(&jobs, first);
    struct job *second = start(&jobs, "b", python, 200);
    assert_int_equal(job_wait_ms(second, 5000), 0);
    job_set_state(second, OP_QUEUED, 250);
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    jobs_remove(&jobs, first);
    job_set_state(second, OP_RUNNING, 500);
    assert_int_equal(jobs_next_due_ms(&jobs), 1500);
    struct job *file =
        start(&jobs, "c", none, 0); /* nothing is queued behind it, whenever it ends */
    job_cancel(file, OP_STOP_CANCEL, true, 100);
    jobs_killed(&jobs, file);
    assert_null(jobs_find(&jobs, view_of("c")));
    jobs_finish(&jobs);
}

static void of_a_full_table_one_that_was_killed_gives_way(void **state)
{
    struct jobs jobs;
    char op[16];
    jobs_init(&jobs, true);
    for (int i = 0; i < JOBS_MAX; i++) {
        snprintf(op, sizeof(op), "op%d", i);
        start(&jobs, op, python, 0);
    }
    struct job *killed = jobs_find(&jobs, view_of("op7"));
    job_cancel(killed, OP_STOP_CANCEL, true, 100);
    jobs_killed(&jobs, killed);
    start(&jobs, "one more", python, 0);
    assert_null(jobs_find(&jobs, view_of("op7")));
    assert_int_equal(jobs.count, JOBS_MAX);
    assert_null(jobs_start(&jobs, view_of("and one"), python, 1, 0));
    jobs_finish(&jobs);
}

static void the_table_is_bounded(void **state)
{
    struct jobs jobs;
    char op[16];
    jobs_init(&jobs, true);
    for (int i = 0; i < JOBS_MAX; i++) {
        snprintf(op, sizeof(op), "op%d", i);
        assert_non_null(jobs_start(&jobs, view_of(op), none, 1, 0));
    }
    assert_null(jobs_start(&jobs, view_of("one more"), none, 1, 0));
    jobs_remove(&jobs, jobs.first);
    assert_non_null(jobs_start(&jobs, view_of("one more"), none, 1, 0));
    jobs_finish(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_is_interrupted_at_its_deadline_and_killed_two_seconds_later),
        cmocka_unit_test(one_that_ends_in_time_leaves_nothing_due),
        cmocka_unit_test(time_in_the_queue_does_not_count),
        cmocka_unit_test(other_interpreters_and_files_do_not_queue),
        cmocka_unit_test(a_repeated_start_does_not_buy_time),
        cmocka_unit_test(a_doubtful_job_asks_without_waiting_until_the_agent_has_told),
        cmocka_unit_test(a_job_that_was_thought_to_run_may_turn_out_to_be_queued),
        cmocka_unit_test(waits_are_capped),
        cmocka_unit_test(a_cancelled_operation_is_killed_two_seconds_later),
        cmocka_unit_test(without_a_timeout_nothing_is_due_until_it_is_cancelled),
        cmocka_unit_test(behind_as_many_as_run_side_by_side_it_may_be_queued),
        cmocka_unit_test(behind_one_that_was_killed_it_is_queued_until_that_is_over),
        cmocka_unit_test(of_a_full_table_one_that_was_killed_gives_way),
        cmocka_unit_test(the_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
