/* Sessions of every revision, and their answers. */
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
#include "proto/limits.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "tests/unit/supervisor/client.h"

#define META                                                                                       \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{}}"

static const char *const legacy[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};

static int setup(void **state)
{
    *state = client_create();
    return 0;
}

static int teardown(void **state)
{
    client_free(*state);
    return 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void initialize_answers_the_revision_it_was_asked_for(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        struct client *c = client_create();
        client_initialize(c, legacy[i]);
        assert_int_equal(c->count, 1); /* a notification has no answer */
        const cJSON *result = at(client_last(c), "result");
        assert_string_equal(text_at(result, "protocolVersion"), legacy[i]);
        assert_string_equal(text_at(result, "serverInfo.name"), "cloister");
        assert_non_null(at(result, "serverInfo.version"));
        assert_non_null(at(result, "capabilities.tools"));
        assert_true(strlen(text_at(result, "instructions")) > 100);
        assert_null(at(result, "resultType"));
        assert_int_equal(number_at(client_last(c), "id"), 0);
        client_free(c);
    }
}

static void initialize_with_an_unknown_revision_answers_the_latest(void **state)
{
    static const char *const unknown[] = {"2026-07-28", "1999-01-01", "x"};
    for (size_t i = 0; i < 3; i++) {
        struct client *c = client_create();
        client_initialize(c, unknown[i]);
        assert_string_equal(text_at(client_last(c), "result.protocolVersion"), "2025-11-25");
        client_free(c);
    }
}

static void requests_before_initialize_are_told_what_to_do(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}");
    assert_error(c, -32600, "initialize");
    assert_int_equal(number_at(client_last(c), "id"), 1);
    client_send(c, "{'jsonrpc':'2.0','id':2,'method':'ping'}");
    assert_non_null(at(client_last(c), "result"));
    client_initialize(c, "2025-06-18");
    client_send(c, "{'jsonrpc':'2.0','id':3,'method':'tools/list'}");
    assert_non_null(at(client_last(c), "result.tools"));
}

static void a_pipe_can_be_initialized_again(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2024-11-05");
    client_send(c, "{'jsonrpc':'2.0','id':3,'method':'tools/list'}");
    assert_null(at(client_last(c), "result.tools.0.annotations"));
    client_initialize(c, "2025-11-25");
    assert_string_equal(text_at(client_last(c), "result.protocolVersion"), "2025-11-25");
    client_send(c, "{'jsonrpc':'2.0','id':3,'method':'tools/list'}");
    assert_non_null(at(client_last(c), "result.tools.0.annotations"));
    client_send(c, "{'jsonrpc':'2.0','id':4,'method':'initialize','params':{}}");
    assert_error(c, -32602, "protocolVersion");
    client_send(c, "{'jsonrpc':'2.0','id':5,'method':'tools/list'}");
    assert_non_null(at(client_last(c), "result.tools.0.annotations"));
}

static void initialize_without_a_version_is_refused(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{}}");
    assert_error(c, -32602, "protocolVersion");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'initialize'}");
    assert_error(c, -32602, "protocolVersion");
}

/* ---- modern --------------------------------------------------------------------------------- */

static void discover_tells_versions_and_capabilities(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':'d','method':'server/discover','params':{" META "}}");
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "supportedVersions.0"), "2026-07-28");
    assert_int_equal(cJSON_GetArraySize(at(result, "supportedVersions")), 1);
    assert_string_equal(text_at(result, "resultType"), "complete");
    assert_string_equal(text_at(result, "cacheScope"), "public");
    assert_true(number_at(result, "ttlMs") >= 0);
    assert_non_null(at(result, "capabilities.tools"));
    const cJSON *info =
        cJSON_GetObjectItemCaseSensitive(at(result, "_meta"), "io.modelcontextprotocol/serverInfo");
    assert_string_equal(text_at(info, "name"), "cloister");
}

static void a_modern_request_must_carry_its_meta(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'server/discover'}");
    assert_error(c, -32602, "io.modelcontextprotocol/protocolVersion");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'_meta':{"
                   "'io.modelcontextprotocol/protocolVersion':'2026-07-28'}}}");
    assert_error(c, -32602, "io.modelcontextprotocol/clientCapabilities");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'_meta':{"
                   "'io.modelcontextprotocol/clientCapabilities':{}}}}");
    assert_error(c, -32602, "io.modelcontextprotocol/protocolVersion");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'_meta':{"
                   "'io.modelcontextprotocol/protocolVersion':7,"
                   "'io.modelcontextprotocol/clientCapabilities':{}}}}");
    assert_error(c, -32602, "io.modelcontextprotocol/protocolVersion");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'_meta':{"
                   "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                   "'io.modelcontextprotocol/clientCapabilities':{},"
                   "'io.modelcontextprotocol/logLevel':'loud'}}}");
    assert_error(c, -32602, "logLevel");
}

static void a_version_not_served_is_answered_with_those_that_are(void **state)
{
    struct client *c = *state;
    static const char *const versions[] = {"2025-11-25", "2099-01-01"};
    for (size_t i = 0; i < 2; i++) {
        client_send(c,
                    "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'_meta':{"
                    "'io.modelcontextprotocol/protocolVersion':'%s',"
                    "'io.modelcontextprotocol/clientCapabilities':{}}}}",
                    versions[i]);
        assert_error(c, -32022, "version");
        assert_string_equal(text_at(client_last(c), "error.data.supported.0"), "2026-07-28");
        assert_string_equal(text_at(client_last(c), "error.data.requested"), versions[i]);
    }
}

static void methods_of_the_other_era_are_unknown(void **state)
{
    struct client *c = *state;
    static const char *const gone[] = {"initialize", "ping", "logging/setLevel", "prompts/list",
                                       "x"};
    for (size_t i = 0; i < 5; i++) {
        client_send(c, "{'jsonrpc':'2.0','id':1,'method':'%s','params':{" META "}}", gone[i]);
        assert_error(c, -32601, gone[i]);
    }
    client_initialize(c, "2025-11-25");
    static const char *const never[] = {"prompts/list", "logging/setLevel", "TOOLS/LIST", ""};
    for (size_t i = 0; i < 4; i++) {
        client_send(c, "{'jsonrpc':'2.0','id':1,'method':'%s'}", never[i]);
        assert_error(c, -32601, never[i]);
    }
}

static void both_eras_live_on_one_session(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'server/discover','params':{" META "}}");
    client_initialize(c, "2025-03-26");
    client_send(c, "{'jsonrpc':'2.0','id':2,'method':'tools/list','params':{" META "}}");
    assert_non_null(at(client_last(c), "result.resultType"));
    client_send(c, "{'jsonrpc':'2.0','id':3,'method':'tools/list'}");
    assert_null(at(client_last(c), "result.resultType"));
    assert_null(at(client_last(c), "result.tools.0.outputSchema"));
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void each_revision_sees_the_members_it_knows(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        struct client *c = client_create();
        client_initialize(c, legacy[i]);
        client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{}}");
        const cJSON *result = at(client_last(c), "result");
        assert_int_equal(cJSON_GetArraySize(at(result, "tools")), 14);
        const cJSON *tool;
        cJSON_ArrayForEach(tool, at(result, "tools"))
        {
            assert_true(strlen(text_at(tool, "description")) > 40);
            assert_string_equal(text_at(tool, "inputSchema.type"), "object");
            assert_int_equal(at(tool, "annotations") != NULL, i >= 1);
            assert_int_equal(at(tool, "title") != NULL, i >= 2);
            assert_int_equal(at(tool, "outputSchema") != NULL, i >= 2);
        }
        assert_null(at(result, "nextCursor"));
        assert_null(at(result, "ttlMs"));
        client_free(c);
    }
}

static void a_cursor_is_never_ours(void **state)
{
    struct client *c = *state;
    client_send(c,
                "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'cursor':''," META "}}");
    assert_error(c, -32602, "cursor");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{'cursor':5," META "}}");
    assert_error(c, -32602, "cursor");
}

/* ---- bad messages --------------------------------------------------------------------------- */

static void errors_without_a_known_id_are_as_the_revision_wants(void **state)
{
    static const struct {
        const char *revision;
        bool null_id;
    } cases[] = {{NULL, false}, {"2024-11-05", true}, {"2025-06-18", true}, {"2025-11-25", false}};
    for (size_t i = 0; i < 4; i++) {
        struct client *c = client_create();
        if (cases[i].revision != NULL) {
            client_initialize(c, cases[i].revision);
        }
        static const char *const lines[] = {"{'jsonrpc':", "\xff", "[[[[1", "{'jsonrpc':'2.0'} x"};
        for (size_t k = 0; k < 4; k++) {
            client_send(c, "%s", lines[k]);
            assert_error(c, -32700, "Parse error");
            assert_int_equal(cJSON_IsNull(at(client_last(c), "id")), cases[i].null_id);
            assert_int_equal(at(client_last(c), "id") != NULL, cases[i].null_id);
        }
        client_send(c, "{'jsonrpc':'2.0','id':null,'method':'ping'}");
        assert_error(c, -32600, "id");
        client_send(c, "{'jsonrpc':'2.0','id':1.5,'method':'ping'}");
        assert_error(c, -32600, "id");
        client_send(c, "5");
        assert_error(c, -32600, "object");
        assert_int_equal(cJSON_IsNull(at(client_last(c), "id")), cases[i].null_id);
        client_send(c, "{'jsonrpc':'2.0','id':9,'method':'ping'}");
        assert_int_equal(number_at(client_last(c), "id"), 9); /* and the session goes on */
        client_free(c);
    }
}

static void a_nul_character_is_refused_with_the_id(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-06-18");
    client_send(c, "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'a\\u0000b'}}}");
    assert_error(c, -32602, "NUL");
    assert_int_equal(number_at(client_last(c), "id"), 7);
    assert_int_equal(c->fleet->opens + c->fleet->runs, 0);
}

/* No client waits in vain because its text was cut in the middle of a character. */
static void half_a_surrogate_pair_is_answered(void **state)
{
    static const struct {
        const char *said, *meant;
    } cases[] = {
        {"\\ud83d", "\ufffd"},
        {"\\uDC4D", "\ufffd"},
        {"\\ud83dx", "\ufffdx"},
        {"\\udc4d\\ud83d", "\ufffd\ufffd"},
        {"\\ud83d\\ud83d\\udc4d", "\ufffd\xf0\x9f\x91\x8d"},
        {"\\ud83d\\udc4d", "\xf0\x9f\x91\x8d"},
        {"\\\\ud83d", "\\ud83d"},
        {"\\\\\\ud83d", "\\\ufffd"},
    };
    struct client *c = *state;
    client_initialize(c, "2025-06-18");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_send(c, "{'jsonrpc':'2.0','id':7,'method':'%s'}", cases[i].said);
        assert_int_equal(number_at(client_last(c), "id"), 7);
        CLEANUP_FREE char *words = alloc_printf("Method not found: %s", cases[i].meant);
        assert_error(c, -32601, words);
    }
    /* what is no escape is no JSON */
    client_send(c, "{'jsonrpc':'2.0','id':7,'method':'\\ud83'}");
    assert_error(c, -32700, "Parse error");
}

/* Python's splitlines() and old readers of event streams end a line at these. */
static void characters_that_end_lines_are_escaped(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':'\xe2\x80\xa8','method':'a\xc2\x85"
                   "b\xe2\x80\xa9\xe2\x80\xa8\xe2\x80\xa7\xc2\x84','params':{" META "}}");
    const char *text = c->texts[c->count - 1];
    assert_non_null(strstr(text, "\"id\":\"\\u2028\""));
    assert_non_null(strstr(text, "a\\u0085b\\u2029\\u2028\xe2\x80\xa7\xc2\x84"));
    assert_null(strstr(text, "\xe2\x80\xa8"));
    assert_string_equal(text_at(client_last(c), "id"), "\xe2\x80\xa8");
}

/* Some clients write null for what they leave out. */
static void null_params_are_no_params(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'ping','params':null}");
    assert_non_null(at(client_last(c), "result"));
    client_send(c, "{'jsonrpc':'2.0','id':2,'method':'initialize','params':null}");
    assert_error(c, -32602, "protocolVersion: expected a string");
    client_send(c, "{'jsonrpc':'2.0','id':3,'method':'server/discover','params':null}");
    assert_error(c, -32602, "params._meta must have");
    client_initialize(c, "2025-11-25");
    client_send(c, "{'jsonrpc':'2.0','id':4,'method':'tools/list','params':null}");
    assert_true(cJSON_IsArray(at(client_last(c), "result.tools")));
    client_send(c, "{'jsonrpc':'2.0','id':5,'method':'tasks/list','params':{'cursor':null}}");
    assert_true(cJSON_IsArray(at(client_last(c), "result.tasks")));
    client_send(c, "{'jsonrpc':'2.0','id':6,'method':'tools/call','params':null}");
    assert_error(c, -32602, "name: expected");
    client_send(c, "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':"
                   "'get_sandbox_status','arguments':null,'task':null,'_meta':null}}");
    assert_non_null(at(client_last(c), "result.content"));
    client_send(c, "{'jsonrpc':'2.0','id':8,'method':'ping','params':[]}");
    assert_error(c, -32602, "object");
}

static void notifications_and_responses_are_never_answered(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','method':'x'}");
    client_send(c, "{'jsonrpc':'2.0','method':'tools/list'}");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled'}");
    client_send(c,
                "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':[]}}");
    client_send(c, "{'jsonrpc':'2.0','id':1,'result':{}}");
    client_send(c, "{'jsonrpc':'2.0','id':null,'error':{'code':1,'message':''}}");
    client_send(c, "{'jsonrpc':'2.0','method':'x','params':'\\u0000'}");
    assert_int_equal(c->count, 0);
}

static void ids_come_back_as_they_were_sent(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1000000000000000,'method':'ping'}");
    assert_non_null(strstr(c->texts[0], "\"id\":1000000000000000,"));
    client_send(c, "{'jsonrpc':'2.0','id':'1','method':'ping'}");
    assert_non_null(strstr(c->texts[1], "\"id\":\"1\","));
    client_send(c, "{'jsonrpc':'2.0','id':-9007199254740991,'method':'ping'}");
    assert_non_null(strstr(c->texts[2], "\"id\":-9007199254740991,"));
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void calls_that_name_nothing_callable_are_protocol_errors(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'nope'}}");
    assert_error(c, -32602, "Unknown tool: nope");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/call'}");
    assert_error(c, -32602, "name");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':[]}}");
    assert_error(c, -32602, "arguments");
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':[1]}");
    assert_error(c, -32602, "params");
}

static void wrong_arguments_are_reported_as_the_revision_wants(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        struct client *c = client_create();
        client_initialize(c, legacy[i]);
        client_call(c, false, "execute_code", "{'code':'1','timeout_seconds':'abc'}");
        static const char words[] =
            "timeout_seconds: expected a number between 0.1 and 3600, got \"abc\"";
        if (i < 3) {
            assert_error(c, -32602, words);
        } else {
            assert_true(cJSON_IsTrue(at(client_last(c), "result.isError")));
            assert_non_null(strstr(text_at(client_last(c), "result.content.0.text"), words));
            assert_string_equal(text_at(client_last(c), "result.structuredContent.error.code"),
                                "invalid_argument");
        }
        client_free(c);
    }
    struct client *c = *state;
    client_call(c, true, "execute_code", "{}");
    assert_true(cJSON_IsTrue(at(client_last(c), "result.isError")));
    assert_non_null(strstr(text_at(client_last(c), "result.content.0.text"), "code: required"));
}

static void results_have_the_members_the_revision_knows(void **state)
{
    for (size_t i = 0; i < 5; i++) {
        struct client *c = client_create();
        if (i < 4) {
            client_initialize(c, legacy[i]);
        }
        fake_set_output(c->fleet, "hello\n", 6);
        client_call(c, i == 4, "execute_code", "{'code':'1'}");
        fake_settle(c->fleet);
        const cJSON *result = at(client_last(c), "result");
        assert_string_equal(text_at(result, "content.0.text"), "hello");
        assert_int_equal(at(result, "structuredContent") != NULL, i >= 2);
        assert_int_equal(at(result, "resultType") != NULL, i == 4);
        assert_int_equal(at(result, "_meta") != NULL, i == 4);
        assert_null(at(result, "isError"));
        client_free(c);
    }
}

static void calls_run_side_by_side_and_answer_in_the_order_they_end(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-06-18");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_send(c, "{'jsonrpc':'2.0','id':'slow','method':'tools/call','params':{'name':"
                   "'execute_code','arguments':{'code':'1','sandbox_id':'a'}}}");
    client_send(c, "{'jsonrpc':'2.0','id':'fast','method':'tools/call','params':{'name':"
                   "'execute_code','arguments':{'code':'2','sandbox_id':'a'}}}");
    client_send(c, "{'jsonrpc':'2.0','id':'p','method':'ping'}");
    assert_string_equal(text_at(client_last(c), "id"), "p");
    assert_int_equal(mcp_session_open_requests(c->session), 2);
    fake_answer(c->fleet, 1);
    assert_string_equal(text_at(client_last(c), "id"), "fast");
    fake_answer(c->fleet, 0);
    assert_string_equal(text_at(client_last(c), "id"), "slow");
    assert_int_equal(mcp_session_open_requests(c->session), 0);
}

static void an_id_in_flight_is_refused_a_second_time(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    static const char call[] = "{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':"
                               "'execute_code','arguments':{'code':'1'}}}";
    client_send(c, call);
    client_send(c, call);
    assert_error(c, -32600, "in flight");
    assert_int_equal(number_at(client_last(c), "id"), 5);
    client_send(c, "{'jsonrpc':'2.0','id':'5','method':'ping'}"); /* another id */
    assert_non_null(at(client_last(c), "result"));
    fake_settle(c->fleet);
    assert_non_null(at(client_last(c), "result.content"));
    client_send(c, call); /* the id can be used again */
    fake_settle(c->fleet);
    assert_non_null(at(client_last(c), "result.content"));
}

static void a_cancelled_call_is_stopped_and_not_answered(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    size_t before = c->count;
    client_send(c, "{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'1','sandbox_id':'a'}}}");
    client_send(c,
                "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':'5'}}");
    assert_false(c->fleet->pending[0]->cancelled); /* another id, so nothing is cancelled */
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':5,"
                   "'reason':'x'}}");
    assert_true(c->fleet->pending[0]->cancelled);
    assert_int_equal(mcp_session_open_requests(c->session), 0);
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':5}}");
    fake_settle(c->fleet);
    assert_int_equal(c->count, before);
}

static void a_cancelled_wait_ends_without_stopping_the_code(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_call(c, false, "execute_code", "{'code':'1','sandbox_id':'a'}");
    fake_stand(c->fleet, 0);
    size_t before = c->count;
    client_send(c, "{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':'get_execution',"
                   "'arguments':{'execution_id':'ex-1'}}}");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':5}}");
    assert_false(c->fleet->pending[0]->cancelled);
    assert_true(c->fleet->pending[0]->ended);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before);
    assert_false(c->fleet->executions[0].stopped);
}

static void a_cancelled_creation_leaves_no_sandbox(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    size_t before = c->count;
    client_send(c, "{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':"
                   "'create_sandbox','arguments':{}}}");
    client_send(c, "{'jsonrpc':'2.0','id':6,'method':'tools/call','params':{'name':"
                   "'create_run_close','arguments':{'code':'1'}}}");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':5}}");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':6}}");
    fake_settle(c->fleet);
    assert_int_equal(c->fleet->closes, 2);
    assert_int_equal(c->fleet->runs, 0);
    assert_int_equal(c->count, before);
}

static void too_many_calls_in_flight_are_refused(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    for (int i = 0; i < LIMIT_CALLS + 1; i++) {
        client_send(c,
                    "{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{'name':"
                    "'execute_code','arguments':{'code':'1','sandbox_id':'a'}}}",
                    i);
    }
    assert_error(c, -32010, "in flight");
    assert_int_equal(number_at(client_last(c), "id"), LIMIT_CALLS);
    assert_int_equal(c->fleet->pending_count, LIMIT_CALLS);
    fake_settle(c->fleet);
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':"
                   "'get_sandbox_status'}}");
    assert_non_null(at(client_last(c), "result.content"));
}

static void arguments_held_for_calls_in_flight_are_bounded(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-11-25");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    for (int i = 0; i < 9; i++) {
        struct err err = ERR_INIT;
        (void)err;
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "jsonrpc", "2.0");
        cJSON_AddNumberToObject(m, "id", i);
        cJSON_AddStringToObject(m, "method", "tools/call");
        cJSON *params = cJSON_AddObjectToObject(m, "params");
        cJSON_AddStringToObject(params, "name", "execute_code");
        cJSON *arguments = cJSON_AddObjectToObject(params, "arguments");
        cJSON_AddStringToObject(arguments, "code", "1");
        cJSON_AddStringToObject(arguments, "sandbox_id", "a");
        client_take(c, m, 8u << 20);
    }
    assert_error(c, -32010, "in flight");
    assert_int_equal(c->fleet->pending_count, 8);
    fake_settle(c->fleet);
}

/* ---- batches -------------------------------------------------------------------------------- */

static void a_batch_is_answered_as_one_array(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-03-26");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    size_t before = c->count;
    client_send(c, "[{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'1','sandbox_id':'a'}}},"
                   "{'jsonrpc':'2.0','method':'notifications/initialized'},"
                   "{'jsonrpc':'2.0','id':2,'method':'ping'},7,"
                   "{'jsonrpc':'2.0','id':3,'result':{}},"
                   "{'jsonrpc':'2.0','id':4,'method':'initialize','params':{}}]");
    assert_int_equal(c->count, before);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 1);
    const cJSON *answers = client_last(c);
    assert_int_equal(cJSON_GetArraySize(answers), 4);
    assert_int_equal(number_at(answers, "0.id"), 2);
    assert_int_equal((int)number_at(answers, "1.error.code"), -32600);
    assert_true(cJSON_IsNull(at(answers, "1.id")));
    assert_int_equal((int)number_at(answers, "2.error.code"), -32600);
    assert_int_equal(number_at(answers, "3.id"), 1);
    assert_non_null(at(answers, "3.result.content"));
}

static void a_batch_of_notifications_is_not_answered(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-03-26");
    client_send(c, "[{'jsonrpc':'2.0','method':'a'},{'jsonrpc':'2.0','method':'b'}]");
    assert_int_equal(c->count, 1);
}

static void a_cancelled_call_is_missing_from_its_batch(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-03-26");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_send(
        c, "[{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
           "'arguments':{'code':'1','sandbox_id':'a'}}},{'jsonrpc':'2.0','id':2,'method':'ping'}]");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':1}}");
    fake_settle(c->fleet);
    assert_int_equal(cJSON_GetArraySize(client_last(c)), 1);
    assert_int_equal(number_at(client_last(c), "0.id"), 2);
}

/* A client that begins again counts its requests anew, and would take an old answer for its own. */
static void a_batch_answers_no_request_that_a_new_client_has_made_since(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-03-26");
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_send(
        c, "[{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':'execute_code',"
           "'arguments':{'code':'1','sandbox_id':'a'}}},{'jsonrpc':'2.0','id':8,'method':'ping'}]");
    client_initialize(c, "2025-03-26");
    client_send(c, "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'2','sandbox_id':'a'}}}");
    assert_int_equal(cJSON_GetArraySize(client_last(c)), 1); /* what the old one still got */
    assert_int_equal(number_at(client_last(c), "0.id"), 8);
    size_t before = c->count;
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 1);
    assert_int_equal(number_at(client_last(c), "id"), 7);
    assert_non_null(at(client_last(c), "result.content"));
}

static void batches_are_refused_where_they_do_not_belong(void **state)
{
    static const char ping[] = "[{'jsonrpc':'2.0','id':1,'method':'ping'}]";
    struct client *c = *state;
    client_send(c, ping);
    assert_error(c, -32600, "batch");
    client_initialize(c, "2025-03-26");
    client_send(c, "[]");
    assert_error(c, -32600, "empty");
    client_send(c, "[{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{" META "}}]");
    assert_int_equal((int)number_at(client_last(c), "0.error.code"), -32600);
    char *many = alloc_strdup("[1");
    for (int i = 0; i < LIMIT_BATCH; i++) {
        char *more = alloc_printf("%s,1", many);
        free(many);
        many = more;
    }
    client_send(c, "%s]", many);
    free(many);
    assert_error(c, -32600, "too many");
    static const char *const others[] = {"2024-11-05", "2025-06-18", "2025-11-25"};
    for (size_t i = 0; i < 3; i++) {
        struct client *other = client_create();
        client_initialize(other, others[i]);
        client_send(other, ping);
        assert_error(other, -32600, "batch");
        client_free(other);
    }
}

static void a_session_may_end_with_calls_in_flight(void **state)
{
    struct client *c = *state;
    client_initialize(c, "2025-03-26");
    client_call(c, false, "execute_code", "{'code':'1'}");
    client_call(c, false, "create_run_close", "{'code':'1'}");
    client_send(c, "[{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'1'}}},{'jsonrpc':'2.0','id':2,'method':'ping'}]");
    assert_int_equal(mcp_session_open_requests(c->session), 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(initialize_answers_the_revision_it_was_asked_for),
        TEST(initialize_with_an_unknown_revision_answers_the_latest),
        TEST(requests_before_initialize_are_told_what_to_do),
        TEST(a_pipe_can_be_initialized_again),
        TEST(initialize_without_a_version_is_refused),
        TEST(discover_tells_versions_and_capabilities),
        TEST(a_modern_request_must_carry_its_meta),
        TEST(a_version_not_served_is_answered_with_those_that_are),
        TEST(methods_of_the_other_era_are_unknown),
        TEST(both_eras_live_on_one_session),
        TEST(each_revision_sees_the_members_it_knows),
        TEST(a_cursor_is_never_ours),
        TEST(errors_without_a_known_id_are_as_the_revision_wants),
        TEST(a_nul_character_is_refused_with_the_id),
        TEST(half_a_surrogate_pair_is_answered),
        TEST(null_params_are_no_params),
        TEST(characters_that_end_lines_are_escaped),
        TEST(notifications_and_responses_are_never_answered),
        TEST(ids_come_back_as_they_were_sent),
        TEST(calls_that_name_nothing_callable_are_protocol_errors),
        TEST(wrong_arguments_are_reported_as_the_revision_wants),
        TEST(results_have_the_members_the_revision_knows),
        TEST(calls_run_side_by_side_and_answer_in_the_order_they_end),
        TEST(an_id_in_flight_is_refused_a_second_time),
        TEST(a_cancelled_call_is_stopped_and_not_answered),
        TEST(a_cancelled_creation_leaves_no_sandbox),
        TEST(a_cancelled_wait_ends_without_stopping_the_code),
        TEST(too_many_calls_in_flight_are_refused),
        TEST(arguments_held_for_calls_in_flight_are_bounded),
        TEST(a_batch_is_answered_as_one_array),
        TEST(a_batch_of_notifications_is_not_answered),
        TEST(a_cancelled_call_is_missing_from_its_batch),
        TEST(a_batch_answers_no_request_that_a_new_client_has_made_since),
        TEST(batches_are_refused_where_they_do_not_belong),
        TEST(a_session_may_end_with_calls_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
