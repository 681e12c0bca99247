/* No timer fires before something is due, and nothing that is due is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "supervisor/mcp/input.h"
#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/input_states.h"
#include "supervisor/mcp/task_registry.h"
#include "supervisor/mcp/tasks.h"
#include "supervisor/mcp/wire/due_timer.h"
#include "tests/unit/supervisor/mcp/talk.h"

static int setup(void **state)
{
    *state = talk_create(MCP_OFFER_TOOLS | MCP_OFFER_TASKS);
    return 0;
}

static int teardown(void **state)
{
    talk_destroy(*state);
    return 0;
}

/* ---- the timer itself ------------------------------------------------------------------------ */

struct ring {
    struct due_timer timer;
    uint64_t times[4];
    size_t count;
};

static void on_ring(void *arg, uint64_t now_ms)
{
    struct ring *ring = arg;
    ring->times[ring->count++] = now_ms;
    if (ring->count < 3) {
        due_timer_set(&ring->timer, now_ms + 5);
    } else {
        uv_stop(ring->timer.timer.loop);
    }
}

static void a_timer_runs_while_something_is_due(void **state)
{
    uv_loop_t loop;
    struct ring ring = {.count = 0};
    uv_loop_init(&loop);
    due_timer_init(&ring.timer, &loop, on_ring, &ring);
    uv_timer_t *timer = &ring.timer.timer;
    assert_false(uv_is_active((uv_handle_t *)timer));
    uint64_t now = clock_ms();
    due_timer_by(&ring.timer, now + 600000);
    assert_true(uv_timer_get_due_in(timer) > 500000);
    due_timer_by(&ring.timer, now + 900000); /* no effect, because it is due earlier already */
    assert_true(uv_timer_get_due_in(timer) <= 600000);
    due_timer_set(&ring.timer, now + 900000);
    assert_true(uv_timer_get_due_in(timer) > 700000);
    due_timer_set(&ring.timer, DUE_NEVER);
    assert_false(uv_is_active((uv_handle_t *)timer));
    due_timer_by(&ring.timer, now); /* in the past: it fires at once */
    uv_ref((uv_handle_t *)timer);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(ring.count, 3);
    assert_true(ring.times[1] >= ring.times[0] && ring.times[2] >= ring.times[1]);
    assert_false(uv_is_active((uv_handle_t *)timer));
    due_timer_close(&ring.timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- its users ------------------------------------------------------------------------------- */

static void note_earliest(uv_handle_t *handle, void *arg)
{
    uint64_t *earliest = arg;
    if (uv_handle_get_type(handle) != UV_TIMER || !uv_is_active(handle)) {
        return;
    }
    const uv_timer_t *timer = (const uv_timer_t *)handle;
    uint64_t due = uv_timer_get_due_in(timer);
    assert_int_equal(uv_timer_get_repeat(timer), 0);
    *earliest = due < *earliest ? due : *earliest;
}

/* How long the server sleeps without input; UINT64_MAX: forever. */
static uint64_t sleeps_ms(struct talk *t)
{
    uint64_t earliest = UINT64_MAX;
    uv_walk(&t->loop, note_earliest, &earliest);
    return earliest;
}

static void assert_about(uint64_t ms, uint64_t expected_ms)
{
    assert_true(ms <= expected_ms + 1000);
    assert_true(ms + 30000 > expected_ms);
}

static void a_task_wakes_nobody_until_it_is_due(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_PIPE, NULL, NULL);
    assert_true(sleeps_ms(t) == UINT64_MAX);
    talk_ask(c, "tools/call", "'name':'task_hold'");
    assert_true(sleeps_ms(t) == UINT64_MAX); /* it waits for its handler */
    talk_release(t, "here", false);
    assert_about(sleeps_ms(t), TASK_TTL_MS);
    int n = talk_ask(c, "tools/call", "'name':'task_ask'");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.taskId"));
    assert_about(sleeps_ms(t), INPUT_TIME_MS);
    talk_ask(c, "tasks/cancel", "'taskId':'%s'", id);
    mcp_tasks_look(t->server, clock_ms());
    assert_about(sleeps_ms(t), TASK_TTL_MS);
    mcp_tasks_look(t->server, clock_ms() + TASK_TTL_MS + TASK_OVERTIME_MS);
    assert_true(sleeps_ms(t) == UINT64_MAX);
    talk_leave(c);
}

static void a_cancelled_task_is_dropped_too(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_LEGACY, "2025-11-25", "{}");
    int n = talk_ask(c, "tools/call", "'name':'hold','task':{'ttl':1000}");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.task.taskId"));
    talk_ask(c, "tasks/cancel", "'taskId':'%s'", id);
    assert_about(sleeps_ms(t), TASK_OVERTIME_MS);
    talk_leave(c);
}

static void what_is_asked_wakes_nobody_until_it_is_late(void **state)
{
    struct talk *t = *state;
    struct talker *c =
        talk_join(t, t->anna, MCP_SESSION_LEGACY, "2025-11-25", "{'elicitation':{}}");
    talk_ask(c, "tools/call", "'name':'ask'");
    assert_about(sleeps_ms(t), INPUT_TIME_MS);
    mcp_inputs_look(t->server, clock_ms() + INPUT_TIME_MS + 1);
    assert_true(sleeps_ms(t) == UINT64_MAX);
    talk_leave(c);
    c = talk_join(t, t->anna, MCP_SESSION_PIPE, NULL, NULL);
    talk_ask(c, "tools/call", "'name':'rounds'"); /* which keeps a state for a limited time */
    assert_about(sleeps_ms(t), INPUT_STATE_TIME_MS);
    mcp_inputs_look(t->server, clock_ms() + INPUT_STATE_TIME_MS + 1);
    assert_true(sleeps_ms(t) == UINT64_MAX);
    talk_leave(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_runs_while_something_is_due),
        TEST(a_task_wakes_nobody_until_it_is_due),
        TEST(a_cancelled_task_is_dropped_too),
        TEST(what_is_asked_wakes_nobody_until_it_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
