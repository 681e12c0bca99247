/*
 * cancel_execution: stops code and reports how it ended. Code that ignores the interrupt is killed
 * 2 s later, so the answer comes soon.
 */
#include "supervisor/tools/execution.h"
#include "supervisor/tools/package.h"
#include "supervisor/tools/tool.h"

#define WAIT_MS 10000

static void on_cancel_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                              const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    if (!tool_ran(call, rc, err, hint)) {
        return;
    }
    struct result r;
    result_init(&r);
    execution_result(call, outcome, NULL, &r);
    if (outcome->end->status == OP_STATUS_CANCELLED) {
        r.is_error = false; /* the client asked for this end */
    }
    tool_finish(call, &r);
}

static void run_cancel_execution(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct err err = ERR_INIT;
    execution_name(call);
    if (packages_has(s->services->packages, s->owner, call->execution_id)) {
        packages_cancel(s->services->packages, s->owner, call->execution_id);
        package_await_outcome(call, WAIT_MS, on_cancel_outcome);
        return;
    }
    int rc = fleet_stop(s->fleet, s->owner, call->execution_id, &err);
    if (rc < 0) {
        tool_fail_fleet(call, rc, &err, NULL);
        return;
    }
    tool_await(call, WAIT_MS, on_cancel_outcome);
}

/* clang-format off */
const struct tool tool_cancel_execution = {
    .name = "cancel_execution",
    .title = "Cancel an execution",
    .description =
        "Interrupts running code (KeyboardInterrupt in python), kills it if it has not ended 2 s later, and "
        "returns its result with status cancelled. Killing it loses the variables of the interpreter. If the "
        "execution has ended already, its result is returned.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {@execution_id@},
        "required": ["execution_id"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {@execution_properties@},
        @execution_required@
    }),
    .destructive = true,
    .idempotent = true,
    .run = run_cancel_execution,
};
/* clang-format on */
