/*
 * Profile python-sandbox: a later server of the same authors, which calls its environments
 * sandboxes. It has two generations. Where they differ (create_sandbox and list_sandboxes), this is
 * the later one, which also has a terminal and uploads.
 */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/compat/profile.h"
#include "supervisor/compat/python_paths.h"
#include "supervisor/compat/python_profile.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/upload.h"

#define NAME_CHARS 8 /* of the id, if the client gives no name */

static const struct python_shape shape = {
    .key = "sandbox_id",
    .missing = "Sandbox not found: ",
    .missing_end = "",
    .style = REPLY_INDENTED,
};

static void put_name(cJSON *item, const char *given, const char *id)
{
    CLEANUP_FREE char *made = alloc_printf("sandbox-%.*s", NAME_CHARS, id);
    result_put_text(item, "name", given[0] != '\0' ? given : made);
}

static void opened_sandbox(struct tool_call *call, const char *name)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "sandbox_id", call->sandbox_id);
    result_put_text(answer, "user_id", call->session->owner);
    put_name(answer, name, call->sandbox_id);
    result_put_text(answer, "status", "active");
    reply_json(call, shape.style, answer);
}

static void run_create_own(struct tool_call *call)
{
    const char *name = json_get_str(call->args, "name");
    python_create(call, &shape, name != NULL && name[0] != '\0' ? name : NULL, opened_sandbox);
}

static cJSON *describe_sandbox(const struct fleet_info *info)
{
    cJSON *item = cJSON_CreateObject();
    result_put_text(item, "sandbox_id", info->id);
    put_name(item, info->name, info->id);
    return item;
}

static void run_list_sandbox(struct tool_call *call)
{
    python_list(call, &shape, describe_sandbox);
}

static void run_execute_sandbox(struct tool_call *call)
{
    python_execute(call, &shape);
}

static void run_terminal(struct tool_call *call)
{
    python_terminal(call, &shape);
}

static void run_install_sandbox(struct tool_call *call)
{
    python_install(call, &shape);
}

static void run_check_sandbox(struct tool_call *call)
{
    python_check(call, &shape);
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* Returns the file's path: below dest_path, under its own name. The caller frees it. */
static char *destination(const struct tool_call *call)
{
    const char *local = json_get_str(call->args, "local_file_path");
    const char *dest = json_get_str(call->args, "dest_path");
    const char *slash = strrchr(local, '/');
    dest = dest != NULL && dest[0] != '\0' ? dest : PYTHON_RESULTS;
    return alloc_printf("%s%s%s", dest, dest[strlen(dest) - 1] == '/' ? "" : "/",
                        slash != NULL ? slash + 1 : local);
}

static void on_sandbox_uploaded(struct tool_call *call, const struct upload_result *result)
{
    CLEANUP_FREE char *path = destination(call);
    if (result->rc < 0) {
        CLEANUP_FREE char *message = alloc_printf(
            "Failed to upload file: %s%s%s", result->err->text, result->hint != NULL ? "; " : "",
            result->hint != NULL ? result->hint : "");
        python_refuse(call, &shape, message);
        return;
    }
    cJSON *answer = cJSON_CreateObject();
    CLEANUP_FREE char *message =
        alloc_printf("File %s uploaded to %s", json_get_str(call->args, "local_file_path"), path);
    result_put_bool(answer, "success", true);
    result_put_text(answer, "message", message);
    reply_json(call, shape.style, answer);
}

static void run_upload(struct tool_call *call)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE char *path = destination(call);
    const char *inside = python_path_inside(path);
    if (args_check_path(inside, &err) < 0) {
        python_refuse(call, &shape, err.text);
    } else if (python_find(call, &shape)) {
        upload_local(call, json_get_str(call->args, "local_file_path"), inside,
                     on_sandbox_uploaded);
    }
}

/* clang-format off */
static const struct tool create = {
    .name = "create_sandbox",
    .title = "Create a Python sandbox",
    .description =
        "Creates a new Python sandbox, isolated@env_network_about@, and returns its sandbox_id for the other tools. "
        "Files are kept in /app/results as long as it lives.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "default": null, "description": "Name of the sandbox."}
        },
        "additionalProperties": false
    }),
    .run = run_create_own,
};

static const struct tool list = {
    .name = "list_sandboxes",
    .title = "List sandboxes",
    .description = "Lists the sandboxes that exist, with the packages installed in each.",
    .input_schema = JSON_TEXT({"type": "object", "properties": {}, "additionalProperties": false}),
    .read_only = true,
    .idempotent = true,
    .run = run_list_sandbox,
};

static const struct tool execute = {
    .name = "execute_python_code",
    .title = "Run Python code",
    .description =
        "Runs Python code in a sandbox and returns stdout, stderr, exit_code, and the files that the code created or "
        "changed in /app/results, where it runs, with links to them. Each call is a program of its own: variables do not "
        "stay, files do. Save plots to files.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string", "maxLength": 1024, "description": "Id of the sandbox, from create_sandbox."},
            "code": {"type": "string", "description": "Python code to run."}
        },
        "required": ["sandbox_id", "code"],
        "additionalProperties": false
    }),
    .destructive = true,
    .run = run_execute_sandbox,
};

static const struct tool terminal = {
    .name = "execute_terminal_command",
    .title = "Run a command",
    .description =
        "Runs a program with its arguments in a sandbox and returns stdout, stderr and exit_code. There is no shell: quotes "
        "group words, and nothing else is special; for pipes and the like run sh -c \"...\".",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string", "maxLength": 1024, "description": "Id of the sandbox, from create_sandbox."},
            "command": {"type": "string", "description": "Command with its arguments."}
        },
        "required": ["sandbox_id", "command"],
        "additionalProperties": false
    }),
    .destructive = true,
    .run = run_terminal,
};

static const struct tool upload = {
    .name = "upload_file_to_sandbox",
    .title = "Upload a file",
    .description =
        "Copies a file of the server's host into a sandbox, under its own name, into dest_path@local_files_about@.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string", "maxLength": 1024, "description": "Id of the sandbox, from create_sandbox."},
            "local_file_path": {"type": "string", "minLength": 1, "maxLength": 4095, "description": "File on the server's host."},
            "dest_path": {"type": "string", "default": "/app/results", "description": "Directory in the sandbox."}
        },
        "required": ["sandbox_id", "local_file_path"],
        "additionalProperties": false
    }),
    .destructive = true,
    .idempotent = true,
    .run = run_upload,
};

static const struct tool install = {
    .name = "install_package_in_sandbox",
    .title = "Install a Python package",
    .description =
        "Installs a Python package in a sandbox. Waits for up to 5 seconds; what takes longer goes on, and "
        "check_package_installation_status tells how it ends.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string", "maxLength": 1024, "description": "Id of the sandbox, from create_sandbox."},
            "package_name": {"type": "string", "description": "Package to install, such as pandas or pandas==2.2.2."}
        },
        "required": ["sandbox_id", "package_name"],
        "additionalProperties": false
    }),
    .idempotent = true,
    .run = run_install_sandbox,
};

static const struct tool check = {
    .name = "check_package_installation_status",
    .title = "Check a Python package",
    .description = "Tells whether a package is installed in a sandbox, or how its installation goes on. Waits for up to 5 seconds.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string", "maxLength": 1024, "description": "Id of the sandbox, from create_sandbox."},
            "package_name": {"type": "string", "description": "Package to ask about."}
        },
        "required": ["sandbox_id", "package_name"],
        "additionalProperties": false
    }),
    .read_only = true,
    .idempotent = true,
    .run = run_check_sandbox,
};
/* clang-format on */

static const struct tool *const tools[] = {&create, &list,     &execute, &install,
                                           &check,  &terminal, &upload};

const struct profile profile_python_sandbox = {
    .name = "python-sandbox",
    .server_name = "Python Sandbox Executor",
    .instructions =
        "Start with create_sandbox, whose result has the sandbox_id for execute_python_code and "
        "the other tools. Each code is a program of its own in /app/results, where files stay; "
        "install_package_in_sandbox installs packages.",
    .tools = tools,
    .tool_count = sizeof(tools) / sizeof(tools[0]),
};
