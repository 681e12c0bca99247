/*
 * Profile python-env: the tools of a server that makes "Python environments" and serves SSE. It has
 * the shapes of the version that its published document describes; python-env@later those of the
 * last version under these names, which also lists its environments. A tool's shape is that of the
 * profile that is on, since both have its name and only one of them is offered.
 */
#include "common/io/json.h"
#include "supervisor/base/config.h"
#include "supervisor/compat/profile.h"
#include "supervisor/compat/python_profile.h"

static const struct python_shape first = {
    .key = "container_id",
    .missing = "Container ",
    .missing_end = " does not exist or was cleaned up. Please create a new one using "
                   "create_python_env.",
    .style = REPLY_DUMPS,
    .first = true,
};

static const struct python_shape later = {
    .key = "container_id",
    .missing = "Container not found: ",
    .missing_end = "",
    .style = REPLY_DUMPS,
};

static const struct python_shape *shape_of(const struct tool_call *call)
{
    return config_lists(call->session->config->compat, profile_python_env.name) ? &first : &later;
}

static void opened_env(struct tool_call *call, const char *name)
{
    (void)name;
    reply_text(call, call->sandbox_id);
}

static void run_create_env(struct tool_call *call)
{
    python_create(call, shape_of(call), NULL, opened_env);
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
    python_list(call, shape_of(call), describe_env);
}

static void run_execute_env(struct tool_call *call)
{
    python_execute(call, shape_of(call));
}

static void run_install_env(struct tool_call *call)
{
    python_install(call, shape_of(call));
}

static void run_check_env(struct tool_call *call)
{
    python_check(call, shape_of(call));
}

/* clang-format off */
static const struct tool create = {
    .name = "create_python_env",
    .title = "Create a Python environment",
    .description =
        "Creates a new Python environment, isolated@env_network_about@, and returns its id for the other tools. "
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

#define EXECUTE_SCHEMA JSON_TEXT({ \
        "type": "object", \
        "properties": { \
            "container_id": {"type": "string", "maxLength": 1024, "description": "Id that create_python_env returned."}, \
            "code": {"type": "string", "description": "Python code to run."} \
        }, \
        "required": ["container_id", "code"], \
        "additionalProperties": false \
    })

static const struct tool execute = {
    .name = "execute_python_code",
    .title = "Run Python code",
    .description =
        "Runs Python code in an environment and returns stdout, stderr, exit_code, and the files in /app/results, where it "
        "runs, with links to them. Afterwards files there have names with the environment's id and the time, by which later "
        "code finds them. Each call is a program of its own: variables do not stay, files do. Save plots to files.",
    .input_schema = EXECUTE_SCHEMA,
    .destructive = true,
    .run = run_execute_env,
};

static const struct tool later_execute = {
    .name = "execute_python_code",
    .title = "Run Python code",
    .description =
        "Runs Python code in an environment and returns stdout, stderr, exit_code, and the files that the code created or "
        "changed in /app/results, where it runs, with links to them. Each call is a program of its own: variables do not "
        "stay, files do. Save plots to files.",
    .input_schema = EXECUTE_SCHEMA,
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

static const struct tool *const tools[] = {&create, &execute, &install, &check};
static const struct tool *const later_tools[] = {&create, &list, &later_execute, &install, &check};

#define SERVER_NAME "Python Docker Executor 🐳"
#define INSTRUCTIONS                                                                               \
    "Start with create_python_env, whose result is the container_id for execute_python_code and "  \
    "the other tools. Each code is a program of its own in /app/results, where files stay; "       \
    "install_package_in_env installs packages."

const struct profile profile_python_env = {
    .name = "python-env",
    .server_name = SERVER_NAME,
    .instructions = INSTRUCTIONS,
    .tools = tools,
    .tool_count = sizeof(tools) / sizeof(tools[0]),
};

const struct profile profile_python_env_later = {
    .name = "python-env@later",
    .server_name = SERVER_NAME,
    .instructions = INSTRUCTIONS,
    .tools = later_tools,
    .tool_count = sizeof(later_tools) / sizeof(later_tools[0]),
};
