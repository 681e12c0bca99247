/* Calls that are tasks, for clients of both kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "tests/unit/supervisor/mcp/talk.h"

#define LEGACY  "2025-11-25"
#define CAPS    "{'elicitation':{},'sampling':{},'roots':{}}"
#define RELATED "_meta.`io.modelcontextprotocol/related-task`.taskId"

static int setup(void **state)
{
    *state = talk_create(MCP_OFFER_TOOLS | MCP_OFFER_TASKS | MCP_OFFER_LOGGING);
    return 0;
}

static int teardown(void **state)
{
    talk_destroy(*state);
    return 0;
}

static struct talker *older(struct talk *t)
{
    return talk_join(t, t->anna, MCP_SESSION_LEGACY, LEGACY, CAPS);
}

static struct talker *latest(struct talk *t)
{
    return talk_join(t, t->anna, MCP_SESSION_PIPE, NULL, NULL);
}

/* Calls the tool as a task; returns its id, to be freed. */
static char *begin_old(struct talker *c, const char *tool)
{
    int id = talk_ask(c, "tools/call", "'name':'%s','task':{'ttl':60000}", tool);
    const char *task = text_at(talk_answer(c, id), "result.task.taskId");
    assert_non_null(task);
    assert_int_equal(strlen(task), 26);
    return alloc_strdup(task);
}

static char *begin_new(struct talker *c, const char *tool)
{
    int id = talk_ask(c, "tools/call", "'name':'%s'", tool);
    const cJSON *answer = talk_answer(c, id);
    assert_text_at(answer, "result.resultType", "task");
    const char *task = text_at(answer, "result.taskId");
    assert_int_equal(strlen(task), 26);
    return alloc_strdup(task);
}

static const cJSON *get(struct talker *c, const char *task)
{
    return talk_answer(c, talk_ask(c, "tasks/get", "'taskId':'%s'", task));
}

/* The members of an object, each followed by a blank. */
static void assert_members(const cJSON *object, const char *expected)
{
    char *all = alloc_strdup("");
    for (const cJSON *m = object != NULL ? object->child : NULL; m != NULL; m = m->next) {
        char *more = alloc_printf("%s%s ", all, m->string);
        free(all);
        all = more;
    }
    assert_string_equal(all, expected);
    free(all);
}

/* ---- 2025-11-25 ------------------------------------------------------------------------------ */

static void an_old_client_asks_for_a_task_and_fetches_its_result(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    int call = talk_ask(c, "tools/call", "'name':'hold','task':{'ttl':5000}");
    const cJSON *task = at(talk_answer(c, call), "result.task");
    assert_members(at(talk_answer(c, call), "result"), "task ");
    assert_members(task, "taskId status createdAt lastUpdatedAt ttl pollInterval ");
    assert_text_at(task, "status", "working");
    assert_int_equal(at(task, "ttl")->valueint, 5000);
    CLEANUP_FREE char *id = alloc_strdup(text_at(task, "taskId"));

    int first = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    int second = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_null(talk_answer(c, first));
    assert_text_at(get(c, id), "result.status", "working");
    talk_release(t, "here", false);
    for (int n = first; n <= second; n++) {
        const cJSON *result = at(talk_answer(c, n), "result");
        assert_members(result, "content _meta ");
        assert_text_at(result, "content.0.text", "here");
        assert_text_at(result, RELATED, id);
    }
    assert_text_at(get(c, id), "result.status", "completed");
    int again = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_text_at(talk_answer(c, again), "result.content.0.text", "here");
    talk_leave(c);
}

static void what_a_tool_reports_as_its_failure_is_a_failed_task_of_an_old_client(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    CLEANUP_FREE char *id = begin_old(c, "hold");
    talk_release(t, "bad luck", true);
    assert_text_at(get(c, id), "result.status", "failed");
    int n = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_text_at(talk_answer(c, n), "result.content.0.text", "bad luck");
    assert_true(cJSON_IsTrue(at(talk_answer(c, n), "result.isError")));

    CLEANUP_FREE char *broken = begin_old(c, "broken");
    assert_text_at(get(c, broken), "result.status", "failed");
    n = talk_ask(c, "tasks/result", "'taskId':'%s'", broken);
    assert_error(talk_answer(c, n), -32603);
    assert_text_at(talk_answer(c, n), "error.message", "It broke");
    assert_text_at(talk_answer(c, n), "error.data.why", "so");
    talk_leave(c);
}

static void an_old_client_cancels(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    CLEANUP_FREE char *id = begin_old(c, "hold");
    int waits = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    int n = talk_ask(c, "tasks/cancel", "'taskId':'%s'", id);
    assert_text_at(talk_answer(c, n), "result.status", "cancelled");
    assert_text_at(talk_answer(c, n), "result.taskId", id);
    assert_int_equal(t->cancels,
                     1); /* the handler was told of the cancellation, and its answer is dropped */
    assert_error(talk_answer(c, waits), -32602);
    assert_text_at(get(c, id), "result.status", "cancelled");
    assert_error(talk_answer(c, talk_ask(c, "tasks/cancel", "'taskId':'%s'", id)), -32602);
    assert_error(talk_answer(c, talk_ask(c, "tasks/result", "'taskId':'%s'", id)), -32602);
    talk_leave(c);
}

static void an_old_client_lists_its_tasks_page_by_page(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    for (int i = 0; i < 60; i++) {
        free(begin_old(c, "echo"));
    }
    int n = talk_ask(c, "tasks/list", "%s", "");
    assert_members(at(talk_answer(c, n), "result"), "tasks nextCursor ");
    assert_int_equal(cJSON_GetArraySize(at(talk_answer(c, n), "result.tasks")), 50);
    n = talk_ask(c, "tasks/list", "'cursor':'%s'", text_at(talk_answer(c, n), "result.nextCursor"));
    assert_members(at(talk_answer(c, n), "result"), "tasks ");
    assert_int_equal(cJSON_GetArraySize(at(talk_answer(c, n), "result.tasks")), 10);
    assert_error(talk_answer(c, talk_ask(c, "tasks/list", "'cursor':'x'")), -32602);
    assert_error(talk_answer(c, talk_ask(c, "tasks/list", "'cursor':1")), -32602);
    talk_leave(c);
}

static void wrong_use_by_an_old_client_is_refused(void **state)
{
    static const struct {
        const char *params;
        int code;
    } rows[] = {
        {"'name':'plain','task':{}", -32601},        {"'name':'must_hold'", -32601},
        {"'name':'echo','task':{'ttl':-1}", -32602}, {"'name':'echo','task':{'ttl':'x'}", -32602},
        {"'name':'echo','task':3", -32602},          {"'name':'echo','task':{'ttl':1.5}", -32602},
        {"'name':'nothing','task':{}", -32602},
    };
    struct talk *t = *state;
    struct talker *c = older(t);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_error(talk_answer(c, talk_ask(c, "tools/call", "%s", rows[i].params)), rows[i].code);
    }
    assert_int_equal(t->runs, 0);
    assert_error(talk_answer(c, talk_ask(c, "tasks/get", "'taskId':'nothing'")), -32602);
    assert_error(talk_answer(c, talk_ask(c, "tasks/get", "'taskId':7")), -32602);
    assert_error(talk_answer(c, talk_ask(c, "tasks/update", "'taskId':'nothing'")), -32601);
    int n = talk_ask(c, "tools/call", "'name':'echo','task':{'ttl':99999999999}");
    assert_int_equal(at(talk_answer(c, n), "result.task.ttl")->valueint, 86400000);
    talk_leave(c);

    struct talker *eldest = talk_join(t, t->anna, MCP_SESSION_LEGACY, "2025-06-18", CAPS);
    n = talk_ask(eldest, "tools/call", "'name':'echo','task':{}");
    assert_text_at(talk_answer(eldest, n), "result.content.0.text",
                   "done"); /* this revision has no tasks */
    assert_error(talk_answer(eldest, talk_ask(eldest, "tasks/list", "%s", "")), -32601);
    talk_leave(eldest);
}

static void a_task_outlives_the_session_that_began_it(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    CLEANUP_FREE char *id = begin_old(c, "hold");
    talk_leave(c);
    assert_int_equal(t->cancels, 0);
    c = older(t);
    int waits = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    talk_release(t, "still here", false);
    assert_text_at(talk_answer(c, waits), "result.content.0.text", "still here");
    talk_leave(c);
}

static void whoever_waits_may_give_up(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    CLEANUP_FREE char *id = begin_old(c, "hold");
    int first = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    int second = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}",
              first);
    assert_int_equal(c->unanswered, 1);
    for (int i = 0; i < 15; i++) {
        talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    }
    int too_many = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_error(talk_answer(c, too_many), -32603);
    struct talker *other = older(t);
    assert_error(talk_answer(other, talk_ask(other, "tasks/result", "'taskId':'%s'", id)), -32603);
    talk_leave(other);
    talk_release(t, "late", false);
    assert_null(talk_answer(c, first));
    assert_text_at(talk_answer(c, second), "result.content.0.text", "late");
    talk_leave(c);
}

static void an_old_client_hears_of_its_end_on_its_stream(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t), *stream = older(t);
    mcp_session_set_stream(c->session, &stream->sink);
    CLEANUP_FREE char *id = begin_old(c, "hold");
    talk_release(t, "here", false);
    const cJSON *told = talk_heard(stream, "notifications/tasks/status", 0);
    assert_text_at(told, "params.taskId", id);
    assert_text_at(told, "params.status", "completed");
    mcp_session_set_stream(c->session, NULL);
    talk_leave(c);
    talk_leave(stream);
}

/* ---- the extension --------------------------------------------------------------------------- */

#define ACK "resultType _meta "

static void a_new_client_gets_a_task_when_the_server_likes(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    int call = talk_ask(c, "tools/call", "'name':'task_hold','task':{'ttl':1}");
    assert_members(at(talk_answer(c, call), "result"),
                   "taskId status statusMessage createdAt lastUpdatedAt ttlMs pollIntervalMs "
                   "resultType _meta ");
    assert_text_at(talk_answer(c, call), "result.statusMessage", "at it");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, call), "result.taskId"));
    const cJSON *now = get(c, id);
    assert_members(at(now, "result"), "taskId status statusMessage createdAt lastUpdatedAt ttlMs "
                                      "pollIntervalMs resultType _meta ");
    assert_text_at(now, "result.resultType", "complete");
    assert_text_at(now, "result.status", "working");
    talk_send(c, /* tasks are not cancelled by this notification */
              "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}",
              call);
    assert_int_equal(t->cancels, 0);
    mcp_task_status(t->held, "half of it");
    assert_text_at(get(c, id), "result.statusMessage", "half of it");
    talk_release(t, "here", false);
    now = get(c, id);
    assert_text_at(now, "result.status", "completed");
    assert_text_at(now, "result.result.content.0.text", "here");
    assert_null(at(now, "result.result." RELATED));
    assert_null(at(now, "result.requestState"));
    int plain = talk_ask(c, "tools/call", "'name':'hold'");
    assert_null(talk_answer(c, plain));
    talk_release(t, "there", false);
    assert_text_at(talk_answer(c, plain), "result.content.0.text", "there");
    talk_leave(c);
}

static void failures_of_tools_complete_and_those_of_the_protocol_fail(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    CLEANUP_FREE char *id = begin_new(c, "task_hold");
    talk_release(t, "bad luck", true);
    assert_text_at(get(c, id), "result.status", "completed");
    assert_true(cJSON_IsTrue(at(get(c, id), "result.result.isError")));
    CLEANUP_FREE char *broken = begin_new(c, "task_broken");
    const cJSON *now = get(c, broken);
    assert_text_at(now, "result.status", "failed");
    assert_members(at(now, "result.error"), "code message data ");
    assert_null(at(now, "result.result"));
    talk_leave(c);
}

static void a_new_client_cancels_and_is_only_acknowledged(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    CLEANUP_FREE char *id = begin_new(c, "task_hold");
    for (int i = 0; i < 2; i++) { /* the second time it has ended already */
        int n = talk_ask(c, "tasks/cancel", "'taskId':'%s'", id);
        assert_members(at(talk_answer(c, n), "result"), ACK);
        assert_text_at(talk_answer(c, n), "result.resultType", "complete");
    }
    assert_int_equal(t->cancels, 1);
    assert_text_at(get(c, id), "result.status", "cancelled");
    assert_error(talk_answer(c, talk_ask(c, "tasks/cancel", "'taskId':'nothing'")), -32602);
    assert_error(talk_answer(c, talk_ask(c, "tasks/result", "'taskId':'%s'", id)), -32601);
    assert_error(talk_answer(c, talk_ask(c, "tasks/list", "%s", "")), -32601);
    talk_leave(c);
}

#define BARE                                                                                       \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{}}"

static void a_client_that_did_not_declare_the_extension_never_sees_a_task(void **state)
{
    static const char *const methods[] = {"tasks/get", "tasks/update", "tasks/cancel"};
    struct talk *t = *state;
    struct talker *c = latest(t);
    CLEANUP_FREE char *id = begin_new(c, "task_hold");
    c->modern = false; /* prevents talk_ask() from adding members to params */
    for (size_t i = 0; i < 3; i++) {
        const char *ids[] = {id, "nothing"};
        for (size_t k = 0; k < 2; k++) {
            int n = talk_ask(c, methods[i], "'taskId':'%s'," BARE, ids[k]);
            assert_error(talk_answer(c, n), -32021);
            assert_non_null(at(talk_answer(c, n), "error.data.requiredCapabilities.extensions."
                                                  "`io.modelcontextprotocol/tasks`"));
        }
    }
    talk_release(t, "gone", false);
    int n = talk_ask(c, "tools/call", "'name':'must_hold'," BARE);
    assert_error(talk_answer(c, n), -32021);
    n = talk_ask(c, "tools/call", "'name':'task_echo'," BARE);
    assert_text_at(talk_answer(c, n), "result.content.0.text", "done");
    assert_text_at(talk_answer(c, n), "result.resultType", "complete");
    talk_leave(c);
}

static void a_task_survives_the_loss_of_its_connection_and_belongs_to_its_principal(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_SINGLE, NULL, NULL);
    CLEANUP_FREE char *id = begin_new(c, "task_hold");
    mcp_session_sink_gone(c->session, &c->sink);
    talk_leave(c);
    assert_int_equal(t->cancels, 0);
    struct talker *other = talk_join(t, t->berta, MCP_SESSION_PIPE, NULL, NULL);
    assert_error(get(other, id), -32602);
    assert_error(talk_answer(other, talk_ask(other, "tasks/cancel", "'taskId':'%s'", id)), -32602);
    assert_error(talk_answer(other, talk_ask(other, "tasks/update",
                                             "'taskId':'%s','inputResponses':{}", id)),
                 -32602);
    struct talker *old_one = older(t);
    assert_error(get(old_one, id), -32602); /* that client could not read it */
    talk_leave(old_one);
    c = latest(t);
    assert_text_at(get(c, id), "result.status", "working");
    talk_release(t, "here", false);
    assert_text_at(get(c, id), "result.result.content.0.text", "here");
    talk_leave(c);
    talk_leave(other);
}

static void a_client_may_hang_up_while_it_is_told_of_its_task(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    c->hang_up = true;
    talk_ask(c, "tools/call", "'name':'task_hold'");
    assert_null(c->session);
    assert_int_equal(t->cancels, 0);
    talk_release(t, "for nobody", false);
    talk_leave(c);
    c = older(t);
    CLEANUP_FREE char *id = begin_old(c, "hold");
    talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    c->hang_up = true;
    talk_release(t, "for one of two", false);
    assert_null(c->session);
    talk_leave(c);
}

static void a_full_registry_makes_calls_plain_or_busy(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    for (int i = 0; i < 255; i++) { /* tasks that have ended make room for others */
        free(begin_old(c, "echo"));
    }
    for (int i = 0; i < 256; i++) {
        free(begin_old(c, "hold"));
        if (c->count > 1000) {
            talk_forget(c);
        }
    }
    struct talker *another = older(t);
    int n = talk_ask(another, "tools/call", "'name':'echo','task':{}");
    assert_error(talk_answer(another, n), -32603);
    assert_non_null(strstr(text_at(talk_answer(another, n), "error.message"), "many tasks"));
    talk_leave(another);
    struct talker *modern = latest(t);
    n = talk_ask(modern, "tools/call", "'name':'task_echo'");
    assert_text_at(talk_answer(modern, n), "result.content.0.text", "done");
    talk_leave(modern);
    talk_leave(c);
}

static void nothing_is_logged_for_tasks_and_only_what_was_asked_for(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    talk_ask(c, "tools/call", "'name':'log'");
    assert_int_equal(talk_count(c, "notifications/message"), 0);
    int n = talk_ask(c, "logging/setLevel", "'level':'warning'");
    assert_members(at(talk_answer(c, n), "result"), "");
    assert_non_null(at(talk_answer(c, n), "result"));
    n = talk_ask(c, "tools/call", "'name':'log'");
    assert_int_equal(talk_count(c, "notifications/message"), 5);
    const cJSON *told = talk_heard(c, "notifications/message", 4);
    assert_members(at(told, "params"), "level logger data ");
    assert_text_at(told, "params.level", "warning");
    assert_text_at(told, "params.data", "warning");
    free(begin_old(c, "log"));
    assert_int_equal(talk_count(c, "notifications/message"), 5);
    assert_error(talk_answer(c, talk_ask(c, "logging/setLevel", "'level':'loud'")), -32602);
    assert_error(talk_answer(c, talk_ask(c, "logging/setLevel", "'level':1")), -32602);
    talk_leave(c);

    c = latest(t);
    assert_error(talk_answer(c, talk_ask(c, "logging/setLevel", "'level':'info'")), -32601);
    talk_ask(c, "tools/call", "'name':'log'");
    assert_int_equal(talk_count(c, "notifications/message"), 0);
    c->modern = false;
    talk_ask(c, "tools/call",
             "'name':'log','_meta':{'io.modelcontextprotocol/logLevel':'critical',"
             "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
             "'io.modelcontextprotocol/clientCapabilities':{}}");
    assert_int_equal(talk_count(c, "notifications/message"), 3);
    talk_leave(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_old_client_asks_for_a_task_and_fetches_its_result),
        TEST(what_a_tool_reports_as_its_failure_is_a_failed_task_of_an_old_client),
        TEST(an_old_client_cancels),
        TEST(an_old_client_lists_its_tasks_page_by_page),
        TEST(wrong_use_by_an_old_client_is_refused),
        TEST(a_task_outlives_the_session_that_began_it),
        TEST(whoever_waits_may_give_up),
        TEST(an_old_client_hears_of_its_end_on_its_stream),
        TEST(a_new_client_gets_a_task_when_the_server_likes),
        TEST(failures_of_tools_complete_and_those_of_the_protocol_fail),
        TEST(a_new_client_cancels_and_is_only_acknowledged),
        TEST(a_client_that_did_not_declare_the_extension_never_sees_a_task),
        TEST(a_task_survives_the_loss_of_its_connection_and_belongs_to_its_principal),
        TEST(a_client_may_hang_up_while_it_is_told_of_its_task),
        TEST(a_full_registry_makes_calls_plain_or_busy),
        TEST(nothing_is_logged_for_tasks_and_only_what_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
