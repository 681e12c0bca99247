/* The configuration file: what of it becomes a value of an option, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/base/config_file.h"
#include "supervisor/base/options.h"

/* What was taken of a text, "name=value" each, with + instead of = for a further item of a list. */
struct taken {
    char text[1000];
};

static int take(void *arg, const struct option *o, const char *value, bool begins, struct err *err)
{
    struct taken *taken = arg;
    size_t len = strlen(taken->text);
    (void)err;
    snprintf(taken->text + len, sizeof(taken->text) - len, "%s%c%s;", o->name, begins ? '=' : '+',
             value != NULL ? value : "(empty list)");
    return 0;
}

static void check_taken(const char *text, const char *expected)
{
    struct taken taken = {.text = ""};
    struct err err = ERR_INIT;
    assert_int_equal(config_file_parse(view_of(text), take, &taken, &err), 0);
    assert_string_equal(taken.text, expected);
}

static void check_refused(const char *text, const char *why)
{
    struct taken taken = {.text = ""};
    struct err err = ERR_INIT;
    assert_int_equal(config_file_parse(view_of(text), take, &taken, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, why));
}

static void values_are_texts_whatever_yaml_thinks_of_them(void **state)
{
    (void)state;
    check_taken("strict: yes", "strict=yes;");
    check_taken("strict: \"yes\"", "strict=yes;");
    check_taken("strict: 'true'", "strict=true;");
    check_taken("strict: true", "strict=true;");
    check_taken("cpus: 1.50", "cpus=1.50;");
    check_taken("pids: 0x10", "pids=0x10;");
    check_taken("http: \"\"", "http=;");
}

static void a_list_begins_anew_and_may_be_empty(void **state)
{
    (void)state;
    check_taken("share: /a", "share=/a;");
    check_taken("share: [/a, /b]\npids: 5", "share=/a;share+/b;pids=5;");
    check_taken("share: []\npids: 5", "share=(empty list);pids=5;");
}

static void what_is_neither_is_refused_with_its_line(void **state)
{
    (void)state;
    check_refused("\nstrict:", "line 2: strict: expected one value");
    check_refused("strict: ~", "line 1: strict: expected one value");
    check_refused("strict: [yes]", "line 1: strict: expected one value");
    check_refused("strict: []", "line 1: strict: expected one value");
    check_refused("share: [[/a]]", "line 1: share: expected a list of values");
    check_refused("share: {a: b}", "line 1: share: expected one value, or a list of them");
    check_refused("share:", "line 1: share: expected one value, or a list of them");
    check_refused("shar: /a", "did you mean share?");
    check_refused("pids: 1\npids: 2", "line 2: pids stands in line 1 already");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_texts_whatever_yaml_thinks_of_them),
        cmocka_unit_test(a_list_begins_anew_and_may_be_empty),
        cmocka_unit_test(what_is_neither_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
