/*
 * Calls and executions: every event in every state of a call, joining, waiting, and what is kept.
 */
#include "tests/unit/supervisor/fleet/call_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/log.h"
#include "supervisor/calls/call_internal.h"

/* ---- state x event ---- */

enum situation { UNHEARD, LOST, STARTING, FOLLOWING, SETTLED, GIVEN_UP, UNSEEN, SITUATIONS };

static void pass_an_hour(void)
{
    w.loop.time += 3600 * 1000; /* moves the loop's clock instead of waiting */
    call_check_all(&w.s);
}

/* The agent reports that nothing has ended the operation. */
static void overdue(void)
{
    for (int i = 0; i < 2; i++) {
        pass_an_hour();
        reply(OP_RUNNING, "");
        assert_true(call_is_open(TAILQ_FIRST(&w.s.calls)));
    }
    call_check_all(&w.s);
}

static struct fleet_call *reach(enum situation situation, char id[FLEET_ID_SIZE], struct told *told,
                                struct fleet_await **ret_await)
{
    bool heard = situation != UNHEARD && situation != SETTLED;
    w.state = heard ? SANDBOX_READY : SANDBOX_RECOVERING;
    *ret_await = begin(id, told);
    struct fleet_call *call = TAILQ_FIRST(&w.s.calls);
    switch (situation) {
    case LOST:
        lose_worker();
        break;
    case FOLLOWING:
        reply(OP_RUNNING, "early");
        assert_false(w.is_start);
        break;
    case SETTLED:
        call_cancel(call);
        break;
    case GIVEN_UP:
        overdue();
        break;
    case UNSEEN:
        call_cancel_all(&w.s);
        assert_int_equal(letter(told), 'c');
        told->times = 0;
        break;
    default:
        break;
    }
    return call;
}

enum event {
    REPLY_RUNNING,
    REPLY_DONE,
    REPLY_FAILED,
    REPLY_GONE,
    WORKER_LOST,
    RESUMED,
    CANCEL,
    SILENCE,
    SANDBOX_FAILS,
    SANDBOX_CLOSES,
    LEAVE,
    AWAIT_ENDS,
    EVENTS
};

static void happen(enum event event, const char *id, struct fleet_await *await)
{
    struct err err = ERR_INIT;
    switch (event) {
    case REPLY_RUNNING:
        reply(OP_RUNNING, "x");
        break;
    case REPLY_DONE:
        reply(OP_DONE, "x");
        break;
    case REPLY_FAILED:
        reply_error(ERR_LANGUAGE);
        break;
    case REPLY_GONE:
        reply_error(ERR_GONE);
        break;
    case WORKER_LOST:
        lose_worker();
        break;
    case RESUMED:
        resume();
        break;
    case CANCEL:
        assert_int_equal(executions_stop(w.host.executions, "me", id, &err), 0);
        break;
    case SILENCE:
        pass_an_hour();
        break;
    case SANDBOX_FAILS:
        err_set(&err, ERR_GONE, "gone");
        call_fail_all(&w.s, &err, "");
        break;
    case SANDBOX_CLOSES:
        call_cancel_all(&w.s);
        break;
    case LEAVE:
        call_leave_all(&w.s);
        break;
    case AWAIT_ENDS:
        if (await != NULL) {
            executions_await_end(await);
        }
        break;
    default:
        break;
    }
}

static char state_now(const struct fleet_call *call, bool waits)
{
    if (w.host.held - (waits ? 1 : 0) == 0) {
        return 'D';
    }
    return "WASGUD"[call_state(call)];
}

static void every_event_in_every_state(void **state)
{
    /* columns as enum event; first the state right after it, then what the waiting caller has been
     * told by the next turn: nothing, outcome, cancelled, failure, running */
    static const char *const expected[SITUATIONS][2] = {
        [UNHEARD] = {"-----ASWDDDW", "-----.c.fcfr"},
        [LOST] = {"-----AWWDDDW", "-----...fcfr"},
        [STARTING] = {"ADDDWAAAUUUA", ".off....fcfr"},
        [FOLLOWING] = {"ADDDWAAAUUUA", ".ofo....ocrr"},
        [SETTLED] = {"-----SSSDDDS", "-----ccccccc"},
        [GIVEN_UP] = {"SSSSSGGGUUUG", "fffffffffcff"},
        [UNSEEN] = {"DDDDDUUUUUUU", "............"},
    };
    for (enum situation s = 0; s < SITUATIONS; s++) {
        for (enum event e = 0; e < EVENTS; e++) {
            if (expected[s][0][e] == '-') {
                continue;
            }
            char id[FLEET_ID_SIZE];
            struct told told;
            struct fleet_await *await;
            struct fleet_call *call = reach(s, id, &told, &await);
            bool waits = s != UNSEEN;
            happen(e, id, waits ? await : NULL);
            char is = state_now(call, waits && told.times == 0);
            if (is != expected[s][0][e]) {
                fail_msg("situation %d event %d: state %c", (int)s, (int)e, is);
            }
            turn();
            if (letter(&told) != expected[s][1][e]) {
                fail_msg("situation %d event %d: told %c", (int)s, (int)e, letter(&told));
            }
            /* finally everything is ended, in whatever state it is */
            call_cancel_all(&w.s);
            if (w.out) {
                lose_worker();
            }
            turn();
            assert_int_equal(told.times, waits);
            assert_int_equal(w.host.held, 0);
            assert_int_equal(w.s.call_count, 0);
            assert_false(w.killed);
        }
    }
}

static void only_declared_moves_are_possible(void **state)
{
    /* rows: from; columns: waiting asked settled given-up unseen done */
    static const char *const expected[CALL_STATE_COUNT] = {
        [CALL_WAITING] = ".++..+",  [CALL_ASKED] = "+..++.",  [CALL_SETTLED] = ".....+",
        [CALL_GIVEN_UP] = "..+.+.", [CALL_UNSEEN] = ".....+", [CALL_DONE] = "......",
    };
    for (unsigned from = 0; from < CALL_STATE_COUNT; from++) {
        struct sm m;
        sm_init(&m, call_states, CALL_STATE_COUNT, from);
        for (unsigned to = 0; to < CALL_STATE_COUNT; to++) {
            assert_int_equal(sm_may(&m, to), expected[from][to] == '+');
        }
    }
}

/* ---- stopping ---- */

static void a_stop_reaches_whatever_worker_there_is_and_gets_harder(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    begin(id, &told);
    reply(OP_RUNNING, "");
    happen(CANCEL, id, NULL);
    happen(CANCEL, id, NULL);
    assert_int_equal(w.interrupts, 1);
    lose_worker();
    resume();
    assert_true(w.is_start && w.start.wait_ms == 0);
    reply(OP_RUNNING, "");
    assert_int_equal(w.interrupts, 2); /* a new worker is told once it knows the operation */
    w.loop.time += TIME_INTERRUPT_MS;
    call_check_all(&w.s);
    call_check_all(&w.s);
    assert_int_equal(w.kills, 1);
    reply(OP_DONE, "");
    assert_int_equal(told.times, 1);
    assert_int_equal(w.acks, 1);
    happen(CANCEL, id, NULL); /* a repeated cancel has no effect */
    assert_int_equal(w.interrupts, 2);
}

/* ---- joining ---- */

static struct msg_op_info info_of(const char *id, enum op_state op_state)
{
    struct msg_op_info info = {.op = view_of(id),
                               .kind = OP_EVAL,
                               .state = op_state,
                               .language = view_of("bash"),
                               .timeout_ms = 5000,
                               .ran_us = 1500000,
                               .age_ms = 2000};
    return info;
}

static void an_execution_of_an_earlier_server_is_joined_from_its_first_byte(void **state)
{
    struct executions *x = w.host.executions;
    struct msg_op_info info = info_of("adopted", OP_RUNNING);
    struct told told = {0};
    w.state = SANDBOX_RECOVERING;
    executions_adopt(x, &w.s, &info);
    executions_adopt(x, &w.s, &info); /* adopting it again has no effect */
    assert_false(w.out);
    resume();
    assert_true(w.is_start && w.start.join && w.start.skip);
    assert_int_equal(w.start.out_from, 0);
    assert_int_equal(w.start.data.len, 0);
    assert_string_equal(w.op, "adopted");
    reply(OP_RUNNING, "abc");
    assert_true(w.skip);
    ask("me", "adopted", &told);
    assert_int_equal(told.state, OP_RUNNING);
    assert_string_equal(told.out, "abc");
    assert_string_equal(told.language, "bash");
    /* forgotten bytes are counted, and bytes after the gap are not joined to those before it */
    struct msg m = output(OP_RUNNING, "later", 100);
    reply_with(0, &m, NULL);
    assert_int_equal(w.out_from, 105);
    lose_worker();
    resume();
    assert_true(w.is_start && w.start.join);
    reply(OP_DONE, "end");
    ask("me", "adopted", &told);
    assert_int_equal(told.state, OP_DONE);
    assert_string_equal(told.out, "abc");
    assert_int_equal(told.out_bytes, 108);
    assert_false(w.killed);
    assert_int_equal(w.s.executions, 0); /* counted for its creator */
}

static void a_joined_execution_has_run_for_as_long_as_the_agent_says(void **state)
{
    struct msg_op_info info = info_of("adopted", OP_RUNNING);
    executions_adopt(w.host.executions, &w.s, &info);
    assert_int_equal(w.start.timeout_ms, 5000); /* all of it: the agent tells the worker the rest */
    w.loop.time += 200;
    assert_int_equal(call_look(TAILQ_FIRST(&w.s.calls)).duration_us, 1700000);
    reply(OP_DONE, "");
    assert_int_equal(w.acks, 1);
}

static void a_gap_in_what_we_began_ourselves_is_a_fault(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    begin(id, &told);
    struct msg m = output(OP_RUNNING, "later", 100);
    reply_with(0, &m, NULL);
    assert_true(w.killed);
    call_cancel_all(&w.s);
}

static void a_forgotten_execution_is_dropped(void **state)
{
    struct executions *x = w.host.executions;
    struct msg_op_info info = info_of("adopted", OP_DONE);
    struct told told = {0};
    executions_adopt(x, &w.s, &info);
    executions_await(x, "me", "adopted", FLEET_WAIT_FOR_EVER, on_told, &told);
    reply_error(ERR_EXECUTION_NOT_FOUND);
    assert_int_equal(told.times, 1);
    assert_int_equal(told.rc, -ERR_EXECUTION_NOT_FOUND);
    assert_int_equal(w.kills, 0);
    assert_int_equal(executions_stop(x, "me", "adopted", NULL), -ERR_EXECUTION_NOT_FOUND);
}

static void what_is_no_execution_is_not_adopted(void **state)
{
    struct msg_op_info info = info_of("adopted", OP_RUNNING);
    info.kind = OP_FILE_READ;
    executions_adopt(w.host.executions, &w.s, &info);
    info = info_of("an-id-that-none-of-ours-could-ever-have", OP_RUNNING);
    executions_adopt(w.host.executions, &w.s, &info);
    info.op.len = 0;
    executions_adopt(w.host.executions, &w.s, &info);
    assert_false(w.out);
    assert_true(TAILQ_EMPTY(&w.s.calls));
}

/* ---- time ---- */

/* Only the agent knows that it waits, and for how long it runs then. */
static void what_waits_for_its_turn_has_no_deadline_yet(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    begin(id, &told);
    const struct fleet_call *call = TAILQ_FIRST(&w.s.calls);
    for (int i = 0; i < 3; i++) {
        pass_an_hour();
        reply(OP_QUEUED, "");
        assert_int_equal(call_look(call).state, OP_QUEUED);
        assert_int_equal(call_look(call).duration_us, 0);
    }
    struct msg m = output(OP_RUNNING, "", 0);
    m.output.duration_us = 3000;
    reply_with(0, &m, NULL);
    w.loop.time += 500;
    assert_int_equal(call_look(call).state, OP_RUNNING);
    assert_int_equal(call_look(call).duration_us, 503000);
    call_check_all(&w.s);
    assert_int_equal(told.times, 0);
    reply(OP_DONE, "");
    assert_int_equal(told.times, 1);
}

static void a_start_is_repeated_with_its_whole_time(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    begin(id, &told);
    assert_int_equal(w.start.timeout_ms, 1000);
    w.loop.time += 400;
    reply(OP_RUNNING, "");
    lose_worker();
    resume();
    assert_true(w.is_start && !w.start.join);
    assert_int_equal(w.start.timeout_ms, 1000);
    reply(OP_DONE, "");
    assert_int_equal(told.times, 1);
}

/* ---- waiting ---- */

static void on_guard(uv_timer_t *guard)
{
    (void)guard;
    fail_msg("nobody was told");
}

static void on_pause(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs the loop until timers that are due within `ms` have fired: a caller that waits so long has
 * been answered by then, or is not. */
static void run_past(uint64_t ms)
{
    static uv_timer_t timer;
    uv_timer_init(&w.loop, &timer);
    uv_timer_start(&timer, on_pause, ms + 1, 0);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    turn();
}

static void wait_told(const struct told *told)
{
    static uv_timer_t guard; /* a timer of its own, because no worker keeps the loop running */
    uv_timer_init(&w.loop, &guard);
    uv_timer_start(&guard, on_guard, 5000, 0);
    while (told->times == 0) {
        uv_run(&w.loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&guard, NULL);
    turn();
}

static void it_is_said_to_run_only_when_the_agent_has_it(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told first;
    struct told second = {0};
    begin(id, &first);
    executions_await(w.host.executions, "me", id, 10, on_told, &second);
    assert_true(w.is_start && w.start.wait_ms > 0 && w.start.wait_ms < 1000);
    run_past(10);
    assert_int_equal(second.times, 0);
    reply(OP_RUNNING, "");
    wait_told(&second);
    assert_int_equal(second.times, 1);
    assert_int_equal(second.state, OP_RUNNING);
    reply(OP_DONE, "");
    assert_int_equal(first.times, 1);
}

static void after_a_moment_it_is_told_that_nobody_knows_whether_the_agent_has_it(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told first;
    struct told second = {0};
    begin(id, &first);
    executions_await(w.host.executions, "me", id, 10, on_told, &second);
    wait_told(&second);
    assert_int_equal(second.rc, 0);
    assert_int_not_equal(second.state, OP_DONE);
    assert_true(second.unconfirmed);
    reply(OP_RUNNING, "");
    memset(&second, 0, sizeof(second));
    executions_await(w.host.executions, "me", id, 10, on_told, &second);
    wait_told(&second);
    assert_false(second.unconfirmed);
    reply(OP_DONE, "");
    assert_int_equal(first.times, 1);
}

static void all_who_wait_are_told_and_those_in_time(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told first;
    struct told second = {0};
    struct told third = {0};
    begin(id, &first);
    executions_await(w.host.executions, "me", id, 20, on_told, &second);
    executions_await(w.host.executions, "me", id, 60000, on_told, &third);
    reply(OP_RUNNING, "so far");
    uint64_t begin_ms = uv_now(&w.loop);
    wait_told(&second);
    assert_true(uv_now(&w.loop) - begin_ms >= 19);
    assert_int_equal(second.state, OP_RUNNING);
    assert_string_equal(second.out, "so far");
    assert_int_equal(first.times + third.times, 0);
    reply(OP_DONE, "");
    assert_int_equal(first.times + third.times, 2);
    assert_int_equal(third.state, OP_DONE);
    assert_string_equal(third.op, id);
}

static void only_its_owner_finds_an_execution(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct told other;
    begin(id, &told);
    ask("you", id, &other);
    assert_int_equal(other.rc, -ERR_EXECUTION_NOT_FOUND);
    assert_int_equal(executions_stop(w.host.executions, "you", id, NULL), -ERR_EXECUTION_NOT_FOUND);
    assert_int_equal(w.interrupts, 0);
    reply(OP_DONE, "");
    ask("you", id, &other);
    assert_int_equal(other.rc, -ERR_EXECUTION_NOT_FOUND);
}

static void fail_all(void)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_GONE, "the sandbox has ended");
    call_fail_all(&w.s, &err, "");
    if (w.out) {
        lose_worker();
    }
    turn();
}

static void code_whose_sandbox_died_has_crashed_with_what_it_had_shown(void **state)
{
    char id[FLEET_ID_SIZE];
    struct told told;
    struct told later;
    begin(id, &told);
    reply(OP_RUNNING, "shown");
    fail_all();
    assert_int_equal(told.status, OP_STATUS_CRASHED);
    for (int i = 0; i < 3; i++) {
        ask("me", id, &later);
        assert_int_equal(later.rc, 0);
        assert_int_equal(later.status, OP_STATUS_CRASHED);
        assert_string_equal(later.out, "shown");
        ask("you", id, &later);
        assert_int_equal(later.rc, -ERR_EXECUTION_NOT_FOUND);
    }
}

static void of_code_that_may_not_have_begun_that_is_said(void **state)
{
    static const struct {
        enum op_state said;
        const char *words;
    } cases[] = {{OP_QUEUED, "not known whether"}, {OP_DONE, "had ended before"}};
    char id[FLEET_ID_SIZE];
    struct told told;
    begin(id, &told); /* nothing was answered */
    fail_all();
    assert_int_equal(told.rc, -ERR_GONE);
    assert_non_null(strstr(told.err, "not known whether"));
    w.state = SANDBOX_RECOVERING;
    begin(id, &told);
    fail_all();
    assert_non_null(strstr(told.err, "was not begun"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct msg_op_info info = info_of(i == 0 ? "one" : "two", cases[i].said);
        executions_adopt(w.host.executions, &w.s, &info);
        memset(&told, 0, sizeof(told));
        executions_await(w.host.executions, "me", i == 0 ? "one" : "two", 60000, on_told, &told);
        fail_all();
        assert_int_equal(told.rc, -ERR_GONE);
        assert_non_null(strstr(told.err, cases[i].words));
    }
}

static void a_refusal_is_told_once_and_forgotten(void **state)
{
    struct err err = ERR_INIT;
    char id[FLEET_ID_SIZE];
    struct told told;
    err_set(&err, ERR_BUSY, "busy");
    executions_refuse(w.host.executions, "me", &err, "wait", id);
    ask("me", id, &told);
    assert_int_equal(told.rc, -ERR_BUSY);
    ask("me", id, &told);
    assert_int_equal(told.rc, -ERR_EXECUTION_NOT_FOUND);
}

/* ---- executions that are kept ---- */

static void run_one(char id[FLEET_ID_SIZE], const char *text)
{
    struct told told;
    begin(id, &told);
    reply(OP_DONE, text);
    assert_int_equal(letter(&told), 'o');
}

static void the_latest_are_kept_by_number(void **state)
{
    static char ids[EXECUTIONS_KEPT + 2][FLEET_ID_SIZE];
    struct told told;
    struct told running;
    char long_id[FLEET_ID_SIZE];
    begin(long_id, &running); /* it does not count while it runs */
    w.out = false;
    worker_reply_fn done = w.done;
    void *arg = w.arg;
    for (size_t i = 0; i < EXECUTIONS_KEPT + 2; i++) {
        run_one(ids[i], "x");
    }
    for (size_t i = 0; i < EXECUTIONS_KEPT + 2; i++) {
        ask("me", ids[i], &told);
        assert_int_equal(told.rc, i < 2 ? -ERR_EXECUTION_NOT_FOUND : 0);
    }
    w.out = true;
    w.done = done;
    w.arg = arg;
    snprintf(w.op, sizeof(w.op), "%s", long_id);
    w.out_from = 0;
    reply(OP_DONE, "long");
    assert_string_equal(running.out, "long");
    ask("me", ids[2], &told);
    assert_int_equal(told.rc, -ERR_EXECUTION_NOT_FOUND);
}

static void the_latest_are_kept_by_bytes(void **state)
{
    struct executions *x = w.host.executions;
    const size_t each = 2u << 20;
    char *text = alloc_array(each + 1, 1);
    memset(text, 'x', each);
    const struct fleet_op op = {.kind = OP_EVAL, .language = "python", .keep_bytes = each};
    char ids[40][FLEET_ID_SIZE];
    size_t found = 0;
    for (size_t i = 0; i < 40; i++) {
        executions_begin(x, &w.s, &op, ids[i]);
        reply(OP_DONE, text);
    }
    for (size_t i = 0; i < 40; i++) {
        found += executions_stop(x, "me", ids[i], NULL) == 0;
    }
    assert_int_equal(found, EXECUTIONS_BYTES / each);
    assert_int_equal(executions_stop(x, "me", ids[39], NULL), 0);
    free(text);
}

struct again {
    char id[FLEET_ID_SIZE];
    size_t len;
};

static void on_told_again(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                          const char *hint)
{
    struct again *a = arg;
    char id[FLEET_ID_SIZE];
    (void)err, (void)hint;
    assert_int_equal(rc, 0);
    /* evicts it, but only when we are done with it */
    for (size_t i = 0; i < EXECUTIONS_KEPT + 1; i++) {
        run_one(id, "y");
    }
    a->len = strlen(o->op) + o->out.len;
}

static void what_somebody_looks_at_is_not_given_up(void **state)
{
    struct again a = {.len = 0};
    run_one(a.id, "abc");
    executions_await(w.host.executions, "me", a.id, 0, on_told_again, &a);
    turn();
    assert_int_equal(a.len, CALL_ID_CHARS + 3);
    assert_int_equal(executions_stop(w.host.executions, "me", a.id, NULL), 0);
    char id[FLEET_ID_SIZE];
    run_one(id, "z"); /* nothing reads it any more, and it is the oldest */
    assert_int_equal(executions_stop(w.host.executions, "me", a.id, NULL),
                     -ERR_EXECUTION_NOT_FOUND);
}

static void on_listed(void *arg, const struct fleet_outcome *o)
{
    struct buf *b = arg;
    assert_int_equal(buf_printf(b, NULL, "%.*s ", VIEW_ARG(o->out)), 0);
}

static void the_list_of_a_sandbox_is_latest_first(void **state)
{
    char id[FLEET_ID_SIZE];
    struct buf b;
    buf_init(&b, 1000);
    run_one(id, "one");
    run_one(id, "two");
    snprintf(w.s.id, sizeof(w.s.id), "another");
    const struct fleet_op op = {.kind = OP_EVAL, .language = "python", .keep_bytes = 10};
    executions_begin(w.host.executions, &w.s, &op, id);
    reply(OP_DONE, "elsewhere");
    executions_list(w.host.executions, "me", "sandbox", on_listed, &b);
    executions_list(w.host.executions, "you", "sandbox", on_listed, &b);
    assert_string_equal(buf_cstr(&b), "two one ");
    buf_finish(&b);
}

int main(void)
{
    log_set_level(LOG_ERROR);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(only_declared_moves_are_possible),
        TEST(every_event_in_every_state),
        TEST(a_stop_reaches_whatever_worker_there_is_and_gets_harder),
        TEST(an_execution_of_an_earlier_server_is_joined_from_its_first_byte),
        TEST(a_joined_execution_has_run_for_as_long_as_the_agent_says),
        TEST(what_waits_for_its_turn_has_no_deadline_yet),
        TEST(a_start_is_repeated_with_its_whole_time),
        TEST(a_gap_in_what_we_began_ourselves_is_a_fault),
        TEST(a_forgotten_execution_is_dropped),
        TEST(what_is_no_execution_is_not_adopted),
        TEST(it_is_said_to_run_only_when_the_agent_has_it),
        TEST(after_a_moment_it_is_told_that_nobody_knows_whether_the_agent_has_it),
        TEST(all_who_wait_are_told_and_those_in_time),
        TEST(only_its_owner_finds_an_execution),
        TEST(code_whose_sandbox_died_has_crashed_with_what_it_had_shown),
        TEST(of_code_that_may_not_have_begun_that_is_said),
        TEST(a_refusal_is_told_once_and_forgotten),
        TEST(the_latest_are_kept_by_number),
        TEST(the_latest_are_kept_by_bytes),
        TEST(what_somebody_looks_at_is_not_given_up),
        TEST(the_list_of_a_sandbox_is_latest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
