/* The table of metrics and its page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/err.h"
#include "common/text.h"
#include "proto/msg.h"
#include "supervisor/front/seen.h"
#include "supervisor/front/tools.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/tool.h"
#include "tests/unit/supervisor/client.h"

#define NONE SIZE_MAX

static bool ends(const char *text, const char *end)
{
    size_t len = strlen(text), more = strlen(end);
    return len >= more && strcmp(text + len - more, end) == 0;
}

static bool has(enum metric_label label, const char *text)
{
    return metric_label_find(label, text, NONE) != NONE;
}

static void names_keep_to_the_conventions(void **state)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric *m = &metrics_table[i];
        assert_true(strncmp(m->name, "cloister_", 9) == 0 || strncmp(m->name, "process_", 8) == 0);
        assert_int_equal(strspn(m->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(m->name));
        assert_int_equal(m->kind == METRIC_KIND_COUNTER, ends(m->name, "_total"));
        assert_int_equal(m->unit == METRIC_UNIT_SECONDS, strstr(m->name, "_seconds") != NULL);
        assert_true(strlen(m->help) > 10 && m->help[0] >= '0' && m->help[0] <= 'Z');
        assert_null(strpbrk(m->help, "\\\"\n"));
        assert_int_not_equal(m->help[strlen(m->help) - 1], '.');
        assert_int_equal(m->kind == METRIC_KIND_HISTOGRAM, m->bound_count > 0);
        for (size_t b = 1; b < m->bound_count; b++) {
            assert_true(m->bounds_us[b] > m->bounds_us[b - 1]);
        }
        for (size_t other = 0; other < i; other++) {
            assert_string_not_equal(m->name, metrics_table[other].name);
        }
    }
}

static void every_value_of_a_label_is_named_once(void **state)
{
    for (int label = METRIC_LABEL_TOOL; label < METRIC_LABEL_COUNT; label++) {
        for (size_t v = 0; v < metric_label_values((enum metric_label)label); v++) {
            const char *text = metric_label_value((enum metric_label)label, v);
            assert_int_equal(metric_label_find((enum metric_label)label, text, NONE), v);
        }
    }
}

static void every_tool_code_and_status_has_its_label(void **state)
{
    struct client *c = *state;
    free(c->config.local_files);
    c->config.local_files = alloc_strdup("/srv:rw");
    free(c->config.http);
    c->config.http = alloc_strdup("0");
    c->config.ports = true;
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    const cJSON *tool;
    size_t count = 1; /* those of --compat */
    cJSON_ArrayForEach(tool, list)
    {
        assert_true(has(METRIC_LABEL_TOOL, text_at(tool, "name")));
        count++;
    }
    assert_int_equal(count, METRIC_TOOL_COUNT);
    cJSON_Delete(list);
    tools_destroy(tools);
#define X(name, number, wire, text) assert_true(has(METRIC_LABEL_CODE, wire));
    ERR_LIST(X)
#undef X
    static const enum op_status statuses[] = {OP_STATUS_OK,        OP_STATUS_ERROR,
                                              OP_STATUS_TIMEOUT,   OP_STATUS_MEMORY,
                                              OP_STATUS_CANCELLED, OP_STATUS_CRASHED};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        assert_true(has(METRIC_LABEL_STATUS, op_status_name(statuses[i])));
        assert_true(has(METRIC_LABEL_OUTCOME, op_status_name(statuses[i])));
    }
}

/* The line that begins with `begin` and a blank; its value is what follows. */
static const char *value_of(const char *page, const char *begin)
{
    static char value[64];
    char line[200];
    snprintf(line, sizeof(line), "\n%s ", begin);
    const char *at = strstr(page, line);
    assert_non_null(at);
    assert_null(strstr(at + 1, line)); /* once */
    assert_int_equal(sscanf(at + strlen(line), "%63s", value), 1);
    return value;
}

static void the_page_shows_what_was_counted(void **state)
{
    CLEANUP_BUF struct buf out;
    buf_init(&out, 1 << 20);
    uint64_t before = metrics_get(METRIC_CALLS, METRIC_TOOL_READ_FILE, METRIC_OUTCOME_FAILED);
    metrics_add(METRIC_CALLS, METRIC_TOOL_READ_FILE, METRIC_OUTCOME_FAILED, 3);
    assert_int_equal(metrics_get(METRIC_CALLS, METRIC_TOOL_READ_FILE, METRIC_OUTCOME_FAILED),
                     before + 3);
    metrics_set(METRIC_MEMORY_BUDGET, 0, 0, UINT64_C(1) << 40);
    metrics_set(METRIC_PROCESS_START, 0, 0, UINT64_C(1700000000123000));
    metrics_observe(METRIC_SANDBOX_START, 0, 10000); /* on a bound: it belongs to it */
    metrics_observe(METRIC_SANDBOX_START, 0, 10001);
    metrics_observe(METRIC_SANDBOX_START, 0, UINT64_C(3600) * 1000000);
    metrics_write(&out);
    const char *page = text_cstr(&out);
    assert_int_equal(strncmp(page, "# HELP cloister_calls_total ", 28), 0);
    assert_non_null(strstr(page, "\n# TYPE cloister_sandbox_start_seconds histogram\n"));
    assert_string_equal(
        value_of(page, "cloister_calls_total{tool=\"read_file\",outcome=\"failed\"}"), "3");
    assert_string_equal(value_of(page, "cloister_rejected_total{reason=\"sessions\"}"), "0");
    assert_string_equal(value_of(page, "cloister_memory_budget_bytes"), "1099511627776");
    assert_string_equal(value_of(page, "process_start_time_seconds"), "1700000000.123");
    assert_string_equal(value_of(page, "cloister_sandbox_start_seconds_bucket{le=\"0.01\"}"), "1");
    assert_string_equal(value_of(page, "cloister_sandbox_start_seconds_bucket{le=\"0.025\"}"), "2");
    assert_string_equal(value_of(page, "cloister_sandbox_start_seconds_bucket{le=\"60\"}"), "2");
    assert_string_equal(value_of(page, "cloister_sandbox_start_seconds_bucket{le=\"+Inf\"}"), "3");
    assert_string_equal(value_of(page, "cloister_sandbox_start_seconds_sum"), "3600.020001");
    assert_string_equal(value_of(page, "cloister_sandbox_start_seconds_count"), "3");
    /* of a histogram by tool only those that were called */
    assert_null(strstr(page, "cloister_call_duration_seconds_count{tool=\"upload_file\"}"));
    assert_int_equal(page[out.len - 1], '\n');
}

static uint64_t calls(size_t outcome)
{
    return metrics_get(METRIC_CALLS, METRIC_TOOL_EXECUTE_CODE, outcome);
}

static void a_call_is_counted_once_by_how_it_ended(void **state)
{
    static const struct {
        struct result result;
        bool cancelled;
        size_t outcome;
    } ends_of[] = {
        {{.is_error = false}, false, METRIC_OUTCOME_OK},
        {{.is_error = true}, false, METRIC_OUTCOME_ERROR},
        {{.status = "ok"}, false, METRIC_OUTCOME_OK},
        {{.status = "cancelled"}, false, METRIC_OUTCOME_OK},
        {{.status = "running"}, false, METRIC_OUTCOME_RUNNING},
        {{.is_error = true, .status = "timeout"}, false, METRIC_OUTCOME_TIMEOUT},
        {{.is_error = true, .code = ERR_ENGINE}, false, METRIC_OUTCOME_FAILED},
        {{.is_error = true, .status = "cancelled"}, true, METRIC_OUTCOME_CANCELLED},
        {{.is_error = true, .code = ERR_GONE}, true, METRIC_OUTCOME_CANCELLED},
    };
    static const struct seen_sinks none = {.audit = NULL};
    struct seen_what what = {.sinks = &none, .tool = "execute_code"};
    struct tool_call call = {.cancelled = false};
    uint64_t engine = metrics_get(METRIC_CALL_ERRORS, METRIC_CODE_ENGINE_UNAVAILABLE, 0);
    uint64_t seconds = metrics_get(METRIC_CALL_DURATION, METRIC_TOOL_EXECUTE_CODE, 0);
    uint64_t flying = metrics_get(METRIC_CALLS_IN_FLIGHT, 0, 0);
    size_t count = sizeof(ends_of) / sizeof(ends_of[0]);
    for (size_t i = 0; i < count; i++) {
        struct seen seen;
        uint64_t before = calls(ends_of[i].outcome);
        seen_begin(&seen, &what);
        assert_int_equal(metrics_get(METRIC_CALLS_IN_FLIGHT, 0, 0), flying + 1);
        call.cancelled = ends_of[i].cancelled;
        seen_end(&seen, &call, &ends_of[i].result);
        assert_int_equal(calls(ends_of[i].outcome), before + 1);
        assert_int_equal(metrics_get(METRIC_CALLS_IN_FLIGHT, 0, 0), flying);
    }
    assert_int_equal(metrics_get(METRIC_CALL_ERRORS, METRIC_CODE_ENGINE_UNAVAILABLE, 0),
                     engine + 1);
    assert_int_equal(metrics_get(METRIC_CALL_DURATION, METRIC_TOOL_EXECUTE_CODE, 0),
                     seconds + count);
    /* a tool of another server, whatever its name */
    uint64_t compat = metrics_get(METRIC_CALLS, METRIC_TOOL_COMPAT, METRIC_OUTCOME_INVALID);
    what.compat = true;
    seen_invalid(&what);
    what = (struct seen_what){.sinks = &none, .tool = "run_python"};
    seen_invalid(&what);
    assert_int_equal(metrics_get(METRIC_CALLS, METRIC_TOOL_COMPAT, METRIC_OUTCOME_INVALID),
                     compat + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_keep_to_the_conventions),
        cmocka_unit_test(every_value_of_a_label_is_named_once),
        cmocka_unit_test_setup_teardown(every_tool_code_and_status_has_its_label, client_setup,
                                        client_teardown),
        cmocka_unit_test(the_page_shows_what_was_counted),
        cmocka_unit_test(a_call_is_counted_once_by_how_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
