/*
 * create_sandbox: a new sandbox that stays until it is closed or has been idle for its ttl.
 */
#include <stdio.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/text.h"
#include "supervisor/tools/package.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/tools/tool.h"

#define TEXT_MAX_BYTES (1u << 20)

/* Nobody knows this sandbox's id, so it is closed here. */
static void on_unwanted_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        log_warn("sandbox of a cancelled call did not close: %s", err->text);
    }
    tool_fail(call, ERR_GONE, "cancelled", NULL);
}

static void close_unwanted(struct tool_call *call)
{
    fleet_close(call->session->fleet, call->sandbox_id, on_unwanted_closed, call);
}

/* `report` is NULL if no packages were requested. */
static void finish_create_sandbox(struct tool_call *call, const struct package_report *report)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    sandbox_json_text(&text, call->held.structured);
    if (report != NULL) {
        text_printf(&text, "\n");
        package_put_text(&text, report);
    }
    result_add_text(&call->held, text_cstr(&text));
    tool_finish(call, &call->held);
}

static void on_failed_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        log_warn("sandbox without its packages did not close: %s", err->text);
    }
    tool_finish(call, &call->held);
}

/* If a requested package fails, the creation fails, and the sandbox is closed. */
static void on_sandbox_packages(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    package_waited(call);
    if (call->cancelled) {
        close_unwanted(call);
    } else if (report->state == PACKAGE_FAILED) {
        package_result(report, &call->held);
        fleet_close(call->session->fleet, call->sandbox_id, on_failed_closed, call);
    } else {
        package_put_list(call->held.structured, report);
        finish_create_sandbox(call, report);
    }
}

static void on_create_opened(void *arg, int rc, const struct fleet_info *info,
                             const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    const struct package_choice *packages = call->own;
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint);
        return;
    }
    snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", info->id);
    if (call->cancelled) {
        close_unwanted(call);
        return;
    }
    result_init(&call->held);
    sandbox_json_put_info(call->held.structured, info);
    if (packages->count == 0) {
        finish_create_sandbox(call, NULL);
        return;
    }
    package_begin(call, packages);
    package_await_in_budget(call, on_sandbox_packages);
}

static void run_create_sandbox(struct tool_call *call)
{
    struct err err = ERR_INIT;
    struct sandbox_choice choice;
    struct package_choice *packages;
    int rc = package_choice_keep(call, &packages, &err);
    if (rc == 0) {
        rc = sandbox_choice_read(&choice, call->args, call->session->config, &err);
    }
    if (rc < 0) {
        tool_fail(call, rc, err.text, NULL);
        return;
    }
    choice.spec.progress = tool_tell;
    tool_open(call->session, &choice.spec, on_create_opened, call);
    sandbox_choice_finish(&choice);
}

/* clang-format off */
const struct tool tool_create_sandbox = {
    .name = "create_sandbox",
    .title = "Create a sandbox",
    .description =
        "Creates an isolated sandbox with its own files, interpreters and limits, and returns its sandbox_id. Use it for more "
        "than one sandbox, or for limits other than the defaults: execute_code makes a sandbox by itself. packages are "
        "installed before the call answers; if that takes longer than @sync_budget_seconds@ s, the answer has their "
        "status. It closes after ttl_seconds (default @ttl_seconds@) without a call, @max_lifetime_seconds@ seconds "
        "after its creation in any case; close it with close_sandbox when done. At most @max_sandboxes@ can exist at a time.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "name": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "Name to use for it, not in use: letters, digits, '.', '_', '-'."
            },
            @limits@,
            @shares@,
            "timeout_seconds": {
                "type": "number", "minimum": 0.1, "maximum": @max_timeout_seconds@,
                "description": "Deadline in seconds of executions without one of their own. Default: @timeout_seconds@."
            },
            "ttl_seconds": {
                "type": "number", "minimum": 1, "maximum": 2592000,
                "description": "Close the sandbox after this many seconds without a call. Default: @ttl_seconds@."
            }
        },
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {@sandbox_properties@, @packages_property@},
        "required": ["sandbox_id", "name", "backend", "state", "languages", "limits", "network", "workspace",
                     "created_at", "expires_at", "ends_at"]
    }),
    .destructive = false,
    .takes_long = true,
    .run = run_create_sandbox,
};
/* clang-format on */
