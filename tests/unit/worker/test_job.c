/* Deadlines: when an operation is interrupted, when it is killed, and when its time begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "worker/job.h"

static struct job *start(struct jobs *jobs, const char *op, bool runs_code)
{
    struct job *job = jobs_start(jobs, view_of(op), runs_code, 1000);
    assert_non_null(job);
    return job;
}

static struct job *run(struct jobs *jobs, const char *op, uint64_t now_ms)
{
    struct job *job = start(jobs, op, true);
    assert_true(job_runs(job, 0, now_ms));
    return job;
}

static void an_operation_is_interrupted_at_its_deadline_and_killed_two_seconds_later(void **state)
{
    struct jobs jobs;
    struct job *due = NULL;
    jobs_init(&jobs);
    struct job *job = run(&jobs, "a", 5000);
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
    jobs_init(&jobs);
    jobs_remove(&jobs, run(&jobs, "a", 0));
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    assert_null(jobs_find(&jobs, view_of("a")));
    jobs_finish(&jobs);
}

static void nothing_is_due_of_what_the_agent_has_not_reported(void **state)
{
    struct jobs jobs;
    struct job *due = NULL;
    jobs_init(&jobs);
    run(&jobs, "a", 0);
    struct job *second = start(&jobs, "b", true);
    assert_int_equal(jobs_tick(&jobs, 1000, &due), JOB_INTERRUPT);
    assert_string_equal(due->op, "a");
    jobs_remove(&jobs, due);
    assert_int_equal(jobs_tick(&jobs, 100000, &due), JOB_NOTHING);
    assert_true(job_runs(second, 0, 100000));
    assert_int_equal(jobs_next_due_ms(&jobs), 101000);
    jobs_finish(&jobs);
}

static void what_it_has_run_already_is_a_part_of_its_time(void **state)
{
    static const struct {
        uint64_t ran_us, due_ms;
    } cases[] = {{0, 6000},       {999, 6000},      {10000, 5990},    {999000, 5001},
                 {1000000, 5000}, {90000000, 5000}, {INT64_MAX, 5000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct jobs jobs;
        jobs_init(&jobs);
        assert_true(job_runs(start(&jobs, "a", true), cases[i].ran_us, 5000));
        assert_int_equal(jobs_next_due_ms(&jobs), cases[i].due_ms);
        jobs_finish(&jobs);
    }
}

static void a_repeated_start_or_report_does_not_buy_time(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs);
    struct job *job = run(&jobs, "a", 0);
    assert_ptr_equal(start(&jobs, "a", true), job);
    assert_false(job_runs(job, 0, 900));
    assert_int_equal(job->due_ms, 1000);
    assert_int_equal(jobs.count, 1);
    job_cancel(job, OP_STOP_CANCEL, false, 950);
    assert_false(job_runs(job, 0, 960));
    assert_int_equal(job->due_ms, 950 + TIME_INTERRUPT_MS);
    jobs_finish(&jobs);
}

static void a_cancelled_operation_is_killed_two_seconds_later(void **state)
{
    for (int runs = 0; runs < 2; runs++) {
        struct jobs jobs;
        struct job *due = NULL;
        jobs_init(&jobs);
        struct job *job = runs ? run(&jobs, "a", 0) : start(&jobs, "a", true);
        job_cancel(job, OP_STOP_CANCEL, false, 100);
        job_cancel(job, OP_STOP_TIMEOUT, false, 150); /* the first reason is kept */
        assert_int_equal(jobs_next_due_ms(&jobs), 100 + TIME_INTERRUPT_MS);
        assert_int_equal(jobs_tick(&jobs, 100 + TIME_INTERRUPT_MS, &due), JOB_KILL);
        assert_int_equal(due->reason, OP_STOP_CANCEL);
        jobs_finish(&jobs);
    }
}

static void without_a_timeout_nothing_is_due_until_it_is_cancelled(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs);
    struct job *job = jobs_start(&jobs, view_of("a"), true, 0);
    assert_true(job_runs(job, 20000, 5));
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    job_cancel(job, OP_STOP_CANCEL, true, 100);
    assert_int_equal(job->sm.state, JOB_KILLED);
    assert_int_equal(jobs_next_due_ms(&jobs), 0);
    jobs_finish(&jobs);
}

/* It may take a while to die, and how it did is judged by what was noted at its beginning. */
static void code_that_was_killed_is_known_until_its_outcome_has_come(void **state)
{
    struct jobs jobs;
    jobs_init(&jobs);
    struct job *code = run(&jobs, "a", 0);
    job_cancel(code, OP_STOP_CANCEL, true, 100);
    jobs_killed(&jobs, code);
    assert_ptr_equal(jobs_find(&jobs, view_of("a")), code);
    struct job *file = start(&jobs, "c", false);
    job_cancel(file, OP_STOP_CANCEL, true, 100);
    jobs_killed(&jobs, file);
    assert_null(jobs_find(&jobs, view_of("c")));
    jobs_finish(&jobs);
}

static void of_a_full_table_one_that_was_killed_gives_way(void **state)
{
    struct jobs jobs;
    char op[16];
    jobs_init(&jobs);
    for (int i = 0; i < JOBS_MAX; i++) {
        snprintf(op, sizeof(op), "op%d", i);
        start(&jobs, op, true);
    }
    struct job *killed = jobs_find(&jobs, view_of("op7"));
    job_cancel(killed, OP_STOP_CANCEL, true, 100);
    jobs_killed(&jobs, killed);
    start(&jobs, "one more", true);
    assert_null(jobs_find(&jobs, view_of("op7")));
    assert_int_equal(jobs.count, JOBS_MAX);
    assert_null(jobs_start(&jobs, view_of("and one"), true, 1));
    jobs_finish(&jobs);
}

static void the_table_is_bounded(void **state)
{
    struct jobs jobs;
    char op[16];
    jobs_init(&jobs);
    for (int i = 0; i < JOBS_MAX; i++) {
        snprintf(op, sizeof(op), "op%d", i);
        assert_non_null(jobs_start(&jobs, view_of(op), false, 1));
    }
    assert_null(jobs_start(&jobs, view_of("one more"), false, 1));
    jobs_remove(&jobs, jobs.first);
    assert_non_null(jobs_start(&jobs, view_of("one more"), false, 1));
    jobs_finish(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_is_interrupted_at_its_deadline_and_killed_two_seconds_later),
        cmocka_unit_test(one_that_ends_in_time_leaves_nothing_due),
        cmocka_unit_test(nothing_is_due_of_what_the_agent_has_not_reported),
        cmocka_unit_test(what_it_has_run_already_is_a_part_of_its_time),
        cmocka_unit_test(a_repeated_start_or_report_does_not_buy_time),
        cmocka_unit_test(a_cancelled_operation_is_killed_two_seconds_later),
        cmocka_unit_test(without_a_timeout_nothing_is_due_until_it_is_cancelled),
        cmocka_unit_test(code_that_was_killed_is_known_until_its_outcome_has_come),
        cmocka_unit_test(of_a_full_table_one_that_was_killed_gives_way),
        cmocka_unit_test(the_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
