/*
 * Routes of the endpoint, and its life.
 *
 * A request is authenticated before it is looked at, except for two that concern nobody: whether
 * the server is alive, and where tokens come from. The check may take a while (an authorization
 * server is asked), so the request waits in an admission, which outlives the endpoint if it must.
 *
 * Clients tell the old from the new transport by 404 and 405: a client that tries the new one on
 * /sse must get 405 to fall back to the old.
 */
#include "supervisor/web/mcp/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/base/principal.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/mcp/internal.h"

struct mcp_admission {
    LIST_ENTRY(mcp_admission) node;
    struct mcp_endpoint *endpoint; /* NULL: the endpoint has been closed */
    struct web_exchange *x;
    void (*route)(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);
};

/* ---- helpers of the routes ------------------------------------------------------------------- */

void mcp_endpoint_refuse(struct web_exchange *x, const struct mcp_client *c, int status, int code,
                         const char *why)
{
    mcp_endpoint_refuse_id(x, c, status, NULL, code, why);
}

void mcp_endpoint_refuse_id(struct web_exchange *x, const struct mcp_client *c, int status,
                            const char *id, int code, const char *why)
{
    bool null_id = false;
    if (c != NULL) {
        null_id = c->session != NULL ? mcp_session_null_id(c->session) : c->null_id;
    }
    web_respond_text(x, status, "application/json", mcp_reject_id_text(id, null_id, code, why));
}

/* Whether a list has this media type, in any case and with any parameters. It ignores q=0, which is
 * rare. */
static bool names(const char *list, const char *type)
{
    size_t len = strlen(type);
    while (*list != '\0') {
        list += strspn(list, " \t,");
        if (strncasecmp(list, type, len) == 0 && strchr(" \t,;", list[len]) != NULL) {
            return true;
        }
        list += strcspn(list, ",");
    }
    return false;
}

struct mcp_accept mcp_accept_read(const struct web_exchange *x)
{
    const char *list = web_header(x, "Accept");
    struct mcp_accept a = {false, false, true}; /* no header: anything */
    if (web_header_count(x, "Accept") > 1) {
        a.json = a.stream = true; /* several lines, of which we see only the first */
    } else if (list != NULL) {
        a.json = names(list, "application/json");
        a.stream = names(list, "text/event-stream");
        a.any = names(list, "*/*") || names(list, "application/*") || names(list, "text/*");
    }
    return a;
}

struct mcp_client *mcp_endpoint_named(struct mcp_endpoint *e, const struct web_exchange *x,
                                      const struct principal *p)
{
    const char *id = web_header(x, "Mcp-Session-Id");
    return id != NULL ? mcp_client_find(e, id, false, p) : NULL;
}

struct mcp_client *mcp_endpoint_client(struct mcp_endpoint *e, struct web_exchange *x,
                                       struct principal *p)
{
    if (web_header(x, "Mcp-Session-Id") == NULL) {
        mcp_endpoint_refuse(x, NULL, 400, JSONRPC_INVALID_REQUEST,
                            "the header Mcp-Session-Id is missing; initialize gives one");
        return NULL;
    }
    struct mcp_client *c = mcp_endpoint_named(e, x, p);
    if (c == NULL) {
        c = mcp_client_resume(e, web_header(x, "Mcp-Session-Id"), false, p);
    }
    if (c == NULL) {
        mcp_endpoint_refuse(x, NULL, 404, JSONRPC_INVALID_REQUEST,
                            "there is no such session; begin a new one with initialize");
    }
    return c;
}

bool mcp_endpoint_results(struct web_exchange *x, const struct mcp_client *c, enum result_form *ret)
{
    const char *wish = web_query(x, "results");
    *ret = RESULT_FORM_AUTO;
    if (wish != NULL && !result_form_parse(wish, ret)) {
        char why[160];
        snprintf(why, sizeof(why), "?results=%.40s: expected one of " RESULT_FORM_WORDS, wish);
        mcp_endpoint_refuse(x, c, 400, JSONRPC_INVALID_REQUEST, why);
        return false;
    }
    return true;
}

bool mcp_endpoint_check_version(struct web_exchange *x, const struct mcp_client *c)
{
    const char *version = web_header(x, "MCP-Protocol-Version");
    enum revision revision;
    if (version != NULL && (!revision_parse(version, &revision) || revision_is_modern(revision))) {
        char why[160];
        snprintf(why, sizeof(why), "MCP-Protocol-Version %.64s cannot be that of a session",
                 version);
        mcp_endpoint_refuse(x, c, 400, JSONRPC_INVALID_REQUEST, why);
        return false;
    }
    return true;
}

/* ---- routes --------------------------------------------------------------------------------- */

/* The stream with these events; NULL if there is none, or no longer. */
static struct mcp_stream *find_stream(struct mcp_client *c, uint64_t number)
{
    struct mcp_stream *s;
    if (number == 0) {
        return &c->standing;
    }
    TAILQ_FOREACH(s, &c->streams, node)
    {
        if (s->number == number) {
            return s->has_id ? s : NULL;
        }
    }
    return NULL;
}

static void mcp_get(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    struct mcp_accept accept = mcp_accept_read(x);
    if (!accept.stream && !accept.any) {
        mcp_endpoint_refuse(x, mcp_endpoint_named(e, x, p), 406, JSONRPC_INVALID_REQUEST,
                            "Accept must name text/event-stream");
        return;
    }
    struct mcp_client *c = mcp_endpoint_check_version(x, mcp_endpoint_named(e, x, p))
                               ? mcp_endpoint_client(e, x, p)
                               : NULL;
    if (c == NULL) {
        return;
    }
    const char *last = web_header(x, "Last-Event-ID");
    struct event_id id = {0, c->standing.delivered};
    struct mcp_stream *s = &c->standing;
    if (last != NULL) {
        s = event_id_parse(last, &id) ? find_stream(c, id.stream) : NULL;
    }
    if (s == NULL) {
        /* Not 404: that would mean that the session has ended. */
        mcp_endpoint_refuse(x, c, 400, JSONRPC_INVALID_REQUEST,
                            "Last-Event-ID names no stream whose events are still kept");
        return;
    }
    if (s->cancelled) {
        /* The one status that ends the attempts of those who read event streams. An event stream
         * without an answer would begin them anew. */
        web_respond(x, 204, NULL, view_of(NULL));
        return;
    }
    mcp_stream_attach(s, x);
    mcp_stream_replay(s, id.event);
}

static void mcp_delete(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    struct mcp_client *c = mcp_endpoint_check_version(x, mcp_endpoint_named(e, x, p))
                               ? mcp_endpoint_client(e, x, p)
                               : NULL;
    if (c != NULL) {
        mcp_client_forget(c);
        mcp_client_end(c, 404, "the client has ended this session");
        web_respond(x, 204, NULL, view_of(NULL));
    }
}

static void refuse_method(struct web_exchange *x, const char *allowed)
{
    web_set_header(x, "Allow", allowed);
    mcp_endpoint_refuse(x, NULL, 405, JSONRPC_INVALID_REQUEST, "this method means nothing here");
}

static void mcp_other(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    refuse_method(x, "GET, POST, DELETE");
}

static void sse_other(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    refuse_method(x, "GET");
}

static void messages_other(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p)
{
    refuse_method(x, "POST");
}

/* Checked in this order; the method "" matches any. */
static const struct route {
    const char *path, *method;
    void (*run)(struct mcp_endpoint *e, struct web_exchange *x, struct principal *p);
} routes[] = {
    {"/mcp", "POST", mcp_post},          {"/mcp", "GET", mcp_get},
    {"/mcp", "DELETE", mcp_delete},      {"/mcp", "", mcp_other},
    {"/messages", "POST", old_sse_post}, {"/messages", "", messages_other},
    {"/sse", "GET", old_sse_get},        {"/sse", "", sse_other},
};

/* People write addresses with a slash at the end, and clients do not follow what would redirect
 * them. */
static bool is_at(const char *path, const char *place)
{
    size_t len = strlen(place);
    return strncmp(path, place, len) == 0 && (path[len] == '\0' || strcmp(path + len, "/") == 0);
}

static const struct route *find_route(const char *path, const char *method)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (is_at(path, routes[i].path) &&
            (routes[i].method[0] == '\0' || strcmp(routes[i].method, method) == 0)) {
            return &routes[i];
        }
    }
    return NULL;
}

static void on_checked(void *arg, struct principal *p)
{
    struct mcp_admission *a = arg;
    struct mcp_endpoint *e = a->endpoint;
    struct web_exchange *x = a->x;
    void (*route)(struct mcp_endpoint *, struct web_exchange *, struct principal *) = a->route;
    if (e != NULL) {
        LIST_REMOVE(a, node);
    }
    free(a);
    if (p == NULL) {
        return; /* answered, or the client has gone */
    }
    if (p->metrics == PRINCIPAL_METRICS_ONLY) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_FORBIDDEN);
        mcp_endpoint_refuse(x, NULL, 403, JSONRPC_INVALID_REQUEST,
                            "this token is for /metrics only (metrics=only in the file of tokens)");
        return;
    }
    if (e == NULL) {
        mcp_endpoint_refuse(x, NULL, 503, JSONRPC_INTERNAL, "the server is shutting down");
        return;
    }
    route(e, x, p);
}

static void health(struct web_exchange *x, const char *type, const char *text)
{
    const char *method = web_method(x);
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        web_set_header(x, "Cache-Control", "no-store");
        web_respond(x, 200, type, view_of(text));
    } else {
        refuse_method(x, "GET, HEAD");
    }
}

void mcp_endpoint_handle(struct mcp_endpoint *e, struct web_exchange *x)
{
    const char *path = web_path(x);
    if (strcmp(path, "/healthz") == 0) {
        health(x, "text/plain", "ok\n");
        return;
    }
    if (strcmp(path, "/health") == 0) { /* other servers of this kind have it here */
        health(x, "application/json", "{\"status\":\"healthy\"}");
        return;
    }
    if (web_auth_metadata(e->config.auth, x)) {
        return;
    }
    const struct route *route = find_route(path, web_method(x));
    if (route == NULL) {
        web_respond(x, 404, "application/json",
                    view_of("{\"error\":\"there is nothing here; MCP is at /mcp\"}"));
        return;
    }
    if (e->closing) {
        mcp_endpoint_refuse(x, NULL, 503, JSONRPC_INTERNAL, "the server is shutting down");
        return;
    }
    struct mcp_admission *a = alloc_one(struct mcp_admission);
    a->endpoint = e;
    a->x = x;
    a->route = route->run;
    LIST_INSERT_HEAD(&e->admissions, a, node);
    web_auth_check(e->config.auth, x, on_checked, a);
}

/* ---- life ----------------------------------------------------------------------------------- */

struct mcp_endpoint *mcp_endpoint_create(uv_loop_t *loop, const struct mcp_endpoint_config *config)
{
    struct mcp_endpoint *e = alloc_one(struct mcp_endpoint);
    uint64_t resumable_ms =
        config->heartbeat_ms < RESUMABLE_MS ? config->heartbeat_ms : RESUMABLE_MS;
    e->config = *config;
    e->config.base_path = alloc_strdup(config->base_path != NULL ? config->base_path : "");
    TAILQ_INIT(&e->singles);
    LIST_INIT(&e->admissions);
    timeout_list_init(&e->heartbeat, loop, config->heartbeat_ms, mcp_stream_on_heartbeat);
    timeout_list_init(&e->resumable, loop, resumable_ms, mcp_stream_on_resumable);
    timeout_list_init(&e->kept, loop, KEEP_MS, mcp_stream_on_kept);
    timeout_list_init(&e->idle, loop, config->session_idle_ms, mcp_client_on_idle);
    e->open_handles = 4;
    mcp_clients_init(e);
    return e;
}

static struct mcp_stream *first_single(struct mcp_endpoint *e, const struct principal *p)
{
    struct mcp_stream *s;
    TAILQ_FOREACH(s, &e->singles, node)
    {
        if (p == NULL || strcmp(mcp_session_principal(s->session)->name, p->name) == 0) {
            return s;
        }
    }
    return NULL;
}

/* Ends the clients and single streams of a principal; NULL: of all. Ending one may end others, so
 * the search starts anew each time. */
static void end_all(struct mcp_endpoint *e, const struct principal *p, int status, const char *why)
{
    struct mcp_stream *s;
    mcp_clients_end(e, p, status, why);
    while ((s = first_single(e, p)) != NULL) {
        mcp_stream_send_away(s, status, why);
        mcp_stream_destroy(s);
    }
}

void mcp_endpoint_revoke(struct mcp_endpoint *e, const struct principal *p)
{
    end_all(e, p, 401, "this token is no longer valid");
}

static void on_endpoint_part_closed(void *arg)
{
    struct mcp_endpoint *e = arg;
    if (--e->open_handles == 0) {
        void (*closed)(void *) = e->closed;
        void *closed_arg = e->closed_arg;
        mcp_clients_finish(e);
        free((char *)e->config.base_path);
        free(e);
        closed(closed_arg);
    }
}

void mcp_endpoint_close(struct mcp_endpoint *e, void (*closed)(void *arg), void *arg)
{
    struct mcp_admission *a;
    e->closing = true;
    e->closed = closed;
    e->closed_arg = arg;
    while ((a = LIST_FIRST(&e->admissions)) != NULL) {
        LIST_REMOVE(a, node);
        a->endpoint = NULL;
    }
    end_all(e, NULL, 503, "the server is shutting down");
    timeout_list_close(&e->heartbeat, on_endpoint_part_closed, e);
    timeout_list_close(&e->resumable, on_endpoint_part_closed, e);
    timeout_list_close(&e->kept, on_endpoint_part_closed, e);
    timeout_list_close(&e->idle, on_endpoint_part_closed, e);
}

size_t mcp_endpoint_open_requests(const struct mcp_endpoint *e)
{
    size_t count = mcp_clients_open_requests(e);
    const struct mcp_stream *s;
    TAILQ_FOREACH(s, &e->singles, node)
    {
        count += mcp_session_open_requests(s->session);
    }
    return count;
}
