/*
 * Telnet of the profile code-sandbox. That server connects from its own host. Here a separate
 * sandbox with network holds the connections, and only if the operator lets clients ask for network
 * (--allow-network).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/base/config.h"
#include "supervisor/compat/code_sandbox.h"
#include "supervisor/compat/programs.h"

#define DONE_MAX_BYTES (4u << 20)
#define DONE_MAX_DEPTH 8

/* Of connect the failure is {"connected": false, "error"}, of the others {"success": false, …}. */
static void fail_telnet(struct tool_call *call, const char *what)
{
    cJSON *answer = cJSON_CreateObject();
    bool connects = json_get(call->args, "host") != NULL;
    result_put_bool(answer, connects ? "connected" : "success", false);
    result_put(answer, "error", reply_bytes(REPLY_DUMPS, view_of(what), RESULT_MESSAGE_BYTES));
    reply_json(call, REPLY_DUMPS, answer);
}

static void on_command_done(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                            const char *hint)
{
    struct tool_call *call = arg;
    struct err bad = ERR_INIT;
    cJSON *answer = NULL;
    (void)hint;
    runs_done(call);
    CLEANUP_FREE char *trouble = runs_trouble(rc, o, err);
    if (trouble == NULL && o->end->status == OP_STATUS_OK &&
        json_parse(o->out.data != NULL ? o->out.data : "", o->out.len, DONE_MAX_BYTES,
                   DONE_MAX_DEPTH, &answer, NULL, &bad) == 0) {
        reply_json(call, REPLY_DUMPS, answer);
        return;
    }
    fail_telnet(call, trouble != NULL ? trouble : "the connection's sandbox gave no answer");
}

static void ask_shell(struct tool_call *call, const char *tool)
{
    cJSON *question = call->args != NULL ? cJSON_Duplicate(call->args, true) : cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(question, "tool");
    result_put_text(question, "tool", tool);
    char *json = cJSON_PrintUnformatted(question);
    cJSON_Delete(question);
    runs_code(call, "python", program_telnet, view_of(json), on_command_done);
    cJSON_free(json);
}

static void on_shell_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                          const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        fail_telnet(call, err->text);
        return;
    }
    snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", info->id);
    ask_shell(call, "connect");
}

static void open_connection(struct tool_call *call)
{
    if (!call->session->config->allow_network) {
        fail_telnet(call, "sandboxes of this server have no network; its operator can allow it "
                          "with --allow-network");
    } else if (runs_find(call, CODE_SANDBOX_TELNET)) {
        ask_shell(call, "connect");
    } else {
        runs_open(call, CODE_SANDBOX_TELNET, on_shell_open);
    }
}

/* Finds that sandbox. Without it there is no connection, and the call is answered. */
static bool is_there(struct tool_call *call)
{
    if (runs_find(call, CODE_SANDBOX_TELNET)) {
        return true;
    }
    CLEANUP_FREE char *text = alloc_printf("No active connection with session ID %s",
                                           json_get_str(call->args, "session_id"));
    fail_telnet(call, text);
    return false;
}

static void send_command(struct tool_call *call)
{
    if (is_there(call)) {
        ask_shell(call, "send_command");
    }
}

static void disconnect(struct tool_call *call)
{
    if (is_there(call)) {
        ask_shell(call, "disconnect");
    }
}

static void list_connections(struct tool_call *call)
{
    if (runs_find(call, CODE_SANDBOX_TELNET)) {
        ask_shell(call, "list_connections");
        return;
    }
    cJSON *answer = cJSON_CreateObject();
    result_put_int(answer, "count", 0);
    result_put_array(answer, "connections");
    reply_json(call, REPLY_DUMPS, answer);
}

/* clang-format off */
const struct tool code_sandbox_connect = {
    .name = "connect",
    .title = "Connect by telnet",
    .description = "Opens a telnet connection from a sandbox with network, and returns its session_id and what the other side says first.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "host": {"type": "string", "minLength": 1, "maxLength": 255},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "timeout": {"type": "integer", "minimum": 1, "maximum": 60, "default": 30, "description": "Seconds."}
        },
        "required": ["host", "port"],
        "additionalProperties": false
    }),
    .open_world = true,
    .run = open_connection,
};

const struct tool code_sandbox_send_command = {
    .name = "send_command",
    .title = "Send a line by telnet",
    .description = "Sends a line over a telnet connection and returns what comes back until there is a pause, or the time is over.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024, "description": "As connect returned it."},
            "command": {"type": "string", "maxLength": 65536},
            "timeout": {"type": "integer", "minimum": 1, "maximum": 60, "default": 10, "description": "Seconds."}
        },
        "required": ["session_id", "command"],
        "additionalProperties": false
    }),
    .open_world = true,
    .run = send_command,
};

const struct tool code_sandbox_disconnect = {
    .name = "disconnect",
    .title = "End a telnet connection",
    .description = "Closes a telnet connection.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {"session_id": {"type": "string", "maxLength": 1024}},
        "required": ["session_id"],
        "additionalProperties": false
    }),
    .destructive = true,
    .idempotent = true,
    .run = disconnect,
};

const struct tool code_sandbox_list_connections = {
    .name = "list_connections",
    .title = "List telnet connections",
    .description = "Lists the telnet connections that are open.",
    .input_schema = JSON_TEXT({"type": "object", "properties": {}, "additionalProperties": false}),
    .read_only = true,
    .idempotent = true,
    .run = list_connections,
};
/* clang-format on */
