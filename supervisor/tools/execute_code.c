/*
 * execute_code: runs code in a sandbox, in its live interpreter or as a program.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/tools/execution.h"
#include "supervisor/tools/tool.h"

static void on_code_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                            const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    if (tool_ran(call, rc, err, hint)) {
        struct result r;
        result_init(&r);
        execution_result(call, outcome, NULL, &r);
        tool_finish(call, &r);
    }
}

static void free_choice(void *own)
{
    execution_choice_finish(own);
    free(own);
}

static void start_execute_code(struct tool_call *call)
{
    execution_start(call, call->own, on_code_outcome);
}

static void run_execute_code(struct tool_call *call)
{
    struct err err = ERR_INIT;
    struct execution_choice *choice = alloc_one(struct execution_choice);
    call->own = choice;
    call->own_free = free_choice;
    int rc = execution_choice_read(choice, call, &err);
    if (rc < 0) {
        tool_fail(call, rc, err.text,
                  rc == -ERR_TOO_BIG ? "write it to a file in parts with write_file instead"
                                     : NULL);
        return;
    }
    tool_with_sandbox(call, start_execute_code);
}

/* clang-format off */
const struct tool tool_execute_code = {
    .name = "execute_code",
    .title = "Execute code",
    .description =
        "Runs code in an isolated sandbox and returns its output, the value of the last expression (python, "
        "javascript), plots and any error. Use it to calculate, to work on data and files, and to try things out: "
        "variables, imports and files stay between calls in python, javascript and bash; other languages run as "
        "programs. Without sandbox_id @default_sandbox@. It has no network; install_package installs packages. A "
        "call waits for at most @sync_budget_seconds@ s: longer code goes on with status running, and get_execution and "
        "cancel_execution take its execution_id.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @run@,
            @stdin_open@,
            @sandbox_id@,
            @timeout@,
            @max_output@,
            @env@
        },
        "required": ["code"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {@execution_properties@},
        @execution_required@
    }),
    .destructive = true,
    .takes_long = true,
    .long_results = true,
    .has_view = true,
    .run = run_execute_code,
};
/* clang-format on */
