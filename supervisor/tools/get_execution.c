/*
 * get_execution: the state or outcome of an execution. Without an offset it shows what execute_code
 * shows, the head and the tail of long output; with an offset, the output from there on.
 *
 * Offsets count the bytes that the code wrote. A part never begins or ends inside a character, so
 * consecutive parts add up to the whole; the result says where each part begins and where the next
 * one does.
 */
#include <inttypes.h>

#include "common/io/json.h"
#include "supervisor/base/config.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/execution.h"
#include "supervisor/tools/package.h"
#include "supervisor/tools/tool.h"

/* An offset between head and tail is valid: output then starts at the tail. */
static int check_offset(const char *field, const char *stream, uint64_t offset, size_t kept,
                        bool has_tail, uint64_t written, struct err *err)
{
    if (offset <= kept || (has_tail && offset <= written)) {
        return 0;
    }
    if (offset <= written) {
        return err_set(err, ERR_INVALID,
                       "%s: only the first %zu of %" PRIu64 " bytes of %s are kept", field, kept,
                       written, stream);
    }
    return err_set(err, ERR_INVALID, "%s: %" PRIu64 " is behind the %" PRIu64 " bytes of %s so far",
                   field, offset, written, stream);
}

static int read_range(struct tool_call *call, const struct fleet_outcome *o,
                      struct result_range *ret, struct err *err)
{
    struct result_range range = {
        .out = args_uint(call->args, "offset"),
        .err = args_uint(call->args, "stderr_offset"),
        .out_page = json_get(call->args, "offset") != NULL,
        .err_page = json_get(call->args, "stderr_offset") != NULL,
        .tell = true,
    };
    int rc = check_offset("offset", "stdout", range.out, o->out.len, o->out_tail.len > 0,
                          o->out_bytes, err);
    if (rc == 0) {
        rc = check_offset("stderr_offset", "stderr", range.err, o->err.len, o->err_tail.len > 0,
                          o->err_bytes, err);
    }
    if (rc == 0) {
        *ret = range;
    }
    return rc;
}

static void on_execution_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                                 const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    struct err bad = ERR_INIT;
    struct result_range range;
    if (!tool_ran(call, rc, err, hint)) {
        return;
    }
    rc = read_range(call, outcome, &range, &bad);
    if (rc < 0) {
        tool_fail(call, rc, bad.text,
                  "use next_offset and next_stderr_offset of an earlier result");
        return;
    }
    struct result r;
    result_init(&r);
    execution_result(call, outcome, &range, &r);
    tool_finish(call, &r);
}

static void run_get_execution(struct tool_call *call)
{
    struct tool_session *s = call->session;
    uint64_t most_ms = s->config->sync_budget_s * 1000;
    bool chosen = json_get(call->args, "wait_seconds") != NULL;
    uint64_t wait_ms = chosen ? args_ms(call->args, "wait_seconds") : most_ms;
    execution_name(call);
    /* Ids of installations have the same form. */
    if (packages_has(s->services->packages, s->owner, call->execution_id)) {
        package_await_outcome(call, wait_ms, on_execution_outcome);
    } else {
        tool_await(call, wait_ms, on_execution_outcome);
    }
}

/* clang-format off */
const struct tool tool_get_execution = {
    .name = "get_execution",
    .title = "Get an execution",
    .description =
        "Waits for an execution to end and returns its result as execute_code does, or status running with the "
        "output so far if it takes longer than wait_seconds. Also works for executions that have ended, even if "
        "their sandbox is closed: the latest are kept. To follow output, or to see what the "
        "result of a call left out, pass next_offset (and next_stderr_offset) of one result as offset (and "
        "stderr_offset) of the next call.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @execution_id@,
            "wait_seconds": {
                "type": "number", "minimum": 0, "maximum": @sync_budget_seconds@,
                "description": "Longest wait for the end; 0 answers at once. Default: @sync_budget_seconds@."
            },
            "offset": {
                "type": "integer", "minimum": 0,
                "description": "Show stdout from this byte on: next_offset of an earlier result. "
                               "Default: its beginning and end."
            },
            "stderr_offset": {
                "type": "integer", "minimum": 0,
                "description": "The same for stderr. Default: 0."
            },
            @max_output@
        },
        "required": ["execution_id"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @execution_properties@,
            @page@
        },
        @execution_required@
    }),
    .read_only = true,
    .idempotent = true,
    .long_results = true,
    .has_view = true,
    .run = run_get_execution,
};
/* clang-format on */
