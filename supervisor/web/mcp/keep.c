/*
 * Keeps events for clients that may reconnect.
 *
 * Three limits hold at any time: for one request in flight, for one client, and for all together.
 * Answers take precedence over notifications, and newer answers over older ones: to make room for
 * an answer, the oldest answered streams are dropped, first the client's own, then anybody's. An
 * event that finds no room is sent but not kept.
 */
#include <string.h>

#include "common/log.h"
#include "supervisor/web/mcp/internal.h"

static bool drop_first(struct mcp_stream *s)
{
    size_t before = s->log.bytes;
    bool dropped = event_log_drop_first(&s->log);
    s->client->kept_bytes -= before - s->log.bytes;
    s->endpoint->kept_bytes -= before - s->log.bytes;
    return dropped;
}

void mcp_stream_forget(struct mcp_stream *s)
{
    while (s->client != NULL && drop_first(s)) {
    }
}

bool mcp_client_drop_answered(struct mcp_client *c)
{
    struct mcp_stream *s;
    TAILQ_FOREACH(s, &c->streams, node)
    {
        if (s->timeout.in == &c->endpoint->kept) {
            mcp_stream_destroy(s);
            return true;
        }
    }
    return false;
}

static void make_stream_room(struct mcp_stream *s, size_t cost)
{
    struct mcp_endpoint *e = s->endpoint;
    while (s->client->kept_bytes + cost > CLIENT_KEPT &&
           (mcp_client_drop_answered(s->client) || drop_first(s))) {
    }
    struct timeout *oldest;
    while (e->kept_bytes + cost > ENDPOINT_KEPT && (oldest = TAILQ_FIRST(&e->kept.list)) != NULL) {
        mcp_stream_destroy(oldest->owner);
    }
}

void mcp_stream_keep(struct mcp_stream *s, const char *json, bool is_answer)
{
    size_t cost = event_log_cost(json);
    size_t limit = is_answer                        ? CLIENT_KEPT
                   : s->kind == MCP_STREAM_STANDING ? STANDING_BYTES
                                                    : STREAM_KEPT;
    if (cost <= limit && is_answer) {
        make_stream_room(s, cost);
    }
    while (cost <= limit && !is_answer && s->log.bytes + cost > limit && drop_first(s)) {
    }
    if (cost > limit || s->client->kept_bytes + cost > CLIENT_KEPT ||
        s->endpoint->kept_bytes + cost > ENDPOINT_KEPT ||
        !event_log_add(&s->log, s->events, json)) {
        log_debug("session %.8s: an event of %zu bytes is not kept", s->client->id, strlen(json));
        return;
    }
    s->client->kept_bytes += cost;
    s->endpoint->kept_bytes += cost;
}
