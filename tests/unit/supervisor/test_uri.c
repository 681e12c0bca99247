/* URIs of resources, and the type of a file by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "supervisor/links/mime.h"
#include "supervisor/links/uri.h"

static void a_file_is_named_by_its_absolute_path(void **state)
{
    (void)state;
    struct uri u;
    assert_true(uri_parse("sandbox://abc/workspace/a%20b/%e2%82%ac.txt", &u));
    assert_int_equal(u.kind, URI_FILE);
    assert_string_equal(u.id, "abc");
    assert_string_equal(u.path, "/workspace/a b/\xe2\x82\xac.txt");
    assert_false(u.is_directory);
    assert_true(uri_parse("sandbox://My.name_1/workspace/", &u));
    assert_string_equal(u.id, "My.name_1");
    assert_string_equal(u.path, "/workspace");
    assert_true(u.is_directory);
    assert_true(uri_parse("sandbox://abc/", &u));
    assert_string_equal(u.path, "/");
    assert_true(u.is_directory);
    assert_true(uri_parse("sandbox://abc/.hidden/..b/a...", &u));
    assert_string_equal(u.path, "/.hidden/..b/a...");
}

static void a_stream_is_named_by_its_execution(void **state)
{
    (void)state;
    struct uri u;
    assert_true(uri_parse("execution://ex-1/stdout", &u));
    assert_int_equal(u.kind, URI_STREAM);
    assert_string_equal(u.id, "ex-1");
    assert_false(u.is_stderr);
    assert_true(uri_parse("execution://ex-1/stderr", &u));
    assert_true(u.is_stderr);
}

static void what_needs_interpretation_names_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "sandbox:",
        "sandbox://",
        "sandbox:///etc/passwd",
        "sandbox://abc",
        "SANDBOX://abc/a",
        "file:///etc/passwd",
        "sandbox://abc/../etc",
        "sandbox://abc/a/./b",
        "sandbox://abc/%2e%2e/etc",
        "sandbox://abc/.%2E",
        "sandbox://abc/a//b",
        "sandbox://abc//a",
        "sandbox://abc/a//",
        "sandbox://abc/a%2Fb",
        "sandbox://abc/a%00b",
        "sandbox://abc/a%0ab",
        "sandbox://abc/a%7F",
        "sandbox://abc/a%",
        "sandbox://abc/a%2",
        "sandbox://abc/a%zz",
        "sandbox://abc/a b",
        "sandbox://abc/a\\b",
        "sandbox://abc/a?b",
        "sandbox://abc/a#b",
        "sandbox://abc/%ff",
        "sandbox://abc/\xc3\xa9",
        "sandbox://a@b/c",
        "sandbox://a:1/c",
        "sandbox://.a/c",
        "sandbox://%61/c",
        "execution://abc",
        "execution://abc/",
        "execution://abc/stdin",
        "execution://abc/stdout/",
        "execution://a/b/stdout",
    };
    struct uri u;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (uri_parse(bad[i], &u)) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    char *text = alloc_array(LIMIT_PATH + 100, 1);
    memset(text, 'a', LIMIT_PATH + 50);
    memcpy(text, "sandbox://abc/", 14);
    assert_false(uri_parse(text, &u));
    memset(text, 'a', LIMIT_PATH);
    memcpy(text, "sandbox://", 10);
    assert_false(uri_parse(text, &u)); /* the id is too long */
    free(text);
}

static void check_spelled(const char *base, const char *path, const char *expected)
{
    char *uri = uri_of_file("id", base, view_of(path));
    if (expected == NULL) {
        assert_null(uri);
    } else {
        assert_non_null(uri);
        assert_string_equal(uri, expected);
    }
    free(uri);
}

static void a_path_is_spelled_so_that_it_can_be_asked_for(void **state)
{
    (void)state;
    check_spelled("/workspace", "a.txt", "sandbox://id/workspace/a.txt");
    check_spelled("/workspace", "./a//b/", "sandbox://id/workspace/a/b");
    check_spelled("/workspace", ".", "sandbox://id/workspace");
    check_spelled("/workspace", "/tmp/x", "sandbox://id/tmp/x");
    check_spelled("/", "x", "sandbox://id/x");
    check_spelled("", "/x", "sandbox://id/x");
    check_spelled("", "/", "sandbox://id/");
    check_spelled("/w", "a b%?#\xc3\xa9", "sandbox://id/w/a%20b%25%3F%23%C3%A9");
    check_spelled("/w", "a:b@c=d&e+f,g;h", "sandbox://id/w/a:b@c=d&e+f,g;h");
    check_spelled("", "x", NULL); /* it is not known where relative paths begin */
    check_spelled("/w", "a/../b", NULL);
    check_spelled("/w", "a\nb", NULL);
    check_spelled("/w", "\xff", NULL);
    char *uri = uri_of_stream("ex-1", true);
    assert_string_equal(uri, "execution://ex-1/stderr");
    free(uri);
}

static void endings_tell_the_kind(void **state)
{
    (void)state;
    assert_string_equal(mime_of_name("/workspace/plot.PNG"), "image/png");
    assert_string_equal(mime_of_name("a.tar.gz"), "application/gzip");
    assert_null(mime_of_name("Makefile"));
    assert_null(mime_of_name(".json"));
    assert_null(mime_of_name("a.json/b"));
    assert_null(mime_of_name("a."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_named_by_its_absolute_path),
        cmocka_unit_test(a_stream_is_named_by_its_execution),
        cmocka_unit_test(what_needs_interpretation_names_nothing),
        cmocka_unit_test(a_path_is_spelled_so_that_it_can_be_asked_for),
        cmocka_unit_test(endings_tell_the_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
