/*
 * What each method answers, in both eras.
 *
 * Legacy results have exactly the members their revision knows; modern results name their type, who
 * answered, and for lists how long they stay good. Our lists depend on nothing but
 * the configuration, so anybody may keep them.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/mcp_internal.h"

#define LIST_TTL_MS 300000

static const char instructions[] =
    "Runs code in isolated sandboxes. Start with execute_code: without sandbox_id it uses this "
    "session's own sandbox, whose files and variables stay between calls, so work in small steps. "
    "Put files in with write_file and get them out with read_file; relative paths start in the "
    "workspace, where code runs. Sandboxes have no network and no way to install packages from it. "
    "When a call fails, error.hint says what to do next.";

static cJSON *server_info(enum revision revision)
{
    cJSON *info = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(info, "name", cJSON_CreateStringReference("cloister"));
    if (revision_has_structure(revision)) {
        cJSON_AddItemToObjectCS(info, "title", cJSON_CreateStringReference("Cloister sandboxes"));
    }
    cJSON_AddItemToObjectCS(info, "version", cJSON_CreateStringReference(CLOISTER_VERSION));
    return info;
}

static cJSON *capabilities(void)
{
    cJSON *c = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(c, "tools", cJSON_CreateObject());
    return c;
}

void mcp_result_seal(enum revision revision, cJSON *result)
{
    if (!revision_is_modern(revision)) {
        return;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(meta, MCP_META_SERVER_INFO, server_info(revision));
    cJSON_AddItemToObjectCS(result, "resultType", cJSON_CreateStringReference("complete"));
    cJSON_AddItemToObjectCS(result, "_meta", meta);
}

cJSON *mcp_result_of_tool(enum revision revision, struct result *r)
{
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "content", STEAL_PTR(r->content));
    if (revision_has_structure(revision)) {
        cJSON_AddItemToObjectCS(result, "structuredContent", STEAL_PTR(r->structured));
    }
    if (r->is_error) {
        cJSON_AddItemToObjectCS(result, "isError", cJSON_CreateTrue());
    }
    mcp_result_seal(revision, result);
    return result;
}

static void cacheable(cJSON *result)
{
    cJSON_AddItemToObjectCS(result, "ttlMs", cJSON_CreateNumber(LIST_TTL_MS));
    cJSON_AddItemToObjectCS(result, "cacheScope", cJSON_CreateStringReference("public"));
}

/* ---- tools ---------------------------------------------------------------------------------- */

static void tools_list_method(const struct mcp_request *r)
{
    const cJSON *cursor = json_get(r->params, "cursor");
    if (cursor != NULL && !cJSON_IsNull(cursor)) {
        /* Our list is one page: no cursor can have come from us. */
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, "Invalid params: unknown cursor", NULL);
        return;
    }
    struct mcp_server *server = r->session->server;
    char **list = &server->tool_lists[r->revision];
    if (*list == NULL) {
        cJSON *result = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(result, "tools", tools_list(server->tools, r->revision));
        if (revision_is_modern(r->revision)) {
            cacheable(result);
        }
        mcp_result_seal(r->revision, result);
        *list = cJSON_PrintUnformatted(result);
        cJSON_Delete(result);
    }
    mcp_answer(r, cJSON_CreateRaw(*list != NULL ? *list : "{\"tools\":[]}"));
}

static void answer_bad_arguments(const struct mcp_request *r, const struct tool *tool,
                                 const char *problem)
{
    char *text = alloc_printf("Invalid arguments for %s: %s", tool->name, problem);
    if (revision_argument_errors_are_results(r->revision)) {
        struct result result;
        result_init(&result);
        result_set_failure(&result, ERR_INVALID, text,
                           "correct the arguments according to the tool's inputSchema");
        mcp_answer(r, mcp_result_of_tool(r->revision, &result));
        result_finish(&result);
    } else {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, text, NULL);
    }
    free(text);
}

static void answer_stopping(const struct mcp_request *r)
{
    struct result result;
    result_init(&result);
    result_set_failure(&result, ERR_SHUTTING_DOWN, "the server is shutting down", NULL);
    mcp_answer(r, mcp_result_of_tool(r->revision, &result));
    result_finish(&result);
}

static void tools_call_method(const struct mcp_request *r)
{
    struct tools *tools = r->session->server->tools;
    const char *name = json_get_str(r->params, "name");
    const cJSON *arguments = json_get(r->params, "arguments");
    if (cJSON_IsNull(arguments)) {
        arguments = NULL; /* some clients write "none" that way */
    }
    if (name == NULL || (arguments != NULL && !cJSON_IsObject(arguments))) {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS,
                         name == NULL ? "Invalid params: name: expected the name of a tool"
                                      : "Invalid params: arguments: expected an object",
                         NULL);
        return;
    }
    const struct tool *tool = tools_find(tools, name);
    if (tool == NULL) {
        char *text = alloc_printf("Unknown tool: %.100s; tools/list names those there are", name);
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, text, NULL);
        free(text);
        return;
    }
    struct err err = ERR_INIT;
    if (tools_check(tools, tool, arguments, &err) < 0) {
        answer_bad_arguments(r, tool, err.text);
        return;
    }
    if (r->session->server->stopping) {
        answer_stopping(r);
        return;
    }
    mcp_call_start(r, tool, arguments);
}

/* ---- modern --------------------------------------------------------------------------------- */

static void discover(const struct mcp_request *r)
{
    const char *const version = revision_name(REVISION_2026_07_28);
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "supportedVersions", cJSON_CreateStringArray(&version, 1));
    cJSON_AddItemToObjectCS(result, "capabilities", capabilities());
    cJSON_AddItemToObjectCS(result, "instructions", cJSON_CreateStringReference(instructions));
    cacheable(result);
    mcp_result_seal(r->revision, result);
    mcp_answer(r, result);
}

/* ---- legacy --------------------------------------------------------------------------------- */

static void initialize(const struct mcp_request *r)
{
    struct mcp_session *s = r->session;
    const char *wanted = json_get_str(r->params, "protocolVersion");
    if (s->initialized || r->batch != NULL) {
        mcp_answer_error(r, JSONRPC_INVALID_REQUEST,
                         s->initialized ? "Invalid request: this session is initialized already"
                                        : "Invalid request: initialize cannot be in a batch",
                         NULL);
        return;
    }
    if (wanted == NULL) {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS,
                         "Invalid params: protocolVersion: expected a string", NULL);
        return;
    }
    enum revision revision;
    if (!revision_parse(wanted, &revision) || revision_is_modern(revision)) {
        revision = REVISION_LATEST_LEGACY;
    }
    s->initialized = true;
    s->revision = revision;
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "protocolVersion",
                            cJSON_CreateStringReference(revision_name(revision)));
    cJSON_AddItemToObjectCS(result, "capabilities", capabilities());
    cJSON_AddItemToObjectCS(result, "serverInfo", server_info(revision));
    cJSON_AddItemToObjectCS(result, "instructions", cJSON_CreateStringReference(instructions));
    mcp_answer(r, result);
}

static void ping(const struct mcp_request *r)
{
    mcp_answer(r, cJSON_CreateObject());
}

/* ---- dispatch ------------------------------------------------------------------------------- */

/* Which methods are legal when is data. */
static const struct {
    const char *name;
    bool modern, legacy;
    bool before_initialize;
    void (*answer)(const struct mcp_request *r);
} methods[] = {
    {"initialize", false, true, true, initialize},
    {"ping", false, true, true, ping},
    {"server/discover", true, false, false, discover},
    {"tools/call", true, true, false, tools_call_method},
    {"tools/list", true, true, false, tools_list_method},
};

static void unknown_method(const struct mcp_request *r)
{
    char *text = alloc_printf("Method not found: %.100s", r->method);
    mcp_answer_error(r, JSONRPC_METHOD_NOT_FOUND, text, NULL);
    free(text);
}

void mcp_dispatch_modern(const struct mcp_request *r)
{
    const char *level = json_get_str(json_get(r->params, "_meta"), MCP_META_LOG_LEVEL);
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    bool known = json_get(json_get(r->params, "_meta"), MCP_META_LOG_LEVEL) == NULL;
    for (size_t i = 0; level != NULL && i < sizeof(levels) / sizeof(levels[0]); i++) {
        known = known || strcmp(level, levels[i]) == 0;
    }
    if (!known) {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS,
                         "Invalid params: unknown level in \"" MCP_META_LOG_LEVEL "\"", NULL);
        return;
    }
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (methods[i].modern && strcmp(methods[i].name, r->method) == 0) {
            methods[i].answer(r);
            return;
        }
    }
    unknown_method(r);
}

void mcp_dispatch_legacy(const struct mcp_request *r)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (methods[i].legacy && strcmp(methods[i].name, r->method) == 0 &&
            (r->session->initialized || methods[i].before_initialize)) {
            methods[i].answer(r);
            return;
        }
    }
    if (r->session->initialized) {
        unknown_method(r);
        return;
    }
    mcp_answer_error(
        r, JSONRPC_INVALID_REQUEST,
        "Server not initialized: send \"initialize\" first, or give \"" MCP_META_VERSION
        "\" and \"" MCP_META_CAPABILITIES "\" in params._meta of every request",
        NULL);
}
