/*
 * install_package: installs packages of pip or npm into a sandbox. A separate installer has
 * network, so the sandbox needs none.
 */
#include "common/io/json.h"
#include "supervisor/tools/package.h"
#include "supervisor/tools/tool.h"

static void on_install_report(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    struct result r;
    package_waited(call);
    result_init(&r);
    package_result(report, &r);
    tool_finish(call, &r);
}

static void start_install_package(struct tool_call *call)
{
    package_begin(call, call->own);
    if (cJSON_IsFalse(json_get(call->args, "wait"))) {
        package_await(call, 0, on_install_report);
    } else {
        package_await_in_budget(call, on_install_report);
    }
}

static void run_install_package(struct tool_call *call)
{
    struct package_choice *choice;
    struct err err = ERR_INIT;
    int rc = package_choice_keep(call, &choice, &err);
    if (rc == 0 && choice->count == 0) {
        rc = err_set(&err, ERR_INVALID, "package_name or packages: one of them is needed");
    }
    if (rc < 0) {
        tool_fail_fleet(call, rc, &err, NULL);
    } else {
        tool_with_sandbox(call, start_install_package);
    }
}

/* clang-format off */
const struct tool tool_install_package = {
    .name = "install_package",
    .title = "Install packages",
    .description =
        "Installs packages of pip or npm, with what they depend on, into a sandbox. Code sees them at once, also in "
        "an interpreter that runs already (import them then; a module that was imported before stays as it is until it is "
        "imported again). The sandbox itself needs no network for this and gets none. Packages that are present and match are left alone. A call "
        "waits for at most @sync_budget_seconds@ s: an installation that takes longer goes on, status is installing, "
        "and check_package_status or get_execution tell how it ends. Ending the call does not end the installation; "
        "cancel_execution with its execution_id does.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "package_name": {
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "Name, with a version if need be: pandas, pandas==2.2.2, requests[socks]>=2.31; for npm "
                               "lodash, lodash@at@4.17.21, @at@types/node@at@^20. No spaces, options, paths or URLs."
            },
            "packages": {
                "type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 256}, "minItems": 1, "maxItems": 32,
                "description": "Several of them, installed together."
            },
            @manager@,
            "wait": {
                "type": "boolean", "default": true,
                "description": "False answers at once, during the installation."
            },
            @sandbox_id@
        },
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": ["installed", "installing", "failed"]},
            "manager": {"type": "string", "enum": ["pip", "npm"]},
            "sandbox_id": {"type": "string"},
            "execution_id": {"type": "string", "description": "Of the installation: for get_execution and cancel_execution."},
            @packages_property@,
            "output": {"type": "string", "description": "The last lines of the installer's output."}
        },
        "required": ["status", "packages", "output", "execution_id", "sandbox_id"]
    }),
    .idempotent = true,
    .open_world = true,
    .takes_long = true,
    .run = run_install_package,
};
/* clang-format on */
