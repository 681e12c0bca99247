/*
 * Log messages go only to clients that asked for them, on the stream of the request that they
 * concern. Older clients ask once for a session; in the latest revision each request asks for
 * itself. A task has no stream, so its messages are dropped.
 */
#include "supervisor/mcp/logging.h"

#include "common/io/json.h"
#include "supervisor/mcp/internal.h"

void mcp_logging_set_level(struct mcp_request *r)
{
    const char *name = json_get_str(r->params, "level");
    int level = name != NULL ? mcp_log_level(name) : MCP_LOG_NONE;
    if (level == MCP_LOG_NONE) {
        mcp_bad_params(r, "\"level\" must be one of debug, info, notice, warning, "
                          "error, critical, alert, emergency");
        return;
    }
    r->session->log_level = level;
    mcp_answer(r, cJSON_CreateObject());
}

void mcp_log(struct mcp_request *r, const char *level, const char *logger, cJSON *data)
{
    int from = revision_is_modern(r->revision) ? r->log_level : r->session->log_level;
    bool offered = (r->session->server->app->offers & MCP_OFFER_LOGGING) != 0;
    if (!offered || from == MCP_LOG_NONE || mcp_log_level(level) < from || r->task != NULL) {
        cJSON_Delete(data);
        return;
    }
    cJSON *params = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(params, "level", cJSON_CreateString(level));
    if (logger != NULL) {
        cJSON_AddItemToObjectCS(params, "logger", cJSON_CreateString(logger));
    }
    cJSON_AddItemToObjectCS(params, "data", data);
    mcp_request_send(r, jsonrpc_notification("notifications/message", params));
}
