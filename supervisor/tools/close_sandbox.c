/*
 * close_sandbox: ends everything that runs in a sandbox, and removes it with its files.
 */
#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/tools/tool.h"

static void on_sandbox_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint);
        return;
    }
    struct result r;
    result_init(&r);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_text(r.structured, "state", "closed");
    CLEANUP_FREE char *text = alloc_printf("Sandbox %s is closed.", call->sandbox_id);
    result_add_text(&r, text);
    tool_finish(call, &r);
}

static void close_it(struct tool_call *call)
{
    fleet_close(call->session->fleet, call->sandbox_id, on_sandbox_closed, call);
}

static void run_close_sandbox(struct tool_call *call)
{
    tool_with_sandbox(call, close_it);
}

/* clang-format off */
const struct tool tool_close_sandbox = {
    .name = "close_sandbox",
    .title = "Close a sandbox",
    .description =
        "Stops everything that runs in the sandbox and removes it with its files and variables. This cannot be undone.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "Sandbox to close: its sandbox_id or name."
            }
        },
        "required": ["sandbox_id"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "state": {"type": "string", "enum": ["closed"]}
        },
        "required": ["sandbox_id", "state"]
    }),
    .destructive = true,
    .idempotent = true,
    .run = run_close_sandbox,
};
/* clang-format on */
