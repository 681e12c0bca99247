/*
 * The transport of 2024-11-05, for clients that know no other. GET /sse is a stream with all
 * messages to the client; its first event says where the client posts its own.
 *
 * The session ends with that stream. If the client opens it again, the session is resumed
 * (resume.c). Answers would pile up for a client that posts but does not read, so it may not ask
 * for more until it has read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/mcp/internal.h"

/* Resumes the session of a client that has lost its stream; NULL if this is not one. */
static struct mcp_client *resume_old(struct mcp_endpoint *e, const struct web_exchange *x,
                                     struct principal *p)
{
    const char *id = web_header(x, "Last-Event-ID");
    if (id == NULL) {
        return NULL;
    }
    char name[SESSION_NAME_CHARS + 1];
    snprintf(name, sizeof(name), "%s", id);
    struct mcp_client *open = mcp_client_find(e, name, true, p);
    if (open != NULL && open->told != NULL && strcmp(open->told, id) == 0) {
        mcp_client_lose(open, 409, "its client has opened another stream");
    }
    return mcp_client_resume(e, id, true, p);
}

void old_sse_get(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    enum result_form results;
    if (!mcp_endpoint_results(x, NULL, &results)) {
        return;
    }
    struct mcp_client *c = resume_old(e, x, p);
    if (c == NULL) {
        c = mcp_client_create(e, p, true, results);
    }
    if (c == NULL) {
        web_set_header(x, "Retry-After", RETRY_LATER_S);
        metrics_count(METRIC_REJECTED, METRIC_REASON_SESSIONS);
        mcp_endpoint_refuse(x, NULL, 503, JSONRPC_INTERNAL,
                            "too many sessions are open; come later");
        return;
    }
    char *place = alloc_printf("%s/messages?sessionId=%s", e->config.base_path, c->id);
    mcp_stream_attach(&c->standing, x);
    mcp_stream_begin(&c->standing);
    mcp_stream_write_event(&c->standing, "endpoint", place);
    free(place);
}

/* A client that lost its stream does not initialize again on the new one, and some send no
 * Last-Event-ID. So a client whose first message is another request is taken for one of these, and
 * gets the revision of this transport. */
static void agree_unasked(struct mcp_client *c, const cJSON *message)
{
    static const struct mcp_agreed agreed = {REVISION_2024_11_05, ""};
    static const struct mcp_head no_head = {.version = NULL};
    const char *method = json_get_str(message, "method");
    if (!c->used && !mcp_session_is_initialized(c->session) && json_get(message, "id") != NULL &&
        method != NULL && strcmp(method, "ping") != 0 &&
        mcp_classify(message, &no_head) == MCP_PATH_LEGACY) {
        log_info("session %.8s is resumed: its client has not initialized it", c->id);
        mcp_session_agree(c->session, &agreed);
    }
}

void old_sse_post(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    struct mcp_incoming in;
    const char *id = web_query(x, "sessionId");
    if (id == NULL) {
        mcp_endpoint_refuse(x, NULL, 400, JSONRPC_INVALID_REQUEST,
                            "?sessionId=… is missing; GET /sse tells where to post");
        return;
    }
    struct mcp_client *c = mcp_client_find(e, id, true, p);
    if (c == NULL) {
        mcp_endpoint_refuse(x, NULL, 404, JSONRPC_INVALID_REQUEST,
                            "there is no such session; GET /sse begins one");
        return;
    }
    if (web_stream_queued(c->standing.x) > STREAM_BEHIND ||
        mcp_session_open_requests(c->session) >= OLD_IN_FLIGHT) {
        web_set_header(x, "Retry-After", "1");
        mcp_endpoint_refuse(x, c, 503, JSONRPC_INTERNAL,
                            "too many answers are still to be read from the stream of /sse");
        return;
    }
    if (!mcp_post_read(x, c, &in)) {
        return;
    }
    mcp_client_touch(c);
    agree_unasked(c, in.message);
    c->used = true;
    /* Sent before the answer, which may follow at once on the other connection. */
    web_respond(x, 202, "text/plain", view_of("Accepted"));
    in.sink = &c->standing.sink;
    mcp_session_take(c->session, &in);
}
