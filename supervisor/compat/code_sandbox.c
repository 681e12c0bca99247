/*
 * The profile code-sandbox: sessions that clients name themselves, each a sandbox.
 *
 * In that server INTERPRETER_TYPE chooses the backend (e2b, firecracker), and with it the form of
 * the code's output. Here it chooses the form; base/interpreter_type.c has what it means for the
 * backend.
 */
#include "supervisor/compat/code_sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/base/interpreter_type.h"
#include "supervisor/compat/profile.h"
#include "supervisor/packages/packages.h"
#include "supervisor/tools/package.h"

/* a sandbox that create_run_close could not close is removed after this idle time */
#define ABANDONED_MS 60000

static const struct view no_input = {NULL, 0};

static const char *argument(const struct tool_call *call, const char *name)
{
    return json_get_str(call->args, name);
}

bool code_sandbox_is_firecracker(void)
{
    const char *type = getenv("INTERPRETER_TYPE");
    return type != NULL && strcmp(type, "firecracker") == 0;
}

static void put_interpreter_type(cJSON *answer)
{
    result_put_text(answer, "interpreter_type",
                    code_sandbox_is_firecracker() ? "firecracker" : interpreter_type_default());
}

static void say_kept(struct tool_call *call, const char *before, const char *after)
{
    CLEANUP_FREE char *text = alloc_printf("%s%s%s", before, argument(call, "session_id"), after);
    reply_text(call, text);
}

bool code_sandbox_find(struct tool_call *call)
{
    if (runs_find(call, argument(call, "session_id"))) {
        return true;
    }
    CLEANUP_FREE char *text =
        alloc_printf("No sandbox found with session ID: %s. Create a sandbox first.",
                     argument(call, "session_id"));
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "error", text);
    reply_json(call, REPLY_DUMPS, answer);
    return false;
}

/* ---- create, close, status ---- */

static void on_created(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                       const char *hint)
{
    struct tool_call *call = arg;
    (void)info, (void)hint;
    if (rc < 0) {
        CLEANUP_FREE char *text = alloc_printf("Failed to create sandbox: %s", err->text);
        reply_text(call, text);
    } else {
        say_kept(call, "Sandbox created successfully with session ID: ", "");
    }
}

static void create_kept(struct tool_call *call)
{
    if (runs_find(call, argument(call, "session_id"))) {
        say_kept(call, "Sandbox with session ID ", " already exists.");
    } else {
        runs_open(call, argument(call, "session_id"), on_created);
    }
}

static void on_kept_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        log_warn("sandbox %s did not close: %s", call->sandbox_id, err->text);
        say_kept(call, "Sandbox with session ID ",
                 " has been removed from active sessions. Cleanup completed.");
    } else {
        say_kept(call, "Sandbox with session ID ",
                 " has been successfully closed and all resources freed.");
    }
}

static void close_kept(struct tool_call *call)
{
    if (runs_find_any(call, argument(call, "session_id"))) {
        fleet_close(call->session->fleet, call->sandbox_id, on_kept_closed, call);
    } else {
        say_kept(call, "Sandbox with session ID ", " is not active or has already been closed.");
    }
}

static void add_session(void *arg, const struct fleet_info *info)
{
    if (info->name[0] != '\0' && !runs_has_ended(info) &&
        strcmp(info->name, CODE_SANDBOX_TELNET) != 0) {
        cJSON_AddItemToArray(arg, cJSON_CreateString(info->name));
    }
}

static void status(struct tool_call *call)
{
    const char *session = argument(call, "session_id");
    cJSON *answer = cJSON_CreateObject();
    if (session == NULL) {
        cJSON *sessions = cJSON_CreateArray();
        fleet_list(call->session->fleet, call->session->owner, add_session, sessions);
        result_put_int(answer, "active_sandbox_count", cJSON_GetArraySize(sessions));
        result_put(answer, "active_sessions", sessions);
        put_interpreter_type(answer);
    } else if (runs_find(call, session)) {
        result_put_text(answer, "status", "active");
        result_put_text(answer, "session_id", session);
        put_interpreter_type(answer);
    } else {
        CLEANUP_FREE char *text = alloc_printf("No sandbox found with session ID: %s", session);
        result_put_text(answer, "error", text);
    }
    reply_json(call, REPLY_DUMPS, answer);
}

/* ---- code ---- */

static cJSON *one_or_none(cJSON *text)
{
    cJSON *list = cJSON_CreateArray();
    if (text->valuestring[0] != '\0') {
        cJSON_AddItemToArray(list, text);
    } else {
        cJSON_Delete(text);
    }
    return list;
}

/* The error in the form of firecracker: what is on stderr, where that server has the traceback,
 * too; null if there is nothing. */
static cJSON *text_of_error(const cJSON *error, const struct fleet_outcome *o)
{
    const char *trace = json_get_str(error, "traceback");
    cJSON *stream = runs_stream(REPLY_DUMPS, o, true);
    if (error == NULL && stream->valuestring[0] == '\0') {
        cJSON_Delete(stream);
        return cJSON_CreateNull();
    }
    CLEANUP_FREE char *text = error == NULL      ? alloc_strdup(stream->valuestring)
                              : trace[0] != '\0' ? alloc_printf("%s%s", stream->valuestring, trace)
                                                 : alloc_printf("%s%s: %s", stream->valuestring,
                                                                json_get_str(error, "name"),
                                                                json_get_str(error, "value"));
    cJSON_Delete(stream);
    return cJSON_CreateString(text); /* each part is within its own budget */
}

static void put_logs(cJSON *answer, const char *key, const struct fleet_outcome *o)
{
    cJSON *error = runs_error(REPLY_DUMPS, o);
    if (code_sandbox_is_firecracker()) {
        result_put(answer, key, runs_stream(REPLY_DUMPS, o, false));
        result_put(answer, "error", text_of_error(error, o));
        cJSON_Delete(error);
        return;
    }
    cJSON *logs = result_put_object(answer, key);
    result_put(logs, "stdout", one_or_none(runs_stream(REPLY_DUMPS, o, false)));
    result_put(logs, "stderr", one_or_none(runs_stream(REPLY_DUMPS, o, true)));
    result_put(answer, "error", error != NULL ? error : cJSON_CreateNull());
}

/* Answers if the outcome says nothing about the code: it did not run, or was ended from outside.
 * False otherwise. */
static bool never_ran(struct tool_call *call, int rc, const struct fleet_outcome *o,
                      const struct err *err, const char *prefix)
{
    if (rc == 0 && o->end->status != OP_STATUS_FAILED) {
        return false;
    }
    CLEANUP_FREE char *trouble = runs_trouble(rc, o, err);
    runs_fail(call, prefix, trouble);
    return true;
}

static void on_executed(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                        const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    runs_done(call);
    if (!never_ran(call, rc, o, err, "Error executing code")) {
        cJSON *answer = cJSON_CreateObject();
        put_logs(answer, "logs", o);
        reply_json(call, REPLY_DUMPS, answer);
    }
}

static void execute_kept(struct tool_call *call)
{
    if (code_sandbox_find(call)) {
        runs_code(call, "python", argument(call, "code"), no_input, on_executed);
    }
}

/* ---- packages ---- */

static void put_install_logs(cJSON *answer, const struct package_report *report)
{
    bool failed = report->state == PACKAGE_FAILED;
    static const char unfinished[] = "[still being installed; install_package again waits for it]";
    bool waits = report->state == PACKAGE_INSTALLING;
    cJSON *output = reply_bytes(REPLY_DUMPS, report->output, REPLY_SHARE_BYTES);
    const char *what = report->message != NULL ? report->message : "it did not install";
    if (code_sandbox_is_firecracker()) {
        CLEANUP_FREE char *text =
            alloc_printf("%s%s", output->valuestring, waits ? unfinished : "");
        cJSON_Delete(output);
        result_put_text(answer, "output", text);
        result_put(answer, "error", failed ? cJSON_CreateString(what) : cJSON_CreateNull());
        return;
    }
    cJSON *logs = result_put_object(answer, "output");
    result_put(logs, "stdout", one_or_none(output));
    result_put_array(logs, "stderr");
    if (waits) {
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(logs, "stdout"),
                             cJSON_CreateString(unfinished));
    }
    if (!failed) {
        result_put(answer, "error", cJSON_CreateNull());
        return;
    }
    cJSON *error = result_put_object(answer, "error");
    result_put_text(error, "name", "PackageError");
    result_put_text(error, "value", what);
    result_put_text(error, "traceback", "");
}

static void on_kept_installed(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    package_waited(call);
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "package", argument(call, "package_name"));
    put_install_logs(answer, report);
    reply_json(call, REPLY_DUMPS, answer);
}

static void install(struct tool_call *call)
{
    /* package_choice_read() needs a schema that refuses everything else */
    const struct package_choice choice = {
        .manager = PACKAGE_PIP, .requirements = {argument(call, "package_name")}, .count = 1};
    struct err err = ERR_INIT;
    if (!code_sandbox_find(call)) {
        return;
    }
    if (packages_check(PACKAGE_PIP, choice.requirements[0], &err) < 0) {
        runs_fail(call, "Error installing package", err.text);
        return;
    }
    package_begin(call, &choice);
    package_await_in_budget(call, on_kept_installed);
}

/* ---- create_run_close ---- */

/* `open`: why the sandbox is not closed; NULL: it is. */
static void answer_once(struct tool_call *call, const char *open)
{
    cJSON *answer = call->own;
    call->own = NULL;
    if (json_get(answer, "logs") != NULL) {
        result_put_text(answer, "sandbox_status", "created and will be closed automatically");
        result_put_bool(answer, "sandbox_closed", open == NULL);
        result_put_bool(answer, "sandbox_removed", true);
        if (open != NULL) {
            result_put_text(answer, "close_error", open);
        }
    }
    reply_json(call, REPLY_DUMPS, answer);
}

static void on_run_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (call->own == NULL) {
        runs_fail(call, "Operation failed", "cancelled");
    } else {
        answer_once(call, rc < 0 ? err->text : NULL);
    }
}

static void free_answer(void *own)
{
    cJSON_Delete(own);
}

static void on_run(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                   const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    runs_done(call);
    cJSON *answer = cJSON_CreateObject();
    call->own = answer;
    call->own_free = free_answer;
    if (rc == 0 && o->end->status != OP_STATUS_FAILED) {
        put_logs(answer, "logs", o);
    } else {
        CLEANUP_FREE char *trouble = runs_trouble(rc, o, err);
        CLEANUP_FREE char *text = alloc_printf("Operation failed: %s", trouble);
        result_put(answer, "error", reply_bytes(REPLY_DUMPS, view_of(text), RESULT_MESSAGE_BYTES));
    }
    if (rc == 0 && o->state != OP_DONE && fleet_retire(call->session->fleet, call->sandbox_id)) {
        answer_once(call, "the code still runs; the sandbox closes when it has ended");
        return;
    }
    fleet_close(call->session->fleet, call->sandbox_id, on_run_closed, call);
}

static void on_run_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                        const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0) {
        runs_fail(call, "Operation failed", err->text);
        return;
    }
    snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", info->id);
    if (call->cancelled) {
        fleet_close(call->session->fleet, call->sandbox_id, on_run_closed, call);
        return;
    }
    runs_code(call, "python", argument(call, "code"), no_input, on_run);
}

static void run_close(struct tool_call *call)
{
    const struct fleet_spec spec = {
        .network = call->session->config->allow_network, /* as in runs_open() */
        .progress = tool_tell,
        .ttl_ms = ABANDONED_MS,
    };
    tool_open(call->session, &spec, on_run_open, call);
}

/* clang-format off */

const struct tool code_sandbox_create = {
    .name = "create_sandbox",
    .title = "Create a sandbox",
    .description = "Creates a sandbox and starts it. session_id is a name of your choice, by which all other calls know it.",
    .input_schema = JSON_TEXT({
        "type": "object", "properties": {"session_id": {"type": "string", "maxLength": 1024}}, "required": ["session_id"]
    }),
    .idempotent = true,
    .run = create_kept,
};

const struct tool code_sandbox_close = {
    .name = "close_sandbox",
    .title = "Close a sandbox",
    .description = "Closes a sandbox: everything in it is gone.",
    .input_schema = JSON_TEXT({
        "type": "object", "properties": {"session_id": {"type": "string", "maxLength": 1024}}, "required": ["session_id"]
    }),
    .destructive = true,
    .idempotent = true,
    .run = close_kept,
};

const struct tool code_sandbox_status = {
    .name = "get_sandbox_status",
    .title = "Status of sandboxes",
    .description = "Tells whether a sandbox is active, or without session_id which ones are.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {"session_id": {"minLength": 1, "anyOf": [{"type": "string", "maxLength": 1024}, {"type": "null"}], "default": null}}
    }),
    .read_only = true,
    .idempotent = true,
    .run = status,
};

const struct tool code_sandbox_execute = {
    .name = "execute_code",
    .title = "Execute code",
    .description =
        "Runs Python code in a sandbox that create_sandbox has made. Variables and imports are kept from call to call. "
        "At the deadline (@timeout_seconds@ s) the code is interrupted.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {"session_id": {"type": "string", "maxLength": 1024}, "code": {"type": "string", "description": "Python code."}},
        "required": ["session_id", "code"]
    }),
    .destructive = true,
    .run = execute_kept,
};

const struct tool code_sandbox_install = {
    .name = "install_package",
    .title = "Install a package",
    .description = "Installs a Python package of pip in a sandbox: a name, with a version if need be, such as pandas==2.2.2.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {"session_id": {"type": "string", "maxLength": 1024}, "package_name": {"type": "string", "minLength": 1, "maxLength": 256}},
        "required": ["session_id", "package_name"]
    }),
    .idempotent = true,
    .open_world = true,
    .run = install,
};

const struct tool code_sandbox_run_close = {
    .name = "create_run_close",
    .title = "Run code in a throw-away sandbox",
    .description = "Creates a sandbox, runs Python code in it and closes it.",
    .input_schema = JSON_TEXT({
        "type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]
    }),
    .run = run_close,
};
/* clang-format on */

static const struct tool *const tools[] = {
    &code_sandbox_create,           &code_sandbox_close,
    &code_sandbox_status,           &code_sandbox_execute,
    &code_sandbox_install,          &code_sandbox_run_close,
    &code_sandbox_list_files,       &code_sandbox_read_file,
    &code_sandbox_write_file,       &code_sandbox_upload_file,
    &code_sandbox_line_chart,       &code_sandbox_bar_chart,
    &code_sandbox_scatter_plot,     &code_sandbox_interactive_chart,
    &code_sandbox_heatmap,          &code_sandbox_connect,
    &code_sandbox_send_command,     &code_sandbox_disconnect,
    &code_sandbox_list_connections,
};

const struct profile profile_code_sandbox = {
    .name = "code-sandbox",
    .server_name = "code-sandbox",
    .instructions =
        "Start with create_sandbox and a session_id of your choice, by which execute_code and the "
        "other tools know the sandbox; its variables and files stay until close_sandbox. "
        "create_run_close runs code once, without a sandbox of yours.",
    .tools = tools,
    .tool_count = sizeof(tools) / sizeof(tools[0]),
};
