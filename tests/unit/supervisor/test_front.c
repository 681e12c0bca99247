/* The small parts: base64, texts, schemas, envelopes, options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/base/config.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/schema.h"

static cJSON *json(const char *text)
{
    struct err err = ERR_INIT;
    cJSON *value = NULL;
    CLEANUP_FREE char *copy = alloc_strdup(text);
    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    if (json_parse(copy, strlen(copy), 1u << 20, 64, &value, NULL, &err) < 0) {
        fail_msg("%s: %s", err.text, copy);
    }
    return value;
}

/* ---- base64 --------------------------------------------------------------------------------- */

static void base64_matches_rfc_4648(void **state)
{
    static const char *const pairs[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xfe\xfb", "//77"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        CLEANUP_BUF struct buf b;
        buf_init(&b, 100);
        assert_int_equal(base64_encode(&b, view_of(pairs[i][0]), NULL), 0);
        assert_string_equal(text_cstr(&b), pairs[i][1]);
        buf_reset(&b, 0);
        assert_int_equal(base64_decode(&b, view_of(pairs[i][1]), NULL), 0);
        assert_string_equal(text_cstr(&b), pairs[i][0]);
    }
}

static void base64_round_trips_every_byte(void **state)
{
    char all[256];
    for (size_t i = 0; i < sizeof(all); i++) {
        all[i] = (char)i;
    }
    for (size_t len = 0; len <= sizeof(all); len++) {
        CLEANUP_BUF struct buf text;
        CLEANUP_BUF struct buf back;
        buf_init(&text, 400);
        buf_init(&back, 400);
        assert_int_equal(base64_encode(&text, view_bytes(all, len), NULL), 0);
        assert_int_equal(base64_decode(&back, view_bytes(text.data, text.len), NULL), 0);
        assert_int_equal(back.len, len);
        assert_true(len == 0 || memcmp(back.data, all, len) == 0);
    }
}

static void base64_refuses_what_encoding_never_writes(void **state)
{
    static const char *const bad[] = {"Z",        "Zg",   "Zg=",  "Zg===",     "Zh==",
                                      "Zm9=",     "Z===", "====", "Zm 9",      "Zm9v\n",
                                      "Zg==Zg==", "Zm-_", "=Zg=", "Zm\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = ERR_INIT;
        CLEANUP_BUF struct buf b;
        buf_init(&b, 100);
        if (base64_decode(&b, view_of(bad[i]), &err) != -ERR_INVALID) {
            fail_msg("took %s", bad[i]);
        }
        assert_int_equal(b.len, 0);
    }
}

/* ---- texts ---------------------------------------------------------------------------------- */

static void check_stripped(const char *text, const char *expected)
{
    CLEANUP_BUF struct buf b;
    buf_init(&b, 1u << 23);
    text_printf(&b, "%s", text);
    text_strip_escapes(&b);
    assert_string_equal(text_cstr(&b), expected);
}

static void escape_sequences_are_taken_out_and_nothing_else(void **state)
{
    check_stripped("", "");
    check_stripped("a\033[0mb\033[38;5;1mc", "abc");
    check_stripped("\033]0;title\ax\033]8;;u\033\\y", "xy");
    check_stripped("\033(B\033=\0337z", "z");
    check_stripped("\033", "");
    check_stripped("a\033[", "a[");
    check_stripped("a\033]never ends\nb", "a]never ends\nb");
    check_stripped("a\033[31\303\244", "a[31\303\244");
    check_stripped("[1m stays", "[1m stays");
    /* in quadratic time this would take minutes */
    CLEANUP_FREE char *many = malloc((2u << 20) + 1);
    CLEANUP_FREE char *left = malloc((1u << 20) + 1);
    for (size_t i = 0; i < 1u << 20; i++) {
        memcpy(many + 2 * i, "\033]", 2);
        left[i] = ']';
    }
    many[2u << 20] = left[1u << 20] = '\0';
    check_stripped(many, left);
}

static void a_text_is_cut_by_what_it_costs_in_json(void **state)
{
    assert_int_equal(text_fit(view_of("abcdef"), 4), 4);
    assert_int_equal(text_fit(view_of("a\"b\n"), 4), 3);        /* costs: 1 2 1 2 */
    assert_int_equal(text_fit(view_of("\x01\x01\x01"), 13), 2); /* cost of 6 each */
    assert_int_equal(text_fit(view_of("\xc3\xa9\xc3\xa9"), 3),
                     2);                                       /* never cut inside a character */
    assert_int_equal(text_fit(view_of("\xff\xff\xff"), 7), 2); /* cost of U+FFFD: 3 */
    assert_int_equal(text_fit(view_bytes("\0\0", 2), 5), 1);
}

static void whatever_user_code_writes_stays_within_the_budget(void **state)
{
    char bytes[4096];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (char)(x >> 24);
    }
    for (size_t max = 0; max < 3000; max += 7) {
        CLEANUP_BUF struct buf b;
        buf_init(&b, 20000);
        text_add(&b, view_bytes(bytes, sizeof(bytes)), max, true);
        cJSON *s = cJSON_CreateString(text_cstr(&b));
        CLEANUP_FREE char *printed = cJSON_PrintUnformatted(s);
        cJSON_Delete(s);
        assert_true(strlen(printed) - 2 <= max);
        assert_true(max < 20 || strlen(printed) + 10 >= max);
    }
}

static void a_character_cut_by_the_end_is_left_out(void **state)
{
    assert_int_equal(text_whole_chars(view_of("ab")), 2);
    assert_int_equal(text_whole_chars(view_of("ab\xc3")), 2);
    assert_int_equal(text_whole_chars(view_of("ab\xe2\x82")), 2);
    assert_int_equal(text_whole_chars(view_of("ab\xe2\x82\xac")), 5);
    assert_int_equal(text_whole_chars(view_of("\xf0\x9f\x98")), 0);
    assert_int_equal(text_whole_chars(view_of("\x80\x80\x80\x80")),
                     4); /* bytes that never were a character */
    assert_int_equal(text_whole_chars(view_of("")), 0);
}

/* ---- schemas -------------------------------------------------------------------------------- */

static const char schema_text[] =
    "{'type':'object','properties':{"
    "'name':{'type':'string','minLength':2,'maxLength':4},"
    "'kind':{'type':'string','enum':['a','b']},"
    "'n':{'type':'integer','minimum':1,'maximum':10},"
    "'t':{'type':'number','minimum':0.5},"
    "'on':{'type':'boolean'},"
    "'list':{'type':'array','maxItems':2,'items':{'type':'string'}},"
    "'env':{'type':'object','additionalProperties':{'type':'string'},'maxProperties':2}},"
    "'required':['name'],'additionalProperties':false}";

static void check(const char *arguments, const char *expected)
{
    struct err err = ERR_INIT;
    cJSON *schema = json(schema_text);
    cJSON *value = json(arguments);
    int rc = schema_check(schema, value, &err);
    cJSON_Delete(schema);
    cJSON_Delete(value);
    if (expected == NULL) {
        assert_string_equal(err.text, "");
        assert_int_equal(rc, 0);
        return;
    }
    assert_string_equal(err.text, expected);
    assert_int_equal(rc, -ERR_INVALID);
}

static void good_arguments_pass(void **state)
{
    check("{'name':'abcd'}", NULL);
    check("{'name':'\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9'}", NULL); /* characters, not bytes */
    check("{'name':'ab','kind':'b','n':10,'t':0.5,'on':false,'list':['x','y'],'env':{'A':'1'}}",
          NULL);
    check("{'name':'ab','n':3.0}", NULL); /* JSON schema accepts it as an integer */
}

static void a_wrong_argument_is_named_with_what_was_expected_and_what_came(void **state)
{
    check("{}", "name: required but missing, expected a string with between 2 and 4 characters");
    check("{'name':'a'}", "name: expected a string with between 2 and 4 characters, got \"a\"");
    check("{'name':null}", "name: expected a string with between 2 and 4 characters, got null");
    check("{'name':'ab','kind':'c'}", "kind: expected one of \"a\", \"b\", got \"c\"");
    check("{'name':'ab','kind':7}", "kind: expected one of \"a\", \"b\", got 7");
    check("{'name':'ab','n':0}", "n: expected an integer between 1 and 10, got 0");
    check("{'name':'ab','n':1.5}", "n: expected an integer between 1 and 10, got 1.5");
    check("{'name':'ab','n':9007199254740991}",
          "n: expected an integer between 1 and 10, got 9007199254740991");
    check("{'name':'ab','t':'soon'}", "t: expected a number of at least 0.5, got \"soon\"");
    check("{'name':'ab','t':0.25}", "t: expected a number of at least 0.5, got 0.25");
    check("{'name':'ab','on':1}", "on: expected true or false, got 1");
    check("{'name':'ab','list':'x'}", "list: expected an array with at most 2 items, got \"x\"");
    check("{'name':'ab','list':['x',false]}", "list[1]: expected a string, got false");
    check("{'name':'ab','list':['x','y','z']}",
          "list: expected an array with at most 2 items, got an array");
    check("{'name':'ab','env':{'A':[]}}", "env.A: expected a string, got an array");
    check("{'name':'ab','env':{'A':'','B':'','C':''}}",
          "env: expected an object with at most 2 members, got an object");
    check("{'name':'ab','nam':1}",
          "nam: unknown argument, expected only name, kind, n, t, on, list, env");
    check("[]", "arguments: expected an object, got an array");
}

static void a_long_or_odd_argument_is_quoted_in_part_and_without_control_characters(void **state)
{
    struct err err = ERR_INIT;
    cJSON *schema = json("{'type':'integer'}");
    cJSON *value =
        cJSON_CreateString("\x1b[31m\xc3\xa9 and more, much more than anybody wants to see");
    assert_int_equal(schema_check(schema, value, &err), -ERR_INVALID);
    assert_string_equal(err.text,
                        "arguments: expected an integer, got \"\\x1b[31m\xc3\xa9 and more, much "
                        "more than anybody ...\"");
    cJSON_Delete(schema);
    cJSON_Delete(value);
}

static void a_schema_that_would_not_be_enforced_is_noticed(void **state)
{
    const char *keyword = NULL;
    cJSON *good = json(schema_text);
    cJSON *bad = json("{'type':'object','properties':{'a':{'type':'string','pattern':'^a'}}}");
    assert_true(schema_is_understood(good, &keyword));
    assert_false(schema_is_understood(bad, &keyword));
    assert_string_equal(keyword, "pattern");
    cJSON_Delete(good);
    cJSON_Delete(bad);
}

/* ---- envelopes ------------------------------------------------------------------------------ */

static void ids_keep_their_value_and_type(void **state)
{
    static const char *const same[] = {"0",   "-5", "1700000000123", "9007199254740991",
                                       "'1'", "''", "'a b'",         "'\xc3\xa9'"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        CLEANUP_FREE char *expected = alloc_strdup(same[i]);
        for (char *p = expected; *p != '\0'; p++) {
            *p = *p == '\'' ? '"' : *p;
        }
        cJSON *id = json(same[i]);
        CLEANUP_FREE char *text = jsonrpc_id_text(id);
        cJSON_Delete(id);
        assert_string_equal(text, expected);
    }
}

static void what_is_no_id_is_refused(void **state)
{
    static const char *const bad[] = {"null", "1.5", "9007199254740992", "1e300", "true",
                                      "[1]",  "{}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cJSON *id = json(bad[i]);
        assert_null(jsonrpc_id_text(id));
        cJSON_Delete(id);
    }
    char big[JSONRPC_ID_BYTES + 2];
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    cJSON *id = cJSON_CreateString(big);
    assert_null(jsonrpc_id_text(id));
    cJSON_Delete(id);
}

static enum jsonrpc_kind kind_of(const char *text)
{
    struct jsonrpc_message m;
    cJSON *value = json(text);
    jsonrpc_read(value, &m);
    jsonrpc_message_finish(&m);
    cJSON_Delete(value);
    return m.kind;
}

static void messages_are_told_apart(void **state)
{
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1,'method':'m'}"), JSONRPC_REQUEST);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1,'method':'m','params':{},'x':1}"),
                     JSONRPC_REQUEST);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','method':'m'}"), JSONRPC_NOTIFICATION);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1,'result':{}}"), JSONRPC_RESPONSE);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1,'error':{}}"), JSONRPC_RESPONSE);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','method':'m','params':[1]}"), JSONRPC_IGNORED);
    assert_int_equal(kind_of("{'jsonrpc':'1.0','id':1,'method':'m'}"), JSONRPC_INVALID);
    assert_int_equal(kind_of("{'id':1,'method':'m'}"), JSONRPC_INVALID);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1}"), JSONRPC_INVALID);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1,'method':5}"), JSONRPC_INVALID);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':null,'method':'m'}"), JSONRPC_INVALID);
    assert_int_equal(kind_of("{'jsonrpc':'2.0','id':1,'method':'m','params':[1]}"),
                     JSONRPC_INVALID);
    assert_int_equal(kind_of("'text'"), JSONRPC_INVALID);
    assert_int_equal(kind_of("null"), JSONRPC_INVALID);
}

static void errors_are_json_whatever_they_quote(void **state)
{
    CLEANUP_FREE char *line = jsonrpc_error(NULL, true, -32600, "cut \xc3", NULL);
    assert_string_equal(line, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
                              "\"message\":\"cut \xef\xbf\xbd\"}}");
}

/* ---- arguments ------------------------------------------------------------------------------ */

static void paths_out_of_the_sandbox_are_refused(void **state)
{
    static const char *const good[] = {"a",     "a/b/../c", "/",     "/etc/passwd", "./x",
                                       "..a/b", "../x",     "a//b/", "/a/../b/..",  "..."};
    static const char *const bad[] = {"",           "/..",      "../..",
                                      "a/../../..", "/a/../..", "/a/./../../b",
                                      "a\nb",       "a\x7f",    "../../etc/passwd"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(args_check_path(good[i], NULL), 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(args_check_path(bad[i], NULL), -ERR_PATH);
    }
    char big[5000];
    memset(big, 'x', sizeof(big));
    big[4096] = '\0';
    assert_int_equal(args_check_path(big, NULL), -ERR_PATH);
    big[4095] = '\0';
    assert_int_equal(args_check_path(big, NULL), 0);
}

static void names_are_plain(void **state)
{
    static const char *const good[] = {"a", "A-b_c.9", "sb-abc234"};
    static const char *const bad[] = {"", ".", "..", ".a", "a..b", "a/b", "a b", "a\n", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(args_check_name("name", good[i], NULL), 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(args_check_name("name", bad[i], NULL), -ERR_INVALID);
    }
}

/* ---- options -------------------------------------------------------------------------------- */

static int load(struct config *c, struct err *err, int *used, const char *const *words)
{
    char *argv[16];
    int argc = 0;
    while (words[argc] != NULL) {
        argv[argc] = (char *)(uintptr_t)words[argc];
        argc++;
    }
    return config_load(c, argc, argv, used, err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void options_come_from_defaults_environment_and_arguments(void **state)
{
    struct config c;
    struct err err = ERR_INIT;
    int used;
    setenv("CLOISTER_MEMORY_MB", "100", 1);
    setenv("CLOISTER_PIDS", "10", 1);
    setenv("INTERPRETER_TYPE", "fake", 1);
    int rc = load(
        &c, &err, &used,
        WORDS("--pids=20", "--cpus", "1.25", "--strict", "--log-level", "debug", "doctor", "--x"));
    unsetenv("CLOISTER_MEMORY_MB");
    unsetenv("CLOISTER_PIDS");
    unsetenv("INTERPRETER_TYPE");
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
    assert_int_equal(used, 6);
    assert_int_equal(c.memory_mb, 100);
    assert_int_equal(c.pids, 20);
    assert_int_equal(c.cpu_milli, 1250);
    assert_int_equal(c.timeout_s, 60);
    assert_true(c.max_memory_mb >= 100 && c.memory_budget_mb >= 100 && c.max_pids >= 20 &&
                c.max_cpu_milli >= 1250 && c.max_disk_mb > 0); /* of the machine */
    assert_true(c.strict);
    assert_int_equal(c.log_level, LOG_DEBUG);
    assert_string_equal(c.backend, "fake");
    assert_string_equal(c.image, "");
    config_finish(&c);
}

static void a_list_on_the_command_line_replaces_that_of_the_environment(void **state)
{
    struct config c;
    struct err err = ERR_INIT;
    int used;
    setenv("CLOISTER_SHARE", "/usr", 1);
    setenv("CLOISTER_COMPAT", "python-env", 1);
    assert_int_equal(load(&c, &err, &used, WORDS("--strict")), 0);
    assert_string_equal(c.share, "/usr=usr:ro");
    assert_string_equal(c.compat, "python-env");
    config_finish(&c);
    assert_int_equal(load(&c, &err, &used,
                          WORDS("--share", "/etc", "--compat=code-sandbox", "--share=/var:rw",
                                "--compat", "docker-interpreter")),
                     0);
    assert_string_equal(c.share, "/etc=etc:ro,/var=var:rw");
    assert_string_equal(c.compat, "code-sandbox,docker-interpreter");
    config_finish(&c);
    assert_int_equal(load(&c, &err, &used, WORDS("--share=")), 0);
    assert_string_equal(c.share, "");
    config_finish(&c);
    unsetenv("CLOISTER_SHARE");
    unsetenv("CLOISTER_COMPAT");
}

static void a_bad_option_is_named(void **state)
{
    static const struct {
        const char *words[3];
        const char *text;
    } cases[] = {
        {{"--memory"}, "unknown option --memory; --help lists those there are"},
        {{"-x"}, "unknown option -x; --help lists those there are"},
        {{"--memory-mb"}, "--memory-mb: expected a value behind it (MIB)"},
        {{"--memory-mb", "lots"}, "--memory-mb: expected a whole number, got \"lots\""},
        {{"--memory-mb", "1"}, "--memory-mb: expected a number between 16 and 1048576, got 1"},
        {{"--cpus=0"}, "--cpus: expected a number between 0.01 and 1024, got \"0\""},
        {{"--cpus=1.2345"}, "--cpus: expected a number between 0.01 and 1024, got \"1.2345\""},
        {{"--cpus=1e3"}, "--cpus: expected a number between 0.01 and 1024, got \"1e3\""},
        {{"--strict=maybe"}, "--strict: expected yes or no, got \"maybe\""},
        {{"--log-level", "loud"}, "--log-level: expected error, warn, info or debug, got \"loud\""},
        {{"--backend", "vm"},
         "--backend: expected one of: auto docker oci kubernetes e2b fake; got \"vm\""},
        {{"--timeout-seconds=100", "--max-timeout-seconds=50"},
         "--timeout-seconds (100) is more than --max-timeout-seconds (50)"},
        {{"--pids=300", "--max-pids=299"},
         "--max-pids (299) is less than --pids (300), which a sandbox gets that asks for nothing: "
         "raise the first, or lower the second"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c;
        struct err err = ERR_INIT;
        int used;
        assert_true(load(&c, &err, &used, cases[i].words) < 0);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void a_bad_environment_variable_is_named(void **state)
{
    struct config c;
    struct err err = ERR_INIT;
    int used;
    setenv("CLOISTER_MAX_SANDBOXES", "-1", 1);
    int rc = config_load(&c, 0, NULL, &used, &err);
    unsetenv("CLOISTER_MAX_SANDBOXES");
    assert_true(rc < 0);
    assert_string_equal(err.text, "CLOISTER_MAX_SANDBOXES: expected a whole number, got \"-1\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_matches_rfc_4648),
        cmocka_unit_test(base64_round_trips_every_byte),
        cmocka_unit_test(base64_refuses_what_encoding_never_writes),
        cmocka_unit_test(escape_sequences_are_taken_out_and_nothing_else),
        cmocka_unit_test(a_text_is_cut_by_what_it_costs_in_json),
        cmocka_unit_test(whatever_user_code_writes_stays_within_the_budget),
        cmocka_unit_test(a_character_cut_by_the_end_is_left_out),
        cmocka_unit_test(good_arguments_pass),
        cmocka_unit_test(a_wrong_argument_is_named_with_what_was_expected_and_what_came),
        cmocka_unit_test(a_long_or_odd_argument_is_quoted_in_part_and_without_control_characters),
        cmocka_unit_test(a_schema_that_would_not_be_enforced_is_noticed),
        cmocka_unit_test(ids_keep_their_value_and_type),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(messages_are_told_apart),
        cmocka_unit_test(errors_are_json_whatever_they_quote),
        cmocka_unit_test(paths_out_of_the_sandbox_are_refused),
        cmocka_unit_test(names_are_plain),
        cmocka_unit_test(options_come_from_defaults_environment_and_arguments),
        cmocka_unit_test(a_list_on_the_command_line_replaces_that_of_the_environment),
        cmocka_unit_test(a_bad_option_is_named),
        cmocka_unit_test(a_bad_environment_variable_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
