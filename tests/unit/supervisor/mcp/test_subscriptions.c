/* Subscriptions: which client is notified of which changes, on which stream, and what happens to
 * clients that do not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/mcp/notices.h"
#include "tests/unit/supervisor/mcp/talk.h"

#define ACK       "notifications/subscriptions/acknowledged"
#define TOOLS     "notifications/tools/list_changed"
#define RESOURCES "notifications/resources/list_changed"
#define PROMPTS   "notifications/prompts/list_changed"
#define UPDATED   "notifications/resources/updated"
#define OF        "params._meta.`io.modelcontextprotocol/subscriptionId`"

static int setup(void **state)
{
    *state = talk_create(MCP_OFFER_TOOLS | MCP_OFFER_TASKS | MCP_OFFER_RESOURCES |
                         MCP_OFFER_TOOLS_CHANGED | MCP_OFFER_RESOURCES_CHANGED |
                         MCP_OFFER_SUBSCRIBE | MCP_OFFER_PROMPTS);
    return 0;
}

static int teardown(void **state)
{
    talk_destroy(*state);
    return 0;
}

static struct talker *older(struct talk *t)
{
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_LEGACY, "2025-11-25", "{}");
    mcp_session_set_stream(c->session, &c->sink);
    return c;
}

static struct talker *latest(struct talk *t)
{
    return talk_join(t, t->anna, MCP_SESSION_PIPE, NULL, NULL);
}

static int listen_to(struct talker *c, const char *filter)
{
    return talk_ask(c, "subscriptions/listen", "'notifications':%s", filter);
}

static void cancel(struct talker *c, int id)
{
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}",
              id);
}

static void check_json(const cJSON *value, const char *expected)
{
    CLEANUP_FREE char *text = value != NULL ? cJSON_PrintUnformatted(value) : NULL;
    assert_non_null(text);
    assert_string_equal(text, expected);
}

/* ---- the latest revision --------------------------------------------------------------------- */

static void a_listen_is_told_what_it_will_hear_and_then_hears_it(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    int id = listen_to(c, "{'toolsListChanged':true,'resourcesListChanged':false,"
                          "'promptsListChanged':true,'other':7,"
                          "'resourceSubscriptions':['s://anna/a','s://berta/a','s://anna/d/']}");
    assert_int_equal(c->count, 1);
    const cJSON *ack = talk_heard(c, ACK, 0);
    check_json(at(ack, "params.notifications"), /* prompts are not offered, and berta's resource is
                                                   not visible */
               "{\"toolsListChanged\":true,"
               "\"resourceSubscriptions\":[\"s://anna/a\",\"s://anna/d/\"]}");
    assert_int_equal(at(ack, OF)->valueint, id);
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    mcp_list_changed(t->server, NULL, MCP_LIST_RESOURCES);
    mcp_list_changed(t->server, NULL, MCP_LIST_PROMPTS);
    mcp_resource_updated(t->server, "anna", "s://anna/a");
    mcp_resource_updated(t->server, "anna", "s://anna/b");
    mcp_resource_updated(t->server, "berta", "s://anna/a");
    mcp_resource_updated(t->server, "anna", "s://anna/d/x");
    talk_await(c, UPDATED, 2);
    assert_int_equal(c->count, 4);
    check_json(at(talk_heard(c, TOOLS, 0), "params"),
               "{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":1}}");
    assert_text_at(talk_heard(c, UPDATED, 1), "params.uri", "s://anna/a");
    assert_text_at(talk_heard(c, UPDATED, 0), "params.uri", "s://anna/d/x");
    assert_int_equal(at(talk_heard(c, UPDATED, 0), OF)->valueint, id);
    cancel(c, id);
    assert_int_equal(c->unanswered, 1);
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    uv_run(&t->loop, UV_RUN_NOWAIT);
    assert_int_equal(c->count, 4);
    talk_leave(c);
}

static void several_listens_each_get_their_own_copy(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    talk_send(c, "{'jsonrpc':'2.0','id':'a','method':'subscriptions/listen','params':{"
                 "'notifications':{'toolsListChanged':true},'_meta':{"
                 "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                 "'io.modelcontextprotocol/clientCapabilities':{}}}}");
    int both = listen_to(c, "{'toolsListChanged':true,'resourcesListChanged':true}");
    int none = listen_to(c, "{}");
    check_json(at(talk_heard(c, ACK, 0), "params.notifications"), "{}");
    assert_int_equal(at(talk_heard(c, ACK, 0), OF)->valueint, none);
    assert_text_at(talk_heard(c, ACK, 2), OF, "a"); /* an id keeps its type */
    for (int i = 0; i < 100; i++) {
        mcp_list_changed(t->server, "anna", MCP_LIST_TOOLS);
        mcp_list_changed(t->server, "anna", MCP_LIST_TEMPLATES);
        mcp_list_changed(t->server, "berta", MCP_LIST_RESOURCES);
    }
    talk_await(c, TOOLS, 2);
    assert_int_equal(talk_count(c, RESOURCES), 1);
    assert_int_equal(at(talk_heard(c, RESOURCES, 0), OF)->valueint, both);
    talk_leave(c);
}

static void wrong_filters_are_refused(void **state)
{
    static const char *const rows[] = {
        "null",
        "[]",
        "{'toolsListChanged':1}",
        "{'resourceSubscriptions':'s://anna/a'}",
        "{'resourceSubscriptions':['s://anna/a',1]}",
        "{'taskIds':{}}",
    };
    struct talk *t = *state;
    struct talker *c = latest(t);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_error(talk_answer(c, listen_to(c, rows[i])), -32602);
    }
    assert_error(talk_answer(c, talk_ask(c, "subscriptions/listen", "%s", "'x':1")), -32602);
    c->modern = false;
    int n = talk_ask(c, "subscriptions/listen",
                     "'notifications':{'taskIds':[]},'_meta':{"
                     "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                     "'io.modelcontextprotocol/clientCapabilities':{}}");
    assert_error(talk_answer(c, n), -32021);
    assert_error(talk_answer(c, talk_ask(c, "subscriptions/listen", "'notifications':{}")), -32600);
    assert_int_equal(talk_count(c, ACK), 0);
    talk_leave(c);
}

static void the_state_of_a_task_is_told_to_who_may_know_it(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    struct talker *other = talk_join(t, t->berta, MCP_SESSION_PIPE, NULL, NULL);
    int n = talk_ask(c, "tools/call", "'name':'task_hold'");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.taskId"));
    CLEANUP_FREE char *filter = alloc_printf("{'taskIds':['%s','nothing']}", id);
    listen_to(other, filter);
    check_json(at(talk_heard(other, ACK, 0), "params.notifications"), "{\"taskIds\":[]}");
    int listen = listen_to(c, filter);
    CLEANUP_FREE char *expected = alloc_printf("{\"taskIds\":[\"%s\"]}", id);
    check_json(at(talk_heard(c, ACK, 0), "params.notifications"), expected);
    mcp_task_status(t->held, "half of it");
    talk_await(c, "notifications/tasks", 1);
    assert_text_at(talk_heard(c, "notifications/tasks", 0), "params.status", "working");
    assert_text_at(talk_heard(c, "notifications/tasks", 0), "params.statusMessage", "half of it");
    mcp_task_status(t->held, "all of it");
    talk_release(t, "here", false);
    talk_await(c, "notifications/tasks", 2); /* only the latest state is sent */
    const cJSON *told = talk_heard(c, "notifications/tasks", 0);
    assert_text_at(told, "params.status", "completed");
    assert_text_at(told, "params.result.content.0.text", "here");
    assert_int_equal(at(told, OF)->valueint, listen);
    assert_null(at(told, "params.resultType"));
    assert_int_equal(talk_count(other, "notifications/tasks"), 0);
    talk_leave(c);
    talk_leave(other);
}

static void a_reader_that_is_behind_gets_one_of_each_later(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    struct talker *fast = latest(t);
    c->behind = true;
    listen_to(c, "{'toolsListChanged':true,'resourceSubscriptions':['s://anna/d/']}");
    listen_to(fast, "{'toolsListChanged':true}");
    for (int i = 0; i < 1000; i++) {
        CLEANUP_FREE char *uri = alloc_printf("s://anna/d/%d", i);
        mcp_resource_updated(t->server, NULL, uri);
        mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    }
    talk_await(fast, TOOLS, 1); /* it does not wait for the slow one */
    assert_int_equal(c->count, 0);
    c->behind = false;
    talk_await(c, UPDATED, 1);
    assert_int_equal(c->count, 3);
    assert_text_at(c->got[0], "method", ACK); /* before anything else */
    assert_int_equal(talk_count(c, TOOLS), 1);
    assert_text_at(talk_heard(c, UPDATED, 0), "params.uri", "s://anna/d/");
    talk_leave(c);
    talk_leave(fast);
}

static void note_timer(uv_handle_t *handle, void *arg)
{
    uint64_t *due_ms = arg;
    if (uv_handle_get_type(handle) == UV_TIMER && uv_is_active(handle)) {
        *due_ms = uv_timer_get_due_in((const uv_timer_t *)handle);
    }
}

static void nobody_waits_for_a_reader_that_is_behind(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    struct talker *fast = latest(t);
    uint64_t due_ms = 0;
    listen_to(fast, "{'toolsListChanged':true}");
    c->behind = true;
    listen_to(c, "{}");
    uv_walk(&t->loop, note_timer, &due_ms);
    assert_true(due_ms > 200); /* when sending is tried again */
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    uv_walk(&t->loop, note_timer, &due_ms);
    assert_true(due_ms <= 20);
    talk_await(fast, TOOLS, 1);
    talk_leave(c);
    talk_leave(fast);
}

static void listens_are_limited_and_free_their_place(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    struct talker *other = talk_join(t, t->berta, MCP_SESSION_PIPE, NULL, NULL);
    int first = listen_to(c, "{}");
    for (int i = 1; i < 256; i++) {
        listen_to(c, "{}");
        listen_to(other, "{}");
    }
    assert_error(talk_answer(c, listen_to(c, "{}")), -32603);
    listen_to(other, "{}");
    assert_int_equal(talk_count(other, ACK), 256);
    cancel(c, first);
    listen_to(c, "{}");
    assert_int_equal(talk_count(c, ACK), 257);
    talk_leave(c);
    talk_leave(other);
}

/* [name, …], `count` of them, all the same or numbered */
static char *names(const char *name, size_t count, bool same)
{
    CLEANUP_BUF struct buf all;
    struct err err = ERR_INIT;
    buf_init(&all, 1u << 20);
    for (size_t i = 0; i < count; i++) {
        CLEANUP_FREE char *one = same ? alloc_printf("%s'%s'", i > 0 ? "," : "", name)
                                      : alloc_printf("%s'%s%zu'", i > 0 ? "," : "", name, i);
        assert_int_equal(buf_add(&all, one, strlen(one), &err), 0);
    }
    return alloc_printf("[%s]", buf_cstr(&all));
}

static void only_so_many_names_are_looked_at_and_each_is_taken_once(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    static const struct {
        const char *name;
        bool same;
        size_t count, taken, mays;
    } rows[] = {
        {"s://anna/a", true, 5000, 1, 1},
        {"s://anna/a", false, 5000, 256, 256},
        {"s://berta/a", false, 5000, 0, 512},
        {"s://anna/a", false, 10, 10, 10},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        t->mays = 0;
        CLEANUP_FREE char *array = names(rows[i].name, rows[i].count, rows[i].same);
        CLEANUP_FREE char *filter = alloc_printf("{'resourceSubscriptions':%s}", array);
        listen_to(c, filter);
        const cJSON *taken =
            at(talk_heard(c, ACK, 0), "params.notifications.resourceSubscriptions");
        assert_int_equal(cJSON_GetArraySize(taken), rows[i].taken);
        assert_int_equal(t->mays, rows[i].mays);
    }
    t->mays = 0;
    char *longest = alloc_array(70001, 1);
    memset(longest, 'x', 70000);
    CLEANUP_FREE char *filter =
        alloc_printf("{'resourceSubscriptions':['s://anna/%s','s://anna/b']}", longest);
    free(longest);
    listen_to(c, filter);
    check_json(at(talk_heard(c, ACK, 0), "params.notifications"),
               "{\"resourceSubscriptions\":[\"s://anna/b\"]}");
    assert_int_equal(t->mays, 1);
    talk_leave(c);
}

static void what_waits_for_long_keeps_nothing_of_its_message(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    int id = listen_to(c, "{'toolsListChanged':true,'more':['a','b','c']}");
    assert_int_equal(t->anna->kept, 0);
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    talk_await(c, TOOLS, 1);
    assert_int_equal(at(talk_heard(c, TOOLS, 0), OF)->valueint, id);
    cancel(c, id);
    talk_leave(c);

    c = older(t);
    int call = talk_ask(c, "tools/call", "'name':'hold','task':{}");
    size_t held = t->anna->kept; /* a task's arguments belong to its handler until it ends */
    assert_true(held > 0);
    CLEANUP_FREE char *task = alloc_strdup(text_at(talk_answer(c, call), "result.task.taskId"));
    int first = talk_ask(c, "tasks/result", "'taskId':'%s'", task);
    int second = talk_ask(c, "tasks/result", "'taskId':'%s'", task);
    assert_int_equal(t->anna->kept, held);
    cancel(c, first);
    assert_int_equal(c->unanswered, 1);
    talk_release(t, "here", false);
    assert_text_at(talk_answer(c, second), "result.content.0.text", "here");
    assert_int_equal(t->anna->kept, 0);
    talk_leave(c);
}

static void the_end_of_the_server_is_told(void **state)
{
    struct talk *t = *state;
    struct talker *pipe = latest(t);
    struct talker *single = talk_join(t, t->anna, MCP_SESSION_SINGLE, NULL, NULL);
    int on_pipe = listen_to(pipe, "{'toolsListChanged':true}");
    int on_single = listen_to(single, "{'toolsListChanged':true}");
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    mcp_server_stop(t->server);
    assert_int_equal(talk_count(pipe, TOOLS), 1); /* pending notifications are sent after all */
    const cJSON *result = at(talk_answer(pipe, on_pipe), "result");
    assert_text_at(result, "resultType", "complete");
    assert_int_equal(at(result, "_meta.`io.modelcontextprotocol/subscriptionId`")->valueint,
                     on_pipe);
    assert_non_null(at(result, "_meta.`io.modelcontextprotocol/serverInfo`"));
    const cJSON *cancelled = talk_heard(pipe, "notifications/cancelled", 0);
    assert_int_equal(at(cancelled, "params.requestId")->valueint, on_pipe);
    assert_ptr_equal(talk_last(pipe), cancelled);
    assert_non_null(talk_answer(single, on_single));
    assert_int_equal(talk_count(single, "notifications/cancelled"), 0);
    assert_error(talk_answer(pipe, listen_to(pipe, "{}")), -32603);
    talk_leave(pipe);
    talk_leave(single);
}

static void readers_may_leave_while_they_are_told(void **state)
{
    struct talk *t = *state;
    struct talker *c[4];
    for (size_t i = 0; i < 4; i++) {
        c[i] = i % 2 == 0 ? latest(t) : older(t);
        if (i % 2 == 0) {
            listen_to(c[i], "{'toolsListChanged':true,'resourcesListChanged':true}");
        }
        c[i]->hang_up = i < 2;
    }
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    mcp_list_changed(t->server, NULL, MCP_LIST_RESOURCES);
    talk_await(c[2], RESOURCES, 1);
    talk_await(c[3], RESOURCES, 1);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(c[i]->session == NULL, i < 2);
        assert_int_equal(talk_count(c[i], TOOLS), 1);
        talk_leave(c[i]);
    }
    struct talker *quick = latest(t);
    quick->hang_up = true;
    listen_to(quick, "{'toolsListChanged':true}"); /* together with its acknowledgement */
    assert_null(quick->session);
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    talk_leave(quick);
}

/* ---- older revisions ------------------------------------------------------------------------- */

static void an_older_client_hears_of_lists_unasked_and_of_what_it_subscribed_to(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    int n = talk_ask(c, "resources/subscribe", "'uri':'s://anna/a'");
    check_json(at(talk_answer(c, n), "result"), "{}");
    assert_error(talk_answer(c, talk_ask(c, "resources/subscribe", "'uri':'s://berta/a'")), -32002);
    assert_error(talk_answer(c, talk_ask(c, "resources/subscribe", "'uri':1")), -32602);
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    mcp_list_changed(t->server, NULL, MCP_LIST_PROMPTS); /* whose changes are not offered */
    mcp_resource_updated(t->server, "anna", "s://anna/a");
    mcp_resource_updated(t->server, "anna", "s://anna/b");
    talk_await(c, UPDATED, 1);
    check_json(at(talk_heard(c, UPDATED, 0), "params"), "{\"uri\":\"s://anna/a\"}");
    assert_int_equal(talk_count(c, TOOLS), 1);
    assert_null(at(talk_heard(c, TOOLS, 0), "params"));
    assert_int_equal(talk_count(c, PROMPTS), 0);
    n = talk_ask(c, "resources/unsubscribe", "'uri':'s://anna/a'");
    check_json(at(talk_answer(c, n), "result"), "{}");
    n = talk_ask(c, "resources/unsubscribe", "'uri':'s://anna/never'");
    check_json(at(talk_answer(c, n), "result"), "{}");
    mcp_resource_updated(t->server, "anna", "s://anna/a");
    mcp_list_changed(t->server, "anna", MCP_LIST_RESOURCES);
    talk_await(c, RESOURCES, 1);
    assert_int_equal(talk_count(c, UPDATED), 1);
    assert_error(talk_answer(c, talk_ask(c, "subscriptions/listen", "'notifications':{}")), -32601);
    talk_leave(c);
}

static void an_older_client_is_told_nothing_unasked_before_it_is_ready(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_LEGACY, NULL, NULL);
    c->modern = false;
    mcp_session_set_stream(c->session, &c->sink);
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/initialized'}"); /* without effect */
    talk_ask(c, "initialize", "'protocolVersion':'2025-11-25','capabilities':{}");
    talk_ask(c, "resources/subscribe", "'uri':'s://anna/a'");
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    mcp_resource_updated(t->server, NULL, "s://anna/a"); /* for which it has subscribed */
    talk_await(c, UPDATED, 1);
    assert_int_equal(talk_count(c, TOOLS), 0);
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    talk_await(c, TOOLS, 1);
    talk_leave(c);
}

static void what_happens_while_there_is_no_stream_is_told_on_the_next(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    mcp_session_set_stream(c->session, NULL);
    talk_ask(c, "resources/subscribe", "'uri':'s://anna/a'");
    talk_forget(c);
    for (int i = 0; i < 10; i++) {
        mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
        mcp_resource_updated(t->server, NULL, "s://anna/a");
    }
    struct talker *watch = latest(t);
    listen_to(watch, "{'toolsListChanged':true}");
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    talk_await(watch, TOOLS, 1);
    assert_int_equal(c->count, 0);
    mcp_session_set_stream(c->session, &c->sink);
    talk_await(c, UPDATED, 1);
    assert_int_equal(c->count, 2);
    talk_leave(watch);
    talk_leave(c);
}

static void one_pipe_may_carry_both(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_PIPE, "2025-11-25", "{}");
    c->modern = true;
    listen_to(c, "{'toolsListChanged':true}");
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    talk_await(c, TOOLS, 2);
    assert_int_not_equal(at(talk_heard(c, TOOLS, 0), "params") != NULL,
                         at(talk_heard(c, TOOLS, 1), "params") != NULL);
    talk_leave(c);
}

static void on_second(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void a_list_that_changes_all_the_time_is_told_once_a_second(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t);
    bool second_over = false;
    uv_timer_t second;
    uv_timer_init(&t->loop, &second);
    second.data = &second_over;
    uv_timer_start(&second, on_second, NOTICES_LIST_MS, 0);
    mcp_list_changed(t->server, NULL, MCP_LIST_RESOURCES);
    uint64_t begin_ms = clock_ms();
    while (!second_over && talk_count(c, RESOURCES) < 1) {
        uv_run(&t->loop, UV_RUN_ONCE);
    }
    assert_false(second_over); /* the first is told before a timer of a second that began earlier */
    uv_close((uv_handle_t *)&second, NULL);
    mcp_list_changed(t->server, NULL, MCP_LIST_RESOURCES);
    mcp_list_changed(t->server, NULL, MCP_LIST_TOOLS);
    talk_await(c, TOOLS, 1); /* which is sent in its turn */
    mcp_list_changed(t->server, NULL, MCP_LIST_RESOURCES);
    talk_await(c, RESOURCES, 2);
    assert_true(clock_ms() - begin_ms >= NOTICES_LIST_MS);
    talk_leave(c);
}

/* A new client of a pipe has subscribed to nothing. */
static void a_pipe_that_begins_again_has_no_subscriptions(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_PIPE, "2025-11-25", "{}");
    talk_answer(c, talk_ask(c, "resources/subscribe", "'uri':'s://anna/a'"));
    int id = talk_ask(c, "initialize", "'protocolVersion':'2025-11-25','capabilities':{}");
    assert_non_null(at(talk_answer(c, id), "result"));
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    talk_answer(c, talk_ask(c, "resources/subscribe", "'uri':'s://anna/b'"));
    mcp_resource_updated(t->server, "anna", "s://anna/a");
    mcp_resource_updated(t->server, "anna", "s://anna/b");
    talk_await(c, UPDATED, 1); /* changes at one time are told in one turn */
    assert_int_equal(talk_count(c, UPDATED), 1);
    assert_text_at(talk_heard(c, UPDATED, 0), "params.uri", "s://anna/b");
    talk_leave(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pipe_that_begins_again_has_no_subscriptions),
        TEST(a_listen_is_told_what_it_will_hear_and_then_hears_it),
        TEST(several_listens_each_get_their_own_copy),
        TEST(wrong_filters_are_refused),
        TEST(the_state_of_a_task_is_told_to_who_may_know_it),
        TEST(a_reader_that_is_behind_gets_one_of_each_later),
        TEST(nobody_waits_for_a_reader_that_is_behind),
        TEST(listens_are_limited_and_free_their_place),
        TEST(only_so_many_names_are_looked_at_and_each_is_taken_once),
        TEST(what_waits_for_long_keeps_nothing_of_its_message),
        TEST(the_end_of_the_server_is_told),
        TEST(readers_may_leave_while_they_are_told),
        TEST(an_older_client_hears_of_lists_unasked_and_of_what_it_subscribed_to),
        TEST(an_older_client_is_told_nothing_unasked_before_it_is_ready),
        TEST(what_happens_while_there_is_no_stream_is_told_on_the_next),
        TEST(one_pipe_may_carry_both),
        TEST(a_list_that_changes_all_the_time_is_told_once_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
