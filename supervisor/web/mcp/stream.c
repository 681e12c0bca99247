/*
 * One stream of messages to a client, and its reader.
 *
 *   no reader ◀────────────── lost ─────────────────┐
 *       │ attach                                    │
 *       ▼                                           │
 *   waiting ──a message before the answer, or time──▶ streaming ──answer──▶ kept, or gone
 *       │
 *       └──answer: plain JSON──▶ gone
 *
 * A response does not begin at once: most requests are answered quickly, and then plain JSON is
 * cheapest for everybody. It becomes an event stream when a message precedes the answer, and after
 * a while in any case if the client accepts one. Comments then show everybody on the way that the
 * server is alive, and clients of a revision that wants it get an event id early, so that a long
 * request survives its connection.
 *
 * What happens when the reader disconnects depends on the era. The latest revision cannot resume,
 * so the request is cancelled. In older ones a lost connection is no cancellation: the request goes
 * on, its events are kept within limits, and GET with Last-Event-ID continues the stream. A client
 * that has seen no event id cannot resume, and its answer is dropped.
 *
 * A finished stream is kept as well, since a written answer need not have arrived.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/web/mcp/internal.h"

static void on_stream_gone(void *arg);

/* ---- readers -------------------------------------------------------------------------------- */

static void set_reader(struct mcp_stream *s, struct web_exchange *x)
{
    if (s->client != NULL) {
        s->client->attached += (size_t)(x != NULL) - (size_t)(s->x != NULL);
        mcp_client_touch(s->client);
    }
    s->x = x;
    s->streaming = false;
    timeout_list_drop(&s->timeout);
    if (x != NULL) {
        web_on_gone(x, on_stream_gone, s);
    }
}

/* Takes the reader away; the caller ends its exchange. */
static struct web_exchange *take_reader(struct mcp_stream *s)
{
    struct web_exchange *x = s->x;
    set_reader(s, NULL);
    return x;
}

void mcp_stream_attach(struct mcp_stream *s, struct web_exchange *x)
{
    if (s->x != NULL) {
        mcp_stream_send_away(s, 409, "another connection reads this stream now");
    }
    set_reader(s, x);
}

static void set_session_id(struct mcp_stream *s)
{
    if (s->opens && mcp_session_is_initialized(s->session)) {
        web_set_header(s->x, "Mcp-Session-Id", mcp_client_tell_id(s->client));
    }
}

void mcp_stream_send_away(struct mcp_stream *s, int status, const char *why)
{
    if (s->x == NULL) {
        return;
    }
    bool streaming = s->streaming;
    struct web_exchange *x = take_reader(s);
    if (streaming) {
        web_stream_end(x);
    } else {
        int code = status < 500 ? JSONRPC_INVALID_REQUEST : JSONRPC_INTERNAL;
        mcp_endpoint_refuse(x, s->client, status, code, why);
    }
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool wants_priming(const struct mcp_stream *s)
{
    return s->client != NULL && s->kind != MCP_STREAM_OLD &&
           mcp_session_is_initialized(s->session) &&
           mcp_session_revision(s->session) >= REVISION_2025_11_25;
}

static void write_frame(struct mcp_stream *s, char *frame, size_t len)
{
    if (frame != NULL) { /* without memory the client misses one event */
        web_stream_write(s->x, frame, len);
        timeout_list_set(&s->endpoint->heartbeat, &s->timeout);
    }
}

void mcp_stream_begin(struct mcp_stream *s)
{
    if (s->streaming) {
        return;
    }
    set_session_id(s);
    web_set_header(s->x, "Cache-Control", "no-cache");
    web_set_header(s->x, "X-Accel-Buffering", "no"); /* proxies of the nginx kind would buffer */
    web_stream_begin(s->x, 200, "text/event-stream");
    s->streaming = true;
    timeout_list_set(&s->endpoint->heartbeat, &s->timeout);
    if (wants_priming(s)) {
        struct event_id id = {s->number, s->delivered};
        size_t len;
        char *frame = event_priming_frame(&id, RETRY_MS, &len);
        write_frame(s, frame, len);
        s->has_id = true;
    }
}

static void write_message(struct mcp_stream *s, uint64_t number, const char *json)
{
    bool with_id = s->client != NULL && s->kind != MCP_STREAM_OLD;
    struct event_id id = {s->number, number};
    char text[EVENT_ID_SIZE];
    size_t len;
    event_id_write(&id, text);
    char *frame = event_frame(NULL, with_id ? text : NULL, json, &len);
    write_frame(s, frame, len);
    s->has_id = s->has_id || with_id;
    s->delivered = number;
}

/* Writes an answer on /sse. The answer to `initialize` has the id that resumes the session. */
static void write_old_answer(struct mcp_stream *s, const char *json)
{
    struct mcp_client *c = s->client;
    bool first = !c->id_sent && mcp_session_is_initialized(s->session);
    const char *told = first ? mcp_client_tell_id(c) : NULL;
    size_t len;
    char *frame = event_frame(NULL, told != NULL && c->told != NULL ? told : NULL, json, &len);
    c->id_sent = c->id_sent || first;
    write_frame(s, frame, len);
}

void mcp_stream_write_event(struct mcp_stream *s, const char *name, const char *data)
{
    size_t len;
    char *frame = event_frame(name, NULL, data, &len);
    write_frame(s, frame, len);
}

/* ---- replay ---------------------------------------------------------------------------------- */

static bool keeps(const struct mcp_stream *s)
{
    return s->kind == MCP_STREAM_STANDING || (s->kind == MCP_STREAM_POST && s->has_id);
}

void mcp_stream_replay(struct mcp_stream *s, uint64_t after)
{
    /* We never gave an id from the future; believing it would suppress coming events. */
    s->delivered = after < s->events ? after : s->events;
    mcp_stream_begin(s);
    for (const struct event *e = event_log_after(&s->log, s->delivered); e != NULL;
         e = STAILQ_NEXT(e, node)) {
        write_message(s, e->number, e->data);
    }
    if (s->answered) {
        web_stream_end(take_reader(s));
        timeout_list_set(&s->endpoint->kept, &s->timeout);
    }
}

/* ---- messages of the session ----------------------------------------------------------------- */

static bool tell_stream(struct mcp_stream *s, const char *json)
{
    if (s->answered) {
        return false;
    }
    if (s->x == NULL) {
        if (!keeps(s)) {
            return false;
        }
        /* a repeated "the list has changed" is kept once until a client reads it */
        if (s->kind != MCP_STREAM_STANDING || !event_log_has(&s->log, s->delivered, json)) {
            s->events++;
            mcp_stream_keep(s, json, false);
        }
        return true;
    }
    if ((!s->streaming && !s->may_stream) || web_stream_queued(s->x) > STREAM_BEHIND) {
        return false;
    }
    mcp_stream_begin(s);
    write_message(s, ++s->events, json);
    if (keeps(s)) {
        mcp_stream_keep(s, json, false);
    }
    return true;
}

static bool on_stream_send(struct mcp_sink *sink, char *json)
{
    bool sent = tell_stream((struct mcp_stream *)sink, json);
    free(json);
    return sent;
}

/* The answer was sent, or dropped for want of a reader. */
static void settle_stream(struct mcp_stream *s)
{
    struct mcp_client *c = s->client;
    if (c != NULL && s->opens && !mcp_session_is_initialized(s->session)) {
        mcp_client_end(c, 400, "initialize has failed");
    } else if (c != NULL && (s->cancelled || event_log_after(&s->log, s->events - 1) != NULL)) {
        if (c->answered == STREAMS_KEPT) {
            mcp_client_drop_answered(c);
        }
        c->answered++;
        timeout_list_set(&s->endpoint->kept, &s->timeout);
    } else {
        mcp_stream_destroy(s);
    }
}

static void respond_message(struct mcp_stream *s, char *json, enum mcp_status status)
{
    if (s->only_stream && status == MCP_STATUS_OK) {
        mcp_stream_begin(s);
    }
    if (s->streaming) {
        write_message(s, ++s->events, json);
        if (keeps(s)) {
            mcp_stream_keep(s, json, true);
        }
        free(json);
        web_stream_end(take_reader(s));
    } else {
        set_session_id(s);
        web_respond_text(take_reader(s), (int)status, "application/json", json);
    }
}

/* Cancelled: the protocol wants no answer, but HTTP needs one. A client that knows an event id
 * takes the end of a stream without an answer for a lost connection, so the stream is known for as
 * long as one with an answer, for mcp_get() to say that nothing will come. */
static void respond_nothing(struct mcp_stream *s)
{
    mcp_stream_forget(s);
    s->cancelled = s->client != NULL && s->has_id;
    if (s->x != NULL) {
        bool streaming = s->streaming;
        struct web_exchange *x = take_reader(s);
        if (streaming) {
            web_stream_end(x);
        } else {
            web_respond(x, 202, NULL, view_of(NULL));
        }
    }
}

static void answer_old(struct mcp_stream *s, char *json)
{
    if (json == NULL || s->x == NULL) {
        free(json);
        return;
    }
    write_old_answer(s, json);
    free(json);
    if (web_stream_queued(s->x) > STREAM_QUEUE) {
        mcp_client_lose(s->client, 503, "the stream is not being read");
    }
}

static void on_stream_answer(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    struct mcp_stream *s = (struct mcp_stream *)sink;
    if (s->kind == MCP_STREAM_OLD || s->kind == MCP_STREAM_STANDING) {
        answer_old(s, json);
        return;
    }
    s->answered = true;
    if (json == NULL) {
        respond_nothing(s);
    } else if (s->x != NULL) {
        respond_message(s, json, status);
    } else {
        if (keeps(s)) {
            s->events++;
            mcp_stream_keep(s, json, true);
        }
        free(json);
    }
    if (!s->taking) {
        settle_stream(s);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static const struct mcp_sink_ops ops = {on_stream_send, on_stream_answer};

static void init(struct mcp_stream *s, struct mcp_endpoint *e, struct mcp_client *client,
                 enum mcp_stream_kind kind)
{
    s->sink.ops = &ops;
    s->kind = kind;
    s->endpoint = e;
    s->client = client;
    s->timeout.owner = s;
    event_log_init(&s->log);
}

void mcp_stream_init_standing(struct mcp_client *c)
{
    init(&c->standing, c->endpoint, c, MCP_STREAM_STANDING);
    c->standing.session = c->session;
    c->standing.may_stream = true;
}

struct mcp_stream *mcp_stream_create(struct mcp_endpoint *e, struct mcp_client *client,
                                     struct web_exchange *x)
{
    struct mcp_stream *s = alloc_one(struct mcp_stream);
    init(s, e, client, client != NULL ? MCP_STREAM_POST : MCP_STREAM_SINGLE);
    if (client != NULL) {
        s->session = client->session;
        s->number = ++client->numbers;
        TAILQ_INSERT_TAIL(&client->streams, s, node);
    } else {
        TAILQ_INSERT_TAIL(&e->singles, s, node);
    }
    set_reader(s, x);
    return s;
}

void mcp_stream_destroy(struct mcp_stream *s)
{
    if (s->timeout.in == &s->endpoint->kept) {
        s->client->answered--;
    }
    timeout_list_drop(&s->timeout);
    mcp_stream_forget(s);
    TAILQ_REMOVE(s->client != NULL ? &s->client->streams : &s->endpoint->singles, s, node);
    if (!s->answered) {
        mcp_session_sink_gone(s->session, &s->sink);
    }
    if (s->client == NULL) {
        mcp_session_end(s->session);
    }
    free(s);
}

void mcp_stream_take(struct mcp_stream *s, struct mcp_incoming *in)
{
    in->sink = &s->sink;
    s->taking = true;
    bool expects = mcp_session_take(s->session, in);
    s->taking = false;
    if (s->client != NULL && expects && !s->opens) {
        s->client->used = true;
    }
    if (!expects && !s->answered) {
        s->answered = true;
        respond_nothing(s);
    }
    if (s->answered) {
        settle_stream(s);
    } else if (s->may_stream && s->timeout.in == NULL) {
        timeout_list_set(wants_priming(s) ? &s->endpoint->resumable : &s->endpoint->heartbeat,
                         &s->timeout);
    }
}

/* From the loop: the connection was lost, or is being closed. */
static void on_stream_gone(void *arg)
{
    struct mcp_stream *s = arg;
    set_reader(s, NULL);
    switch (s->kind) {
    case MCP_STREAM_SINGLE:
        mcp_stream_destroy(s);
        return;
    case MCP_STREAM_POST:
        if (s->opens) { /* the client never learned its session id */
            mcp_client_end(s->client, 400, "the connection was lost");
        } else if (!s->has_id) {
            mcp_stream_destroy(s);
        }
        return;
    case MCP_STREAM_OLD:
        mcp_client_lose(s->client, 400, "the connection was lost");
        return;
    case MCP_STREAM_STANDING:
        return;
    }
}

/* ---- time ----------------------------------------------------------------------------------- */

void mcp_stream_on_heartbeat(void *owner)
{
    struct mcp_stream *s = owner;
    bool has_many = s->kind == MCP_STREAM_STANDING || s->kind == MCP_STREAM_OLD;
    size_t queued = s->streaming ? web_stream_queued(s->x) : 0;
    if (has_many && queued > STREAM_BEHIND) {
        log_info("session %.8s: its stream is not being read and is closed", s->client->id);
        if (s->kind == MCP_STREAM_OLD) {
            mcp_client_lose(s->client, 503, "the stream is not being read");
        } else {
            mcp_stream_send_away(s, 503, "the stream is not being read");
        }
        return;
    }
    mcp_stream_begin(s);
    if (queued == 0) {
        size_t len;
        char *frame = event_heartbeat_frame(&len);
        write_frame(s, frame, len);
    }
    timeout_list_set(&s->endpoint->heartbeat, &s->timeout);
}

void mcp_stream_on_resumable(void *owner)
{
    mcp_stream_begin(owner);
}

void mcp_stream_on_kept(void *owner)
{
    struct mcp_stream *s = owner;
    /* the stream has left the list, so destroy cannot see that it was kept */
    s->client->answered--;
    mcp_stream_destroy(s);
}
