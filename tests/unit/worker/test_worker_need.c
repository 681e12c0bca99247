/*
 * A worker in need: each allocation and each call that can fail does so in turn (tests/lib/heap.h,
 * fault.h, short.c), while the worker creates a sandbox, takes one over, loses its stream, or has
 * lost its supervisor. Whatever fails, the worker answers or ends, with a reason; the next worker
 * takes the sandbox over if there is one, and in the end nothing is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "tests/lib/fault.h"
#include "tests/unit/worker/driver.h"

#define ENDLESS     400 /* more failures than any of these lives has */
#define PATIENCE_MS 20000
#define GRACE_MS    300

/* What fails. */
struct need {
    enum fault_call call; /* FAULT_NONE: an allocation */
    int sys;
};

static const struct need needs[] = {
    {FAULT_NONE, 0},       {FAULT_OPEN, EMFILE},  {FAULT_WRITE, ENOSPC}, {FAULT_RENAME, ENOSPC},
    {FAULT_MKDIR, ENOSPC}, {FAULT_SPAWN, EAGAIN}, {FAULT_PIPE, EMFILE},
};

#define NEEDS (sizeof(needs) / sizeof(needs[0]))

/* One try. */
struct attempt {
    struct driver *d;
    struct need need;
    size_t nth;
    char note[128];
    bool leaves;     /* it has left, or is about to: what it is asked now may be lost */
    bool taken_over; /* the sandbox was there before this worker, which must not lose it */
};

/* ---- the worker ------------------------------------------------------------------------------ */

/* Starts the worker that is in need. False if it ended before it had a link. */
static bool start_in_need(struct attempt *t, uint64_t generation)
{
    struct driver *d = t->d;
    char order[64];
    if (t->need.call == FAULT_NONE) {
        snprintf(order, sizeof(order), "heap %zu", t->nth);
    } else {
        snprintf(order, sizeof(order), "%u %d %zu", (unsigned)t->need.call, t->need.sys, t->nth);
    }
    CLEANUP_FREE char *plain = alloc_strdup(getenv("CLOISTER_WORKER"));
    setenv("CLOISTER_WORKER", getenv("WORKER_IN_NEED"), 1);
    setenv("WORKER_SHORT", order, 1);
    setenv("WORKER_SHORT_NOTE", t->note, 1);
    driver_launch(d, generation);
    unsetenv("WORKER_SHORT");
    setenv("CLOISTER_WORKER", plain, 1);
    uint64_t end = clock_ms() + PATIENCE_MS;
    while (!d->up && d->running && clock_ms() < end) {
        driver_idle(d, 1);
    }
    assert_true(d->up || !d->running);
    return d->up;
}

/* True if it was answered, with whatever. A worker that ends answers nothing. */
static bool ask(struct attempt *t, struct msg m, enum msg_type *ret_type, uint64_t *ret_code)
{
    struct driver *d = t->d;
    struct answer a;
    if (!d->up || t->leaves) {
        return false;
    }
    driver_send(d, &m, &a);
    driver_wait_flag(d, &a.done, msg_name(m.type));
    bool answered = a.rc == 0;
    bool refused = answered && m.type == MSG_OPEN && a.m.type == MSG_FAILED;
    t->leaves = t->leaves || !answered || refused;
    *ret_type = answered ? a.m.type : MSG_NONE;
    *ret_code = answered && a.m.type == MSG_FAILED ? a.m.failed.code : 0;
    if (answered && a.m.type == MSG_FAILED) {
        assert_true(a.m.failed.message.len > 0);
        assert_int_not_equal(a.m.failed.code, ERR_PROTOCOL); /* it is nobody's fault */
        assert_false(a.m.failed.code == ERR_GONE && driver_agent_runs(d));
    }
    answer_finish(&a);
    return answered;
}

/* True if it was answered with success. */
static bool did(struct attempt *t, struct msg m)
{
    enum msg_type type;
    uint64_t code;
    return ask(t, m, &type, &code) && type != MSG_FAILED;
}

static void wait_gone(struct driver *d)
{
    uint64_t end = clock_ms() + PATIENCE_MS;
    while (driver_agent_runs(d) && clock_ms() < end) {
        driver_idle(d, 5);
    }
    assert_false(driver_agent_runs(d));
}

static void wait_end_in_need(struct driver *d)
{
    driver_wait_exit(d);
    driver_wait_link(d, false);
    if (d->exit_signal != 0 || exit_code_text(d->exit_code) == NULL ||
        d->exit_code == EXIT_CODE_PROTOCOL) {
        fail_msg("exit code %d, signal %d", d->exit_code, d->exit_signal);
    }
}

/* Whether something has failed, as the worker in need has noted at its end. Without memory it ends
 * at once, and notes nothing. */
static bool take_note(const struct attempt *t, bool no_memory)
{
    CLEANUP_BUF struct buf note;
    struct err err = ERR_INIT;
    buf_init(&note, 8);
    if (file_read(t->note, &note, &err) < 0) {
        assert_true(no_memory);
        return true;
    }
    unlink(t->note);
    assert_int_equal(note.len, 1);
    return note.data[0] == '1';
}

/* Whatever has become of the worker in need: it ends, and the next one finds the sandbox, or that
 * there is none, and leaves nothing. True if something has failed. */
static bool settle(struct attempt *t, uint64_t generation)
{
    struct driver *d = t->d;
    struct msg bye = {.type = MSG_CLOSE};
    enum msg_type type;
    uint64_t code;
    bool asked = d->up && !t->leaves;
    if (asked) {
        (void)ask(t, bye, &type, &code);
    }
    wait_end_in_need(d);
    assert_true(asked || !t->taken_over || driver_agent_runs(d));
    bool failed = take_note(t, d->exit_code == EXIT_CODE_NO_MEMORY);
    t->leaves = false;
    if (driver_agent_runs(d)) {
        driver_start(d, generation);
        bool there = ask(t, make_open("", true), &type, &code) && type == MSG_OPENED;
        if (there) {
            struct answer a;
            driver_run(d, "after", "echo x", 5000, &a, NULL);
            answer_finish(&a);
            driver_close(d);
        } else {
            assert_int_equal(code, ERR_GONE);
            driver_wait_exit(d);
        }
        driver_wait_link(d, false);
    }
    wait_gone(d);
    return failed;
}

/* Every failure in turn, of each kind, until a life has had none. */
static void each(void **state, bool (*live)(struct attempt *t))
{
    struct attempt t = {.d = *state};
    size_t failures = 0;
    snprintf(t.note, sizeof(t.note), "%s/short", t.d->dir);
    for (size_t i = 0; i < NEEDS; i++) {
        t.need = needs[i];
        bool failed = true;
        for (t.nth = 0; failed && t.nth < ENDLESS; t.nth++) {
            t.leaves = false;
            failed = live(&t);
            failures += failed;
        }
        assert_true(t.nth < ENDLESS);
    }
    assert_true(failures > NEEDS);
}

/* ---- lives ----------------------------------------------------------------------------------- */

static bool create_and_run(struct attempt *t)
{
    struct msg status = {.type = MSG_STATUS};
    struct msg ops = {.type = MSG_OPS};
    struct view words[] = {view_of("one"), view_of("two")};
    struct msg start = make_start("op1", "flood 600000", 5000, 1000);
    start.start.args = (struct view_list){words, 2}; /* lists need memory to be read */
    bool goes = start_in_need(t, 1) && did(t, make_hello(1)) && did(t, make_open("", false)) &&
                did(t, start) && did(t, make_wait("op1", 100000, 1000)) && did(t, status) &&
                did(t, ops);
    (void)goes;
    return settle(t, 2);
}

static bool take_over(struct attempt *t)
{
    struct driver *d = t->d;
    struct answer a;
    struct msg m = make_start("op1", "sleep 50", 5000, 0);
    struct msg drop = make_start("op2", "drop", 5000, 1000);
    drop.start.language = view_of("bash");
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    driver_kill(d, SIGKILL);
    driver_wait_link(d, false);
    t->taken_over = true;
    m = make_start("op1", "sleep 50", 5000, 1000);
    if (start_in_need(t, 2) && did(t, make_hello(2))) {
        enum msg_type type;
        uint64_t code;
        if (ask(t, make_open("", true), &type, &code)) {
            assert_true(driver_agent_runs(d));
        }
        (void)(did(t, m) && did(t, drop));
    }
    return settle(t, 3);
}

static bool be_orphaned(struct attempt *t)
{
    struct driver *d = t->d;
    struct msg open = make_open("", false);
    open.open.grace_ms = GRACE_MS;
    struct msg start = make_start("op1", "sleep 60000", 0, 0);
    start.start.language = view_of("bash"); /* what settle() runs does not wait for its end */
    bool goes = start_in_need(t, 1) && did(t, make_hello(1)) && did(t, open) && did(t, start);
    (void)goes;
    driver_unlisten(d);
    close(d->lifeline);
    d->lifeline = -1;
    wait_end_in_need(d);
    driver_listen(d);
    return settle(t, 2);
}

static void a_sandbox_is_created_or_it_is_said_why_not(void **state)
{
    each(state, create_and_run);
}

static void a_sandbox_is_taken_over_by_this_worker_or_the_next(void **state)
{
    each(state, take_over);
}

static void a_worker_without_a_supervisor_ends(void **state)
{
    each(state, be_orphaned);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_sandbox_is_created_or_it_is_said_why_not),
        CASE(a_sandbox_is_taken_over_by_this_worker_or_the_next),
        CASE(a_worker_without_a_supervisor_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
