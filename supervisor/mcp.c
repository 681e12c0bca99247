/*
 * Sessions: which era a message belongs to, what is in flight, and who gets which answer.
 *
 * A request whose params._meta names a protocol version is modern: it carries all there is to know,
 * and no state is kept for it. Any other is legacy and lives in the state that only `initialize`
 * makes. One pipe may carry both, since clients probe with one era and go on with the other.
 *
 * Everything but tools/call is answered on the spot. A tool call owns its message until it is done;
 * it is found again by its id, for cancellation and to refuse an id twice. A cancelled call
 * is never answered, but stays in flight until the fleet has let go of it. Whoever gave a progress
 * token is told meanwhile what takes long.
 */
#include "supervisor/mcp.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/mcp_internal.h"
#include "supervisor/progress.h"

#define BATCH_MAX_BYTES (LIMIT_BATCH * (2u << 20)) /* a result is below 1 MiB */

struct mcp_call {
    struct tool_call tool;
    struct mcp_session *session;
    struct mcp_call *prev, *next;
    const char *name; /* of the tool */
    char *id;
    enum revision revision;
    struct mcp_batch *batch;
    cJSON *message; /* what the arguments borrow from */
    size_t bytes;
    struct progress progress;
    bool silent; /* cancelled: no answer */
};

/* ---- answers -------------------------------------------------------------------------------- */

/* Called once for every answer of a batch that has come or will never come, and at its end. */
static void batch_settle(struct mcp_session *s, struct mcp_batch *b)
{
    if (--b->open > 0) {
        return;
    }
    if (b->count > 0 && buf_add(&b->text, "]", 1, NULL) == 0 && buf_cstr(&b->text) != NULL) {
        s->send(s->send_arg, (char *)STEAL_PTR(b->text.data));
    }
    buf_finish(&b->text);
    free(b);
}

static void deliver(struct mcp_session *s, struct mcp_batch *b, char *json)
{
    if (b == NULL) {
        s->send(s->send_arg, json);
        return;
    }
    struct err err = ERR_INIT;
    int rc = buf_add(&b->text, b->count > 0 ? "," : "[", 1, &err);
    if (rc == 0) {
        rc = buf_add(&b->text, json, strlen(json), &err);
    }
    if (rc < 0) {
        log_error("an answer of a batch is lost: %s", err.text);
    }
    b->count++;
    free(json);
}

void mcp_answer(const struct mcp_request *r, cJSON *owned_result)
{
    deliver(r->session, r->batch, jsonrpc_result(r->id, owned_result));
}

void mcp_answer_error(const struct mcp_request *r, int code, const char *message, cJSON *data)
{
    deliver(r->session, r->batch, jsonrpc_error(r->id, false, code, message, data));
}

/* To a message whose id may not be known. */
static void answer_invalid(struct mcp_session *s, struct mcp_batch *b, const char *id, int code,
                           const char *message)
{
    bool null_id = s->initialized && !revision_omits_unknown_id(s->revision);
    deliver(s, b, jsonrpc_error(id, null_id, code, message, NULL));
}

void mcp_session_reject(struct mcp_session *s, int code, const char *why)
{
    char *text = alloc_printf("%s: %s",
                              code == JSONRPC_PARSE_ERROR ? "Parse error" : "Invalid request", why);
    answer_invalid(s, NULL, NULL, code, text);
    free(text);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void call_free(struct mcp_call *c)
{
    struct mcp_session *s = c->session;
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        s->calls = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    s->call_count--;
    s->call_bytes -= c->bytes;
    tool_call_finish(&c->tool);
    progress_finish(&c->progress);
    cJSON_Delete(c->message);
    free(c->id);
    free(c);
}

static void on_tool_done(struct tool_call *tool, struct result *result)
{
    struct mcp_call *c = (struct mcp_call *)tool; /* its first member */
    struct mcp_session *s = c->session;
    struct mcp_batch *batch = c->batch;
    char *json = NULL;
    if (!c->silent) {
        json = jsonrpc_result(c->id, mcp_result_of_tool(c->revision, result));
    }
    log_debug("call done id=%s tool=%s error=%d silent=%d", c->id, c->name, result->is_error,
              c->silent);
    call_free(c); /* first, so that whoever is told of the answer sees one call less */
    if (json != NULL) {
        deliver(s, batch, json);
    }
    if (batch != NULL) {
        batch_settle(s, batch);
    }
}

/* It never is a part of a batch, which is sent when all is over. */
static void on_tool_progress(struct tool_call *tool, const struct fleet_progress *news)
{
    struct mcp_call *c = (struct mcp_call *)tool; /* its first member */
    char *json = c->silent ? NULL : progress_tell(&c->progress, news, clock_ms());
    if (json != NULL) {
        c->session->send(c->session->send_arg, json);
    }
}

static struct mcp_call *call_find(const struct mcp_session *s, const char *id)
{
    for (struct mcp_call *c = s->calls; c != NULL; c = c->next) {
        if (!c->silent && strcmp(c->id, id) == 0) {
            return c;
        }
    }
    return NULL;
}

void mcp_call_start(const struct mcp_request *r, const struct tool *tool, const cJSON *arguments)
{
    struct mcp_session *s = r->session;
    if (s->call_count >= LIMIT_CALLS || r->bytes > LIMIT_CALLS_BYTES - s->call_bytes) {
        mcp_answer_error(r, JSONRPC_INTERNAL,
                         "Busy: too many tool calls are in flight, try again when some have ended",
                         NULL);
        return;
    }
    struct mcp_call *c = alloc_one(struct mcp_call);
    c->session = s;
    c->name = tool->name;
    c->id = alloc_strdup(r->id);
    c->revision = r->revision;
    c->batch = r->batch;
    c->message = STEAL_PTR(*r->message);
    c->bytes = r->bytes;
    c->tool.session = &s->tools;
    c->tool.args = arguments;
    c->tool.done = on_tool_done;
    c->tool.progress = on_tool_progress;
    progress_init(&c->progress, r->params, revision_has_progress_message(r->revision));
    c->next = s->calls;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    s->calls = c;
    s->call_count++;
    s->call_bytes += c->bytes;
    if (c->batch != NULL) {
        c->batch->open++;
    }
    log_debug("call id=%s tool=%s", c->id, c->name);
    tool->run(&c->tool); /* may end the call already */
}

size_t mcp_session_open_calls(const struct mcp_session *s)
{
    size_t n = 0;
    for (const struct mcp_call *c = s->calls; c != NULL; c = c->next) {
        n += !c->silent;
    }
    return n;
}

/* ---- messages ------------------------------------------------------------------------------- */

static void take_notification(struct mcp_session *s, const struct jsonrpc_message *m)
{
    if (strcmp(m->method, "notifications/cancelled") != 0) {
        return; /* notifications/initialized among them: nothing waits for it */
    }
    char *id = jsonrpc_id_text(json_get(m->params, "requestId"));
    struct mcp_call *c = id != NULL ? call_find(s, id) : NULL;
    free(id);
    if (c != NULL) {
        c->silent = true;
        tool_cancel(&c->tool); /* may end the call already */
    }
}

/* True if the request's _meta is complete; otherwise it has been answered. */
static bool check_modern(struct mcp_request *r, const cJSON *meta)
{
    const cJSON *claim = json_get(meta, MCP_META_VERSION);
    const char *missing = !cJSON_IsString(claim) ? MCP_META_VERSION
                          : !cJSON_IsObject(json_get(meta, MCP_META_CAPABILITIES))
                              ? MCP_META_CAPABILITIES
                              : NULL;
    if (missing != NULL) {
        char *text =
            alloc_printf("Invalid params: params._meta must have \"%s\" (%s)", missing,
                         strcmp(missing, MCP_META_VERSION) == 0 ? "a string" : "an object");
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, text, NULL);
        free(text);
        return false;
    }
    if (strcmp(claim->valuestring, revision_name(r->revision)) != 0) {
        const char *const supported = revision_name(r->revision);
        cJSON *data = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(data, "supported", cJSON_CreateStringArray(&supported, 1));
        cJSON_AddItemToObjectCS(data, "requested", cJSON_CreateString(claim->valuestring));
        mcp_answer_error(r, JSONRPC_UNSUPPORTED_VERSION,
                         "Unsupported protocol version in params._meta", data);
        return false;
    }
    return true;
}

static bool is_modern(const struct mcp_session *s, const struct jsonrpc_message *m,
                      const cJSON *meta)
{
    if (json_get(meta, MCP_META_VERSION) != NULL || strcmp(m->method, "server/discover") == 0) {
        return true;
    }
    /* Half a claim, from a client that has no session: it means to be modern. */
    return !s->initialized && json_get(meta, MCP_META_CAPABILITIES) != NULL;
}

static void take_request(struct mcp_session *s, const struct jsonrpc_message *m,
                         struct mcp_request *r)
{
    const cJSON *meta = json_get(m->params, "_meta");
    if (call_find(s, m->id) != NULL) {
        mcp_answer_error(r, JSONRPC_INVALID_REQUEST,
                         "Invalid request: a request with this id is still in flight", NULL);
    } else if (is_modern(s, m, meta)) {
        r->revision = REVISION_2026_07_28;
        if (r->batch != NULL) {
            mcp_answer_error(r, JSONRPC_INVALID_REQUEST,
                             "Invalid request: this revision has no batches", NULL);
        } else if (check_modern(r, meta)) {
            mcp_dispatch_modern(r);
        }
    } else {
        r->revision = s->revision;
        mcp_dispatch_legacy(r);
    }
}

/* One message, alone or of a batch; the message is taken over. */
static void take_one(struct mcp_session *s, cJSON *message, size_t bytes, bool has_nul,
                     struct mcp_batch *batch)
{
    struct jsonrpc_message m;
    jsonrpc_read(message, &m);
    struct mcp_request r = {
        .session = s,
        .id = m.id,
        .method = m.method,
        .params = m.params,
        .batch = batch,
        .message = &message,
        .bytes = bytes,
    };
    if (m.kind == JSONRPC_INVALID) {
        answer_invalid(s, batch, m.id, m.code, m.problem);
    } else if (has_nul && m.kind == JSONRPC_REQUEST) {
        mcp_answer_error(&r, JSONRPC_INVALID_PARAMS,
                         "Invalid params: the message contains \\u0000 (the NUL character), which "
                         "no argument can hold; send such content base64-encoded",
                         NULL);
    } else if (m.kind == JSONRPC_REQUEST) {
        take_request(s, &m, &r);
    } else if (m.kind == JSONRPC_NOTIFICATION && !has_nul) {
        take_notification(s, &m);
    }
    jsonrpc_message_finish(&m);
    cJSON_Delete(message);
}

static void take_batch(struct mcp_session *s, cJSON *array, size_t bytes, bool has_nul)
{
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
        answer_invalid(s, NULL, NULL, JSONRPC_INVALID_REQUEST, problem);
        cJSON_Delete(array);
        return;
    }
    struct mcp_batch *batch = alloc_one(struct mcp_batch);
    buf_init(&batch->text, BATCH_MAX_BYTES);
    batch->open = 1;
    while (array->child != NULL) {
        take_one(s, cJSON_DetachItemViaPointer(array, array->child), bytes / count, has_nul, batch);
    }
    cJSON_Delete(array);
    batch_settle(s, batch);
}

void mcp_session_take(struct mcp_session *s, cJSON *message, size_t bytes, bool has_nul)
{
    if (cJSON_IsArray(message)) {
        take_batch(s, message, bytes, has_nul);
    } else {
        take_one(s, message, bytes, has_nul, NULL);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

struct mcp_server *mcp_server_create(const struct config *config, struct fleet *fleet)
{
    struct mcp_server *s = alloc_one(struct mcp_server);
    s->config = config;
    s->fleet = fleet;
    s->tools = tools_create(config);
    return s;
}

void mcp_server_stop(struct mcp_server *s)
{
    s->stopping = true;
}

void mcp_server_destroy(struct mcp_server *s)
{
    if (s == NULL) {
        return;
    }
    tools_destroy(s->tools);
    for (size_t i = 0; i < REVISION_COUNT; i++) {
        free(s->tool_lists[i]);
    }
    free(s);
}

struct mcp_session *mcp_session_create(struct mcp_server *server, const char *owner,
                                       mcp_send_fn send, void *arg)
{
    struct mcp_session *s = alloc_one(struct mcp_session);
    s->server = server;
    s->send = send;
    s->send_arg = arg;
    s->owner = alloc_strdup(owner);
    tool_session_init(&s->tools, server->fleet, server->config, s->owner);
    return s;
}

void mcp_session_destroy(struct mcp_session *s)
{
    if (s == NULL) {
        return;
    }
    while (s->calls != NULL) {
        struct mcp_call *c = s->calls;
        struct mcp_batch *batch = c->batch;
        call_free(c);
        if (batch != NULL && --batch->open == 0) {
            buf_finish(&batch->text);
            free(batch);
        }
    }
    free(s->owner);
    free(s);
}
