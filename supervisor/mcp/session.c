/*
 * Sessions: requests in flight, sinks, and the end of a session.
 *
 * A session that its transport has ended stays alive until its list of requests is empty: handlers
 * can be asked to stop, but not forced, and their answers go nowhere. An ended session calls no
 * sink, because the transport may have freed it.
 *
 * A host that reconnects over the same pipe initializes it again. Then all that was agreed on
 * before is void, but calls go on and are answered, since the pipe is still there. Only a new
 * request with the id of an old one shows that nobody waits for that. A call that waits for an
 * answer of the client from before is given up, since nobody knows its question any more.
 */
#include "supervisor/mcp/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/internal.h"

/* error answers for batch members that do not fit */
#define BATCH_ERRORS_BYTES (LIMIT_BATCH * 4096u)

/* ---- life ----------------------------------------------------------------------------------- */

void mcp_session_agree(struct mcp_session *s, const struct mcp_agreed *agreed)
{
    s->initialized = s->ready = true;
    s->revision = agreed->revision;
    snprintf(s->client, sizeof(s->client), "%s", agreed->client);
}

static int default_log_level(const struct mcp_server *server)
{
    const char *level = server->app->log_level;
    return level != NULL ? mcp_log_level(level) : MCP_LOG_NONE;
}

/* Nobody waits for the earlier requests with the id of this one. */
static void disown_namesakes(const struct mcp_request *r)
{
    for (struct mcp_request *o = r->session->requests; o != NULL; o = o->next) {
        if (o != r && !o->cancelled && o->task == NULL && strcmp(o->id, r->id) == 0) {
            mcp_request_disown(o);
        }
    }
}

void mcp_session_begin_again(struct mcp_request *initialize)
{
    struct mcp_session *s = initialize->session;
    disown_namesakes(initialize);
    initialize->negotiation = ++s->negotiation;
    s->ready = false;
    s->log_level = default_log_level(s->server);
    mcp_subscriptions_end(s);
    mcp_inputs_begin_again(s);
}

static struct mcp_session *session_new(struct mcp_server *server, enum mcp_session_kind kind,
                                       struct principal *principal, const char *name,
                                       const struct mcp_agreed *agreed)
{
    struct mcp_session *s = alloc_one(struct mcp_session);
    s->server = server;
    s->kind = kind;
    s->name = alloc_strdup(name);
    if (agreed != NULL) {
        mcp_session_agree(s, agreed);
    }
    s->principal = principal_hold(principal);
    s->log_level = default_log_level(server);
    s->next = server->sessions;
    if (s->next != NULL) {
        s->next->prev = s;
    }
    server->sessions = s;
    const struct mcp_app *app = server->app;
    if (app->session_open != NULL) {
        s->data = app->session_open(app->arg, s);
    }
    return s;
}

struct mcp_session *mcp_session_create(struct mcp_server *server, enum mcp_session_kind kind,
                                       struct principal *principal)
{
    return session_new(server, kind, principal, "", NULL);
}

struct mcp_session *mcp_session_create_named(struct mcp_server *server, struct principal *principal,
                                             const char *name, const struct mcp_agreed *agreed)
{
    return session_new(server, MCP_SESSION_LEGACY, principal, name, agreed);
}

void mcp_session_hold(struct mcp_session *s)
{
    s->busy++;
}

void mcp_session_release(struct mcp_session *s)
{
    struct mcp_server *server = s->server;
    if (--s->busy > 0 || !s->ended || s->requests != NULL) {
        return;
    }
    if (s->prev != NULL) {
        s->prev->next = s->next;
    } else {
        server->sessions = s->next;
    }
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
    if (server->app->session_close != NULL) {
        server->app->session_close(server->app->arg, s->data);
    }
    principal_release(s->principal);
    free(s->name);
    free(s);
}

void mcp_session_mute(struct mcp_session *s)
{
    s->ended = true;
    s->stream = NULL;
    mcp_subscriptions_end(s);
    mcp_inputs_end(s);
    if (s->reading != NULL) {
        s->reading->sink = NULL;
    }
    for (struct mcp_request *r = s->requests; r != NULL; r = r->next) {
        mcp_unwatch(r);
        r->sink = NULL;
        if (r->batch != NULL) {
            r->batch->sink = NULL;
        }
    }
}

/* Returns the next request, from r on, that the end of its session cancels. */
static struct mcp_request *doomed(struct mcp_request *r)
{
    while (r != NULL && (r->cancelled || r->task != NULL)) {
        r = r->next;
    }
    return r;
}

void mcp_session_end(struct mcp_session *s)
{
    if (s == NULL || s->ended) {
        return;
    }
    mcp_session_hold(s);
    mcp_session_mute(s);
    /* Cancelling one may end others, so the search starts anew. */
    for (struct mcp_request *r = doomed(s->requests); r != NULL; r = doomed(s->requests)) {
        mcp_request_cancel(r);
    }
    mcp_session_release(s);
}

void mcp_session_set_lost(struct mcp_session *s)
{
    const struct mcp_app *app = s->server->app;
    if (app->session_lost != NULL) {
        app->session_lost(app->arg, s->data);
    }
}

/* ---- sinks ---------------------------------------------------------------------------------- */

void mcp_session_set_results(struct mcp_session *s, enum result_form form)
{
    s->results = form;
}

void mcp_session_set_stream(struct mcp_session *s, struct mcp_sink *sink)
{
    s->stream = s->ended ? NULL : sink;
    mcp_subscriptions_stream(s);
}

bool mcp_session_send(struct mcp_session *s, char *json)
{
    if (s->stream == NULL || json == NULL) {
        free(json);
        return false;
    }
    return s->stream->ops->send(s->stream, json);
}

/* Returns the next request, from r on, whose client is known to be gone when its sink is. */
static struct mcp_request *orphan(struct mcp_request *r)
{
    while (r != NULL && (r->sink != NULL || r->cancelled || r->task != NULL ||
                         !revision_is_modern(r->revision))) {
        r = r->next;
    }
    return r;
}

void mcp_session_sink_gone(struct mcp_session *s, struct mcp_sink *sink)
{
    if (s->ended) {
        return;
    }
    mcp_session_hold(s);
    if (s->stream == sink) {
        s->stream = NULL;
    }
    if (s->reading != NULL && s->reading->sink == sink) {
        s->reading->sink = NULL;
    }
    for (struct mcp_request *r = s->requests; r != NULL; r = r->next) {
        if (r->sink == sink) {
            r->sink = NULL;
            mcp_unwatch(r);
        }
        if (r->batch != NULL && r->batch->sink == sink) {
            r->batch->sink = NULL;
        }
    }
    for (struct mcp_request *r = orphan(s->requests); r != NULL; r = orphan(s->requests)) {
        mcp_request_cancel(r);
    }
    mcp_session_release(s);
}

/* ---- messages ------------------------------------------------------------------------------- */

struct taking {
    struct mcp_session *session;
    struct mcp_sink *sink;
    struct mcp_batch *batch; /* NULL: not in a batch */
    const struct mcp_head *head;
    size_t bytes;
    bool has_nul;
};

/* Answers an invalid message, whose id may be unknown. */
static void answer_invalid(const struct taking *t, const char *id, int code, const char *message)
{
    const struct mcp_session *s = t->session;
    char *json = jsonrpc_error(id, mcp_session_null_id(s), code, message, NULL);
    /* Older clients ignore answers that HTTP marks as errors. */
    bool is_request = id != NULL && code == JSONRPC_INVALID_PARAMS;
    enum mcp_status status =
        is_request && s->kind != MCP_SESSION_SINGLE ? MCP_STATUS_OK : MCP_STATUS_BAD_REQUEST;
    if (t->batch != NULL) {
        mcp_batch_add(t->batch, id, json);
    } else if (s->ended) {
        free(json);
    } else {
        t->sink->ops->answer(t->sink, json, status);
    }
}

static void take_notification(struct mcp_session *s, const struct jsonrpc_message *m)
{
    if (strcmp(m->method, "notifications/initialized") == 0) {
        s->ready = s->initialized;
    }
    if (strcmp(m->method, "notifications/cancelled") != 0) {
        return;
    }
    char *id = jsonrpc_id_text(json_get(m->params, "requestId"));
    struct mcp_request *r = id != NULL ? mcp_request_find(s, id) : NULL;
    free(id);
    if (r != NULL) {
        mcp_request_cancel(r);
    }
}

/* Whether a request with this id is in flight that its client still waits for. A client that has
 * the pipe since the latest initialize counts its requests from the start, and does not wait for
 * one that had this number before. Initialize itself may yet be refused, so it disowns nothing here
 * (mcp_session_begin_again()). */
static bool is_in_flight(struct mcp_session *s, const struct jsonrpc_message *m)
{
    struct mcp_request *r = mcp_request_find(s, m->id);
    bool begins_again =
        s->kind == MCP_SESSION_PIPE && s->initialized && strcmp(m->method, "initialize") == 0;
    if (r == NULL || begins_again) {
        return false;
    }
    if (r->negotiation == s->negotiation) {
        return true;
    }
    mcp_request_disown(r);
    return false;
}

static void take_request(const struct taking *t, struct jsonrpc_message *m, cJSON *owned_message)
{
    struct mcp_session *s = t->session;
    bool modern = mcp_is_modern(s, m, t->head);
    bool in_flight = is_in_flight(s, m);
    struct mcp_request *r =
        mcp_request_create(s, t->sink, t->batch, modern ? REVISION_2026_07_28 : s->revision, m,
                           owned_message, t->bytes);
    /* Older clients ignore answers that HTTP marks as errors. */
    enum mcp_status wrong = modern ? MCP_STATUS_BAD_REQUEST : MCP_STATUS_OK;
    if (t->has_nul) {
        mcp_refuse(r, wrong, JSONRPC_INVALID_PARAMS,
                   "Invalid params: the message contains \\u0000 (the NUL character), which "
                   "no argument can hold; send such content base64-encoded",
                   NULL);
    } else if (in_flight) {
        mcp_refuse(r, wrong, JSONRPC_INVALID_REQUEST,
                   "Invalid request: a request with this id is still in flight", NULL);
    } else if (modern) {
        mcp_take_modern(r, t->head);
    } else {
        mcp_take_legacy(r);
    }
}

/* Takes one message, alone or of a batch, and owns it. True if it is answered, now or later. */
static bool take_one(const struct taking *t, cJSON *message)
{
    struct mcp_session *s = t->session;
    struct jsonrpc_message m;
    bool answered = true;
    jsonrpc_read(message, &m);
    if (m.kind == JSONRPC_RESPONSE && s->kind == MCP_SESSION_SINGLE) {
        answer_invalid(
            t, NULL, JSONRPC_INVALID_REQUEST,
            "Invalid request: this revision has no requests to clients, so no responses");
    } else if (m.kind == JSONRPC_INVALID) {
        answer_invalid(t, m.id, m.code, m.problem);
    } else if (m.kind == JSONRPC_REQUEST) {
        take_request(t, &m, STEAL_PTR(message));
    } else {
        answered = false;
    }
    if (m.kind == JSONRPC_RESPONSE && !answered) {
        mcp_input_response(s, message, t->has_nul);
    }
    if (m.kind == JSONRPC_NOTIFICATION && !t->has_nul) {
        take_notification(s, &m);
    }
    jsonrpc_message_finish(&m);
    cJSON_Delete(message);
    return answered;
}

static bool take_batch(struct taking *t, cJSON *array)
{
    struct mcp_session *s = t->session;
    size_t count = (size_t)cJSON_GetArraySize(array);
    const char *problem = NULL;
    if (!s->initialized || !revision_has_batches(s->revision)) {
        problem = "Invalid request: batches are taken only in a session of revision 2025-03-26";
    } else if (count == 0) {
        problem = "Invalid request: an empty batch";
    } else if (count > LIMIT_BATCH) {
        problem = "Invalid request: too many messages in a batch, at most 64 are taken";
    }
    if (problem != NULL) {
        answer_invalid(t, NULL, JSONRPC_INVALID_REQUEST, problem);
        cJSON_Delete(array);
        return true;
    }
    struct mcp_batch *batch = alloc_one(struct mcp_batch);
    buf_init(&batch->text, LIMIT_BATCH_TEXT + BATCH_ERRORS_BYTES);
    batch->sink = t->sink;
    batch->open = 1;
    t->batch = s->reading = batch;
    double text_share = (double)t->bytes / (double)input_weight(array);
    bool answered = false;
    while (array->child != NULL && !s->ended) {
        t->bytes = (size_t)(text_share * (double)input_weight(array->child));
        answered = take_one(t, cJSON_DetachItemViaPointer(array, array->child)) || answered;
    }
    cJSON_Delete(array);
    s->reading = NULL;
    if (!answered) {
        batch->sink = NULL; /* our return value tells the transport that there is no answer */
    }
    mcp_batch_settle(batch);
    return answered;
}

bool mcp_session_take(struct mcp_session *s, const struct mcp_incoming *in)
{
    struct taking t = {
        .session = s,
        .sink = in->sink,
        .head = in->head,
        .bytes = in->bytes,
        .has_nul = in->has_nul,
    };
    mcp_session_hold(s);
    if (s->kind == MCP_SESSION_PIPE && s->stream == NULL) {
        s->stream = in->sink;
    }
    bool answered =
        cJSON_IsArray(in->message) ? take_batch(&t, in->message) : take_one(&t, in->message);
    mcp_session_release(s);
    return answered;
}

/* ---- invalid input --------------------------------------------------------------------------- */

static const char *words_of(int code)
{
    switch (code) {
    case JSONRPC_PARSE_ERROR:
        return "Parse error";
    case JSONRPC_HEADER_MISMATCH:
        return "Header mismatch";
    case JSONRPC_INTERNAL: /* temporary */
        return "Unavailable";
    default:
        return "Invalid request";
    }
}

char *mcp_reject_id_text(const char *id, bool null_id, int code, const char *why)
{
    CLEANUP_FREE char *text = alloc_printf("%s: %s", words_of(code), why);
    return jsonrpc_error(id, null_id, code, text, NULL);
}

char *mcp_reject_text(bool null_id, int code, const char *why)
{
    return mcp_reject_id_text(NULL, null_id, code, why);
}

bool mcp_session_null_id(const struct mcp_session *s)
{
    return s->initialized && !revision_omits_unknown_id(s->revision);
}

void mcp_session_reject_id(struct mcp_session *s, struct mcp_sink *sink, const char *id, int code,
                           const char *why)
{
    if (s->ended) {
        return;
    }
    sink->ops->answer(sink, mcp_reject_id_text(id, mcp_session_null_id(s), code, why),
                      MCP_STATUS_BAD_REQUEST);
}

void mcp_session_reject(struct mcp_session *s, struct mcp_sink *sink, int code, const char *why)
{
    mcp_session_reject_id(s, sink, NULL, code, why);
}

/* ---- queries --------------------------------------------------------------------------------- */

enum mcp_session_kind mcp_session_kind(const struct mcp_session *s)
{
    return s->kind;
}

bool mcp_session_is_initialized(const struct mcp_session *s)
{
    return s->initialized;
}

enum revision mcp_session_revision(const struct mcp_session *s)
{
    return s->revision;
}

const char *mcp_session_client(const struct mcp_session *s)
{
    return s->client;
}

const char *mcp_session_name(const struct mcp_session *s)
{
    return s->name;
}

struct principal *mcp_session_principal(const struct mcp_session *s)
{
    return s->principal;
}

size_t mcp_session_open_requests(const struct mcp_session *s)
{
    size_t n = 0;
    for (const struct mcp_request *r = s->requests; r != NULL; r = r->next) {
        bool listens = r->method != NULL && r->method->endless;
        n += !r->cancelled && !r->disowned && r->task == NULL && !listens;
    }
    return n;
}
