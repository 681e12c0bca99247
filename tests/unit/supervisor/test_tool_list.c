/* The size of the list of tools, which models read in every conversation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/front/tools.h"
#include "tests/unit/supervisor/client.h"

static void check_list_size(struct client *c)
{
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    size_t inputs = 0;
    const cJSON *tool;
    cJSON_ArrayForEach(tool, list)
    {
        CLEANUP_FREE char *input = cJSON_PrintUnformatted(at(tool, "inputSchema"));
        inputs += strlen(input);
        assert_in_range(strlen(text_at(tool, "description")), 60, 600);
    }
    assert_in_range(inputs, 8000, 12 << 10);
    cJSON_Delete(list);
    tools_destroy(tools);
}

static void the_list_is_small_with_everything_on(void **state)
{
    static const char *const defaults[] = {"auto", "session", "call"};
    struct client *c = *state;
    c->config.allow_network = true;
    free(c->config.local_files);
    c->config.local_files =
        alloc_strdup("/srv:rw,/home/somebody/with/a/long/name/of/a/directory:rw");
    free(c->config.share);
    c->config.share =
        alloc_strdup("/srv=all:rw,/a=data-of-2026:ro:ask,/b=more-of-it:ro:ask,"
                     "/c=and-more:ro:ask,/d=yet-another-directory:rw:ask,/e=last:ask");
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        free(c->config.default_sandbox);
        c->config.default_sandbox = alloc_strdup(defaults[i]);
        check_list_size(c);
    }
}

static void what_the_operator_shows_is_told(void **state)
{
    struct client *c = *state;
    free(c->config.local_files);
    c->config.local_files = alloc_strdup("/srv,/srv/out:rw");
    free(c->config.share);
    c->config.share = alloc_strdup("/srv/in=sales:ro:ask,/x=all");
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    assert_non_null(
        strstr(text_at(list, "1.inputSchema.properties.shares.description"), "sales (read-only)"));
    assert_string_equal(text_at(list, "9.name"), "save_file");
    assert_non_null(
        strstr(text_at(list, "9.inputSchema.properties.local_path.description"), ": /srv/out."));
    cJSON_Delete(list);
    tools_destroy(tools);
    CLEANUP_FREE char *told = tools_text("A.@shares_about@", &c->config, c->languages);
    assert_string_equal(
        told, "A. Sandboxes see directories of the user's host at /shared/all (read-only).");
    free(c->config.share);
    c->config.share = alloc_strdup("");
    CLEANUP_FREE char *none = tools_text("A.@shares_about@", &c->config, c->languages);
    assert_string_equal(none, "A.");
}

static void arguments_that_only_the_default_fits_are_not_shown(void **state)
{
    struct client *c = *state;
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    assert_null(at(list, "1.inputSchema.properties.network"));
    assert_null(at(list, "1.inputSchema.properties.shares"));
    assert_null(tools_find(tools, "save_file"));
    assert_null(at(list, "8.inputSchema.properties.local_path"));
    assert_non_null(at(list, "1.inputSchema.properties.memory_mb"));
    cJSON_Delete(list);
    tools_destroy(tools);
    /* a client that uses them anyway is told the reason */
    assert_failure(client_tool(c, "create_sandbox", "{'network':'full'}"), "network_disabled",
                   "no network");
    client_tool(c, "create_sandbox", "{'network':'none'}");
    assert_int_equal(c->fleet->opens, 1);
}

static void the_ceilings_are_told_and_their_options_named(void **state)
{
    struct client *c = *state;
    c->config.max_memory_mb = 700;
    c->config.max_cpu_milli = 1500;
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    static const char *const both[] = {"1.inputSchema.properties", "4.inputSchema.properties"};
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
        const cJSON *properties = at(list, both[i]);
        assert_true(number_at(properties, "memory_mb.maximum") == 700);
        assert_true(number_at(properties, "cpus.maximum") == 1.5);
        assert_true(number_at(properties, "pids.maximum") == (double)c->config.max_pids);
        assert_true(number_at(properties, "disk_mb.maximum") == (double)c->config.max_disk_mb);
    }
    const struct {
        const char *arguments, *text;
    } cases[] = {
        {"{\"memory_mb\": 1000000}",
         "memory_mb 1000000 is more than this server gives one sandbox: "
         "at most 700 (--max-memory-mb)"},
        {"{\"memory_mb\": \"800\"}", "memory_mb 800 is more than"}, /* read as it is meant */
        {"{\"memory_mb\": 20, \"cpus\": 64}", "at most 1.5 (--max-cpus)"},
        {"{\"memory_mb\": 1}", "memory_mb: expected an integer between 16 and 700, got 1"},
        {"{\"code\": \"1\", \"memory_mb\": 900}", "memory_mb 900 is more than"},
    };
    const struct mcp_tool *tool = tools_find(tools, "create_sandbox");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = ERR_INIT;
        cJSON *meant = NULL;
        cJSON *args = cJSON_Parse(cases[i].arguments);
        assert_int_equal(tools_read(tool, args, &meant, &err), -ERR_INVALID);
        assert_null(meant);
        assert_non_null(strstr(err.text, cases[i].text));
        cJSON_Delete(args);
    }
    cJSON_Delete(list);
    tools_destroy(tools);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_list_is_small_with_everything_on),
        CASE(what_the_operator_shows_is_told),
        CASE(arguments_that_only_the_default_fits_are_not_shown),
        CASE(the_ceilings_are_told_and_their_options_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
