/*
 * The table of languages: the built-in rows and the rows of a file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/codec.h"
#include "supervisor/languages/languages.h"

static struct languages *read_table(const char *text)
{
    struct err err = ERR_INIT;
    struct languages *l = NULL;
    if (languages_read(view_of(text), &l, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return l;
}

static void refused(const char *text, const char *because)
{
    struct err err = ERR_INIT;
    struct languages *l = NULL;
    assert_int_equal(languages_read(view_of(text), &l, &err), -ERR_CONFIG);
    assert_null(l);
    if (strstr(err.text, because) == NULL) {
        fail_msg("\"%s\" is not in: %s", because, err.text);
    }
}

/* The number of rows of a language; *ret is the first one. */
static size_t rows_of(const struct languages *l, const char *language, struct msg *ret)
{
    struct view_list list = languages_runners(l);
    size_t n = 0;
    for (size_t i = 0; i < list.count; i++) {
        struct msg m;
        assert_int_equal(msg_decode(MSG_LINK_A, list.items[i].data, list.items[i].len, &m, NULL),
                         0);
        assert_int_equal(m.type, MSG_RUNNER);
        assert_int_equal(m.seq, 0);
        bool wanted = view_is(m.runner.language, language);
        if (wanted && n == 0) {
            *ret = m;
        } else {
            msg_finish(&m);
        }
        n += wanted;
    }
    return n;
}

static void what_is_built_in(void **state)
{
    struct languages *l = read_table("");
    size_t count = 0;
    const char *const *names = languages_names(l, &count);
    static const char *const first[] = {"python", "javascript", "bash", "typescript"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(names[i], first[i]);
    }
    static const char *const others[][2] = {
        {"py", "python"},     {"node", "javascript"}, {"sh", "bash"},
        {"ts", "typescript"}, {"rb", "ruby"},         {"perl", "perl"},
        {"php", "php"},       {"lua", "lua"},         {"rscript", "r"},
        {"R", "r"},           {"go", "go"},           {"c", "c"},
        {"c++", "cpp"},       {"rs", "rust"},         {"java", "java"},
        {"", NULL},           {"Python", NULL},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *found = languages_find(l, others[i][0]);
        if (others[i][1] == NULL) {
            assert_null(found);
        } else {
            assert_string_equal(found, others[i][1]);
        }
    }
    /* words that contain blanks stay whole */
    struct msg m;
    assert_int_equal(rows_of(l, "typescript", &m), 1);
    assert_int_equal(m.runner.compile.count, 5);
    assert_true(m.runner.compile.items[2].len > 1000);
    assert_true(view_is(m.runner.compile.items[4], "{dir}"));
    assert_true(view_is(m.runner.needs.items[0], "tsc"));
    msg_finish(&m);
    assert_int_equal(rows_of(l, "python", &m), 0);
    assert_true(rows_of(l, "lua", &m) > 1);
    assert_true(view_is(m.runner.run.items[0], "lua5.4"));
    msg_finish(&m);
    languages_destroy(l);
}

static void a_file_adds_and_replaces(void **state)
{
    struct languages *l = read_table(
        "{\"languages\": ["
        "{\"name\": \"zig\", \"aliases\": [\"zg\", \"Zig\"], \"file\": \"main.zig\","
        " \"compile\": [\"env\", \"A=b c\", \"zig\", \"{exe}\"], \"run\": [\"{exe}\"],"
        " \"needs\": [\"cc\"]},"
        "{\"name\": \"lua\", \"file\": \"l\", \"run\": [\"mylua\", \"{file}\"]},"
        "{\"name\": \"lua\", \"aliases\": [\"moon\"], \"file\": \"l\", \"run\": [\"other\"]},"
        "{\"name\": \"cpp\", \"aliases\": [\"c++\"], \"file\": \"x\", \"run\": [\"x\"]}]}");
    size_t names = 0;
    size_t words = 0;
    const char *const *name = languages_names(l, &names);
    assert_string_equal(name[names - 1], "zig");
    (void)languages_words(l, &words);
    assert_true(words > names);
    assert_string_equal(languages_find(l, "Zig"), "zig");
    assert_string_equal(languages_find(l, "moon"), "lua");
    assert_string_equal(languages_find(l, "cxx"), "cpp"); /* built in, and not overridden */
    struct msg m;
    assert_int_equal(rows_of(l, "zig", &m), 1);
    assert_int_equal(m.runner.compile.count, 4);
    assert_true(view_is(m.runner.compile.items[1], "A=b c"));
    msg_finish(&m);
    assert_int_equal(rows_of(l, "lua", &m), 2);
    assert_true(view_is(m.runner.run.items[0], "mylua"));
    msg_finish(&m);
    assert_int_equal(rows_of(l, "cpp", &m), 1);
    assert_true(view_is(m.runner.run.items[0], "x"));
    msg_finish(&m);
    languages_destroy(l);
}

#define ROW(members) "{\"languages\": [{" members "}]}"
#define X            "\"name\": \"x\", \"file\": \"x\""

static void what_is_wrong_is_named(void **state)
{
    refused("{", "not valid JSON");
    refused("[]", "{\"languages\": [...]}");
    refused("{\"languages\": [], \"more\": 1}", "\"more\"");
    refused("{\"languages\": [3]}", "row 1 has no name");
    refused(ROW("\"file\": \"x\", \"run\": [\"x\"]"), "row 1 has no name");
    refused(ROW("\"name\": \"a b\", \"file\": \"x\", \"run\": [\"x\"]"), "row 1 (a b)");
    refused(ROW("\"name\": \"a\\nb\", \"file\": \"x\", \"run\": [\"x\"]"), "row 1 (?)");
    refused(ROW("\"name\": \"bash\", \"file\": \"x\", \"run\": [\"x\"]"), "live");
    refused(ROW("\"name\": \"py\", \"file\": \"x\", \"run\": [\"x\"]"), "another name of python");
    refused(ROW(X ", \"aliases\": [\"ruby\"], \"run\": [\"x\"]"), "taken");
    refused(ROW(X), "it needs file");
    refused(ROW("\"name\": \"x\", \"run\": [\"x\"]"), "it needs file");
    refused(ROW("\"name\": \"x\", \"file\": \"..\", \"run\": [\"x\"]"), "without a slash");
    refused(ROW("\"name\": \"x\", \"file\": \"program\", \"run\": [\"x\"]"), "\"program\"");
    refused(ROW(X ", \"run\": []"), "run names no program");
    refused(ROW(X ", \"run\": [\"env\", \"A=b\"]"), "run names no program");
    refused(ROW(X ", \"run\": [\"env\", \"A=b\", \"-u\", \"x\"]"), "no options");
    refused(ROW(X ", \"compile\": [\"env\"], \"run\": [\"x\"]"), "compile names no program");
    refused(ROW(X ", \"run\": [\"\"]"), "empty word");
    refused(ROW(X ", \"run\": [1]"), "list of strings");
    refused(ROW(X ", \"run\": \"x\""), "list of strings");
    refused(ROW(X ", \"run\": [\"x\"], \"runs\": 1"), "\"runs\" means nothing");
}

static void a_file_that_is_not_there(void **state)
{
    struct err err = ERR_INIT;
    struct languages *l = NULL;
    assert_int_equal(languages_load("/no/such/file", &l, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "--languages /no/such/file"));
    assert_int_equal(languages_load("/dev/null", &l, &err), -ERR_CONFIG);
    assert_null(l);
    assert_int_equal(languages_load("", &l, &err), 0);
    languages_destroy(l);
    languages_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_built_in),
        cmocka_unit_test(a_file_adds_and_replaces),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
