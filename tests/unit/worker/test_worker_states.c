/*
 * The worker's answer to every message in every state. The table below has a row for each message
 * of messages.def; for a new message this file does not compile until a row is added.
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
#include "worker/worker.h"

#define STATES     (WORKER_LEAVING + 1)
#define LATE_TRIES 10 /* of which one finds a worker that still takes messages */

enum outcome {
    STAYS, /* answered at once with this type; the state stays as it is */
    FAILS, /* answered at once with this error code; the state stays as it is */
    MOVES, /* answered with this type when the step that it starts, or the current one, has ended */
    BREAKS, /* no request of a supervisor: the worker leaves without an answer */
    UNHEARD /* not answered; the worker is ending anyway */
};

struct cell {
    enum outcome outcome;
    unsigned value;
};

/* clang-format off */
#define S(type) {STAYS, MSG_##type}
#define F(code) {FAILS, ERR_##code}
#define M(type) {MOVES, MSG_##type}
#define X       {BREAKS, 0}
#define U       {UNHEARD, 0}
#define NEVER   X, X, X, X, X, U

/* In the order of enum worker_state:
 *                  NEW             OPENING         OPEN                    CLOSING            GONE            LEAVING */
#define CELLS_HELLO    S(HELLO_OK),    S(HELLO_OK),    S(HELLO_OK),            S(HELLO_OK),       S(HELLO_OK),    U
#define CELLS_PING     S(PONG),        S(PONG),        S(PONG),                S(PONG),           S(PONG),        U
#define CELLS_PROGRESS S(PROGRESS_OK), S(PROGRESS_OK), S(PROGRESS_OK),         S(PROGRESS_OK),    S(PROGRESS_OK), U
#define CELLS_OPEN     M(OPENED),      M(OPENED),      S(OPENED),              F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_CLOSE    M(OK),          M(OK),          M(OK),                  M(OK),             M(OK),          U
#define CELLS_PROBE    S(PROBED),      F(PROTOCOL),    F(PROTOCOL),            F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_SWEEP    S(OK),          F(PROTOCOL),    F(PROTOCOL),            F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_START    F(PROTOCOL),    F(PROTOCOL),    S(OUTPUT),              F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_WAIT     F(PROTOCOL),    F(PROTOCOL),    F(EXECUTION_NOT_FOUND), F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_CANCEL   F(PROTOCOL),    F(PROTOCOL),    S(OK),                  F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_STATUS   F(PROTOCOL),    F(PROTOCOL),    S(STATUS_OK),           F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_OPS      F(PROTOCOL),    F(PROTOCOL),    S(OPS_OK),              F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_INPUT    F(PROTOCOL),    F(PROTOCOL),    F(EXECUTION_NOT_FOUND), F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_LIMITS   F(PROTOCOL),    F(PROTOCOL),    S(OK),                  F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_KEEP     F(PROTOCOL),    F(PROTOCOL),    F(CONFIG),              F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_FRONT    F(CONFIG),      F(PROTOCOL),    F(PROTOCOL),            F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_OFFERS   F(BUSY),        F(PROTOCOL),    F(PROTOCOL),            F(SHUTTING_DOWN),  F(GONE),        U
#define CELLS_FAILED      NEVER
#define CELLS_HELLO_OK    NEVER
#define CELLS_OPENED      NEVER
#define CELLS_PROBED      NEVER
#define CELLS_OUTPUT      NEVER
#define CELLS_OK          NEVER
#define CELLS_PONG        NEVER
#define CELLS_STATUS_OK   NEVER
#define CELLS_SHUTDOWN    NEVER
#define CELLS_PROGRESS_OK NEVER
#define CELLS_OPS_OK      NEVER
#define CELLS_INPUT_OK    NEVER
#define CELLS_RUNNING     NEVER
#define CELLS_ENTRY       NEVER
#define CELLS_OP_INFO     NEVER
#define CELLS_RECORD      NEVER
#define CELLS_DISPLAY     NEVER
#define CELLS_RUNNER      NEVER
#define CELLS_ENGINE_PLACE NEVER
#define CELLS_ENGINE_TRIED NEVER
#define CELLS_INSTALL     NEVER
#define CELLS_DOOR_OPEN   NEVER
#define CELLS_DOOR_DATA   NEVER
#define CELLS_DOOR_CREDIT NEVER
#define CELLS_DOOR_CLOSE  NEVER
#define CELLS_FRONT_OK    NEVER
#define CELLS_OFFERS_OK   NEVER
#define CELLS_TAKEN       NEVER
#define CELLS_TRIAL       NEVER
/* clang-format on */

static const struct row {
    enum msg_type type;
    struct cell cells[STATES];
} rows[] = {
#define ROW(NAME, number, name, links, answer) {MSG_##NAME, {CELLS_##NAME}},
    MESSAGE_LIST(ROW)
#undef ROW
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static struct msg sample(enum msg_type type)
{
    struct msg m = {.type = type};
    switch (type) {
    case MSG_HELLO:
        return make_hello(1);
    case MSG_OPEN:
        return make_open("", false);
    case MSG_START:
        return make_start("op", "echo x", 1000, 1000);
    case MSG_WAIT:
        return make_wait("unknown", 0, 0);
    case MSG_CANCEL:
        return make_cancel("op", false);
    case MSG_INPUT:
        m.input.op = view_of("unknown");
        return m;
    case MSG_LIMITS:
        m.limits.memory_bytes = 32u << 20;
        m.limits.cpu_milli = 500;
        return m;
    case MSG_PROBE:
        m.probe.backend = view_of("fake");
        return m;
    case MSG_FRONT:
        m.front.backend = view_of("fake");
        return m;
    case MSG_SWEEP:
        m.sweep.backend = view_of("fake");
        return m;
    default:
        return m;
    }
}

/* Brings a new worker into a state, in which it stays until the end of the test or, if `brief`, for
 * a second. *pending is the request for that. */
static void enter(struct driver *d, enum worker_state to, bool brief, struct answer *pending)
{
    const char *create = brief ? "fault:create=slow:1000" : "fault:create=hang";
    const char *destroy = brief ? "fault:destroy=slow:1000" : "fault:destroy=hang";
    struct msg m = {.type = MSG_CLOSE};
    memset(pending, 0, sizeof(*pending));
    driver_start(d, 1);
    switch (to) {
    case WORKER_NEW:
        break;
    case WORKER_OPENING:
        m = make_open(create, false);
        driver_send(d, &m, pending);
        break;
    case WORKER_OPEN:
        driver_open(d, "", false);
        break;
    case WORKER_CLOSING:
        driver_open(d, destroy, false);
        driver_send(d, &m, pending);
        break;
    case WORKER_GONE:
        driver_open(d, destroy, false);
        m = make_start("op", "exit", 0, 20000);
        driver_ask(d, &m, pending, MSG_FAILED);
        assert_int_equal(pending->m.failed.code, ERR_GONE);
        break;
    case WORKER_LEAVING: /* this is the state after a CLOSE in WORKER_NEW */
        driver_send(d, &m, pending);
        break;
    }
}

/* Ends or kills the worker; the pending request is answered, or fails with the link. */
static void leave(struct driver *d, enum worker_state from, struct answer *pending)
{
    if (d->running) {
        driver_kill(d, SIGKILL);
    }
    driver_wait_link(d, false);
    if (from == WORKER_OPENING || from == WORKER_CLOSING || from == WORKER_LEAVING) {
        driver_wait_flag(d, &pending->done, "the end of what was pending");
    }
    answer_finish(pending);
}

static void unexpected(const struct row *row, enum worker_state in, const struct answer *a)
{
    fail_msg("%s in state %d: rc %d, %s %.*s", msg_name(row->type), in, a->rc,
             a->rc == 0 ? msg_name(a->m.type) : "", a->m.type == MSG_FAILED ? 200 : 0,
             a->m.type == MSG_FAILED ? a->m.failed.message.data : "");
}

static void ask_and_stay(struct driver *d, const struct row *row, enum worker_state in)
{
    const struct cell *cell = &row->cells[in];
    struct answer a;
    struct msg m = sample(row->type);
    driver_send(d, &m, &a);
    driver_wait_flag(d, &a.done, msg_name(row->type));
    bool fails = a.rc == 0 && a.m.type == MSG_FAILED;
    if (a.rc < 0 || fails != (cell->outcome == FAILS) ||
        cell->value != (fails ? a.m.failed.code : a.m.type)) {
        unexpected(row, in, &a);
    }
    if (fails) {
        assert_true(a.m.failed.message.len > 0);
    }
    answer_finish(&a);
}

static void what_changes_nothing_is_answered_at_once_in_every_state(void **state)
{
    struct driver *d = *state;
    for (enum worker_state in = WORKER_NEW; in < WORKER_LEAVING; in++) {
        struct answer pending;
        enter(d, in, false, &pending);
        /* the second round shows that the state has not changed */
        for (int round = 0; round < 2; round++) {
            for (size_t i = 0; i < ROWS; i++) {
                if (rows[i].cells[in].outcome == STAYS || rows[i].cells[in].outcome == FAILS) {
                    ask_and_stay(d, &rows[i], in);
                }
            }
        }
        leave(d, in, &pending);
    }
}

static void what_changes_the_state_is_answered_when_that_is_over(void **state)
{
    struct driver *d = *state;
    for (size_t i = 0; i < ROWS; i++) {
        for (enum worker_state in = WORKER_NEW; in < WORKER_LEAVING; in++) {
            struct answer pending, a;
            struct msg m = sample(rows[i].type);
            if (rows[i].cells[in].outcome != MOVES) {
                continue;
            }
            enter(d, in, true, &pending);
            driver_ask(d, &m, &a, rows[i].cells[in].value);
            answer_finish(&a);
            if (rows[i].type == MSG_CLOSE) {
                assert_int_equal(driver_wait_exit(d),
                                 in == WORKER_GONE ? EXIT_CODE_SANDBOX_GONE : EXIT_CODE_OK);
            }
            leave(d, in, &pending);
        }
    }
}

static void what_no_supervisor_says_ends_the_worker_in_every_state(void **state)
{
    struct driver *d = *state;
    for (size_t i = 0; i < ROWS; i++) {
        for (enum worker_state in = WORKER_NEW; in < WORKER_LEAVING; in++) {
            struct answer pending, a;
            struct msg m = sample(rows[i].type);
            if (rows[i].cells[in].outcome != BREAKS) {
                continue;
            }
            enter(d, in, false, &pending);
            driver_send(d, &m, &a);
            driver_wait_flag(d, &a.done, "the end of the link");
            if (a.rc != -ERR_IO) {
                unexpected(&rows[i], in, &a);
            }
            assert_int_equal(driver_wait_exit(d), EXIT_CODE_PROTOCOL);
            answer_finish(&a);
            leave(d, in, &pending);
        }
    }
}

/* False: the worker was gone already, so that sending to it closed the link under its last answer.
 */
static bool a_message_to_who_leaves_is_unheard(struct driver *d, const struct row *row)
{
    struct answer pending, a;
    struct msg m = sample(row->type);
    enter(d, WORKER_LEAVING, false, &pending);
    driver_send(d, &m, &a);
    driver_wait_flag(d, &pending.done, "the answer to CLOSE");
    bool answered = pending.rc != -ERR_IO;
    if (answered) {
        driver_wait(d, &pending, MSG_OK);
    }
    driver_wait_flag(d, &a.done, "the end of the link");
    if (a.rc != -ERR_IO) {
        unexpected(row, WORKER_LEAVING, &a);
    }
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
    answer_finish(&a);
    leave(d, WORKER_LEAVING, &pending);
    return answered;
}

static void a_worker_that_leaves_hears_nothing_more(void **state)
{
    struct driver *d = *state;
    for (size_t i = 0; i < ROWS; i++) {
        bool answered = false;
        assert_int_equal(rows[i].cells[WORKER_LEAVING].outcome, UNHEARD);
        for (int try = 0; try < LATE_TRIES && !answered; try++) {
            answered = a_message_to_who_leaves_is_unheard(d, &rows[i]);
        }
        assert_true(answered);
    }
}

/* The handled messages are exactly the requests of the schema. */
static void the_table_fits_the_schema(void **state)
{
    assert_int_equal(ROWS, msg_schema_count);
    for (size_t i = 0; i < msg_schema_count; i++) {
        bool request = (msg_schemas[i].links & MSG_LINK_W) != 0 && msg_is_request(rows[i].type);
        assert_int_equal(msg_schemas[i].type, rows[i].type);
        for (enum worker_state in = WORKER_NEW; in < WORKER_LEAVING; in++) {
            assert_int_equal(rows[i].cells[in].outcome != BREAKS, request);
        }
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_fits_the_schema),
        CASE(what_changes_nothing_is_answered_at_once_in_every_state),
        CASE(what_changes_the_state_is_answered_when_that_is_over),
        CASE(what_no_supervisor_says_ends_the_worker_in_every_state),
        CASE(a_worker_that_leaves_hears_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
