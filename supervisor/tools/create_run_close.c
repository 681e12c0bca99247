/*
 * create_run_close: a new sandbox for one piece of code, which is closed before the call ends.
 *
 *   open ──▶ install ──▶ run ──▶ close ──▶ end
 *     │         │           │          └ also when something failed or the call was cancelled
 *     │         │           └ takes longer than a call may: end; a closer waits for it, and closes
 *     │         └ takes longer: end; the client goes on in the sandbox
 *     └ failed: end
 *
 * The closer belongs to no call and no session, so the sandbox is closed even if the client
 * disappears.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/tools/execution.h"
#include "supervisor/tools/package.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/tools/tool.h"

/* If the server dies, the next one takes the sandbox over but does not know that it must be closed.
 * So the sandbox has a short idle time after the code's end. */
#define ABANDONED_MS 60000

/* What the arguments say about what happens after the sandbox is open. */
struct run {
    struct execution_choice code;
    struct package_choice packages;
};

static void free_run(void *own)
{
    struct run *run = own;
    execution_choice_finish(&run->code);
    free(run);
}

static void on_run_sandbox_closed(void *arg, int rc, const struct err *err, const char *hint)
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
        free(closer); /* the server ends, but the code goes on: see ABANDONED_MS */
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
    fleet_close(call->session->fleet, call->sandbox_id, on_run_sandbox_closed, call);
}

static void on_run_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                           const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    call->await = NULL;
    if (rc < 0) {
        result_set_failure(&call->held, rc, err->text, hint);
    } else {
        const struct result_range range = {.gone = outcome->state == OP_DONE};
        execution_result(call, outcome, &range, &call->held);
    }
    if (rc == 0 && outcome->state != OP_DONE) {
        close_later(call);
        result_put_bool(call->held.structured, "sandbox_closed", false);
        tool_finish(call, &call->held);
        return;
    }
    close_sandbox(call);
}

static void start_code(struct tool_call *call)
{
    struct run *run = call->own;
    execution_start(call, &run->code, on_run_outcome);
}

/* No code runs yet that an id could refer to, so the client gets the sandbox and goes on by itself.
 * If it does not, the idle time closes the sandbox. */
static void leave_installing(struct tool_call *call)
{
    CLEANUP_FREE char *hint =
        alloc_printf("the installation goes on: when check_package_status with sandbox_id %s says "
                     "installed, run the code there with execute_code, and close the sandbox with "
                     "close_sandbox",
                     call->sandbox_id);
    result_set_failure(&call->held, ERR_PACKAGE,
                       "the packages are still being installed, so the code has not run", hint);
    result_put_text(call->held.structured, "sandbox_id", call->sandbox_id);
    result_put_text(call->held.structured, "execution_id", call->execution_id);
    result_put_bool(call->held.structured, "sandbox_closed", false);
    tool_finish(call, &call->held);
}

static void on_run_packages(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    package_waited(call);
    if (call->cancelled) {
        result_set_failure(&call->held, ERR_GONE, "cancelled", NULL);
        close_sandbox(call);
    } else if (report->state == PACKAGE_FAILED) {
        package_failure(report, &call->held);
        close_sandbox(call);
    } else if (report->state == PACKAGE_INSTALLING) {
        leave_installing(call);
    } else {
        start_code(call);
    }
}

static void on_run_sandbox_open(void *arg, int rc, const struct fleet_info *info,
                                const struct err *err, const char *hint)
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
    const struct run *run = call->own;
    if (run->packages.count == 0) {
        start_code(call);
        return;
    }
    package_begin(call, &run->packages);
    package_await_in_budget(call, on_run_packages);
}

static void run_create_run_close(struct tool_call *call)
{
    struct err err = ERR_INIT;
    struct sandbox_choice choice;
    struct run *run = alloc_one(struct run);
    call->own = run;
    call->own_free = free_run;
    int rc = execution_choice_read(&run->code, call, &err);
    if (rc == 0) {
        rc = package_choice_read(call->args, &run->packages, &err);
    }
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
    if (run->packages.count > 0) { /* the sandbox is idle while its installer runs */
        choice.spec.ttl_ms += call->session->config->install_timeout_s * 1000;
    }
    tool_open(call->session, &choice.spec, on_run_sandbox_open, call);
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
        "get_execution has its outcome all the same. If packages take longer than that, the result says how to go on.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @run@,
            @timeout@,
            @max_output@,
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
    .takes_long = true,
    .long_results = true,
    .has_view = true,
    .run = run_create_run_close,
};
/* clang-format on */
