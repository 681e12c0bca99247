/*
 * create_sandbox: a new sandbox that stays until it is closed or has been idle for its ttl.
 */
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/text.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/tools/tool.h"

#define TEXT_MAX_BYTES (1u << 20)

/* Nobody was told of the sandbox, so nobody else would close it. */
static void on_unwanted_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        log_warn("sandbox of a cancelled call did not close: %s", err->text);
    }
    tool_fail(call, ERR_GONE, "cancelled", NULL);
}

static void on_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                    const char *hint)
{
    struct tool_call *call = arg;
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint);
        return;
    }
    if (call->cancelled) {
        fleet_close(call->session->fleet, info->id, on_unwanted_closed, call);
        return;
    }
    struct result r;
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    result_init(&r);
    sandbox_json_put_info(r.structured, info);
    sandbox_json_text(&text, r.structured);
    result_add_text(&r, text_cstr(&text));
    tool_finish(call, &r);
}

static void run(struct tool_call *call)
{
    struct err err = ERR_INIT;
    struct sandbox_choice choice;
    int rc = sandbox_choice_read(&choice, call->args, call->session->config, &err);
    if (rc < 0) {
        tool_fail(call, rc, err.text, NULL);
        return;
    }
    choice.spec.progress = tool_tell;
    fleet_open(call->session->fleet, call->session->owner, &choice.spec, on_open, call);
    sandbox_choice_finish(&choice);
}

/* clang-format off */
const struct tool tool_create_sandbox = {
    .name = "create_sandbox",
    .title = "Create a sandbox",
    .description =
        "Creates an isolated sandbox for running code, with its own files, interpreters and limits, and "
        "returns its sandbox_id. Only needed for more than one sandbox or for limits other than the defaults: "
        "execute_code without sandbox_id creates one by itself. It has no network. It closes by itself after "
        "ttl_seconds (default @ttl_seconds@) without a call, @max_lifetime_seconds@ seconds after its creation in any case; close it with close_sandbox when done. At most "
        "@max_sandboxes@ sandboxes can exist at a time.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "name": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "Name to use instead of the sandbox_id: letters, digits, '.', '_', '-'. Must not be in use."
            },
            @limits@,
            "timeout_seconds": {
                "type": "number", "minimum": 0.1, "maximum": @max_timeout_seconds@,
                "description": "Deadline in seconds of executions that give none of their own. Default: @timeout_seconds@."
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
        "properties": {@sandbox_properties@},
        "required": ["sandbox_id", "name", "backend", "state", "languages", "limits", "network", "workspace",
                     "created_at", "expires_at", "ends_at"]
    }),
    .destructive = false,
    .run = run,
};
/* clang-format on */
