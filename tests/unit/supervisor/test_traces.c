/* Which texts are a traceparent, and the spans of a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/traces/internal.h"
#include "supervisor/traces/traceparent.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"

static void a_traceparent_is_read_strictly(void **state)
{
    static const char *const good[] = {"00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-ff",
                                       "cc-" TRACE "-" SPAN "-01",
                                       "cc-" TRACE "-" SPAN "-01-what-comes-later"};
    static const char *const bad[] = {
        NULL,
        "",
        "00",
        "00-" TRACE,
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-011",
        "cc-" TRACE "-" SPAN "-01.",
        "ff-" TRACE "-" SPAN "-01",
        " 00-" TRACE "-" SPAN "-01",
        "00_" TRACE "-" SPAN "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-" TRACE "0-" SPAN "-01",
    };
    struct traceparent p;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        memset(&p, 'x', sizeof(p));
        assert_true(traceparent_read(good[i], &p));
        assert_string_equal(p.trace_id, TRACE);
        assert_string_equal(p.span_id, SPAN);
        assert_true(p.sampled);
    }
    assert_true(traceparent_read("00-" TRACE "-" SPAN "-02", &p));
    assert_false(p.sampled);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(traceparent_read(bad[i], &p));
    }
}

/* The spans of a call; the caller deletes them. */
static cJSON *spans_of(const struct traced_call *call)
{
    CLEANUP_FREE char *text = span_text(call);
    assert_non_null(text);
    CLEANUP_FREE char *list = alloc_printf("[%s]", text);
    cJSON *json = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(json_parse(list, strlen(list), 1 << 20, 16, &json, NULL, &err), 0);
    return json;
}

static const char *field(const cJSON *spans, int at, const char *key)
{
    const char *text = json_get_str(cJSON_GetArrayItem(spans, at), key);
    return text != NULL ? text : "";
}

static const struct traced_call plain = {
    .principal = "alice",
    .tool = "execute_code",
    .outcome = "ok",
    .sandbox = "",
    .execution = "",
    .begun_wall_us = UINT64_C(1700000000000000),
    .duration_us = 5000,
};

static void time_is_divided_where_it_is_known(void **state)
{
    struct traced_call call = plain;
    cJSON *spans = spans_of(&call);
    assert_int_equal(cJSON_GetArraySize(spans), 1);
    assert_string_equal(field(spans, 0, "name"), "tools/call execute_code");
    assert_string_equal(field(spans, 0, "startTimeUnixNano"), "1700000000000000000");
    assert_string_equal(field(spans, 0, "endTimeUnixNano"), "1700000000005000000");
    assert_string_equal(field(spans, 0, "parentSpanId"), "");
    assert_int_equal(strlen(field(spans, 0, "traceId")), TRACE_ID_CHARS);
    cJSON_Delete(spans);
    call.asked_wall_us = call.begun_wall_us + 1000;
    call.run_us = 3000;
    call.traceparent = "00-" TRACE "-" SPAN "-01";
    spans = spans_of(&call);
    assert_int_equal(cJSON_GetArraySize(spans), 4);
    static const char *const ends[][2] = {{"sandbox", "1700000000001000000"},
                                          {"worker", "1700000000002000000"},
                                          {"run", "1700000000005000000"}};
    assert_string_equal(field(spans, 0, "parentSpanId"), SPAN);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(field(spans, i + 1, "name"), ends[i][0]);
        assert_string_equal(field(spans, i + 1, "endTimeUnixNano"), ends[i][1]);
        assert_string_equal(field(spans, i + 1, "traceId"), TRACE);
        assert_string_equal(field(spans, i + 1, "parentSpanId"), field(spans, 0, "spanId"));
    }
    cJSON_Delete(spans);
}

static void what_was_not_within_the_call_is_not_shown(void **state)
{
    struct traced_call call = plain;
    call.asked_wall_us = call.begun_wall_us - 1; /* get_execution of earlier code */
    call.run_us = 10;
    cJSON *spans = spans_of(&call);
    assert_int_equal(cJSON_GetArraySize(spans), 1);
    cJSON_Delete(spans);
    call.asked_wall_us = call.begun_wall_us;
    call.run_us = call.duration_us + 1;
    spans = spans_of(&call);
    assert_int_equal(cJSON_GetArraySize(spans), 1);
    cJSON_Delete(spans);
    call.run_us = call.duration_us; /* the clock of the wall is coarse */
    call.asked_wall_us = call.begun_wall_us + 4000;
    spans = spans_of(&call);
    assert_int_equal(cJSON_GetArraySize(spans), 4);
    assert_string_equal(field(spans, 2, "startTimeUnixNano"), "1700000000000000000");
    cJSON_Delete(spans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_read_strictly),
        cmocka_unit_test(time_is_divided_where_it_is_known),
        cmocka_unit_test(what_was_not_within_the_call_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
