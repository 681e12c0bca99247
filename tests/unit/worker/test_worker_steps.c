/*
 * The steps within a state of a worker, and the state of its link to the supervisor: legal
 * successors, and the result of each event in each step in which a test can hold the worker. The
 * worker itself checks the invariants (step.c, supervisor_link.c).
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/driver.h"
#include "worker/step.h"
#include "worker/supervisor_link.h"
#include "worker/worker.h"

/* ---- the tables ---- */

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
    }
}

static void only_declared_moves_are_possible(void **state)
{
    /* none create agent stop judge tell destroy | oneshots backend parts server timers */
    static const char *const steps[STEP_COUNT] = {
        [STEP_NONE] = ".+.....+....",    [STEP_CREATE] = "..+...++....",
        [STEP_AGENT] = "...++.++....",   [STEP_STOP] = "......++....",
        [STEP_JUDGE] = ".....+.+....",   [STEP_TELL] = "......++....",
        [STEP_DESTROY] = ".......+....", [STEP_ONESHOTS] = "........+...",
        [STEP_BACKEND] = ".........+..", [STEP_PARTS] = "..........+.",
        [STEP_SERVER] = "...........+",  [STEP_TIMERS] = "............",
    };
    /* away there greeted hanging-up ended */
    static const char *const supervisors[SUPERVISOR_COUNT] = {
        [SUPERVISOR_AWAY] = ".+.+.",    [SUPERVISOR_THERE] = "+.++.",
        [SUPERVISOR_GREETED] = "+..+.", [SUPERVISOR_HANGING_UP] = "....+",
        [SUPERVISOR_ENDED] = ".....",
    };
    (void)state;
    check_moves(worker_steps, STEP_COUNT, steps);
    check_moves(supervisor_states, SUPERVISOR_COUNT, supervisors);
}

static void every_state_has_its_steps(void **state)
{
    (void)state;
    for (unsigned in = WORKER_NEW; in <= WORKER_LEAVING; in++) {
        unsigned steps = 0;
        for (unsigned step = 0; step < STEP_COUNT; step++) {
            steps += (worker_step_states[step] & SM_BIT(in)) != 0;
            bool leaving = worker_step_states[step] == SM_BIT(WORKER_LEAVING);
            assert_int_equal(leaving, step >= STEP_ONESHOTS);
        }
        assert_true(steps > 0);
    }
}

/* ---- step x event ---- */

enum place {
    IN_NONE,
    IN_CREATE,
    IN_GREETING, /* STEP_AGENT of OPENING */
    IN_AGENT,
    IN_LATE_CREATE, /* STEP_CREATE of CLOSING */
    IN_STOP,        /* or later */
    IN_JUDGE,       /* or later */
    IN_DESTROY,
    IN_DESTROY_GONE,
    PLACE_COUNT,
};

enum event {
    EVENT_CLOSE,
    EVENT_CLOSE_TWICE,
    EVENT_TERM,
    EVENT_BREAK,   /* the supervisor sends a message that is not a request */
    EVENT_SUCCEED, /* the supervisor ends, and another one sends CLOSE */
    EVENT_COUNT,
};

static bool is_gone(enum place in)
{
    return in == IN_JUDGE || in == IN_DESTROY_GONE;
}

/* Waits until the worker refuses what an open sandbox would do. */
static void wait_refused(struct driver *d, enum err_code why)
{
    bool refused = false;
    while (!refused) {
        struct answer a;
        struct msg m = {.type = MSG_STATUS};
        driver_send(d, &m, &a);
        driver_wait_flag(d, &a.done, "STATUS");
        refused = a.rc == 0 && a.m.type == MSG_FAILED && a.m.failed.code == (uint64_t)why;
        answer_finish(&a);
    }
}

/* The requests that are pending when a step is entered. */
struct pending {
    struct answer open, other;
};

static void ask_open(struct driver *d, const char *image, struct pending *p)
{
    struct answer pong;
    struct msg m = make_open(image, false);
    driver_send(d, &m, &p->open);
    m = (struct msg){.type = MSG_PING};
    driver_ask(d, &m, &pong, MSG_PONG); /* PING is answered after the earlier request */
    answer_finish(&pong);
}

/* An image that makes the removal last as long as the event needs. */
static const char *removal(enum place in, enum event event)
{
    if (event == EVENT_BREAK) {
        return "hang";
    }
    return in >= IN_STOP || event == EVENT_CLOSE_TWICE ? "slow:1000" : "slow:0";
}

static void enter_step(struct driver *d, enum place in, enum event event, struct pending *p)
{
    static const char *const orders[PLACE_COUNT] = {
        [IN_NONE] = "",
        [IN_CREATE] = "create=hang",
        [IN_GREETING] = "agent=silent",
        [IN_AGENT] = "",
        [IN_LATE_CREATE] = "create=hang",
        [IN_STOP] = "",
        [IN_JUDGE] = "usage=hang",
        [IN_DESTROY] = "",
        [IN_DESTROY_GONE] = "",
    };
    char image[96];
    struct msg m = {.type = MSG_CLOSE};
    memset(p, 0, sizeof(*p));
    p->open.done = p->other.done = true;
    snprintf(image, sizeof(image), "fault:destroy=%s,%s", removal(in, event), orders[in]);
    driver_start(d, 1);
    if (in == IN_NONE) {
        return;
    }
    if (in == IN_CREATE || in == IN_GREETING || in == IN_LATE_CREATE) {
        ask_open(d, image, p);
    } else {
        driver_open(d, image, false);
    }
    if (in == IN_LATE_CREATE || in == IN_STOP || in == IN_DESTROY) {
        driver_send(d, &m, &p->other);
    }
    if (in == IN_LATE_CREATE) {
        driver_wait(d, &p->open, MSG_FAILED);
        assert_int_equal(p->open.m.failed.code, ERR_SHUTTING_DOWN);
    }
    if (in == IN_DESTROY) {
        wait_refused(d, ERR_SHUTTING_DOWN);
    }
    if (is_gone(in)) {
        m = make_start("op", "exit", 0, 20000);
        driver_send(d, &m, &p->other);
        wait_refused(d, ERR_GONE);
    }
    if (in == IN_DESTROY_GONE) {
        driver_wait(d, &p->other, MSG_FAILED);
    }
}

static void close_sandbox(struct driver *d, struct answer *a)
{
    struct msg m = {.type = MSG_CLOSE};
    driver_send(d, &m, a);
}

static void do_event(struct driver *d, enum place in, enum event event)
{
    struct answer a, b;
    struct msg m = {.type = MSG_PONG};
    int ended = is_gone(in) ? EXIT_CODE_SANDBOX_GONE : EXIT_CODE_OK;
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    a.done = b.done = true;
    switch (event) {
    case EVENT_CLOSE_TWICE:
        close_sandbox(d, &b);
        close_sandbox(d, &a);
        break;
    case EVENT_TERM:
        assert_int_equal(uv_process_kill(d->process, SIGTERM), 0);
        break;
    case EVENT_BREAK:
        driver_send(d, &m, &a);
        ended = EXIT_CODE_PROTOCOL;
        break;
    case EVENT_SUCCEED:
        driver_succeed(d, 1);
        close_sandbox(d, &a);
        break;
    default:
        close_sandbox(d, &a);
        break;
    }
    int code = driver_wait_exit(d);
    driver_wait_link(d, false);
    driver_wait_flag(d, &a.done, "the answer, or the end of the link");
    driver_wait_flag(d, &b.done, "the other answer");
    if (event == EVENT_CLOSE_TWICE && in == IN_NONE) { /* it is leaving already */
        assert_int_equal(a.rc, -ERR_IO);
        assert_int_equal(b.m.type, MSG_OK);
    } else if (event != EVENT_TERM && event != EVENT_BREAK) {
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.m.type, MSG_OK);
    }
    answer_finish(&a);
    answer_finish(&b);
    assert_int_equal(code, ended);
}

static void every_event_in_every_step(void **state)
{
    struct driver *d = *state;
    for (enum place in = IN_NONE; in < PLACE_COUNT; in++) {
        for (enum event event = EVENT_CLOSE; event < EVENT_COUNT; event++) {
            struct pending p;
            enter_step(d, in, event, &p);
            do_event(d, in, event);
            driver_wait_flag(d, &p.open.done, "the end of OPEN");
            driver_wait_flag(d, &p.other.done, "the end of what was asked before");
            answer_finish(&p.open);
            answer_finish(&p.other);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_declared_moves_are_possible),
        cmocka_unit_test(every_state_has_its_steps),
        cmocka_unit_test_setup_teardown(every_event_in_every_step, driver_setup, driver_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
