/* The form of results: texts for models, fields for programs. */
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
#include "supervisor/base/result_form.h"
#include "tests/unit/supervisor/client.h"

static void set_results(struct client *c, const char *form)
{
    free(c->config.results);
    c->config.results = alloc_strdup(form);
}

static int setup(void **state)
{
    int rc = client_setup(state);
    set_results(*state, "auto");
    return rc;
}

/* A client that has sent nothing yet. */
static int setup_new(void **state)
{
    *state = client_create();
    set_results(*state, "auto");
    return 0;
}

static void a_text_stands_alone(void **state)
{
    struct client *c = *state;
    const struct fleet_file files[] = {{view_of("plot.png"), 1234}, {view_of("a.csv"), 5}};
    fake_set_output(c->fleet, "out\n", 4);
    c->fleet->outcome.files = files;
    c->fleet->outcome.file_count = 2;
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_text(result, "out");
    assert_string_equal(text_at(result, "content.1.type"), "text");
    assert_string_equal(text_at(result, "content.1.text"),
                        "[plot.png, 1234 bytes: sandbox://sb1/workspace/plot.png]\n"
                        "[a.csv, 5 bytes: sandbox://sb1/workspace/a.csv]");
    assert_null(at(result, "content.2"));
    assert_null(at(result, "structuredContent"));
}

static void what_the_call_has_named_is_not_said_again(void **state)
{
    struct client *c = *state;
    c->fleet->end.file_size = 7;
    const cJSON *result = client_tool(c, "write_file", "{'path':'a.txt','content':'content'}");
    assert_text(result, "a.txt: 7 bytes");
    assert_null(at(result, "content.1"));
}

static void the_size_of_a_sparse_file_is_told(void **state)
{
    struct client *c = *state;
    const struct fleet_file files[] = {{view_of("sparse"), 4000000000000000000}};
    fake_set_output(c->fleet, "", 0);
    c->fleet->outcome.files = files;
    c->fleet->outcome.file_count = 1;
    assert_text(client_tool(c, "execute_code", "{'code':'1'}"),
                "[sparse, 4000000000000000000 bytes: sandbox://sb1/workspace/sparse]");
}

static void bytes_are_said_to_be_base64(void **state)
{
    struct client *c = *state;
    client_tool(c, "write_file", "{'path':'a.bin','content':''}");
    fake_set_output(c->fleet, "\x00\x01\xff", 3);
    const cJSON *result = client_tool(c, "read_file", "{'path':'a.bin'}");
    assert_text(result, "AAH/");
    assert_string_equal(text_at(result, "content.1.text"), "[the base64 of 3 bytes]");
}

static void colours_are_taken_out_of_the_text(void **state)
{
    static const char out[] = "\033[1;31mred\033[0m \033]8;;http://x\033\\link\033]8;;\a \033(Bend";
    struct client *c = *state;
    fake_set_output(c->fleet, out, sizeof(out) - 1);
    assert_text(client_tool(c, "execute_code", "{'code':'1'}"), "red link end");
    set_results(c, "structured");
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_text(result, "red link end");
    assert_string_equal(text_at(result, "structuredContent.stdout"), out);
}

static void a_failure_is_a_text(void **state)
{
    const cJSON *result = client_tool(*state, "execute_code", "{'code':'1','sandbox_id':'none'}");
    assert_true(cJSON_IsTrue(at(result, "isError")));
    assert_non_null(strstr(text_at(result, "content.0.text"), "Error (sandbox_not_found): "));
    assert_null(at(result, "structuredContent"));
    result = client_tool(*state, "execute_code", "{'code':1}");
    assert_non_null(strstr(text_at(result, "content.0.text"), "code: expected"));
    assert_null(at(result, "structuredContent"));
}

static void list_tools(struct client *c, const char *more)
{
    client_send(c, "{'jsonrpc':'2.0','id':'l','method':'tools/list','params':{%s}}", more);
}

#define STRUCTURED "'_meta':{'" RESULT_FORM_META "':'structured'}"

static void a_request_says_what_it_wants(void **state)
{
    struct client *c = *state;
    for (int round = 0; round < 2; round++) { /* the second answer comes from what was kept */
        list_tools(c, "");
        assert_null(at(client_last(c), "result.tools.0.outputSchema"));
        list_tools(c, STRUCTURED);
        assert_non_null(at(client_last(c), "result.tools.0.outputSchema"));
    }
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'1'}," STRUCTURED "}}");
    fake_settle(c->fleet);
    assert_non_null(at(client_last(c), "result.structuredContent.execution_id"));
    set_results(c, "structured");
    client_send(c, "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{'name':'execute_code',"
                   "'arguments':{'code':'1'},'_meta':{'" RESULT_FORM_META "':'text'}}}");
    fake_settle(c->fleet);
    assert_null(at(client_last(c), "result.structuredContent"));
}

static void a_form_that_there_is_not_is_refused(void **state)
{
    static const char *const bad[] = {"'json'", "1", "''", "null", "{}"};
    struct client *c = *state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CLEANUP_FREE char *meta = alloc_printf("'_meta':{'" RESULT_FORM_META "':%s}", bad[i]);
        list_tools(c, meta);
        assert_int_equal((int)number_at(client_last(c), "error.code"), -32602);
        assert_non_null(strstr(text_at(client_last(c), "error.message"), RESULT_FORM_WORDS));
        client_send(c,
                    "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
                    "'arguments':{'code':'1'},%s}}",
                    meta);
        assert_int_equal((int)number_at(client_last(c), "error.code"), -32602);
    }
    assert_int_equal(c->fleet->runs, 0);
    list_tools(c, "");
    assert_non_null(at(client_last(c), "result.tools.0"));
}

static void clients_are_known_by_name(void **state)
{
    assert_int_equal(result_form_of_client("claude-code"), RESULT_FORM_TEXT);
    assert_int_equal(result_form_of_client(NULL), RESULT_FORM_TEXT);
    assert_int_equal(result_form_of_client(""), RESULT_FORM_TEXT);
    assert_int_equal(result_form_of_client("gemini-cli-mcp-client"), RESULT_FORM_STRUCTURED);
    assert_int_equal(result_form_of_client("mcp-inspector"), RESULT_FORM_STRUCTURED);
    struct client *c = *state;
    client_send(c,
                "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'execute_code',"
                "'arguments':{'code':'1'},'_meta':{"
                "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                "'io.modelcontextprotocol/clientCapabilities':{},"
                "'io.modelcontextprotocol/clientInfo':{'name':'mcp-inspector','version':'1'}}}}");
    fake_settle(c->fleet);
    assert_non_null(at(client_last(c), "result.structuredContent.execution_id"));
}

static void a_client_of_an_older_revision_is_known_by_what_it_said_first(void **state)
{
    struct client *c = *state;
    client_send(c, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                   "'protocolVersion':'2025-06-18','capabilities':{},"
                   "'clientInfo':{'name':'gemini-cli-mcp-client','version':'1'}}}");
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    list_tools(c, "");
    assert_non_null(at(client_last(c), "result.tools.0.outputSchema"));
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_non_null(at(result, "structuredContent.execution_id"));
}

static void errors_of_the_sandbox_come_with_a_hint(void **state)
{
    static const struct {
        const char *name, *message, *err, *hint; /* NULL: none */
    } cases[] = {
        {"ModuleNotFoundError", "No module named 'polars'", "", "[install_package installs"},
        {"Error", "Cannot find module 'lodash'", "", "[install_package installs"},
        {"URLError", "<urlopen error [Errno -3] Temporary failure in name resolution>", "",
         "[sandboxes here have no network"},
        {"", "", "curl: (6) Could not resolve host: example.com\n",
         "[sandboxes here have no network"},
        {"", "", "error: externally-managed-environment\n", "[install_package installs"},
        {"EOFError", "EOF when reading a line", "", "is given as stdin"},
        {"ValueError", "no", "", NULL},
    };
    struct client *c = *state;
    set_results(c, "structured");
    fake_set_output(c->fleet, "", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        c->fleet->end.status = OP_STATUS_ERROR;
        c->fleet->end.exit_code = 1;
        c->fleet->end.error_name = view_of(cases[i].name);
        c->fleet->end.error_message = view_of(cases[i].message);
        c->fleet->outcome.err = view_of(cases[i].err);
        c->fleet->outcome.err_bytes = strlen(cases[i].err);
        const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
        const char *text = text_at(result, "content.0.text");
        assert_true((strstr(text, cases[i].hint != NULL ? cases[i].hint : "[") != NULL) ==
                    (cases[i].hint != NULL));
        assert_true((at(result, "structuredContent.error.hint") != NULL) ==
                    (cases[i].hint != NULL && cases[i].name[0] != '\0'));
    }
    c->fleet->end.error_name = view_of("ModuleNotFoundError");
    c->fleet->end.error_message = view_of("No module named 'polars'");
    const cJSON *closed = client_tool(c, "create_run_close", "{'code':'1'}");
    assert_non_null(strstr(text_at(closed, "content.0.text"), "[create_run_close installs"));
    c->config.packages = false;
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_non_null(strstr(text_at(result, "content.0.text"), "installs no packages"));
    c->fleet->end.status = OP_STATUS_OK; /* the code has handled it */
    result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_null(strstr(text_at(result, "content.0.text"), "installs no packages"));
}

static size_t shown_of(struct client *c, const char *tool, const char *arguments)
{
    return strlen(text_at(client_tool(c, tool, arguments), "content.0.text"));
}

static void a_result_shows_as_much_output_as_is_wanted(void **state)
{
    struct client *c = *state;
    CLEANUP_FREE char *out = malloc(300000);
    memset(out, 'x', 300000);
    fake_set_output(c->fleet, out, 300000);
    c->fleet->outcome.err = view_bytes(out, 250000);
    c->fleet->outcome.err_bytes = 250000;
    assert_in_range(shown_of(c, "execute_code", "{'code':'1'}"), 47 << 10, 50 << 10);
    assert_in_range(shown_of(c, "execute_code", "{'code':'1','max_output_bytes':1000}"), 1200,
                    2500);
    assert_in_range(shown_of(c, "create_run_close", "{'code':'1','max_output_bytes':100000}"),
                    140000, 152000);
    assert_in_range(
        shown_of(c, "get_execution",
                 "{'execution_id':'ex-1','max_output_bytes':204800,'stderr_offset':250000}"),
        200000, 206000);
    const cJSON *refused = client_tool(c, "execute_code", "{'code':'1','max_output_bytes':204801}");
    assert_non_null(strstr(text_at(refused, "content.0.text"), "max_output_bytes"));
    c->fleet->outcome.err_bytes = 0;
    c->fleet->outcome.err = view_of("");
    c->fleet->end.has_result = true;
    c->fleet->end.result = view_bytes(out, 60000);
    assert_in_range(shown_of(c, "execute_code", "{'code':'1'}"), 64 << 10, 66 << 10);
}

static void long_texts_are_said_to_be_meant(void **state)
{
    struct client *c = *state;
    CLEANUP_FREE char *out = malloc(30000);
    memset(out, 'x', 30000);
    fake_set_output(c->fleet, out, 30000);
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_int_equal(number_at(result, "_meta.anthropic/maxResultSizeChars"), 500000);
    fake_set_output(c->fleet, out, 100);
    assert_null(at(client_tool(c, "execute_code", "{'code':'1'}"), "_meta"));
    list_tools(c, "");
    assert_int_equal(number_at(client_last(c), "result.tools.0._meta.anthropic/maxResultSizeChars"),
                     500000);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, client_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_text_stands_alone),
        CASE(what_the_call_has_named_is_not_said_again),
        CASE(the_size_of_a_sparse_file_is_told),
        CASE(bytes_are_said_to_be_base64),
        CASE(colours_are_taken_out_of_the_text),
        CASE(a_failure_is_a_text),
        CASE(a_request_says_what_it_wants),
        CASE(a_form_that_there_is_not_is_refused),
        CASE(clients_are_known_by_name),
        cmocka_unit_test_setup_teardown(
            a_client_of_an_older_revision_is_known_by_what_it_said_first, setup_new,
            client_teardown),
        CASE(errors_of_the_sandbox_come_with_a_hint),
        CASE(a_result_shows_as_much_output_as_is_wanted),
        CASE(long_texts_are_said_to_be_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
