/*
 * Profile python-env: the tools of a server that makes "Python environments" and serves SSE, in its
 * latest version under these names.
 */
#include "common/io/json.h"
#include "supervisor/compat/profile.h"
#include "supervisor/compat/python_profile.h"

static const struct python_shape shape = {
    .key = "container_id",
    .missing = "Container not found: ",
    .style = REPLY_DUMPS,
};

static void opened_env(struct tool_call *call, const char *name)
{
    (void)name;
    reply_text(call, call->sandbox_id);
}

static void run_create_env(struct tool_call *call)
{
    python_create(call, &shape, NULL, opened_env);
}

static cJSON *describe_env(const struct fleet_info *info)
{
    cJSON *item = cJSON_CreateObject();
    uint64_t used_ms = info->expires_wall_ms > info->ttl_ms ? info->expires_wall_ms - info->ttl_ms
                                                            : info->created_wall_ms;
    result_put_text(item, "container_id", info->id);
    result_put_text(item, "name", info->name[0] != '\0' ? info->name : info->id);
    result_put_text(item, "status", "running");
    result_put_text(item, "image", info->image);
    result_put_time(item, "created", info->created_wall_ms);
    result_put_time(item, "last_used", used_ms);
    return item;
}

static void run_list_env(struct tool_call *call)
{
    python_list(call, &shape, describe_env);
}

static void run_execute_env(struct tool_call *call)
{
    python_execute(call, &shape);
}

static void run_install_env(struct tool_call *call)
{
    python_install(call, &shape);
}

static void run_check_env(struct tool_call *call)
{
    python_check(call, &shape);
}

/* clang-format off */
static const struct tool create = {
    .name = "create_python_env",
    .title = "Create a Python environment",
    .description =
        "Creates a new Python environment, isolated and without network, and returns its id for the other tools. "
        "Files are kept in /app/results as long as it lives.",
    .input_schema = JSON_TEXT({"type": "object", "properties": {}, "additionalProperties": false}),
    .run = run_create_env,
};

static const struct tool list = {
    .name = "list_python_envs",
    .title = "List Python environments",
    .description = "Lists the environments that exist, with the packages installed in each.",
    .input_schema = JSON_TEXT({"type": "object", "properties": {}, "additionalProperties": false}),
    .read_only = true,
    .idempotent = true,
    .run = run_list_env,
};

static const struct tool execute = {
    .name = "execute_python_code",
    .title = "Run Python code",
    .description =
        "Runs Python code in an environment and returns stdout, stderr, exit_code, and the files that the code created or "
        "changed in /app/results, where it runs, with links to them. Each call is a program of its own: variables do not "
        "stay, files do. Save plots to files.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "container_id": {"type": "string", "maxLength": 1024, "description": "Id that create_python_env returned."},
            "code": {"type": "string", "description": "Python code to run."}
        },
        "required": ["container_id", "code"],
        "additionalProperties": false
    }),
    .destructive = true,
    .run = run_execute_env,
};

static const struct tool install = {
    .name = "install_package_in_env",
    .title = "Install a Python package",
    .description =
        "Installs a Python package in an environment. Waits for up to 5 seconds; what takes longer goes on, and "
        "check_package_status tells how it ends.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "container_id": {"type": "string", "maxLength": 1024, "description": "Id that create_python_env returned."},
            "package_name": {"type": "string", "description": "Package to install, such as pandas or pandas==2.2.2."}
        },
        "required": ["container_id", "package_name"],
        "additionalProperties": false
    }),
    .idempotent = true,
    .run = run_install_env,
};

static const struct tool check = {
    .name = "check_package_status",
    .title = "Check a Python package",
    .description = "Tells whether a package is installed in an environment, or how its installation goes on. Waits for up to 5 seconds.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "container_id": {"type": "string", "maxLength": 1024, "description": "Id that create_python_env returned."},
            "package_name": {"type": "string", "description": "Package to ask about."}
        },
        "required": ["container_id", "package_name"],
        "additionalProperties": false
    }),
    .read_only = true,
    .idempotent = true,
    .run = run_check_env,
};
/* clang-format on */

static const struct tool *const tools[] = {&create, &list, &execute, &install, &check};

const struct profile profile_python_env = {
    .name = "python-env",
    .server_name = "Python Docker Executor 🐳",
    .tools = tools,
    .tool_count = sizeof(tools) / sizeof(tools[0]),
};
