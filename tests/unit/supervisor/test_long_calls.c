/* Calls that take long: as tasks of both kinds, and the notifications to subscribers when they
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/mcp/session.h"
#include "supervisor/mcp/task_registry.h"
#include "tests/unit/supervisor/client.h"

#define META                                                                                       \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{'extensions':"                                  \
    "{'io.modelcontextprotocol/tasks':{}}}}"

static int setup_modern(void **state)
{
    *state = client_create();
    return 0;
}

/* Calls as a client that supports tasks; the latest message is the answer, if there is one. */
static void call_modern(struct client *c, const char *tool, const char *arguments)
{
    client_send(c,
                "{'jsonrpc':'2.0','id':'call-%zu','method':'tools/call','params':{'name':'%s',"
                "'arguments':%s," META "}}",
                c->calls++, tool, arguments);
}

static const cJSON *get_task(struct client *c, const char *id)
{
    client_send(c,
                "{'jsonrpc':'2.0','id':'get-%zu','method':'tasks/get','params':{'taskId':'%s'," META
                "}}",
                c->calls++, id);
    return at(client_last(c), "result");
}

static void on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Waits until another message has been sent. */
static void wait_told(struct client *c, size_t from)
{
    bool late = false;
    uv_timer_t guard;
    uv_timer_init(&c->loop, &guard);
    guard.data = &late;
    uv_timer_start(&guard, on_late, 5000, 0);
    while (c->count == from && !late) {
        uv_run(&c->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&c->loop, UV_RUN_NOWAIT);
    assert_true(c->count > from);
}

static struct fleet_call *pending(struct client *c, size_t n)
{
    assert_true(n < c->fleet->pending_count);
    return c->fleet->pending[n];
}

static void code_that_takes_long_becomes_a_task(void **state)
{
    struct client *c = *state;
    call_modern(c, "create_sandbox", "{'name':'a'}");
    fake_settle(c->fleet);
    call_modern(c, "execute_code", "{'code':'1','sandbox_id':'a'}");
    assert_in_range(pending(c, 0)->wait_ms, 1, 5000); /* --task-after-seconds */
    fake_stand(c->fleet, 0);                          /* a wait that ends too early is repeated */
    assert_in_range(pending(c, 0)->wait_ms, 1, 5000);
    c->config.task_after_s = 0; /* the seconds have passed */
    fake_stand(c->fleet, 0);
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "resultType"), "task");
    assert_string_equal(text_at(result, "status"), "working");
    assert_non_null(strstr(text_at(result, "statusMessage"), "execution ex-1 in sandbox sb1"));
    CLEANUP_FREE char *id = alloc_strdup(text_at(result, "taskId"));
    assert_true(pending(c, 0)->wait_ms == FLEET_WAIT_FOR_EVER);
    assert_string_equal(text_at(get_task(c, id), "status"), "working");
    fake_set_output(c->fleet, "done", 4);
    fake_answer(c->fleet, 0);
    result = get_task(c, id);
    assert_string_equal(text_at(result, "status"), "completed");
    assert_string_equal(text_at(result, "result.structuredContent.stdout"), "done");
    assert_string_equal(text_at(result, "result.structuredContent.status"), "ok");
}

static void code_that_ends_in_time_is_answered(void **state)
{
    struct client *c = *state;
    call_modern(c, "execute_code", "{'code':'1'}");
    fake_settle(c->fleet);
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "resultType"), "complete");
    assert_string_equal(text_at(result, "structuredContent.status"), "ok");
}

static void a_client_without_tasks_waits_within_the_budget(void **state)
{
    struct client *c = *state;
    call_modern(c, "create_sandbox", "{'name':'a'}");
    fake_settle(c->fleet);
    client_call(c, true, "execute_code", "{'code':'1','sandbox_id':'a'}");
    assert_in_range(pending(c, 0)->wait_ms, 30000, 45000); /* some of the budget is used already */
    fake_stand(c->fleet, 0);
    assert_string_equal(text_at(client_last(c), "result.structuredContent.status"), "running");
}

/* A client has a limit of tasks; beyond it calls are answered within the time budget, too. */
static void without_room_for_a_task_a_call_is_answered(void **state)
{
    struct client *c = *state;
    call_modern(c, "create_sandbox", "{'name':'a'}");
    fake_settle(c->fleet);
    c->config.task_after_s = 0;
    for (size_t i = 0; i < TASKS_KEPT; i++) {
        call_modern(c, "execute_code", "{'code':'1','sandbox_id':'a'}");
        fake_stand(c->fleet, i);
        assert_true(pending(c, i)->wait_ms == FLEET_WAIT_FOR_EVER);
    }
    /* one session cannot have more calls either, so there are several */
    struct mcp_session *first = c->session;
    c->session = mcp_session_create(c->server, MCP_SESSION_PIPE, mcp_session_principal(first));
    call_modern(c, "execute_code", "{'code':'1','sandbox_id':'a'}");
    fake_stand(c->fleet, TASKS_KEPT);
    assert_in_range(pending(c, TASKS_KEPT)->wait_ms, 30000, 45000);
    fake_stand(c->fleet, TASKS_KEPT);
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "structuredContent.status"), "running");
    c->config.sync_budget_s = 1;
    size_t before = c->count;
    call_modern(c, "install_package", "{'package_name':'alpha','sandbox_id':'a'}");
    wait_told(c, before);
    result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "structuredContent.status"), "installing");
    mcp_session_end(c->session);
    c->session = first;
}

static void a_cancelled_task_stops_its_code(void **state)
{
    struct client *c = *state;
    call_modern(c, "create_sandbox", "{'name':'a'}");
    fake_settle(c->fleet);
    c->config.task_after_s = 0;
    call_modern(c, "execute_code", "{'code':'1','sandbox_id':'a'}");
    assert_int_equal(pending(c, 0)->wait_ms, 0);
    fake_stand(c->fleet, 0);
    CLEANUP_FREE char *id = alloc_strdup(text_at(client_last(c), "result.taskId"));
    client_send(
        c, "{'jsonrpc':'2.0','id':9,'method':'tasks/cancel','params':{'taskId':'%s'," META "}}",
        id);
    assert_true(c->fleet->executions[0].stopped);
    fake_settle(c->fleet);
    assert_string_equal(text_at(get_task(c, id), "status"), "cancelled");
}

static void an_image_that_is_pulled_makes_a_call_a_task(void **state)
{
    struct client *c = *state;
    call_modern(c, "create_sandbox", "{}");
    fake_progress(c->fleet, 0, "pulling x", 1, 10);
    size_t before = c->count;
    c->config.task_after_s = 0;
    fake_progress(c->fleet, 0, "pulling x", 5, 10);
    assert_int_equal(c->count, before + 1);
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "resultType"), "task");
    assert_string_equal(text_at(result, "statusMessage"), "pulling x");
    CLEANUP_FREE char *id = alloc_strdup(text_at(result, "taskId"));
    fake_settle(c->fleet);
    result = get_task(c, id);
    assert_string_equal(text_at(result, "result.structuredContent.sandbox_id"), "sb1");
    /* a call that waits for its sandbox is a task while its code runs, too */
    call_modern(c, "create_run_close", "{'code':'1'}");
    fake_progress(c->fleet, 0, "pulling x", 5, 10);
    fake_answer(c->fleet, 0);
    assert_true(pending(c, 0)->wait_ms == FLEET_WAIT_FOR_EVER);
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->closes, 1);
}

static void tools_that_are_quick_never_become_tasks(void **state)
{
    struct client *c = *state;
    c->config.task_after_s = 0;
    call_modern(c, "write_file", "{'path':'a','content':'x'}");
    fake_progress(c->fleet, 0, "pulling x", 5, 10);
    fake_settle(c->fleet);
    assert_string_equal(text_at(client_last(c), "result.resultType"), "complete");
}

static void an_older_client_asks_for_a_task(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_send(c, "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'1','sandbox_id':'a'},'task':{'ttl':60000}}}");
    assert_string_equal(text_at(client_last(c), "result.task.status"), "working");
    CLEANUP_FREE char *id = alloc_strdup(text_at(client_last(c), "result.task.taskId"));
    assert_true(pending(c, 0)->wait_ms == FLEET_WAIT_FOR_EVER);
    fake_answer(c->fleet, 0);
    client_send(c, "{'jsonrpc':'2.0','id':8,'method':'tasks/result','params':{'taskId':'%s'}}", id);
    assert_string_equal(text_at(client_last(c), "result.structuredContent.status"), "ok");
    client_send(c, "{'jsonrpc':'2.0','id':9,'method':'tools/call','params':{'name':'read_file',"
                   "'arguments':{'path':'a'},'task':{}}}");
    assert_int_equal((int)number_at(client_last(c), "error.code"), -32601);
    client_send(c, "{'jsonrpc':'2.0','id':10,'method':'tools/list'}");
    const cJSON *tools = at(client_last(c), "result.tools");
    assert_string_equal(text_at(tools, "0.execution.taskSupport"), "optional");
    assert_null(at(tools, "2.execution"));
}

/* ---- changes -------------------------------------------------------------------------------- */

/* The number of notifications of this method, and of this URI if it is given, since `from`. */
static unsigned heard(struct client *c, size_t from, const char *method, const char *uri)
{
    unsigned n = 0;
    for (size_t i = from; i < c->count; i++) {
        const cJSON *is = at(c->answers[i], "method");
        const cJSON *whose = at(c->answers[i], "params.uri");
        n += is != NULL && strcmp(is->valuestring, method) == 0 &&
             (uri == NULL || (whose != NULL && strcmp(whose->valuestring, uri) == 0));
    }
    return n;
}

static void subscribers_hear_what_may_have_changed(void **state)
{
    struct client *c = *state;
    const struct fleet_events *events = c->fleet->events;
    void *arg = c->fleet->events_arg;
    const char *const mine = "sandbox://sb1/workspace/a.csv";
    const char *const by_name = "sandbox://name/workspace/";
    client_tool(c, "create_sandbox", "{'name':'name'}");
    client_tool(c, "create_sandbox", "{}");
    client_tool(c, "execute_code", "{'code':'1','sandbox_id':'name'}");
    snprintf(c->fleet->sandboxes[1].owner, sizeof(c->fleet->sandboxes[1].owner), "you");
    const char *const uris[] = {mine, by_name, "execution://ex-1/stdout"};
    for (size_t i = 0; i < 3; i++) {
        client_send(c,
                    "{'jsonrpc':'2.0','id':%zu,'method':'resources/subscribe','params':{'uri':"
                    "'%s'}}",
                    20 + i, uris[i]);
        assert_non_null(at(client_last(c), "result"));
    }
    static const char *const not_mine[] = {"sandbox://sb2/workspace/a", "execution://ex-9/stdout",
                                           "sandbox://sb1/../x", "file:///etc/passwd"};
    for (size_t i = 0; i < 4; i++) {
        client_send(c,
                    "{'jsonrpc':'2.0','id':%zu,'method':'resources/subscribe','params':{'uri':"
                    "'%s'}}",
                    30 + i, not_mine[i]);
    }
    size_t before = c->count;
    events->files(arg, "me", "sb1", "name");
    wait_told(c, before);
    assert_int_equal(heard(c, before, "notifications/resources/updated", mine), 1);
    assert_int_equal(heard(c, before, "notifications/resources/updated", by_name), 1);
    assert_int_equal(heard(c, before, "notifications/resources/updated", NULL), 2);
    assert_int_equal(heard(c, before, "notifications/resources/list_changed", NULL), 1);
    before = c->count;
    events->execution(arg, "me", "ex-1");
    wait_told(c, before);
    assert_int_equal(heard(c, before, "notifications/resources/updated", uris[2]), 1);
    before = c->count;
    events->files(arg, "you", "sb2", "");
    events->sandboxes(arg, "you");
    events->execution(arg, "you", "ex-9");
    events->sandboxes(arg, "me");
    wait_told(c, before);
    assert_int_equal(heard(c, before, "notifications/resources/list_changed", NULL), 1);
    assert_int_equal(heard(c, before, "notifications/resources/updated", NULL), 0);
}

int main(void)
{
#define MODERN(name) cmocka_unit_test_setup_teardown(name, setup_modern, client_teardown)
#define LEGACY(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        MODERN(code_that_takes_long_becomes_a_task),
        MODERN(code_that_ends_in_time_is_answered),
        MODERN(a_client_without_tasks_waits_within_the_budget),
        MODERN(without_room_for_a_task_a_call_is_answered),
        MODERN(a_cancelled_task_stops_its_code),
        MODERN(an_image_that_is_pulled_makes_a_call_a_task),
        MODERN(tools_that_are_quick_never_become_tasks),
        LEGACY(an_older_client_asks_for_a_task),
        LEGACY(subscribers_hear_what_may_have_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
