/*
 * Decides to which era a message belongs, and makes the checks between a message and its method.
 *
 * A request whose params._meta names a protocol version is modern: it carries all its state. Every
 * other request is legacy, and lives in a session that only `initialize` opens. Some requests name
 * no version but can only be meant as modern (half of the _meta, a header of the latest revision,
 * server/discover); the error tells them what is missing.
 *
 * The protocol fixes the order of a modern request's checks: clients learn from the first error
 * what to change, and tell an old server from a new one by it.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/metrics/metrics.h"

/* Revisions are dates, so the text order is their order. */
static bool head_is_modern(const struct mcp_head *head)
{
    return head != NULL && head->version != NULL &&
           strcmp(head->version, revision_name(REVISION_2026_07_28)) >= 0;
}

/* ---- eras ----------------------------------------------------------------------------------- */

bool mcp_is_modern(const struct mcp_session *s, const struct jsonrpc_message *m,
                   const struct mcp_head *head)
{
    const cJSON *meta = json_get(m->params, "_meta");
    if (s->kind == MCP_SESSION_SINGLE || json_get(meta, MCP_META_VERSION) != NULL ||
        strcmp(m->method, "server/discover") == 0 || head_is_modern(head)) {
        return true;
    }
    /* Half of the _meta, without a session: the client means to be modern. */
    return !s->initialized && json_get(meta, MCP_META_CAPABILITIES) != NULL;
}

static bool claims(const cJSON *message)
{
    const cJSON *meta = json_get(json_get(message, "params"), "_meta");
    return json_get(meta, MCP_META_VERSION) != NULL ||
           json_get(meta, MCP_META_CAPABILITIES) != NULL;
}

static bool has_method(const cJSON *message, const char *name)
{
    const char *method = json_get_str(message, "method");
    return method != NULL && strcmp(method, name) == 0;
}

enum mcp_path mcp_classify(const cJSON *message, const struct mcp_head *head)
{
    if (head_is_modern(head) || claims(message) || has_method(message, "server/discover")) {
        return MCP_PATH_SINGLE;
    }
    if (cJSON_IsArray(message)) {
        const cJSON *item;
        cJSON_ArrayForEach(item, message)
        {
            if (claims(item)) {
                return MCP_PATH_SINGLE; /* the single session refuses it */
            }
        }
        return MCP_PATH_LEGACY;
    }
    return has_method(message, "initialize") ? MCP_PATH_INITIALIZE : MCP_PATH_LEGACY;
}

/* ---- checks of both eras --------------------------------------------------------------------- */

static void unknown_method(struct mcp_request *r)
{
    CLEANUP_FREE char *text = alloc_printf("Method not found: %.100s", r->method_name);
    mcp_answer_error(r, JSONRPC_METHOD_NOT_FOUND, text, NULL);
}

static void refuse_for_now(struct mcp_request *r, const char *text, const char *hint)
{
    cJSON *data = alloc_check(cJSON_CreateObject());
    cJSON_AddItemToObjectCS(data, "hint", cJSON_CreateString(hint));
    mcp_answer_error(r, JSONRPC_BUSY, text, data);
}

/* True if the request exceeds a limit; it has been refused then. */
static bool is_too_much(struct mcp_request *r)
{
    struct mcp_session *s = r->session;
    const struct principal *p = s->principal;
    size_t most = s->server->app->calls_max > 0 ? s->server->app->calls_max : LIMIT_CALLS;
    if (s->calls >= most) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_CLIENT_CALLS);
        CLEANUP_FREE char *text =
            alloc_printf("Busy: %zu calls of this client are in flight, the most at a time", most);
        refuse_for_now(r, text,
                       "wait until some have ended, then send this one again; the server's option "
                       "--max-calls allows more");
        return true;
    }
    if (p->kept > LIMIT_KEPT_EACH || s->server->kept > LIMIT_KEPT_ALL) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_KEPT_BYTES);
        refuse_for_now(r,
                       p->kept > LIMIT_KEPT_EACH
                           ? "Busy: your calls in flight and tasks hold too much; at most 64 MiB "
                             "are kept"
                           : "Busy: the calls in flight and tasks of all clients hold too much",
                       "wait until some have ended, then send this one again");
        return true;
    }
    if (p->limits.calls > 0 && p->calls >= p->limits.calls) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_PRINCIPAL_CALLS);
        CLEANUP_FREE char *text = alloc_printf(
            "Busy: %zu calls of yours are in flight, as many as you may have", p->calls);
        refuse_for_now(r, text, "wait until some have ended, then send this one again");
        return true;
    }
    return false;
}

static void run_request(struct mcp_request *r)
{
    struct mcp_server *server = r->session->server;
    if (!r->method->bulky && r->bytes > LIMIT_SMALL_PARAMS) {
        mcp_bad_params(r, "a request of this method has at most 256 KiB");
        return;
    }
    if (mcp_list_answer_kept(r)) {
        return;
    }
    if (r->method->works) {
        if (server->stopping && r->tool != NULL && server->app->refuse != NULL) {
            server->app->refuse(r);
            return;
        }
        if (server->stopping) {
            mcp_fail(r, JSONRPC_INTERNAL, "The server is shutting down");
            return;
        }
        if (is_too_much(r)) {
            return;
        }
        r->counted = true;
        r->session->calls++;
        r->session->principal->calls++;
        progress_init(&r->progress, r->params, revision_has_progress_message(r->revision),
                      clock_ms());
        mcp_watch(r);
    }
    r->method->run(r);
}

/* The tool that a call names, or NULL. */
static const struct mcp_tool *find_tool(const struct mcp_request *r)
{
    const struct mcp_app *app = r->session->server->app;
    const char *name = json_get_str(r->params, "name");
    return name != NULL && strcmp(r->method_name, "tools/call") == 0
               ? app->tool_find(app->arg, name)
               : NULL;
}

/* ---- modern --------------------------------------------------------------------------------- */

/* True if the request's _meta is complete; otherwise it has been answered. */
static bool check_meta(struct mcp_request *r, const struct mcp_head *head)
{
    const cJSON *meta = json_get(r->params, "_meta");
    const cJSON *claim = json_get(meta, MCP_META_VERSION);
    if (claim == NULL && strcmp(r->method_name, "initialize") == 0 && head_is_modern(head)) {
        mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_HEADER_MISMATCH,
                   "Header mismatch: MCP-Protocol-Version names a revision without initialize",
                   NULL);
        return false;
    }
    bool has_version = cJSON_IsString(claim);
    bool has_capabilities = cJSON_IsObject(json_get(meta, MCP_META_CAPABILITIES));
    if (has_version && has_capabilities) {
        return true;
    }
    CLEANUP_FREE char *text =
        alloc_printf("Invalid params: params._meta must have %s%s%s",
                     has_version ? "" : "\"" MCP_META_VERSION "\" (a string)",
                     has_version || has_capabilities ? "" : " and ",
                     has_capabilities ? "" : "\"" MCP_META_CAPABILITIES "\" (an object)");
    mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_INVALID_PARAMS, text, NULL);
    return false;
}

static bool check_version(struct mcp_request *r)
{
    const char *claim = json_get_str(json_get(r->params, "_meta"), MCP_META_VERSION);
    const char *const served = revision_name(REVISION_2026_07_28);
    if (strcmp(claim, served) == 0) {
        return true;
    }
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(data, "supported", cJSON_CreateStringArray(&served, 1));
    cJSON_AddItemToObjectCS(data, "requested", cJSON_CreateString(claim));
    mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_UNSUPPORTED_VERSION,
               "Unsupported protocol version in params._meta", data);
    return false;
}

static bool check_log_level(struct mcp_request *r)
{
    const cJSON *level = json_get_given(json_get(r->params, "_meta"), MCP_META_LOG_LEVEL);
    if (level == NULL) {
        return true;
    }
    r->log_level = cJSON_IsString(level) ? mcp_log_level(level->valuestring) : MCP_LOG_NONE;
    if (r->log_level == MCP_LOG_NONE) {
        return mcp_bad_params(r, "unknown level in \"" MCP_META_LOG_LEVEL "\"");
    }
    return true;
}

void mcp_take_modern(struct mcp_request *r, const struct mcp_head *head)
{
    if (r->batch != NULL) {
        mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_INVALID_REQUEST,
                   "Invalid request: this revision has no batches", NULL);
        return;
    }
    if (!check_meta(r, head) || (head != NULL && !mcp_head_check_version(r, head)) ||
        !check_version(r)) {
        return;
    }
    r->method = mcp_method_find(r->session->server, r->revision, r->method_name);
    if (head != NULL && !mcp_head_check_method(r, head)) {
        return;
    }
    if (r->method == NULL) {
        unknown_method(r);
        return;
    }
    if (r->method->needs != NULL && !mcp_client_can(r, r->method->needs)) {
        mcp_answer_needs(r, r->method->needs);
        return;
    }
    r->tool = find_tool(r);
    if ((head == NULL || mcp_head_check_params(r, head)) && check_log_level(r)) {
        run_request(r);
    }
}

/* ---- legacy --------------------------------------------------------------------------------- */

void mcp_take_legacy(struct mcp_request *r)
{
    const struct mcp_session *s = r->session;
    r->method = mcp_method_find(s->server, r->revision, r->method_name);
    if (r->method != NULL && (s->initialized || r->method->early)) {
        r->tool = find_tool(r);
        run_request(r);
    } else if (s->initialized) {
        unknown_method(r);
    } else {
        mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_INVALID_REQUEST,
                   "Server not initialized: send \"initialize\" first, or give \"" MCP_META_VERSION
                   "\" and \"" MCP_META_CAPABILITIES "\" in params._meta of every request",
                   NULL);
    }
}
