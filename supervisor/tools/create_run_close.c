/*
 * create_run_close: a new sandbox for one piece of code, gone before the call ends.
 *
 *   open ──▶ run ──▶ close ──▶ end
 *     │       │          └ also when the run failed or the call was cancelled
 *     │       └ takes longer than a call may: end; a closer waits for it, and closes
 *     └ failed: end
 *
 * The closer belongs to no call and no session: whatever becomes of the client, the sandbox goes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/tools/execution.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/tools/tool.h"

/* A server that dies leaves the sandbox to the next one, and nobody closes it: so it goes soon
 * after the code has ended. */
#define ABANDONED_MS 60000

static void on_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        log_warn("sandbox %s did not close: %s", call->sandbox_id, err->text);
    }
    result_put_bool(call->held.structured, "sandbox_closed", rc == 0);
    tool_finish(call, &call->held);
}

struct closer {
    struct fleet *fleet;
    char sandbox_id[FLEET_ID_SIZE];
};

static void on_closer_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct closer *closer = arg;
    (void)hint;
    if (rc < 0 && rc != -ERR_SANDBOX_NOT_FOUND) {
        log_warn("sandbox %s did not close: %s", closer->sandbox_id, err->text);
    }
    free(closer);
}

static void on_closer_over(void *arg, int rc, const struct fleet_outcome *outcome,
                           const struct err *err, const char *hint)
{
    struct closer *closer = arg;
    (void)err, (void)hint;
    if (rc == 0 && outcome->state != OP_DONE) {
        free(closer); /* this server leaves, the code goes on: see ABANDONED_MS */
        return;
    }
    fleet_close(closer->fleet, closer->sandbox_id, on_closer_closed, closer);
}

static void close_later(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct closer *closer = alloc_one(struct closer);
    closer->fleet = s->fleet;
    snprintf(closer->sandbox_id, sizeof(closer->sandbox_id), "%s", call->sandbox_id);
    fleet_await(s->fleet, s->owner, call->execution_id, FLEET_WAIT_FOR_EVER, on_closer_over,
                closer);
}

static void close_sandbox(struct tool_call *call)
{
    fleet_close(call->session->fleet, call->sandbox_id, on_closed, call);
}

static void on_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                       const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    call->await = NULL;
    if (rc < 0) {
        result_set_failure(&call->held, rc, err->text, hint);
    } else {
        execution_result(call, outcome, NULL, &call->held);
    }
    if (rc == 0 && outcome->state != OP_DONE) {
        close_later(call);
        result_put_bool(call->held.structured, "sandbox_closed", false);
        tool_finish(call, &call->held);
        return;
    }
    close_sandbox(call);
}

static void on_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                    const char *hint)
{
    struct tool_call *call = arg;
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint);
        return;
    }
    snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", info->id);
    if (call->cancelled) {
        result_set_failure(&call->held, ERR_GONE, "cancelled", NULL);
        close_sandbox(call);
        return;
    }
    execution_start(call, on_outcome);
}

static void run(struct tool_call *call)
{
    struct err err = ERR_INIT;
    struct sandbox_choice choice;
    int rc = execution_check(call->args, &err);
    if (rc == 0) {
        rc = sandbox_choice_read(&choice, call->args, call->session->config, &err);
    }
    if (rc < 0) {
        tool_fail(call, rc, err.text, NULL);
        return;
    }
    result_init(&call->held);
    choice.spec.progress = tool_tell;
    choice.spec.ttl_ms = ABANDONED_MS;
    fleet_open(call->session->fleet, call->session->owner, &choice.spec, on_open, call);
    sandbox_choice_finish(&choice);
}

/* clang-format off */
const struct tool tool_create_run_close = {
    .name = "create_run_close",
    .title = "Run code in a throw-away sandbox",
    .description =
        "Creates a new sandbox, runs the code in it, closes it and returns the result as execute_code does. "
        "Nothing is kept: use it for one-off code that must not see or change anything else. For several "
        "steps, or to keep files and variables, use execute_code. Code that takes longer than "
        "@sync_budget_seconds@ s goes on as with execute_code; the sandbox is closed when it ends, and "
        "get_execution has its outcome all the same.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @run@,
            @timeout@,
            @limits@
        },
        "required": ["code"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @execution_properties@,
            "sandbox_closed": {"type": "boolean", "description": "True: nothing of the sandbox is left. "
                               "False while the code runs: it is closed when that ends."}
        },
        @execution_required@
    }),
    .destructive = false,
    .run = run,
};
/* clang-format on */
