/* Answers as text, as Python's json module writes the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/compat/reply.h"
#include "supervisor/tools/tool.h"

/* The text of a JSON value, in either style. */
static char *written(enum reply_style style, const char *json)
{
    cJSON *value = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(json_parse(json, strlen(json), 1u << 20, 32, &value, NULL, &err), 0);
    CLEANUP_BUF struct buf out;
    buf_init(&out, 1u << 20);
    reply_write(&out, style, value);
    cJSON_Delete(value);
    return alloc_strdup(text_cstr(&out));
}

static void assert_written(enum reply_style style, const char *json, const char *expected)
{
    CLEANUP_FREE char *text = written(style, json);
    assert_string_equal(text, expected);
}

static void dumps_has_spaces_and_ascii_only(void **state)
{
    (void)state;
    assert_written(REPLY_DUMPS, "{\"a\":[1,-2.5,true,false,null],\"b\":{},\"c\":[]}",
                   "{\"a\": [1, -2.5, true, false, null], \"b\": {}, \"c\": []}");
    assert_written(REPLY_DUMPS, "\"z\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80 \x7f\"",
                   "\"z\\u00fc \\u20ac \\ud83d\\ude00 \\u007f\"");
    assert_written(REPLY_DUMPS, "\"\\\" \\\\ / \\b\\f\\n\\r\\t \\u0001\"",
                   "\"\\\" \\\\ / \\b\\f\\n\\r\\t \\u0001\"");
    assert_written(REPLY_DUMPS, "[0.1, 1e300, 123456789012, 0.30000000000000004]",
                   "[0.1, 1e+300, 123456789012, 0.30000000000000004]");
}

static void indented_keeps_utf8(void **state)
{
    (void)state;
    assert_written(REPLY_INDENTED, "{\"a\":[1,{\"b\":\"z\xc3\xbc\"}],\"c\":[],\"d\":{}}",
                   "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"z\xc3\xbc\"\n    }\n  ],\n"
                   "  \"c\": [],\n  \"d\": {}\n}");
    assert_written(REPLY_INDENTED, "[]", "[]");
}

static void floats_stay_floats(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {{5, "5.0"}, {0, "0.0"}, {-3, "-3.0"}, {2.25, "2.25"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cJSON *value = reply_float(rows[i].value);
        CLEANUP_BUF struct buf out;
        buf_init(&out, 100);
        reply_write(&out, REPLY_DUMPS, value);
        assert_string_equal(text_cstr(&out), rows[i].text);
        cJSON_Delete(value);
    }
}

/* The size of a text when its JSON is put into a JSON string again. */
static size_t cost_on_the_wire(enum reply_style style, const cJSON *value)
{
    CLEANUP_BUF struct buf inner;
    buf_init(&inner, 16u << 20);
    reply_write(&inner, style, value);
    cJSON *as_text = cJSON_CreateString(text_cstr(&inner));
    char *outer = cJSON_PrintUnformatted(as_text);
    size_t cost = strlen(outer);
    cJSON_free(outer);
    cJSON_Delete(as_text);
    return cost;
}

static void bytes_stay_within_their_budget(void **state)
{
    (void)state;
    static const char *const units[] = {"x",    "\"",   "\\",       "\n",
                                        "\x01", "\xff", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    static const enum reply_style styles[] = {REPLY_DUMPS, REPLY_INDENTED};
    const size_t budget = 10000;
    const size_t note = 60;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        CLEANUP_BUF struct buf many;
        buf_init(&many, 1u << 20);
        for (size_t k = 0; k < 20000; k++) {
            assert_int_equal(buf_add_str(&many, units[i], NULL), 0);
        }
        for (size_t k = 0; k < 2; k++) {
            cJSON *value = reply_bytes(styles[k], view_bytes(many.data, many.len), budget);
            size_t cost = cost_on_the_wire(styles[k], value);
            assert_true(cost <= budget + note);
            assert_true(cost >= budget - note);
            CLEANUP_FREE char *end = alloc_printf("\n... [cut: %zu bytes in all]", many.len);
            assert_non_null(strstr(value->valuestring, end));
            cJSON_Delete(value);
        }
    }
    cJSON *short_one = reply_bytes(REPLY_DUMPS, view_of("a\xffz"), budget);
    assert_string_equal(short_one->valuestring, "a\xef\xbf\xbdz");
    cJSON_Delete(short_one);
}

static void a_stream_has_both_ends_and_exact_counts(void **state)
{
    (void)state;
    static const char *const units[] = {"x",    "\"",   "\\",       "\n",
                                        "\x01", "\xff", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    static const enum reply_style styles[] = {REPLY_DUMPS, REPLY_INDENTED};
    const size_t budget = 9000;
    const size_t note = 80;
    for (size_t i = 0; i < 2 * sizeof(units) / sizeof(units[0]); i++) {
        const char *unit = units[i / 2];
        CLEANUP_BUF struct buf many;
        buf_init(&many, 1u << 20);
        for (size_t k = 0; k < 20000; k++) {
            assert_int_equal(buf_add_str(&many, unit, NULL), 0);
        }
        size_t half = many.len / 2 / strlen(unit) * strlen(unit);
        struct view head = view_bytes(many.data, half);
        struct view tail = view_bytes(many.data + half, many.len - half);
        for (uint64_t gap = 0; gap <= 1000; gap += 1000) {
            cJSON *value = reply_stream(styles[i % 2], head, tail, many.len + gap, budget);
            assert_true(cost_on_the_wire(styles[i % 2], value) <= budget + note);
            const char *line = strstr(value->valuestring, "\n... [");
            assert_non_null(line);
            bool bad = unit[0] == '\xff'; /* one byte, shown as three */
            size_t first = (size_t)(line - value->valuestring) / (bad ? 3 : 1);
            const char *behind = strstr(line, "] ...\n");
            assert_non_null(behind);
            size_t last = strlen(behind + strlen("] ...\n")) / (bad ? 3 : 1);
            assert_true(first > 0 && last > 0);
            unsigned long long left_out = strtoull(line + strlen("\n... ["), NULL, 10);
            assert_int_equal(first + left_out + last, many.len + gap);
            cJSON_Delete(value);
        }
    }
    cJSON *whole = reply_stream(REPLY_DUMPS, view_of("a\xff"), view_of("b"), 3, budget);
    assert_string_equal(whole->valuestring, "a\xef\xbf\xbd"
                                            "b");
    cJSON_Delete(whole);
    cJSON *none = reply_stream(REPLY_DUMPS, view_bytes(NULL, 0), view_bytes(NULL, 0), 0, budget);
    assert_string_equal(none->valuestring, "");
    cJSON_Delete(none);
}

static void a_beginning_says_how_long_the_whole_is(void **state)
{
    (void)state;
    cJSON *value = reply_beginning(REPLY_DUMPS, view_of("ab\xc3"), 7, 100);
    assert_string_equal(value->valuestring, "ab\n... [cut: 7 bytes in all]");
    cJSON_Delete(value);
}

struct heard {
    struct tool_call call;
    unsigned times;
    char *text;
};

static void on_done(struct tool_call *call, struct result *result)
{
    struct heard *h = (struct heard *)call;
    h->times++;
    assert_false(result->is_error);
    assert_null(result->structured);
    assert_int_equal(cJSON_GetArraySize(result->content), 1);
    const cJSON *block = cJSON_GetArrayItem(result->content, 0);
    assert_string_equal(json_get_str(block, "type"), "text");
    h->text = alloc_strdup(json_get_str(block, "text"));
}

static void one_text_and_nothing_else(void **state)
{
    (void)state;
    struct heard said = {.call = {.done = on_done}};
    reply_text(&said.call, "as it \"is\"");
    assert_int_equal(said.times, 1);
    assert_string_equal(said.text, "as it \"is\"");
    free(said.text);
    struct heard json = {.call = {.done = on_done}};
    cJSON *value = cJSON_CreateObject();
    result_put_text(value, "error", "no");
    reply_json(&json.call, REPLY_DUMPS, value);
    assert_int_equal(json.times, 1);
    assert_string_equal(json.text, "{\"error\": \"no\"}");
    free(json.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dumps_has_spaces_and_ascii_only),
        cmocka_unit_test(indented_keeps_utf8),
        cmocka_unit_test(floats_stay_floats),
        cmocka_unit_test(bytes_stay_within_their_budget),
        cmocka_unit_test(a_stream_has_both_ends_and_exact_counts),
        cmocka_unit_test(a_beginning_says_how_long_the_whole_is),
        cmocka_unit_test(one_text_and_nothing_else),
    };
    return cmocka_run_group_tests_name("compat_reply", tests, NULL, NULL);
}
