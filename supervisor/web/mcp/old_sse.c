/*
 * The transport of 2024-11-05, for clients that know no other. GET /sse is a stream with all
 * messages to the client; its first event says where the client posts its own.
 *
 * The session lives as long as that stream. Answers would pile up for a client that posts but does
 * not read, so it may not ask for more until it has read.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/web/mcp/internal.h"

void old_sse_get(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    enum result_form results;
    if (!mcp_endpoint_results(x, NULL, &results)) {
        return;
    }
    struct mcp_client *c = mcp_client_create(e, p, true, results);
    if (c == NULL) {
        web_set_header(x, "Retry-After", RETRY_LATER_S);
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
    /* Sent before the answer, which may follow at once on the other connection. */
    web_respond(x, 202, "text/plain", view_of("Accepted"));
    in.sink = &c->standing.sink;
    mcp_session_take(c->session, &in);
}
