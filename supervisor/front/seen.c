/*
 * The outcome of a call is one word of a closed list, so that it can be a label. It is taken from
 * the result of our own tools; results of other servers' tools only say whether they are errors.
 */
#include "supervisor/front/seen.h"

#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/io/json.h"
#include "supervisor/audit/audit.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/tool.h"
#include "supervisor/traces/traces.h"

#define US_PER_MS UINT64_C(1000)

static size_t tool_label(const struct seen_what *what)
{
    return what->compat ? METRIC_TOOL_COMPAT
                        : metric_label_find(METRIC_LABEL_TOOL, what->tool, METRIC_TOOL_COMPAT);
}

static void count_code(int code)
{
    metrics_count(METRIC_CALL_ERRORS,
                  metric_label_find(METRIC_LABEL_CODE, err_wire_name(code), METRIC_CODE_INTERNAL));
}

static size_t outcome_of(const struct result *r, bool cancelled)
{
    if (cancelled) {
        return METRIC_OUTCOME_CANCELLED;
    }
    if (r->code != 0) {
        return METRIC_OUTCOME_FAILED;
    }
    if (!r->is_error) { /* cancel_execution succeeds with code that was cancelled */
        bool goes_on = r->status != NULL && strcmp(r->status, "running") == 0;
        return goes_on ? METRIC_OUTCOME_RUNNING : METRIC_OUTCOME_OK;
    }
    return metric_label_find(METRIC_LABEL_OUTCOME, r->status != NULL ? r->status : "",
                             METRIC_OUTCOME_ERROR);
}

/* ---- the audit log --------------------------------------------------------------------------- */

/* What the call runs, or NULL. */
static const char *code_of(const cJSON *args)
{
    const char *code = json_get_str(args, "code");
    return code != NULL ? code : json_get_str(args, "command");
}

/* A time of the result's execution; negative: there is none. */
static double ms_of(const struct result *r, const char *key)
{
    const cJSON *value = r != NULL ? json_get(r->structured, key) : NULL;
    return value != NULL && cJSON_IsNumber(value) ? value->valuedouble : -1;
}

/* `call` NULL: it never began; `r` NULL: it was not answered. */
static void audit_seen(const struct seen_what *what, const struct tool_call *call,
                       const struct result *r, size_t outcome, uint64_t duration_us)
{
    const char *code = code_of(what->args);
    const char *language = json_get_str(what->args, "language");
    struct audit_call line = {
        .principal = what->principal,
        .session = what->session,
        .tool = what->tool,
        .sandbox = call != NULL ? call->sandbox_id : "",
        .execution = call != NULL ? call->execution_id : "",
        .language = code != NULL && language != NULL ? language : "",
        .code = view_of(code),
        .outcome = metric_label_value(METRIC_LABEL_OUTCOME, outcome),
        .error = r != NULL && r->code != 0 ? err_wire_name(r->code) : NULL,
        .duration_us = duration_us,
        .run_ms = ms_of(r, "duration_ms"),
        .cpu_ms = ms_of(r, "cpu_ms"),
    };
    audit_call(what->sinks->audit, &line);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void trace_seen(const struct seen *s, const struct tool_call *call, const struct result *r,
                       size_t outcome, uint64_t duration_us)
{
    double run_ms = ms_of(r, "duration_ms");
    struct traced_call trace = {
        .traceparent = json_get_str(s->what.meta, "traceparent"),
        .principal = s->what.principal,
        .tool = s->what.tool,
        .outcome = metric_label_value(METRIC_LABEL_OUTCOME, outcome),
        .error = r != NULL && r->code != 0 ? err_wire_name(r->code) : NULL,
        .is_error = r == NULL || r->is_error,
        .sandbox = call->sandbox_id,
        .execution = call->execution_id,
        .begun_wall_us = s->begun_wall_ms * US_PER_MS,
        .duration_us = duration_us,
        .asked_wall_us = r != NULL ? r->asked_wall_ms * US_PER_MS : 0,
        .run_us = run_ms > 0 && outcome != METRIC_OUTCOME_RUNNING
                      ? (uint64_t)(run_ms * (double)US_PER_MS)
                      : 0,
    };
    traces_call(s->what.sinks->traces, &trace);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void seen_begin(struct seen *s, const struct seen_what *what)
{
    s->what = *what;
    s->tool = tool_label(what);
    s->begun_us = clock_us();
    s->begun_wall_ms = what->sinks->traces != NULL ? clock_wall_ms() : 0;
    metrics_add(METRIC_CALLS_IN_FLIGHT, 0, 0, 1);
}

static void end_seen(struct seen *s, const struct tool_call *call, const struct result *r,
                     size_t outcome)
{
    uint64_t duration_us = clock_us() - s->begun_us;
    metrics_lower(METRIC_CALLS_IN_FLIGHT, 0, 0);
    metrics_add(METRIC_CALLS, s->tool, outcome, 1);
    metrics_observe(METRIC_CALL_DURATION, s->tool, duration_us);
    if (s->what.sinks->audit != NULL) {
        audit_seen(&s->what, call, r, outcome, duration_us);
    }
    if (s->what.sinks->traces != NULL) {
        trace_seen(s, call, r, outcome, duration_us);
    }
}

void seen_end(struct seen *s, const struct tool_call *call, const struct result *result)
{
    size_t outcome = outcome_of(result, call->cancelled);
    if (outcome == METRIC_OUTCOME_FAILED) {
        count_code(result->code);
    }
    end_seen(s, call, result, outcome);
}

void seen_lost(struct seen *s, const struct tool_call *call)
{
    end_seen(s, call, NULL, METRIC_OUTCOME_LOST);
}

void seen_invalid(const struct seen_what *what)
{
    count_code(ERR_INVALID);
    metrics_add(METRIC_CALLS, tool_label(what), METRIC_OUTCOME_INVALID, 1);
    if (what->sinks->audit != NULL) {
        audit_seen(what, NULL, NULL, METRIC_OUTCOME_INVALID, 0);
    }
}
