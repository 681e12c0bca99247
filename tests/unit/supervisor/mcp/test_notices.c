/* Notifications that wait for one reader: which ones concern it, which are merged, and how many are
 * kept for a reader that never reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/mcp/notices.h"

#define MUCH_LATER 1000000

/* Takes all notifications that are due: "tools a/b ", each followed by a blank. */
static char *tell_all(struct notices *n, uint64_t now_ms)
{
    static const char *const names[NOTICE_LISTS] = {"tools", "resources", "prompts"};
    char *all = alloc_strdup("");
    enum notice_kind kind;
    const char *name = NULL;
    while (notices_next(n, now_ms, &kind, &name)) {
        char *more = alloc_printf("%s%s ", all, kind < NOTICE_LISTS ? names[kind] : name);
        CLEANUP_FREE char *own = name != NULL ? alloc_strdup(name) : NULL;
        notices_told(n, now_ms, kind, own);
        free(all);
        all = more;
    }
    return all;
}

static void check_told_at(struct notices *n, uint64_t now_ms, const char *expected)
{
    CLEANUP_FREE char *all = tell_all(n, now_ms);
    assert_string_equal(all, expected);
}

static void check_told(struct notices *n, const char *expected)
{
    static uint64_t now_ms = MUCH_LATER;
    check_told_at(n, now_ms += NOTICES_LIST_MS, expected);
}

static void a_list_is_told_at_once_and_then_once_a_second(void **state)
{
    struct notices n = {.wants = {[NOTICE_TOOLS] = true, [NOTICE_RESOURCES] = true}};
    assert_true(notices_due_ms(&n) == UINT64_MAX);
    notices_list_changed(&n, NOTICE_RESOURCES);
    check_told_at(&n, 5000, "resources ");
    assert_true(notices_want(&n, NOTICE_RESOURCE, "s://a/"));
    for (uint64_t ms = 5001; ms < 5000 + NOTICES_LIST_MS; ms += 111) {
        assert_true(notices_list_changed(&n, NOTICE_RESOURCES));
        notices_resource_changed(&n, "s://a/x");
        check_told_at(&n, ms, "s://a/x "); /* this one is not rate limited */
        assert_int_equal(notices_due_ms(&n), 5000 + NOTICES_LIST_MS);
    }
    notices_list_changed(&n, NOTICE_TOOLS); /* nor is another list */
    check_told_at(&n, 5999, "tools ");
    check_told_at(&n, 6000, "resources ");
    assert_true(notices_due_ms(&n) == UINT64_MAX);
    notices_untold(&n, NOTICE_RESOURCES, NULL); /* it could not be sent */
    check_told_at(&n, 6001, "resources ");
    notices_finish(&n);
}

static void only_what_is_wanted_and_once_however_often_it_changes(void **state)
{
    struct notices n = {.wants = {[NOTICE_TOOLS] = true, [NOTICE_PROMPTS] = true}};
    assert_false(notices_list_changed(&n, NOTICE_RESOURCES));
    check_told(&n, "");
    for (int i = 0; i < 100; i++) {
        assert_true(notices_list_changed(&n, NOTICE_TOOLS));
        assert_true(notices_list_changed(&n, NOTICE_PROMPTS));
    }
    check_told(&n, "tools prompts ");
    check_told(&n, "");
    assert_true(notices_list_changed(&n, NOTICE_TOOLS));
    check_told(&n, "tools ");
    notices_finish(&n);
}

static void a_resource_concerns_who_wants_it_what_it_is_in_or_what_is_in_it(void **state)
{
    static const struct {
        const char *wanted, *changed, *told;
    } rows[] = {
        {"s://a/x", "s://a/x", "s://a/x "},
        {"s://a/x", "s://a/y", NULL},
        {"s://a/x", "s://a/xy", NULL},
        {"s://a/", "s://a/x", "s://a/x "},
        {"s://a", "s://a/x/y", "s://a/x/y "},
        {"s://a/x", "s://a/", "s://a/x "},
        {"s://a/", "s://a/", "s://a/ "},
        {"s://a/x", "s://a", NULL},
        {"s://ab/x", "s://a/", NULL},
        {"s://a/", "s://ab/x", NULL},
        {"s://a/", "", NULL},
        {"", "s://a/", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct notices n = {0};
        assert_true(notices_want(&n, NOTICE_RESOURCE, rows[i].wanted));
        assert_int_equal(notices_resource_changed(&n, rows[i].changed), rows[i].told != NULL);
        check_told(&n, rows[i].told != NULL ? rows[i].told : "");
        notices_finish(&n);
    }
}

static void changes_below_one_uri_become_one_of_it(void **state)
{
    struct notices n = {0};
    assert_true(notices_want(&n, NOTICE_RESOURCE, "s://a/"));
    assert_true(notices_want(&n, NOTICE_RESOURCE, "s://a/x"));
    notices_resource_changed(&n, "s://a/x");
    check_told(&n, "s://a/x "); /* it concerns both subscriptions, and is sent once */
    for (int i = 0; i < 1000; i++) {
        CLEANUP_FREE char *uri = alloc_printf("s://a/%d", i);
        notices_resource_changed(&n, uri);
    }
    check_told(&n, "s://a/ ");
    notices_finish(&n);
}

static void tasks_and_resources_do_not_meet(void **state)
{
    struct notices n = {0};
    assert_true(notices_want(&n, NOTICE_RESOURCE, "t"));
    assert_false(notices_task_changed(&n, "t"));
    assert_true(notices_want(&n, NOTICE_TASK, "u"));
    assert_false(notices_resource_changed(&n, "u"));
    assert_true(notices_task_changed(&n, "u"));
    assert_true(notices_task_changed(&n, "u"));
    check_told(&n, "u ");
    notices_finish(&n);
}

static void names_are_limited_in_number_and_bytes(void **state)
{
    struct notices n = {0};
    for (int i = 0; i < NOTICES_ITEMS; i++) {
        CLEANUP_FREE char *uri = alloc_printf("s://%d", i);
        assert_true(notices_want(&n, NOTICE_RESOURCE, uri));
    }
    assert_false(notices_want(&n, NOTICE_RESOURCE, "s://one more"));
    assert_true(notices_want(&n, NOTICE_RESOURCE, "s://0")); /* it is subscribed already */
    notices_resource_changed(&n, "s://5");
    notices_unwant(&n, NOTICE_RESOURCE, "s://5");
    notices_unwant(&n, NOTICE_RESOURCE, "s://5");
    check_told(&n, "");
    assert_true(notices_want(&n, NOTICE_RESOURCE, "s://one more"));
    assert_true(notices_resource_changed(&n, "s://one more"));
    notices_finish(&n);

    char big[NOTICES_BYTES / 2 + 2];
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    assert_true(notices_want(&n, NOTICE_RESOURCE, big));
    big[0] = 'y';
    assert_false(notices_want(&n, NOTICE_RESOURCE, big));
    big[0] = 'x';
    notices_unwant(&n, NOTICE_RESOURCE, big);
    big[0] = 'y';
    assert_true(notices_want(&n, NOTICE_RESOURCE, big));
    notices_finish(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_told_at_once_and_then_once_a_second),
        cmocka_unit_test(only_what_is_wanted_and_once_however_often_it_changes),
        cmocka_unit_test(a_resource_concerns_who_wants_it_what_it_is_in_or_what_is_in_it),
        cmocka_unit_test(changes_below_one_uri_become_one_of_it),
        cmocka_unit_test(tasks_and_resources_do_not_meet),
        cmocka_unit_test(names_are_limited_in_number_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
