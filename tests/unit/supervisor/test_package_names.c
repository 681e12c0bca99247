/* Names that are passed to package managers, and error messages of installers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/packages/names.h"
#include "supervisor/packages/reply.h"
#include "supervisor/packages/specifiers.h"

static void check_all(enum package_manager manager, const char *const *texts, bool good)
{
    for (size_t i = 0; texts[i] != NULL; i++) {
        struct err err = ERR_INIT;
        int rc = package_requirement_check(manager, texts[i], &err);
        if ((rc == 0) != good) {
            fail_msg("\"%s\" is %s", texts[i], good ? err.text : "taken");
        }
        if (!good) {
            assert_int_equal(rc, -ERR_INVALID);
            assert_non_null(strstr(err.text, "options, URLs, paths"));
        }
    }
}

static void names_with_versions_are_taken(void **state)
{
    (void)state;
    static const char *const pip[] = {
        "pandas",           "numpy==1.26.4", "Foo_Bar.baz", "requests[socks]>=2.31,<3",
        "a[b,c]",           "x~=1.4",        "x!=2.0rc1",   "x==1.*",
        "x==1!2.0+local.1", "3to2",          NULL};
    static const char *const npm[] = {"lodash",
                                      "lodash@4.17.21",
                                      "@types/node",
                                      "@types/node@^20",
                                      "left-pad@latest",
                                      "a@~1.2",
                                      "a@>=1.0.0",
                                      "a@1.x",
                                      "a@*",
                                      "JSONStream",
                                      NULL};
    check_all(PACKAGE_PIP, pip, true);
    check_all(PACKAGE_NPM, npm, true);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const pip[] = {"",
                                      "--index-url=x",
                                      "-r/etc/passwd",
                                      "a;b",
                                      "a b",
                                      "a == 1",
                                      "../x",
                                      "./x",
                                      "/etc/passwd",
                                      "a/b",
                                      "https://example.org/a.whl",
                                      "git+https://example.org/a",
                                      "a@file:/x",
                                      "a @ https://x",
                                      "a@1",
                                      "a.whl",
                                      "a.TAR.GZ",
                                      "a==1.tar.gz",
                                      "a==",
                                      "a=1",
                                      "a===1",
                                      "a>=1,",
                                      "a[",
                                      "a[]",
                                      "a[b",
                                      "a-",
                                      "_a",
                                      "a\nb",
                                      "a$(id)",
                                      "a`id`",
                                      "a|b",
                                      "a&b",
                                      "a>b;c",
                                      "a;python_version<'3'",
                                      "\xd0\xb0",
                                      "a\xff",
                                      NULL};
    static const char *const npm[] = {"",        "--registry=x", "a;b",    "a b",       "../x",
                                      "a/b",     "@a",           "@/b",    "@a/",       "@a/b/c",
                                      "a@npm:b", "a@file:x",     "a@b/c",  "git+ssh:x", "a.tgz",
                                      "a@1.tgz", "a@",           "a@^",    "a@1 - 2",   "a@1||2",
                                      ".a",      "_a",           "a@../x", "http://x",  NULL};
    check_all(PACKAGE_PIP, pip, false);
    check_all(PACKAGE_NPM, npm, false);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(package_requirement_check(PACKAGE_PIP, text, NULL), -ERR_INVALID);
    text[PACKAGE_NAME_SIZE] = '\0';
    assert_int_equal(package_requirement_check(PACKAGE_PIP, text, NULL), -ERR_INVALID);
    text[PACKAGE_NAME_SIZE - 1] = '\0';
    assert_int_equal(package_requirement_check(PACKAGE_PIP, text, NULL), 0);
}

static void a_refusal_shows_the_text_in_one_line(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(package_requirement_check(PACKAGE_PIP, "a\n\x1b[31mb", &err), -ERR_INVALID);
    assert_non_null(strstr(err.text, "\"a??[31mb\""));
}

static void a_name_has_one_spelling(void **state)
{
    (void)state;
    char name[PACKAGE_NAME_SIZE];
    assert_true(package_name_normal(PACKAGE_PIP, view_of("Foo__Bar.-baz"), name));
    assert_string_equal(name, "foo-bar-baz");
    assert_true(package_name_normal(PACKAGE_NPM, view_of("@Types/Node_x"), name));
    assert_string_equal(name, "@Types/Node_x");
    struct view plain = package_requirement_name(PACKAGE_PIP, "Foo_Bar[x]==1");
    assert_true(view_is(plain, "Foo_Bar"));
    plain = package_requirement_name(PACKAGE_NPM, "@a/b@1");
    assert_true(view_is(plain, "@a/b"));
}

static void replies_are_read_line_by_line(void **state)
{
    (void)state;
    struct view version;
    struct view words;
    struct view text = view_of("noise\n+ Foo_Bar 1.2\n+ two words 3\n+ x -1\n+ baz 2.0\n+ cut 1");
    assert_true(package_reply_find(PACKAGE_PIP, text, view_of("foo-bar"), &version));
    assert_true(view_is(version, "1.2"));
    assert_true(package_reply_find(PACKAGE_PIP, text, view_of("baz"), &version));
    assert_false(package_reply_find(PACKAGE_PIP, text, view_of("two"), &version));
    assert_false(package_reply_find(PACKAGE_PIP, text, view_of("x"), &version));
    assert_false(package_reply_find(PACKAGE_PIP, text, view_of("cut"), &version));
    assert_false(package_reply_failure(text, &version, &words));
    text = view_of("+ a 1\n! network no route to it\n");
    assert_true(package_reply_failure(text, &version, &words));
    assert_true(view_is(version, "network"));
    assert_true(view_is(words, "no route to it"));
}

static void a_version_fits_what_is_asked_for(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"six", "1.16.0"},           {"six==1.16", "1.16.0"},
        {"six==1.*", "1.16.0"},      {"six[x]>=1.10,<2,!=1.12", "1.16.0"},
        {"six~=1.10", "1.16.0"},     {"six>=1.16rc1", "1.16"},
        {"six==1.0-1", "1.0.post1"}, {"six==v1.0.RC2", "1.0rc2"},
        {"six==1.0", "1.0+local.7"}, {"six>1.9", "1.10"},
        {"six>=1!0.1", "1!0.2"},     {"six==odd", "odd"},
    };
    static const char *const bad[][2] = {
        {"six==1.0", "1.16.0"},   {"six==1.16.0.1", "1.16.0"}, {"six==2.*", "1.16.0"},
        {"six!=1.*", "1.16.0"},   {"six>=1.10,<1.16", "1.16"}, {"six~=1.10.0", "1.16.0"},
        {"six>=1.16", "1.16rc1"}, {"six<1.16", "1.16rc1"},     {"six>1.0", "1.0.post1"},
        {"six==1.0+mine", "1.0"}, {"six>=1!0.1", "2.0"},       {"six>=1.16", "1.16.dev3"},
        {"six==odd", "1.0"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!package_version_fits(good[i][0], view_of(good[i][1]))) {
            fail_msg("%s does not fit %s", good[i][1], good[i][0]);
        }
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (package_version_fits(bad[i][0], view_of(bad[i][1]))) {
            fail_msg("%s fits %s", bad[i][1], bad[i][0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_with_versions_are_taken),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(a_refusal_shows_the_text_in_one_line),
        cmocka_unit_test(a_name_has_one_spelling),
        cmocka_unit_test(replies_are_read_line_by_line),
        cmocka_unit_test(a_version_fits_what_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
