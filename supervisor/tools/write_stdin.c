/*
 * write_stdin: text for code that runs, and what it says to that. One call is one turn of a
 * dialogue: the answer has the output that was not shown yet, and comes when the code has been
 * quiet for a moment. Whether code waits for input cannot be known from outside.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/execution.h"
#include "supervisor/tools/tool.h"

#define WAIT_MS 3000 /* the default of wait_seconds */

static void on_reply_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                             const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    const struct fleet_input_state *input = call->own;
    if (!tool_ran(call, rc, err, hint)) {
        return;
    }
    struct result_range range = {
        .out = outcome->told_out,
        .err = outcome->told_err,
        .out_page = true,
        .err_page = true,
        .tell = true,
    };
    struct result r;
    result_init(&r);
    execution_result(call, outcome, &range, &r);
    result_put_uint(r.structured, "stdin_bytes", input->next);
    result_put_uint(r.structured, "stdin_unread", input->unread);
    tool_finish(call, &r);
}

/* What the agent refuses, it knows no tools for. */
static const char *hint_for_input(const struct tool_call *call, int rc, const char *hint)
{
    bool placed = json_get(call->args, "stdin_offset") != NULL; /* perhaps in the wrong place */
    return rc == -ERR_INVALID && (hint == NULL || hint[0] == '\0') && !placed
               ? "start it again with stdin_open: true, or tty: true, and write while it runs"
               : hint;
}

static void on_input(void *arg, int rc, const struct fleet_input_state *state,
                     const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    bool chosen = json_get(call->args, "wait_seconds") != NULL;
    uint64_t wait_ms = chosen ? args_ms(call->args, "wait_seconds") : WAIT_MS;
    uint64_t left_ms = call->cancelled ? 0 : tool_budget_left_ms(call);
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint_for_input(call, rc, hint));
        return;
    }
    struct fleet_input_state *input = alloc_one(struct fleet_input_state);
    *input = *state;
    call->own = input;
    call->own_free = free;
    tool_await(call, wait_ms < left_ms ? wait_ms : left_ms, on_reply_outcome);
    fleet_await_quiet(call->await, EXECUTION_QUIET_MS);
}

/* It is found, even if an earlier server left it. */
static void on_execution_found(void *arg, int rc, const struct fleet_outcome *outcome,
                               const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    struct tool_session *s = call->session;
    const cJSON *args = call->args;
    (void)outcome;
    if (!tool_ran(call, rc, err, hint)) {
        return;
    }
    const struct fleet_input in = {
        .data = view_of(json_get_str(args, "data")),
        .eof = cJSON_IsTrue(json_get(args, "eof")),
        .has_at = json_get(args, "stdin_offset") != NULL,
        .at = args_uint(args, "stdin_offset"),
        .rows = args_uint(args, "rows"),
        .cols = args_uint(args, "cols"),
    };
    fleet_input(s->fleet, s->owner, call->execution_id, &in, on_input, call);
}

static void run_write_stdin(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct err err = ERR_INIT;
    execution_name(call);
    if (args_check_size("data", json_get_str(call->args, "data"), LIMIT_INPUT, &err) < 0) {
        tool_fail(call, ERR_TOO_BIG, err.text,
                  "write it in parts, or put it into a file with write_file");
        return;
    }
    if (packages_has(s->services->packages, s->owner, call->execution_id)) {
        tool_fail(call, ERR_INVALID, "an installation reads no stdin", "get_execution follows it");
        return;
    }
    tool_await(call, 0, on_execution_found);
}

/* clang-format off */
const struct tool tool_write_stdin = {
    .name = "write_stdin",
    .title = "Write to a running program",
    .description =
        "Answers code that runs and reads input: writes text to the stdin of an execution that execute_code started "
        "with stdin_open or tty, and returns the output that was not shown yet. It waits until the code has been quiet for half "
        "a second, or ended. Lines need their newline. In a terminal, \\u0003 is Ctrl-C and \\u0004 Ctrl-D.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @execution_id@,
            "data": {
                "type": "string",
                "description": "Text for stdin."
            },
            "eof": {
                "type": "boolean",
                "description": "Ends stdin."
            },
            "rows": {
                "type": "integer", "minimum": 1, "maximum": 1000,
                "description": "Of the terminal."
            },
            "cols": {
                "type": "integer", "minimum": 1, "maximum": 1000,
                "description": "Of the terminal."
            },
            "wait_seconds": {
                "type": "number", "minimum": 0, "maximum": @sync_budget_seconds@,
                "description": "Longest wait for output. Default: 3."
            },
            "stdin_offset": {
                "type": "integer", "minimum": 0,
                "description": "stdin_bytes before this: a repeated call writes once."
            }
        },
        "required": ["execution_id"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @execution_properties@,
            @page@,
            "stdin_bytes": {"type": "integer", "description": "Bytes written to stdin in all, without stdin of execute_code."},
            "stdin_unread": {"type": "integer", "description": "How many of them wait for the code to read, beyond what a pipe holds."}
        },
        @execution_required@
    }),
    .destructive = true,
    .long_results = true,
    .run = run_write_stdin,
};
/* clang-format on */
