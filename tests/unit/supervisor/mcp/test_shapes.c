/* The same lists and results in the form of each revision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "tests/unit/supervisor/mcp/lab.h"

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

static struct peer *peer_of(struct lab *l, enum revision r)
{
    return peer_create(l, revision_is_modern(r) ? MCP_SESSION_SINGLE : MCP_SESSION_LEGACY,
                       revision_is_modern(r) ? NULL : revision_name(r));
}

/* Sends the request in every revision; `check` is called with the result. */
static void in_all(struct lab *l, const char *method, const char *params,
                   void (*check)(const cJSON *result, enum revision r))
{
    for (int r = 0; r < REVISION_COUNT; r++) {
        struct peer *p = peer_of(l, (enum revision)r);
        peer_ask(p, revision_is_modern((enum revision)r), "x", method, params);
        const cJSON *result = at(peer_last(p), "result");
        if (result == NULL) {
            fail_msg("%s: %s", revision_name((enum revision)r),
                     text_at(peer_last(p), "error.message"));
        }
        assert_int_equal(at(result, "resultType") != NULL, revision_is_modern((enum revision)r));
        const cJSON *info = cJSON_GetObjectItemCaseSensitive(at(result, "_meta"),
                                                             "io.modelcontextprotocol/serverInfo");
        assert_int_equal(info != NULL, revision_is_modern((enum revision)r));
        check(result, (enum revision)r);
        peer_end(p);
    }
}

/* Asserts that a value exists from a revision on, and not before. */
static void since(const cJSON *root, const char *path, enum revision r, enum revision first)
{
    if ((at(root, path) != NULL) != (r >= first)) {
        fail_msg("%s in %s", path, revision_name(r));
    }
}

static void check_tool(const cJSON *result, enum revision r)
{
    since(result, "tools.0.name", r, REVISION_2024_11_05);
    since(result, "tools.0.annotations", r, REVISION_2025_03_26);
    since(result, "tools.0.title", r, REVISION_2025_06_18);
    since(result, "tools.0.outputSchema", r, REVISION_2025_06_18);
    since(result, "tools.0.icons", r, REVISION_2025_11_25);
    since(result, "tools.1.outputSchema", r, REVISION_2026_07_28); /* elements of an array */
    since(result, "ttlMs", r, REVISION_2026_07_28);
}

static void check_resource(const cJSON *list, enum revision r)
{
    since(list, "0.annotations.priority", r, REVISION_2024_11_05);
    since(list, "0.annotations.lastModified", r, REVISION_2025_06_18);
    since(list, "0.title", r, REVISION_2025_06_18);
    since(list, "0.icons", r, REVISION_2025_11_25);
}

static void check_resources(const cJSON *result, enum revision r)
{
    check_resource(at(result, "resources"), r);
}

static void check_templates(const cJSON *result, enum revision r)
{
    check_resource(at(result, "resourceTemplates"), r);
}

static void check_prompts(const cJSON *result, enum revision r)
{
    since(result, "prompts.0.title", r, REVISION_2025_06_18);
    since(result, "prompts.0.icons", r, REVISION_2025_11_25);
    since(result, "prompts.0.arguments.0.name", r, REVISION_2024_11_05);
    since(result, "prompts.0.arguments.0.title", r, REVISION_2025_06_18);
}

static void lists_show_what_the_revision_knows(void **state)
{
    struct lab *l = *state;
    for (int fixed = 0; fixed < 2; fixed++) {
        l->app.fixed[MCP_LIST_TOOLS] = fixed;
        in_all(l, "tools/list", "", check_tool);
        in_all(l, "tools/list", "", check_tool);
    }
    in_all(l, "resources/list", "", check_resources);
    in_all(l, "resources/templates/list", "", check_templates);
    in_all(l, "prompts/list", "", check_prompts);
}

static void check_blocks(const cJSON *result, enum revision r)
{
    const cJSON *content = at(result, "content");
    assert_int_equal(cJSON_GetArraySize(content), 5);
    assert_string_equal(text_at(content, "0.type"), "text");
    since(content, "0._meta", r, REVISION_2025_06_18);
    since(content, "0.annotations.lastModified", r, REVISION_2025_06_18);
    assert_non_null(at(content, "0.annotations.priority"));
    assert_string_equal(text_at(content, "1.type"), "image");
    assert_string_equal(text_at(content, "2.type"), r >= REVISION_2025_03_26 ? "audio" : "text");
    bool has_links = r >= REVISION_2025_06_18;
    assert_string_equal(text_at(content, "3.type"), has_links ? "resource_link" : "text");
    if (has_links) {
        since(content, "3.icons", r, REVISION_2025_11_25);
    } else {
        assert_string_equal(text_at(content, "3.text"), "[resource log: test://log, all of it]");
        assert_null(at(content, "3.uri"));
    }
    assert_string_equal(text_at(content, "4.resource.text"), "inside");
    since(content, "4.resource._meta", r, REVISION_2025_06_18);
    since(result, "structuredContent", r, REVISION_2025_06_18);
}

static void blocks_that_a_revision_does_not_know_become_text(void **state)
{
    struct lab *l = *state;
    l->result = alloc_strdup(
        "{'content':["
        "{'type':'text','text':'t','_meta':{'a':1},"
        "'annotations':{'priority':1,'lastModified':'2026-01-01T00:00:00Z'}},"
        "{'type':'image','data':'AA==','mimeType':'image/png'},"
        "{'type':'audio','data':'AA==','mimeType':'audio/wav'},"
        "{'type':'resource_link','uri':'test://log','name':'log','description':'all of it',"
        "'icons':[]},"
        "{'type':'resource','resource':{'uri':'x','text':'inside','_meta':{}}}],"
        "'structuredContent':{'a':1}}");
    in_all(l, "tools/call", "'name':'echo'", check_blocks);
}

static void check_array(const cJSON *result, enum revision r)
{
    since(result, "structuredContent", r, REVISION_2026_07_28);
}

static void structured_values_that_are_no_objects_are_for_the_latest(void **state)
{
    struct lab *l = *state;
    l->result = alloc_strdup("{'content':[],'structuredContent':[1]}");
    in_all(l, "tools/call", "'name':'echo'", check_array);
}

static void check_prompt(const cJSON *result, enum revision r)
{
    const char *type = text_at(result, "messages.0.content.type");
    assert_string_equal(type, r >= REVISION_2025_03_26 ? "audio" : "text");
    type = text_at(result, "messages.1.content.type");
    assert_string_equal(type, r >= REVISION_2025_06_18 ? "resource_link" : "text");
    assert_string_equal(text_at(result, "messages.1.role"), "user");
}

static void messages_of_prompts_are_shaped_too(void **state)
{
    struct lab *l = *state;
    l->result = alloc_strdup(
        "{'messages':[{'role':'user','content':{'type':'audio','data':'','mimeType':'audio/wav'}},"
        "{'role':'user','content':{'type':'resource_link','uri':'u','name':'n'}}]}");
    in_all(l, "prompts/get", "'name':'p','arguments':{'a':'b'}", check_prompt);
}

static void check_contents(const cJSON *result, enum revision r)
{
    assert_string_equal(text_at(result, "contents.0.text"), "t");
    since(result, "contents.0._meta", r, REVISION_2025_06_18);
    since(result, "ttlMs", r, REVISION_2026_07_28);
    since(result, "cacheScope", r, REVISION_2026_07_28);
    if (r == REVISION_2026_07_28) {
        assert_int_equal(number_at(result, "ttlMs"), 7000); /* the handler's own value */
    }
}

static void contents_of_resources_are_shaped_too(void **state)
{
    struct lab *l = *state;
    l->result = alloc_strdup("{'contents':[{'uri':'u','text':'t','_meta':{}}],'ttlMs':7000}");
    in_all(l, "resources/read", "'uri':'u'", check_contents);
}

static void the_server_says_who_it_is(void **state)
{
    struct lab *l = *state;
    for (int i = 0; i < REVISION_COUNT; i++) {
        enum revision r = (enum revision)i;
        struct peer *p = peer_of(l, r);
        if (revision_is_modern(r)) {
            peer_ask(p, true, "d", "server/discover", "");
        }
        const cJSON *result = at(peer_last(p), "result");
        const cJSON *info = revision_is_modern(r)
                                ? cJSON_GetObjectItemCaseSensitive(
                                      at(result, "_meta"), "io.modelcontextprotocol/serverInfo")
                                : at(result, "serverInfo");
        assert_string_equal(text_at(info, "name"), "lab");
        assert_string_equal(text_at(info, "version"), "1");
        since(info, "title", r, REVISION_2025_06_18);
        since(info, "description", r, REVISION_2025_11_25);
        since(info, "websiteUrl", r, REVISION_2025_11_25);
        since(info, "icons.0.src", r, REVISION_2025_11_25);
        assert_string_equal(text_at(result, "instructions"), "Do not.");
        assert_non_null(at(result, "capabilities.tools"));
        assert_non_null(at(result, "capabilities.prompts"));
        assert_null(at(result, "capabilities.logging"));
        assert_null(at(result, "capabilities.tools.listChanged"));
        since(result, "capabilities.completions", r, REVISION_2025_03_26);
        peer_end(p);
    }
}

static void what_is_not_offered_does_not_exist(void **state)
{
    struct lab *l = *state;
    l->app.offers = MCP_OFFER_RESOURCES;
    for (int i = 0; i < REVISION_COUNT; i++) {
        enum revision r = (enum revision)i;
        bool modern = revision_is_modern(r);
        struct peer *p = peer_of(l, r);
        static const char *const gone[] = {"tools/list", "tools/call", "prompts/list",
                                           "prompts/get", "completion/complete"};
        for (size_t k = 0; k < 5; k++) {
            peer_ask(p, modern, "x", gone[k], "'name':'echo'");
            assert_error(p, -32601, gone[k]);
            /* with a session, 404 would mean that the session is gone */
            assert_int_equal(peer_status(p), modern ? 404 : 200);
        }
        peer_ask(p, modern, "x", "resources/list", "");
        assert_non_null(at(peer_last(p), "result.resources"));
        peer_end(p);
    }
}

static void errors_have_the_code_of_the_revision(void **state)
{
    struct lab *l = *state;
    for (int i = 0; i < REVISION_COUNT; i++) {
        enum revision r = (enum revision)i;
        bool modern = revision_is_modern(r);
        struct peer *p = peer_of(l, r);
        peer_ask(p, modern, "x", "resources/read", "'uri':'test://none'");
        assert_error(p, modern ? -32602 : -32002, "test://none");
        assert_string_equal(text_at(peer_last(p), "error.data.uri"), "test://none");
        peer_ask(p, modern, "x", "resources/read", "");
        assert_error(p, -32602, "uri");
        peer_ask(p, modern, "x", "prompts/get", "'name':'p','arguments':{'a':1}");
        assert_error(p, -32602, "strings");
        peer_ask(p, modern, "x", "tools/call", "'name':'picky'");
        if (r >= REVISION_2025_11_25) {
            assert_true(cJSON_IsTrue(at(peer_last(p), "result.isError")));
            assert_string_equal(text_at(peer_last(p), "result.content.0.text"),
                                "Invalid arguments for picky: x: required");
        } else {
            assert_error(p, -32602, "Invalid arguments for picky: x: required");
        }
        peer_ask(p, modern, "x", "tools/call", "'name':'needs'");
        assert_error(p, modern ? -32021 : -32600, "sampling");
        if (modern) {
            assert_non_null(at(peer_last(p), "error.data.requiredCapabilities.sampling"));
        } else {
            peer_ask(p, false, "x", "ping", "");
            assert_int_equal(cJSON_GetArraySize(at(peer_last(p), "result")), 0);
        }
        peer_end(p);
    }
}

static void capabilities_of_legacy_clients_are_remembered(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, NULL);
    peer_send(p, NULL,
              "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':"
              "'2025-06-18','capabilities':{'sampling':{}}}}");
    peer_ask(p, false, "x", "tools/call", "'name':'needs'");
    assert_non_null(at(peer_last(p), "result.content"));
    peer_end(p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists_show_what_the_revision_knows),
        TEST(blocks_that_a_revision_does_not_know_become_text),
        TEST(structured_values_that_are_no_objects_are_for_the_latest),
        TEST(messages_of_prompts_are_shaped_too),
        TEST(contents_of_resources_are_shaped_too),
        TEST(the_server_says_who_it_is),
        TEST(what_is_not_offered_does_not_exist),
        TEST(errors_have_the_code_of_the_revision),
        TEST(capabilities_of_legacy_clients_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
