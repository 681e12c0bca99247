/* Default sandboxes of sessions: whose they are, and how long they live, on pipes, in sessions over
 * HTTP, in single requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "supervisor/base/principal.h"
#include "tests/unit/supervisor/client.h"

/* Continues as that principal, in a session of that kind. The earlier session lives on and is
 * returned. */
static struct mcp_session *use(struct client *c, enum mcp_session_kind kind, const char *name,
                               const struct principal_limits *limits)
{
    static const struct principal_limits none;
    struct mcp_session *before = c->session;
    struct principal *p = principal_create(name, limits != NULL ? limits : &none);
    c->session = mcp_session_create(c->server, kind, p);
    principal_release(p);
    if (kind != MCP_SESSION_SINGLE) {
        client_initialize(c, "2025-11-25");
    }
    return before;
}

/* The result of one request in a session of its own. */
static const cJSON *single(struct client *c, const char *name, const char *tool,
                           const char *arguments)
{
    struct mcp_session *before = use(c, MCP_SESSION_SINGLE, name, NULL);
    client_call(c, true, tool, arguments);
    fake_settle(c->fleet);
    const cJSON *result = at(client_last(c), "result");
    assert_non_null(result);
    mcp_session_end(c->session);
    c->session = before;
    return result;
}

static void a_pipe_uses_its_owners_default_sandbox(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    assert_true(c->fleet->spec.is_default);
    assert_string_equal(c->fleet->sandboxes[0].owner, "me");
    mcp_session_end(c->session);
    c->session = NULL;
    use(c, MCP_SESSION_PIPE, "me", NULL);
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_int_equal(c->fleet->closes, 0);
}

static void a_session_has_a_sandbox_of_its_own_which_ends_with_it(void **state)
{
    struct client *c = *state;
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "ann", NULL);
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_false(c->fleet->spec.is_default);
    client_tool(c, "create_sandbox", "{}"); /* a sandbox made by name outlives the request */
    struct mcp_session *first = use(c, MCP_SESSION_LEGACY, "ann", NULL);
    result =
        client_tool(c, "execute_code", "{'code':'1'}"); /* the same principal in a new session */
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb3");
    result = client_tool(c, "execute_code", "{'code':'1','sandbox_id':'sb1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    mcp_session_end(first);
    assert_int_equal(c->fleet->closes, 1);
    fake_settle(c->fleet);
    assert_false(c->fleet->sandboxes[0].open);
    assert_true(c->fleet->sandboxes[1].open && c->fleet->sandboxes[2].open);
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    assert_false(c->fleet->sandboxes[2].open);
    c->session = pipe;
}

/* Continues as ann in the session of that name, which an earlier server began. */
static void resume(struct client *c, const char *name)
{
    static const struct principal_limits none;
    static const struct mcp_agreed agreed = {REVISION_2025_11_25, "t"};
    struct principal *p = principal_create("ann", &none);
    mcp_session_end(c->session);
    c->session = mcp_session_create_named(c->server, p, name, &agreed);
    principal_release(p);
}

static void a_session_that_goes_on_finds_its_sandbox_by_its_name(void **state)
{
    struct client *c = *state;
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "ann", NULL);
    resume(c, "first"); /* the new server has no sandbox any more */
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_non_null(strstr(text_at(result, "content.0.text"), "are gone"));
    assert_string_equal(c->fleet->sandboxes[0].session, "first");
    c->fleet->sandboxes[1] =
        c->fleet->sandboxes[0]; /* what the earlier server has left of another session */
    snprintf(c->fleet->sandboxes[1].id, FLEET_ID_SIZE, "sb2");
    snprintf(c->fleet->sandboxes[1].session, sizeof(c->fleet->sandboxes[1].session), "second");
    c->fleet->sandbox_count = 2;
    resume(c, "second");
    fake_settle(c->fleet);
    assert_false(c->fleet->sandboxes[0].open); /* it ends with its session */
    result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    assert_null(strstr(text_at(result, "content.0.text"), "are gone"));
    assert_int_equal(c->fleet->opens, 1);
    /* A resumed session that ends before its first call ends its sandbox as well. */
    resume(c, "third");
    fake_settle(c->fleet);
    c->fleet->sandboxes[1].open = true;
    resume(c, "second");
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    assert_false(c->fleet->sandboxes[1].open);
    c->session = pipe;
}

static void a_session_that_ends_while_its_sandbox_is_made_leaves_none(void **state)
{
    struct client *c = *state;
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "ann", NULL);
    client_call(c, false, "execute_code", "{'code':'1'}");
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->opens, 1);
    assert_int_equal(c->fleet->closes, 1);
    assert_false(c->fleet->sandboxes[0].open);
    assert_int_equal(c->fleet->runs, 0);
    c->session = pipe;
}

static void set_default(struct client *c, const char *whose)
{
    free(c->config.default_sandbox);
    c->config.default_sandbox = alloc_strdup(whose);
}

static void single_requests_share_their_principals_sandbox(void **state)
{
    struct client *c = *state;
    const cJSON *result = single(c, "ann", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_null(at(result, "content.1"));
    assert_true(c->fleet->spec.is_default);
    assert_int_equal(c->fleet->spec.evict_idle_ms, FLEET_EVICT_IDLE_MS);
    result = single(c, "ann", "write_file", "{'path':'a','content':'x'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    result = single(c, "ann", "list_files", "{}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    result = single(c, "bob", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    assert_int_equal(c->fleet->closes, 0);
}

static void first_calls_of_a_principal_that_come_together_make_one_sandbox(void **state)
{
    struct client *c = *state;
    struct mcp_session *pipe = c->session;
    struct mcp_session *sessions[3];
    for (size_t i = 0; i < 3; i++) {
        use(c, MCP_SESSION_SINGLE, "ann", NULL);
        sessions[i] = c->session;
        client_call(c, true, "execute_code", "{'code':'1'}");
        if (i == 0) { /* the first request is cancelled; the others get the sandbox */
            mcp_session_sink_gone(c->session, &c->sink);
        }
    }
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->opens, 1);
    assert_int_equal(c->fleet->runs, 2);
    for (size_t i = 0; i < 3; i++) {
        mcp_session_end(sessions[i]);
    }
    /* all requests are cancelled while it is made, and a new one comes */
    fake_lose(c->fleet, "sb1");
    use(c, MCP_SESSION_SINGLE, "ann", NULL);
    client_call(c, true, "execute_code", "{'code':'1'}");
    mcp_session_sink_gone(c->session, &c->sink);
    mcp_session_end(c->session);
    assert_int_equal(c->fleet->opens, 2);
    c->session = pipe;
    const cJSON *result = single(c, "ann", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    assert_int_equal(c->fleet->opens, 2);
    assert_int_equal(c->fleet->closes, 0);
}

static void the_option_says_whose_sandbox_it_is(void **state)
{
    struct client *c = *state;
    set_default(c, "principal");
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "ann", NULL);
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    mcp_session_end(c->session);
    assert_int_equal(c->fleet->closes, 0);
    c->session = pipe;
    result = single(c, "ann", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    set_default(c, "session");
    result = single(c, "ann", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    use(c, MCP_SESSION_PIPE, "ann", NULL);
    result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb3");
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    assert_false(c->fleet->sandboxes[2].open);
    c->session = pipe;
}

static void each_call_may_get_a_new_sandbox_and_is_told_its_id(void **state)
{
    struct client *c = *state;
    set_default(c, "call");
    const cJSON *result = single(c, "ann", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_non_null(strstr(text_at(result, "content.1.text"), "made sandbox sb1"));
    assert_false(c->fleet->spec.is_default);
    result = single(c, "ann", "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb2");
    result = single(c, "ann", "execute_code", "{'code':'1','sandbox_id':'sb1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_null(at(result, "content.1"));
    result = single(c, "ann", "write_file", "{'path':'a','content':'x'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb3");
    result = single(c, "ann", "read_file", "{'path':'a','sandbox_id':'sb3'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb3");
    result = single(c, "ann", "list_files", "{'sandbox_id':'sb3'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb3");
    result = single(c, "ann", "list_files", "{}");
    assert_failure(result, "sandbox_not_found", "share none here");
    assert_int_equal(c->fleet->opens, 3);
    assert_int_equal(c->fleet->spec.evict_idle_ms, FLEET_EVICT_IDLE_MS);
    assert_int_equal(c->fleet->closes, 0);
}

static void a_single_request_that_is_lost_leaves_no_sandbox(void **state)
{
    struct client *c = *state;
    set_default(c, "call");
    struct mcp_session *pipe = use(c, MCP_SESSION_SINGLE, "ann", NULL);
    client_call(c, true, "execute_code", "{'code':'1'}");
    mcp_session_sink_gone(c->session, &c->sink);
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->closes, 1);
    assert_int_equal(c->fleet->runs, 0);
    /* the same for a sandbox that is lost while the code runs: no client knows its id */
    use(c, MCP_SESSION_SINGLE, "ann", NULL);
    client_call(c, true, "execute_code", "{'code':'1'}");
    fake_answer(c->fleet, 0);
    assert_true(c->fleet->sandboxes[1].open);
    mcp_session_sink_gone(c->session, &c->sink);
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->closes, 2);
    assert_false(c->fleet->sandboxes[1].open);
    c->session = pipe;
}

/* A client that is found to be gone when a message is sent to it. */
struct broken {
    struct mcp_sink sink; /* first */
    struct client *client;
    unsigned told;
};

static bool on_broken_send(struct mcp_sink *sink, char *json)
{
    struct broken *b = (struct broken *)sink;
    free(json);
    b->told++;
    mcp_session_end(b->client->session);
    return false;
}

static void on_broken_answer(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    (void)sink, (void)json, (void)status;
    fail_msg("answered");
}

static void a_client_that_is_gone_when_it_is_told_ends_with_all_its_calls(void **state)
{
    static const struct mcp_sink_ops ops = {on_broken_send, on_broken_answer};
    struct client *c = *state;
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "ann", NULL);
    struct broken broken = {.sink.ops = &ops, .client = c};
    for (int i = 0; i < 3; i++) {
        cJSON *message = cJSON_Parse("{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{"
                                     "\"name\":\"execute_code\",\"arguments\":{\"code\":\"1\"},"
                                     "\"_meta\":{\"progressToken\":1}}}");
        cJSON_AddNumberToObject(message, "id", i + 1);
        const struct mcp_incoming in = {.message = message, .bytes = 200, .sink = &broken.sink};
        assert_true(mcp_session_take(c->session, &in));
    }
    assert_int_equal(c->fleet->pending_count, 1); /* both wait for the same sandbox */
    fake_progress(c->fleet, 0, "pulling x", 1, 10);
    assert_int_equal(broken.told, 1);
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->runs, 0);
    assert_false(c->fleet->sandboxes[0].open);
    c->session = pipe;
}

static void others_find_nothing(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'mine'}");
    client_tool(c, "execute_code", "{'code':'1','sandbox_id':'mine'}");
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "you", NULL);
    assert_failure(client_tool(c, "execute_code", "{'code':'1','sandbox_id':'mine'}"),
                   "sandbox_not_found", "mine");
    assert_failure(client_tool(c, "read_file", "{'path':'a','sandbox_id':'sb1'}"),
                   "sandbox_not_found", "sb1");
    assert_failure(client_tool(c, "get_execution", "{'execution_id':'ex-1'}"),
                   "execution_not_found", "no such execution");
    const cJSON *result = client_tool(c, "get_sandbox_status", "{}");
    assert_int_equal(number_at(result, "structuredContent.count"), 0);
    mcp_session_end(c->session);
    c->session = pipe;
}

static void what_a_principal_may_have_is_asked_of_the_fleet(void **state)
{
    struct client *c = *state;
    const struct principal_limits limits = {.sandboxes = 3, .memory_mb = 2000};
    struct mcp_session *pipe = use(c, MCP_SESSION_LEGACY, "ann", &limits);
    static const char *const calls[][2] = {
        {"execute_code", "{'code':'1'}"},
        {"create_sandbox", "{'memory_mb':64}"},
        {"create_run_close", "{'code':'1'}"},
    };
    for (size_t i = 0; i < 3; i++) {
        memset(&c->fleet->spec, 0, sizeof(c->fleet->spec));
        client_tool(c, calls[i][0], calls[i][1]);
        assert_int_equal(c->fleet->spec.owner_sandboxes, 3);
        assert_int_equal(c->fleet->spec.owner_memory_mb, 2000);
    }
    mcp_session_end(c->session);
    fake_settle(c->fleet);
    c->session = pipe;
    client_tool(c, "execute_code", "{'code':'1'}");
    assert_int_equal(c->fleet->spec.owner_sandboxes, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pipe_uses_its_owners_default_sandbox),
        TEST(a_session_has_a_sandbox_of_its_own_which_ends_with_it),
        TEST(a_session_that_goes_on_finds_its_sandbox_by_its_name),
        TEST(a_session_that_ends_while_its_sandbox_is_made_leaves_none),
        TEST(single_requests_share_their_principals_sandbox),
        TEST(first_calls_of_a_principal_that_come_together_make_one_sandbox),
        TEST(the_option_says_whose_sandbox_it_is),
        TEST(each_call_may_get_a_new_sandbox_and_is_told_its_id),
        TEST(a_single_request_that_is_lost_leaves_no_sandbox),
        TEST(a_client_that_is_gone_when_it_is_told_ends_with_all_its_calls),
        TEST(others_find_nothing),
        TEST(what_a_principal_may_have_is_asked_of_the_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
