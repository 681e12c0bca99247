/*
 * POST /mcp: one message, of any revision.
 *
 * Checks that need HTTP alone come first: the content type, and whether the body is JSON. Then the
 * message shows its era. A message of the latest revision gets a session of its own, and the
 * protocol layer makes all further checks, since it knows their order. An older message belongs to
 * the session that it names, or opens one.
 *
 * A header that decides something must not occur twice: another program on the way might have read
 * the other one.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/mcp/wire/raw_id.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/mcp/internal.h"

#define PARAM_PREFIX "Mcp-Param-"

/* ---- reading -------------------------------------------------------------------------------- */

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof(json) - 1;
    if (type == NULL || strncasecmp(type, json, len) != 0) {
        return false;
    }
    type += len;
    type += strspn(type, " \t");
    return *type == '\0' || *type == ';';
}

bool mcp_post_read(struct web_exchange *x, const struct mcp_client *c, struct mcp_incoming *ret)
{
    struct view body = web_body(x);
    struct err err = ERR_INIT;
    struct mcp_incoming in = {.bytes = body.len};
    if (!is_json(web_header(x, "Content-Type"))) {
        mcp_endpoint_refuse(x, c, 415, JSONRPC_INVALID_REQUEST,
                            "Content-Type must be application/json");
        return false;
    }
    int rc = json_parse(body.data != NULL ? body.data : "", body.len, LIMIT_LINE_BYTES,
                        LIMIT_JSON_DEPTH, &in.message, &in.has_nul, &err);
    if (rc == -ERR_NO_MEMORY) {
        mcp_endpoint_refuse(x, c, 503, JSONRPC_INTERNAL, err.text);
        return false;
    }
    if (rc < 0) {
        CLEANUP_FREE char *id = raw_id_of(body.data != NULL ? body.data : "", body.len);
        mcp_endpoint_refuse_id(x, c, 400, id, JSONRPC_PARSE_ERROR, err.text);
        return false;
    }
    CLEANUP_FREE char *mended =
        raw_id_mended(in.message, body.data != NULL ? body.data : "", body.len);
    if (mended != NULL) {
        cJSON_Delete(in.message);
        mcp_endpoint_refuse_id(x, c, 400, mended, JSONRPC_INVALID_REQUEST, RAW_ID_MENDED);
        return false;
    }
    *ret = in;
    return true;
}

static const char *param(void *arg, const char *name)
{
    char header[sizeof(PARAM_PREFIX) + LIMIT_NAME * 4];
    int n = snprintf(header, sizeof(header), PARAM_PREFIX "%s", name);
    return n > 0 && (size_t)n < sizeof(header) ? web_header(arg, header) : NULL;
}

static const char *twice(const struct web_exchange *x)
{
    static const char *const names[] = {"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
                                        "Mcp-Session-Id", "Content-Type"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (web_header_count(x, names[i]) > 1) {
            return names[i];
        }
    }
    return web_header_twice(x, PARAM_PREFIX);
}

/* ---- eras ----------------------------------------------------------------------------------- */

static void set_accept(struct mcp_stream *s, struct mcp_accept accept)
{
    s->may_stream = accept.stream;
    s->only_stream = accept.stream && !accept.json && !accept.any;
}

static void single(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p,
                   struct mcp_incoming *in, enum result_form results)
{
    struct mcp_stream *s = mcp_stream_create(e, NULL, x);
    const char *method = json_get_str(in->message, "method");
    set_accept(s, mcp_accept_read(x));
    /* The answer to this method is a stream by definition, whatever the client accepts. */
    s->may_stream |= method != NULL && strcmp(method, "subscriptions/listen") == 0;
    s->session = mcp_session_create(e->config.server, MCP_SESSION_SINGLE, p);
    mcp_session_set_results(s->session, results);
    mcp_stream_take(s, in);
}

static void legacy(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p,
                   struct mcp_incoming *in, bool initialize, enum result_form results)
{
    struct mcp_accept accept = mcp_accept_read(x);
    struct mcp_client *c = NULL, *named = mcp_endpoint_named(e, x, p);
    if (!accept.json && !accept.stream && !accept.any) {
        mcp_endpoint_refuse(x, named, 406, JSONRPC_INVALID_REQUEST,
                            "Accept must name application/json and text/event-stream");
    } else if (!mcp_endpoint_check_version(x, named)) {
        /* answered */
    } else if (!initialize) {
        c = mcp_endpoint_client(e, x, p);
    } else if ((c = mcp_client_create(e, p, false, results)) == NULL) {
        web_set_header(x, "Retry-After", RETRY_LATER_S);
        metrics_count(METRIC_REJECTED, METRIC_REASON_SESSIONS);
        mcp_endpoint_refuse(x, NULL, 503, JSONRPC_INTERNAL,
                            "too many sessions are open; end one with DELETE, or come later");
    }
    if (c == NULL) {
        cJSON_Delete(in->message);
        return;
    }
    mcp_client_touch(c);
    struct mcp_stream *s = mcp_stream_create(e, c, x);
    s->opens = initialize;
    set_accept(s, accept);
    mcp_stream_take(s, in);
}

void mcp_post(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    struct mcp_incoming in;
    const char *name = twice(x);
    const struct mcp_client *named = mcp_endpoint_named(e, x, p);
    enum result_form results;
    if (name != NULL) {
        char why[128];
        snprintf(why, sizeof(why), "%.80s is there more than once", name);
        mcp_endpoint_refuse(x, named, 400, JSONRPC_HEADER_MISMATCH, why);
        return;
    }
    if (!mcp_endpoint_results(x, named, &results) || !mcp_post_read(x, named, &in)) {
        return;
    }
    struct mcp_head head = {
        .version = web_header(x, "MCP-Protocol-Version"),
        .method = web_header(x, "Mcp-Method"),
        .name = web_header(x, "Mcp-Name"),
        .param = param,
        .arg = x,
    };
    in.head = &head;
    switch (mcp_classify(in.message, &head)) {
    case MCP_PATH_SINGLE:
        single(e, x, p, &in, results);
        return;
    case MCP_PATH_INITIALIZE:
        legacy(e, x, p, &in, true, results);
        return;
    case MCP_PATH_LEGACY:
        legacy(e, x, p, &in, false, results);
        return;
    }
}
