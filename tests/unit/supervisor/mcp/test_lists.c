/* The four lists: pages, cursors, what is kept, and for how long clients may keep it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/supervisor/mcp/lab.h"

static const struct {
    const char *method, *items;
} lists[] = {
    {"tools/list", "result.tools"},
    {"resources/list", "result.resources"},
    {"resources/templates/list", "result.resourceTemplates"},
    {"prompts/list", "result.prompts"},
};

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

/* Asks for a page; the cursor of the next one is put into `cursor`, "" at the end. */
static int page(struct peer *p, const char *method, const char *items, char cursor[64])
{
    char params[128] = "";
    if (cursor[0] != '\0') {
        snprintf(params, sizeof(params), "'cursor':'%s'", cursor);
    }
    peer_ask(p, true, "l", method, params);
    assert_non_null(at(peer_last(p), items));
    const cJSON *next = at(peer_last(p), "result.nextCursor");
    snprintf(cursor, 64, "%s", next != NULL ? next->valuestring : "");
    return cJSON_GetArraySize(at(peer_last(p), items));
}

static void long_lists_come_in_pages(void **state)
{
    struct lab *l = *state;
    for (size_t i = 0; i < 4; i++) {
        for (int fixed = 0; fixed < 2; fixed++) {
            struct peer *p = peer_create(l, MCP_SESSION_PIPE, NULL);
            char cursor[64] = "";
            l->app.fixed[i] = fixed;
            l->items = 250;
            assert_int_equal(page(p, lists[i].method, lists[i].items, cursor), 100);
            assert_int_equal(page(p, lists[i].method, lists[i].items, cursor), 100);
            assert_string_equal(text_at(at(peer_last(p), lists[i].items), "0.name"), "item-100");
            assert_int_equal(page(p, lists[i].method, lists[i].items, cursor), 50);
            assert_string_equal(text_at(at(peer_last(p), lists[i].items), "49.name"), "item-249");
            assert_string_equal(cursor, "");
            peer_end(p);
        }
    }
}

static void a_list_that_just_fits_has_one_page(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, NULL);
    static const int sizes[] = {0, 1, 99, 100};
    for (size_t i = 0; i < 4; i++) {
        char cursor[64] = "";
        l->items = sizes[i];
        assert_int_equal(page(p, "resources/list", "result.resources", cursor), sizes[i]);
        assert_string_equal(cursor, "");
    }
    peer_end(p);
}

static void a_page_begins_behind_the_one_before_even_if_the_list_changed(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, NULL);
    char cursor[64] = "";
    l->items = 150;
    page(p, "resources/list", "result.resources", cursor);
    l->items = 120;
    assert_int_equal(page(p, "resources/list", "result.resources", cursor), 20);
    assert_string_equal(text_at(peer_last(p), "result.resources.0.uri"), "item-100");
    l->items = 150;
    cursor[0] = '\0';
    page(p, "resources/list", "result.resources", cursor);
    l->items = 50;
    char params[128];
    snprintf(params, sizeof(params), "'cursor':'%s'", cursor);
    peer_ask(p, true, "l", "resources/list", params);
    assert_error(p, -32602, "cursor");
    peer_end(p);
}

static void cursors_that_are_not_ours_are_refused(void **state)
{
    static const char *const bad[] = {"''",   "'x'", "5",         "{}",
                                      "true", "[]",  "'0'",       "'0000000000000000'",
                                      "'-1'", "' '", "'\xc3\xa9'"};
    struct lab *l = *state;
    for (size_t i = 0; i < 4; i++) {
        struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
        for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
            char params[64];
            snprintf(params, sizeof(params), "'cursor':%s", bad[k]);
            peer_ask(p, k % 2 == 0, "l", lists[i].method, params);
            assert_error(p, -32602, "cursor");
        }
        peer_ask(p, false, "l", lists[i].method, "'cursor':null");
        assert_non_null(at(peer_last(p), lists[i].items));
        peer_end(p);
    }
}

static void lists_that_never_change_are_asked_for_once_in_each_revision(void **state)
{
    struct lab *l = *state;
    l->app.fixed[MCP_LIST_TOOLS] = true;
    for (int round = 0; round < 3; round++) {
        struct peer *old = peer_create(l, MCP_SESSION_LEGACY, "2025-03-26");
        struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
        peer_ask(old, false, "l", "tools/list", "");
        assert_null(at(peer_last(old), "result.tools.0.title"));
        peer_ask(p, false, "l", "tools/list", "");
        assert_non_null(at(peer_last(p), "result.tools.0.title"));
        assert_null(at(peer_last(p), "result.ttlMs"));
        peer_ask(p, true, "l", "tools/list", "");
        assert_int_equal(number_at(peer_last(p), "result.ttlMs"), 300000);
        assert_int_equal(l->lists, 3);
        peer_end(old);
        peer_end(p);
    }
}

static unsigned form_by_results(const struct mcp_request *r, enum mcp_list list)
{
    enum result_form form;
    return !mcp_request_results(r, &form) ? MCP_LIST_FORMS : form == RESULT_FORM_STRUCTURED;
}

static void each_form_of_a_list_is_kept_for_those_who_get_it(void **state)
{
    static const char *const wishes[] = {"", "'_meta':{'cloister/results':'structured'}"};
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    l->app.fixed[MCP_LIST_TOOLS] = l->app.fixed[MCP_LIST_TEMPLATES] = true;
    l->app.has_forms[MCP_LIST_TOOLS] = true;
    l->app.list_form = form_by_results;
    for (size_t i = 0; i < 6; i++) {
        peer_ask(p, false, "l", "tools/list", wishes[i % 2]);
        assert_int_equal(l->lists, i == 0 ? 1 : 2);
    }
    for (int i = 0; i < 2; i++) { /* none of the arguments matches, so the lists are independent */
        peer_ask(p, false, "l", "tools/list", "'_meta':{'cloister/results':'x'}");
        assert_int_equal(l->lists, 3 + i);
    }
    peer_ask(p, true, "l", "tools/list", "");
    assert_string_equal(text_at(peer_last(p), "result.cacheScope"), "private");
    peer_ask(p, true, "l", "resources/templates/list", "");
    assert_string_equal(text_at(peer_last(p), "result.cacheScope"), "public");
    peer_end(p);
}

static void clients_may_keep_what_is_fixed_and_nothing_else(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, NULL);
    l->app.fixed[MCP_LIST_TOOLS] = true;
    for (size_t i = 0; i < 4; i++) {
        peer_ask(p, true, "l", lists[i].method, "");
        assert_int_equal(number_at(peer_last(p), "result.ttlMs"), i == 0 ? 300000 : 0);
        assert_string_equal(text_at(peer_last(p), "result.cacheScope"),
                            i == 0 ? "public" : "private");
    }
    peer_ask(p, true, "l", "server/discover", "");
    assert_string_equal(text_at(peer_last(p), "result.cacheScope"), "public");
    peer_ask(p, true, "l", "resources/read", "'uri':'x'");
    assert_string_equal(text_at(peer_last(p), "result.cacheScope"), "private");
    assert_int_equal(number_at(peer_last(p), "result.ttlMs"), 0);
    peer_ask(p, true, "l", "tools/call", "'name':'echo'");
    assert_null(at(peer_last(p), "result.ttlMs"));
    peer_end(p);
}

static void completions_are_bounded(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, NULL);
    peer_ask(p, true, "c", "completion/complete",
             "'ref':{'type':'ref/prompt','name':'x'},'argument':{'name':'a','value':'v'}");
    assert_int_equal(cJSON_GetArraySize(at(peer_last(p), "result.completion.values")), 2);
    assert_true(cJSON_IsFalse(at(peer_last(p), "result.completion.hasMore")));
    peer_ask(p, true, "c", "completion/complete",
             "'ref':{'type':'ref/resource','uri':'x'},'argument':{'name':'a','value':'v'},"
             "'context':{'arguments':{}}");
    assert_int_equal(cJSON_GetArraySize(at(peer_last(p), "result.completion.values")), 100);
    assert_int_equal(number_at(peer_last(p), "result.completion.total"), 150);
    assert_true(cJSON_IsTrue(at(peer_last(p), "result.completion.hasMore")));
    static const char *const bad[] = {
        "'ref':{'type':'ref/tool','name':'x'},'argument':{'name':'a','value':'v'}",
        "'ref':{'type':'ref/prompt'},'argument':{'name':'a','value':'v'}",
        "'ref':{'type':'ref/prompt','name':'x'},'argument':{'name':'a'}",
        "'argument':{'name':'a','value':'v'}",
    };
    for (size_t i = 0; i < 4; i++) {
        peer_ask(p, true, "c", "completion/complete", bad[i]);
        assert_error(p, -32602, i == 2 ? "argument" : "ref");
    }
    peer_end(p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(long_lists_come_in_pages),
        TEST(a_list_that_just_fits_has_one_page),
        TEST(a_page_begins_behind_the_one_before_even_if_the_list_changed),
        TEST(cursors_that_are_not_ours_are_refused),
        TEST(lists_that_never_change_are_asked_for_once_in_each_revision),
        TEST(each_form_of_a_list_is_kept_for_those_who_get_it),
        TEST(clients_may_keep_what_is_fixed_and_nothing_else),
        TEST(completions_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
