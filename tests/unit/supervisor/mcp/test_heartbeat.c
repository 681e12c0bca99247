/* Progress notifications and heartbeats: which clients get how many, and that a client that waits
 * long gets some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "supervisor/mcp/internal.h"
#include "tests/unit/supervisor/mcp/lab.h"

#define HOLD        "'name':'hold','_meta':{'progressToken':'t'}"
#define HOLD_MODERN "'name':'hold'," META_WITH_TOKEN
#define META_WITH_TOKEN                                                                            \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{},'progressToken':7}"

static int setup(void **state)
{
    *state = lab_create();
    return 0;
}

static int teardown(void **state)
{
    lab_free(*state);
    return 0;
}

static bool beats(const struct lab *l)
{
    return uv_is_active((const uv_handle_t *)&l->server->heartbeat);
}

static void progress_reaches_who_gave_a_token(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    size_t before = p->count;
    peer_ask(p, false, "a", "tools/call", HOLD);
    peer_ask(p, false, "b", "tools/call", "'name':'hold'");
    assert_true(mcp_wants_progress(l->held[0]));
    assert_false(mcp_wants_progress(l->held[1]));
    mcp_progress(l->held[0], 1, 10, "one");
    mcp_progress(l->held[1], 1, 10, "one");
    assert_int_equal(p->count, before + 1);
    assert_string_equal(text_at(peer_last(p), "params.progressToken"), "t");
    assert_int_equal(number_at(peer_last(p), "params.total"), 10);
    assert_int_equal(peer_status(p), 0); /* not an answer */
    assert_false(mcp_wants_progress(l->held[0]));
    mcp_progress(l->held[0], 2, 10, "two"); /* too soon */
    assert_int_equal(p->count, before + 1);
    mcp_progress_step(l->held[0], 3, 10, "three"); /* but this is a new step */
    assert_int_equal(p->count, before + 2);
    assert_string_equal(text_at(peer_last(p), "params.message"), "three");
    peer_cancel(p, "a");
    size_t after = p->count;
    assert_false(mcp_wants_progress(l->held[0]));
    mcp_progress_step(l->held[0], 4, 10, "four");
    assert_int_equal(p->count, after);
    peer_end(p);
}

static void the_timer_runs_only_while_somebody_waits(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    assert_false(beats(l));
    peer_ask(p, false, "x", "tools/call", "'name':'hold'");
    assert_false(beats(l)); /* it has no progress token */
    peer_ask(p, false, "e", "tools/call", "'name':'echo','_meta':{'progressToken':'t'}");
    assert_false(beats(l)); /* it has ended already */
    peer_ask(p, false, "a", "tools/call", HOLD);
    peer_ask(p, false, "b", "tools/call", HOLD);
    assert_true(beats(l));
    lab_end(l, 1);
    assert_true(beats(l));
    peer_cancel(p, "b");
    assert_false(beats(l)); /* although the handler has not ended */
    peer_ask(p, false, "c", "tools/call", HOLD);
    assert_true(beats(l));
    mcp_session_sink_gone(p->session, &p->sink);
    assert_false(beats(l));
    peer_end(p);

    p = peer_create(l, MCP_SESSION_SINGLE, NULL);
    peer_ask(p, false, "d", "tools/call", HOLD_MODERN);
    assert_true(beats(l));
    peer_end(p);
    assert_false(beats(l));
}

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* In real time: the first heartbeat comes within ten seconds, to every request that waits, and
 * again after other progress was reported meanwhile. */
static void whoever_waits_for_long_hears_something(void **state)
{
    struct lab *l = *state;
    struct peer *old = peer_create(l, MCP_SESSION_LEGACY, "2024-11-05");
    struct peer *p = peer_create(l, MCP_SESSION_SINGLE, NULL);
    peer_ask(old, false, "a", "tools/call", HOLD);
    peer_ask(p, false, "b", "tools/call", HOLD_MODERN);
    mcp_progress(l->held[1], 5, 10, "half");
    size_t before = old->count;
    assert_int_equal(p->count, 1);

    bool late = false;
    uv_timer_t limit;
    uv_timer_init(&l->loop, &limit);
    limit.data = &late;
    uv_timer_start(&limit, on_time, PROGRESS_HEARTBEAT_MS, 0);
    uint64_t begin = clock_ms();
    while (!late && (p->count < 2 || old->count < before + 1)) {
        uv_run(&l->loop, UV_RUN_ONCE);
    }
    assert_false(late);
    assert_true(clock_ms() - begin > PROGRESS_HEARTBEAT_MS / 2);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(&l->loop, UV_RUN_NOWAIT);

    assert_int_equal(number_at(peer_last(p), "params.progressToken"), 7);
    assert_string_equal(text_at(peer_last(p), "params.message"), "half");
    double value = at(peer_last(p), "params.progress")->valuedouble;
    assert_true(value > 5 && value < 6);
    assert_null(at(peer_last(old), "params.message"));
    mcp_progress(l->held[1], 6, 10, "more");
    assert_true(at(peer_last(p), "params.progress")->valuedouble == 6);
    peer_end(old);
    peer_end(p);
}

static void repeats_never_catch_up_with_the_next_step(void **state)
{
    struct progress p;
    cJSON *params = cJSON_Parse("{\"_meta\":{\"progressToken\":1}}");
    progress_init(&p, params, true, 0);
    cJSON_Delete(params);
    assert_null(progress_repeat(&p, 0, PROGRESS_HEARTBEAT_MS - 1));
    double last = -1;
    uint64_t now = 0;
    for (int i = 0; i < 90; i++) { /* a quarter of an hour */
        now += PROGRESS_HEARTBEAT_MS;
        char *json = progress_repeat(&p, 0, now);
        assert_non_null(json);
        free(json);
        assert_true(p.value > last && p.value < 1);
        last = p.value;
        assert_null(progress_repeat(&p, 2500, now + PROGRESS_HEARTBEAT_MS - 2501));
    }
    char *json = progress_tell(&p, 1e15, 0, NULL, now);
    free(json);
    json = progress_repeat(&p, 0, now + PROGRESS_HEARTBEAT_MS);
    assert_non_null(json);
    free(json);
    assert_true(p.value > 1e15);
    progress_finish(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(progress_reaches_who_gave_a_token),
        TEST(the_timer_runs_only_while_somebody_waits),
        TEST(whoever_waits_for_long_hears_something),
        cmocka_unit_test(repeats_never_catch_up_with_the_next_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
