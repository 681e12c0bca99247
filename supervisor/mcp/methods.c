/*
 * The methods: which revision has which, and how params are parsed before the application gets
 * them. The opening methods of both eras are answered here, without the application.
 *
 * Legacy results have exactly the members their revision knows; clients check some for emptiness.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/logging.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks.h"

/* of all that a client says about itself */
#define INITIALIZE_MAX_BYTES (64u << 10)

int mcp_log_level(const char *name)
{
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    for (int i = 0; i < (int)(sizeof(levels) / sizeof(levels[0])); i++) {
        if (strcmp(name, levels[i]) == 0) {
            return i;
        }
    }
    return MCP_LOG_NONE;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void put_instructions(const struct mcp_request *r, cJSON *result)
{
    const char *text = r->session->server->app->instructions;
    if (text != NULL) {
        cJSON_AddItemToObjectCS(result, "instructions", cJSON_CreateStringReference(text));
    }
}

static void discover(struct mcp_request *r)
{
    struct mcp_server *server = r->session->server;
    const char *const version = revision_name(REVISION_2026_07_28);
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "supportedVersions", cJSON_CreateStringArray(&version, 1));
    cJSON_AddItemToObjectCS(result, "capabilities", mcp_server_capabilities(r));
    put_instructions(r, result);
    /* who shows views is told of more */
    mcp_cacheable(r->revision, result, !mcp_client_shows_views(r), MCP_LIST_TTL_MS);
    cJSON *meta = cJSON_AddObjectToObject(result, "_meta");
    cJSON_AddItemToObjectCS(meta, MCP_META_SERVER_INFO,
                            mcp_raw(mcp_server_info(server, r->revision)));
    mcp_answer(r, result);
}

static void initialize_session(struct mcp_request *r)
{
    struct mcp_session *s = r->session;
    const char *wanted = json_get_str(r->params, "protocolVersion");
    bool again = s->initialized && s->kind == MCP_SESSION_PIPE;
    if ((s->initialized && !again) || r->batch != NULL) {
        mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_INVALID_REQUEST,
                   r->batch != NULL ? "Invalid request: initialize cannot be in a batch"
                                    : "Invalid request: this session is initialized already",
                   NULL);
        return;
    }
    if (wanted == NULL) {
        mcp_bad_params(r, "protocolVersion: expected a string");
        return;
    }
    if (r->bytes > INITIALIZE_MAX_BYTES) {
        mcp_bad_params(r, "initialize takes at most 64 KiB");
        return;
    }
    enum revision revision;
    if (!revision_parse(wanted, &revision) || revision_is_modern(revision)) {
        revision = REVISION_LATEST_LEGACY;
    }
    const cJSON *client = json_get(r->params, "clientInfo");
    const char *name = json_get_str(client, "name");
    const char *version = json_get_str(client, "version");
    log_debug("session of %s: client \"%.60s\" %.30s", revision_name(revision),
              name != NULL ? name : "", version != NULL ? version : "");
    if (again) {
        mcp_session_begin_again(r);
    }
    snprintf(s->client, sizeof(s->client), "%s", name != NULL ? name : "");
    s->initialized = true;
    s->revision = r->revision = revision;
    s->capabilities = mcp_client_capabilities_read(json_get(r->params, "capabilities"), revision);
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "protocolVersion",
                            cJSON_CreateStringReference(revision_name(revision)));
    cJSON_AddItemToObjectCS(result, "capabilities", mcp_server_capabilities(r));
    cJSON_AddItemToObjectCS(result, "serverInfo", mcp_raw(mcp_server_info(s->server, revision)));
    put_instructions(r, result);
    mcp_answer(r, result);
}

static void answer_ping(struct mcp_request *r)
{
    mcp_answer(r, cJSON_CreateObject());
}

/* ---- methods of the application -------------------------------------------------------------- */

static const struct mcp_app *app_of(const struct mcp_request *r)
{
    return r->session->server->app;
}

/* Reads the member `arguments`. False: it is not an object. */
static bool read_arguments(const struct mcp_request *r, const cJSON **ret)
{
    *ret = json_get_given(r->params, "arguments");
    return *ret == NULL || cJSON_IsObject(*ret);
}

static void tools_call(struct mcp_request *r)
{
    const char *name = json_get_str(r->params, "name");
    const cJSON *arguments;
    if (name == NULL) {
        mcp_bad_params(r, "name: expected the name of a tool");
    } else if (!read_arguments(r, &arguments)) {
        mcp_bad_params(r, "arguments: expected an object");
    } else if (r->tool == NULL) {
        CLEANUP_FREE char *text =
            alloc_printf("Unknown tool: %.100s; tools/list names those there are", name);
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, text, NULL);
    } else if (mcp_task_begin(r) && mcp_input_begin(r)) {
        app_of(r)->tool_call(r, r->tool, arguments);
    }
}

static void resources_read(struct mcp_request *r)
{
    const char *uri = json_get_str(r->params, "uri");
    if (uri == NULL) {
        mcp_bad_params(r, "uri: expected the URI of a resource");
    } else if (mcp_input_begin(r)) {
        app_of(r)->resource_read(r, uri);
    }
}

static void prompts_get(struct mcp_request *r)
{
    const char *name = json_get_str(r->params, "name");
    const cJSON *arguments;
    bool whole = read_arguments(r, &arguments);
    for (const cJSON *item = whole && arguments != NULL ? arguments->child : NULL; item != NULL;
         item = item->next) {
        whole = whole && cJSON_IsString(item);
    }
    if (name == NULL) {
        mcp_bad_params(r, "name: expected the name of a prompt");
    } else if (!whole) {
        mcp_bad_params(r, "arguments: expected an object of strings");
    } else if (mcp_input_begin(r)) {
        app_of(r)->prompt_get(r, name, arguments);
    }
}

static void complete_argument(struct mcp_request *r)
{
    const cJSON *ref = json_get(r->params, "ref");
    const cJSON *argument = json_get(r->params, "argument");
    const char *type = json_get_str(ref, "type");
    struct mcp_completion what = {
        .argument = json_get_str(argument, "name"),
        .value = json_get_str(argument, "value"),
    };
    if (type != NULL && strcmp(type, "ref/prompt") == 0) {
        what.prompt = json_get_str(ref, "name");
    } else if (type != NULL && strcmp(type, "ref/resource") == 0) {
        what.uri = json_get_str(ref, "uri");
    }
    const cJSON *others = json_get(json_get(r->params, "context"), "arguments");
    if (cJSON_IsObject(others) && revision_has_structure(r->revision)) {
        what.arguments = others;
    }
    if (what.prompt == NULL && what.uri == NULL) {
        mcp_bad_params(
            r, "ref: expected {type: \"ref/prompt\", name} or {type: \"ref/resource\", uri}");
    } else if (what.argument == NULL || what.value == NULL) {
        mcp_bad_params(r, "argument: expected {name, value}, both strings");
    } else {
        app_of(r)->complete(r, &what);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

#define OLDEST REVISION_2024_11_05
#define LEGACY REVISION_LATEST_LEGACY
#define LATEST REVISION_2026_07_28

/* Which methods exist in which revision. */
static const struct mcp_method methods[] = {
    {.name = "initialize",
     .first = OLDEST,
     .last = LEGACY,
     .early = true,
     .run = initialize_session},
    {.name = "ping", .first = OLDEST, .last = LEGACY, .early = true, .run = answer_ping},
    {.name = "server/discover", .first = LATEST, .last = LATEST, .run = discover},
    {.name = "tools/call",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_TOOLS,
     .works = true,
     .name_member = "name",
     .bulky = true,
     .run = tools_call},
    {.name = "tools/list",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_TOOLS,
     .works = true,
     .run = mcp_list_method},
    {.name = "resources/list",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_RESOURCES,
     .works = true,
     .run = mcp_list_method},
    {.name = "resources/templates/list",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_RESOURCES,
     .works = true,
     .run = mcp_list_method},
    {.name = "resources/read",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_RESOURCES,
     .works = true,
     .name_member = "uri",
     .bulky = true,
     .run = resources_read},
    {.name = "prompts/list",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_PROMPTS,
     .works = true,
     .run = mcp_list_method},
    {.name = "prompts/get",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_PROMPTS,
     .works = true,
     .name_member = "name",
     .bulky = true,
     .run = prompts_get},
    {.name = "completion/complete",
     .first = OLDEST,
     .last = LATEST,
     .offers = MCP_OFFER_COMPLETIONS,
     .works = true,
     .run = complete_argument},
    {.name = "logging/setLevel",
     .first = OLDEST,
     .last = LEGACY,
     .offers = MCP_OFFER_LOGGING,
     .run = mcp_logging_set_level},
    {.name = "resources/subscribe",
     .first = OLDEST,
     .last = LEGACY,
     .offers = MCP_OFFER_SUBSCRIBE,
     .run = mcp_subscriptions_subscribe},
    {.name = "resources/unsubscribe",
     .first = OLDEST,
     .last = LEGACY,
     .offers = MCP_OFFER_SUBSCRIBE,
     .run = mcp_subscriptions_unsubscribe},
    {.name = "subscriptions/listen",
     .first = LATEST,
     .last = LATEST,
     .endless = true,
     .run = mcp_subscriptions_listen},
    {.name = "tasks/get",
     .first = LEGACY,
     .last = LATEST,
     .offers = MCP_OFFER_TASKS,
     .name_member = "taskId",
     .needs = MCP_EXTENSION_TASKS,
     .run = mcp_tasks_get},
    {.name = "tasks/result",
     .first = LEGACY,
     .last = LEGACY,
     .offers = MCP_OFFER_TASKS,
     .run = mcp_tasks_result},
    {.name = "tasks/list",
     .first = LEGACY,
     .last = LEGACY,
     .offers = MCP_OFFER_TASKS,
     .run = mcp_tasks_list},
    {.name = "tasks/update",
     .first = LATEST,
     .last = LATEST,
     .offers = MCP_OFFER_TASKS,
     .name_member = "taskId",
     .needs = MCP_EXTENSION_TASKS,
     .bulky = true,
     .run = mcp_tasks_update},
    {.name = "tasks/cancel",
     .first = LEGACY,
     .last = LATEST,
     .offers = MCP_OFFER_TASKS,
     .name_member = "taskId",
     .needs = MCP_EXTENSION_TASKS,
     .run = mcp_tasks_cancel},
};

const struct mcp_method *mcp_method_find(const struct mcp_server *s, enum revision revision,
                                         const char *name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        const struct mcp_method *m = &methods[i];
        if (strcmp(m->name, name) == 0 && revision >= m->first && revision <= m->last &&
            (m->offers == 0 || (m->offers & s->app->offers) != 0)) {
            return m;
        }
    }
    return NULL;
}
