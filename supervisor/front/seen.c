/*
 * The outcome of a call is one word of a closed list, so that it can be a label. It is taken from
 * the result of our own tools; results of other servers' tools only say whether they are errors.
 */
#include "supervisor/front/seen.h"

#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/results/result.h"

static size_t tool_label(const char *tool, bool compat)
{
    return compat ? METRIC_TOOL_COMPAT
                  : metric_label_find(METRIC_LABEL_TOOL, tool, METRIC_TOOL_COMPAT);
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

void seen_begin(struct seen *s, const char *tool, bool compat)
{
    s->tool = tool_label(tool, compat);
    s->begun_us = clock_us();
    metrics_add(METRIC_CALLS_IN_FLIGHT, 0, 0, 1);
}

static void end_seen(struct seen *s, size_t outcome)
{
    metrics_lower(METRIC_CALLS_IN_FLIGHT, 0, 0);
    metrics_add(METRIC_CALLS, s->tool, outcome, 1);
    metrics_observe(METRIC_CALL_DURATION, s->tool, clock_us() - s->begun_us);
}

void seen_end(struct seen *s, const struct result *result, bool cancelled)
{
    size_t outcome = outcome_of(result, cancelled);
    if (outcome == METRIC_OUTCOME_FAILED) {
        count_code(result->code);
    }
    end_seen(s, outcome);
}

void seen_lost(struct seen *s)
{
    end_seen(s, METRIC_OUTCOME_LOST);
}

void seen_invalid(const char *tool, bool compat)
{
    count_code(ERR_INVALID);
    metrics_add(METRIC_CALLS, tool_label(tool, compat), METRIC_OUTCOME_INVALID, 1);
}
