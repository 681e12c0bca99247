/*
 * The API server answers an error with a Status: a message for people and a reason for programs.
 * That an object does not exist is believed only if a Status says so, since a proxy in between has
 * a 404 of its own.
 *
 * A server that is busy says 429 or 503, often with the time after which it wants to be asked
 * again; that is done twice. A 401 may be a token that was replaced meanwhile: it is read or
 * fetched again, and the request repeated once. A program whose new token was refused, too, is not
 * run again for a while because of a 401: calls that are made again and again, as those of a watch,
 * would run it each time. All requests can be repeated, because names are chosen here.
 */
#include "worker/backend/kubernetes/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/str.h"
#include "worker/backend/kubernetes/plugin.h"
#include "worker/backend/kubernetes/websocket.h"

#define BODY_MAX       (4u << 20)
#define JSON_DEPTH     64
#define WORDS_MAX      360
#define TOKEN_FRESH_MS 60000
#define TOKEN_SPARE_MS 10000 /* one that expires within this time is replaced before */
#define IN_VAIN_MS     10000 /* after a new token was refused the program is not run that long */
#define AGAIN_MAX      2
#define AGAIN_MS       500   /* if the server does not say how long */
#define PATIENCE_MS    10000 /* the most that is waited because the server says so */

struct kube_call {
    LIST_ENTRY(kube_call) node;
    bool waits_for_token, has_waited, token_is_new;
    struct kube_api *api;
    struct http_call *http; /* NULL while it waits for its next try */
    bool cancelled;         /* while it waits */
    char *method, *path, *json, *accept;
    uint64_t total_ms, silence_ms;
    bool (*on_data)(void *arg, struct view piece);
    unsigned again; /* tries that the server asked for */
    bool renewed;   /* the token was read again because of a 401 */
    kube_reply_fn done;
    kube_tunnel_fn tunnel_done;
    char key[WEBSOCKET_KEY_SIZE];
    void *arg;
};

struct kube_api {
    struct tasks *tasks;
    struct kube_cluster cluster;
    struct http_client *http;
    uint64_t token_ms;              /* by the loop's clock: when it was read */
    bool token_old;                 /* the server does not take it any more */
    uint64_t in_vain_ms;            /* by the loop's clock: when a new one was refused; 0: never */
    struct kube_plugin_run *plugin; /* fetches one */
    uint64_t token_until_ms;        /* by the wall clock: what it said */
    LIST_HEAD(, kube_call) calls;
};

static void send_call(struct kube_call *c);

int kube_api_create(struct tasks *tasks, struct kube_cluster *cluster, struct kube_api **ret,
                    struct err *err)
{
    struct http_endpoint endpoint;
    struct kube_api *api = alloc_one(struct kube_api);
    CLEANUP_FREE char *base = NULL;
    CLEANUP_FREE char *connect_to = NULL;
    api->tasks = tasks;
    api->cluster = *cluster;
    api->token_ms = uv_now(tasks->loop);
    api->token_until_ms = UINT64_MAX;
    *cluster = (struct kube_cluster){.server = NULL};
    LIST_INIT(&api->calls);
    kube_cluster_http(&api->cluster, &endpoint, &base, &connect_to);
    int rc = http_client_create(tasks->loop, &endpoint, &api->http, err);
    if (rc < 0) {
        kube_cluster_finish(&api->cluster);
        free(api);
        return rc;
    }
    *ret = api;
    return 0;
}

static void kube_call_free(struct kube_call *c)
{
    LIST_REMOVE(c, node);
    free(c->method);
    free(c->path);
    free(c->json);
    free(c->accept);
    free(c);
}

void kube_api_close(struct kube_api *api, void (*closed)(void *arg), void *arg)
{
    struct http_client *http = api->http;
    struct kube_call *c;
    while ((c = LIST_FIRST(&api->calls)) != NULL) {
        if (c->http != NULL) {
            http_cancel(c->http);
        }
        kube_call_free(c);
    }
    kube_cluster_finish(&api->cluster);
    free(api);
    http_client_close(http, closed, arg);
}

const struct kube_cluster *kube_api_cluster(const struct kube_api *api)
{
    return &api->cluster;
}

char *kube_api_path(const struct kube_api *api, const char *resource, const char *name)
{
    return alloc_printf("/api/v1/namespaces/%s/%s%s%s", api->cluster.namespace_, resource,
                        name[0] != '\0' ? "/" : "", name);
}

/* ---- errors --------------------------------------------------------------------------------- */

/* On one line, of bounded length, and valid UTF-8. */
static void kube_read_words(const cJSON *json, struct view body, char ret[WORDS_MAX])
{
    const char *message = json_get_str(json, "message");
    struct view text = message != NULL ? view_of(message) : body;
    const char *data = text.data != NULL ? text.data : "";
    size_t len = text.len < WORDS_MAX - 1 ? text.len : WORDS_MAX - 1;
    len = utf8_valid_prefix(data, len);
    memcpy(ret, data, len);
    ret[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        ret[i] = (unsigned char)ret[i] < ' ' || ret[i] == 0x7f ? ' ' : ret[i];
    }
    while (len > 0 && ret[len - 1] == ' ') {
        ret[--len] = '\0';
    }
}

static bool is_status(const cJSON *json, const char *reason)
{
    const char *kind = json_get_str(json, "kind");
    const char *given = json_get_str(json, "reason");
    return kind != NULL && strcmp(kind, "Status") == 0 && given != NULL &&
           strcmp(given, reason) == 0;
}

static int kube_refused(const struct kube_call *c, int status, const char *words, bool absent,
                        struct err *err)
{
    enum err_code code = absent                           ? ERR_GONE
                         : status == 400 || status == 422 ? ERR_INVALID
                                                          : ERR_ENGINE;
    const char *more = status == 401 ? "; is the token or the certificate valid there, and not "
                                       "expired?"
                                     : "";
    return err_set(err, code, "the API server says: %s%s(HTTP status %d of %s %.*s)%s", words,
                   words[0] != '\0' ? " " : "", status, c->method, (int)strcspn(c->path, "?"),
                   c->path, more);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void on_again(void *arg)
{
    struct kube_call *c = arg;
    if (c->cancelled) {
        kube_call_free(c);
    } else {
        send_call(c);
    }
}

/* Whether the token with which a call was refused is to be replaced. */
static bool may_renew(const struct kube_call *c)
{
    struct kube_api *api = c->api;
    if (api->cluster.token_file != NULL || api->cluster.plugin == NULL) {
        return api->cluster.token_file != NULL && !c->renewed;
    }
    uint64_t now = uv_now(api->tasks->loop);
    if (c->token_is_new) {
        api->in_vain_ms = now;
    }
    return !c->token_is_new && (api->in_vain_ms == 0 || now - api->in_vain_ms >= IN_VAIN_MS);
}

/* True if the call is made once more. */
static bool try_again(struct kube_call *c, const struct http_response *response)
{
    c->http = NULL;
    if (response->status == 401 && may_renew(c)) {
        c->renewed = true;
        c->api->token_old = true;
        task_later(c->api->tasks, 0, on_again, c);
        return true;
    }
    if ((response->status != 429 && response->status != 503) || c->again == AGAIN_MAX) {
        return false;
    }
    CLEANUP_FREE char *after = alloc_viewdup(http_response_header(response, "Retry-After"));
    uint64_t seconds = 0;
    uint64_t wait_ms = str_to_u64(after, 0, PATIENCE_MS / 1000, &seconds, NULL) == 0
                           ? seconds * 1000
                           : (after[0] != '\0' ? PATIENCE_MS : AGAIN_MS);
    c->again++;
    task_later(c->api->tasks, wait_ms > 0 ? wait_ms : AGAIN_MS, on_again, c);
    return true;
}

static void on_kube_http_reply(void *arg, int rc, const struct http_response *response,
                               const struct err *failure)
{
    struct kube_call *c = arg;
    struct err err = ERR_INIT;
    struct kube_reply reply = {.is_unsent = c->http == NULL};
    cJSON *json = NULL;
    if (rc < 0) {
        err = *failure;
    } else if (try_again(c, response)) {
        return;
    } else {
        bool has_nul = false;
        char words[WORDS_MAX];
        reply.status = response->status;
        int parsed = json_parse(response->body.data != NULL ? response->body.data : "",
                                response->body.len, BODY_MAX, JSON_DEPTH, &json, &has_nul, &err);
        if (parsed == 0 && has_nul) {
            cJSON_Delete(json);
            json = NULL;
        }
        reply.json = json;
        bool good = response->status / 100 == 2;
        reply.is_absent = response->status == 404 && is_status(json, "NotFound") &&
                          strcmp(c->method, "POST") != 0;
        reply.is_there = response->status == 409 && is_status(json, "AlreadyExists");
        if (good && json == NULL && c->on_data == NULL) {
            rc = err_set(&err, ERR_ENGINE, "%s: the answer of the API server is no JSON",
                         c->api->cluster.server);
        } else if (!good) {
            kube_read_words(json, response->body, words);
            rc = kube_refused(c, response->status, words, reply.is_absent, &err);
        }
    }
    kube_reply_fn done = c->done;
    void *done_arg = c->arg;
    kube_call_free(c);
    done(done_arg, rc, &reply, rc < 0 ? &err : NULL);
    cJSON_Delete(json);
}

static bool on_kube_http_data(void *arg, struct view piece)
{
    struct kube_call *c = arg;
    return c->on_data(c->arg, piece); /* which may have freed the call */
}

static void on_kube_api_tunnel(void *arg, int rc, struct http_tunnel *tunnel,
                               const struct http_response *response, const struct err *failure)
{
    struct kube_call *c = arg;
    struct err err = ERR_INIT;
    if (rc < 0) {
        err = *failure;
    } else if (tunnel != NULL) {
        char accept[WEBSOCKET_ACCEPT_SIZE];
        websocket_accept(c->key, accept);
        struct view protocol = http_response_header(response, "Sec-WebSocket-Protocol");
        if (response->status != 101 ||
            !view_is(http_response_header(response, "Sec-WebSocket-Accept"), accept)) {
            rc = err_set(&err, ERR_ENGINE, "%s: the answer is not that of a WebSocket",
                         c->api->cluster.server);
        } else if (!view_is(protocol, "v5.channel.k8s.io") &&
                   !view_is(protocol, "v4.channel.k8s.io")) {
            rc = err_set(&err, ERR_ENGINE, "%s: it has chosen none of our protocols for an exec",
                         c->api->cluster.server);
        }
        if (rc < 0) {
            http_tunnel_close(tunnel);
            tunnel = NULL;
        }
    } else if (try_again(c, response)) {
        return;
    } else {
        char words[WORDS_MAX];
        cJSON *json = NULL;
        err_ignore(json_parse(response->body.data != NULL ? response->body.data : "",
                              response->body.len, BODY_MAX, JSON_DEPTH, &json, NULL, NULL));
        kube_read_words(json, response->body, words);
        rc = kube_refused(c, response->status, words,
                          response->status == 404 && is_status(json, "NotFound"), &err);
        cJSON_Delete(json);
    }
    kube_tunnel_fn done = c->tunnel_done;
    void *done_arg = c->arg;
    kube_call_free(c);
    done(done_arg, rc, tunnel, rc < 0 ? &err : NULL);
}

static void fail_call(struct kube_call *c, const struct err *err)
{
    if (c->tunnel_done != NULL) {
        on_kube_api_tunnel(c, -err->code, NULL, NULL, err);
    } else {
        on_kube_http_reply(c, -err->code, NULL, err);
    }
}

static void on_unsent(void *arg)
{
    struct kube_call *c = arg;
    struct err err = ERR_INIT;
    if (c->cancelled) {
        kube_call_free(c);
        return;
    }
    err_set(&err, ERR_ENGINE, "%s: the token cannot be read", c->api->cluster.origin);
    fail_call(c, &err);
}

static bool renew_token(struct kube_api *api)
{
    uint64_t now = uv_now(api->tasks->loop);
    bool old = api->token_old || now - api->token_ms >= TOKEN_FRESH_MS;
    if (api->cluster.token_file != NULL && old) {
        struct err err = ERR_INIT;
        api->token_ms = now;
        api->token_old = false;
        return kube_cluster_token(&api->cluster, &err) == 0;
    }
    return true;
}

/* Goes on with the calls that have waited. A call may free others, or make new ones: those wait for
 * another run. */
static void on_plugin_token(void *arg, int rc, const char *token, uint64_t expires_ms,
                            const struct err *err)
{
    struct kube_api *api = arg;
    struct kube_call *c;
    api->plugin = NULL;
    if (rc == 0) {
        kube_cluster_set_token(&api->cluster, token);
        api->token_until_ms = expires_ms;
        api->token_old = false;
    }
    LIST_FOREACH(c, &api->calls, node)
    {
        c->has_waited = c->waits_for_token;
        c->waits_for_token = false;
    }
    do {
        c = LIST_FIRST(&api->calls);
        while (c != NULL && !c->has_waited) {
            c = LIST_NEXT(c, node);
        }
        if (c == NULL) {
            break;
        }
        c->has_waited = false;
        c->token_is_new = true; /* however short it is good for */
        if (c->cancelled) {
            kube_call_free(c);
        } else if (rc < 0) {
            fail_call(c, err);
        } else {
            send_call(c);
        }
    } while (true);
}

/* Whether the call has to wait for a program that fetches a token. */
static bool wait_for_token(struct kube_call *c)
{
    struct kube_api *api = c->api;
    bool good = api->cluster.token != NULL && !api->token_old &&
                clock_wall_ms() + TOKEN_SPARE_MS < api->token_until_ms;
    if (api->cluster.plugin == NULL || api->cluster.token_file != NULL || good || c->token_is_new) {
        return false;
    }
    c->waits_for_token = true;
    if (api->plugin == NULL) {
        api->plugin = kube_plugin_start(api->tasks, &api->cluster, on_plugin_token, api);
    }
    return true;
}

static void send_call(struct kube_call *c)
{
    struct kube_api *api = c->api;
    if (wait_for_token(c)) {
        return;
    }
    if (!renew_token(api)) {
        task_later(api->tasks, 0, on_unsent, c);
        return;
    }
    const char *headers[6] = {NULL};
    size_t count = 0;
    CLEANUP_FREE char *bearer = NULL;
    CLEANUP_FREE char *accept = NULL;
    CLEANUP_FREE char *key = NULL;
    if (api->cluster.token != NULL) {
        bearer = alloc_printf("Authorization: Bearer %s", api->cluster.token);
        headers[count++] = bearer;
    }
    struct http_request http = {
        .method = c->method,
        .path = c->path,
        .headers = headers,
        .total_ms = c->total_ms,
        .silence_ms = c->silence_ms,
        .max_bytes = BODY_MAX,
        .on_data = c->on_data != NULL ? on_kube_http_data : NULL,
    };
    if (c->tunnel_done != NULL) {
        key = alloc_printf("Sec-WebSocket-Key: %s", c->key);
        headers[count++] = key;
        headers[count++] = "Sec-WebSocket-Version: 13";
        headers[count] = "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io";
        http.upgrade = "websocket";
        c->http = http_tunnel_open(api->http, &http, on_kube_api_tunnel, c);
    } else {
        accept = alloc_printf("Accept: %s", c->accept);
        headers[count] = accept;
        bool is_change = strcmp(c->method, "PATCH") == 0;
        http.content_type = c->json == NULL ? NULL
                            : is_change     ? "application/merge-patch+json"
                                            : "application/json";
        http.body = c->json != NULL ? view_of(c->json) : view_of("");
        c->http = http_send(api->http, &http, on_kube_http_reply, c);
    }
    if (bearer != NULL) {
        explicit_bzero(bearer, strlen(bearer));
    }
}

static struct kube_call *kube_call_new(struct kube_api *api, const struct kube_request *request,
                                       void *arg)
{
    struct kube_call *c = alloc_one(struct kube_call);
    LIST_INSERT_HEAD(&api->calls, c, node);
    c->api = api;
    c->method = alloc_strdup(request->method);
    c->path = alloc_strdup(request->path);
    c->json = request->json != NULL ? alloc_strdup(request->json) : NULL;
    c->accept = alloc_strdup(request->accept != NULL ? request->accept : "application/json");
    c->on_data = request->on_data;
    c->silence_ms = request->silence_ms;
    c->total_ms = request->on_data != NULL ? 0
                  : request->total_ms > 0  ? request->total_ms
                                           : KUBE_CALL_MS;
    c->arg = arg;
    return c;
}

struct kube_call *kube_api_call(struct kube_api *api, const struct kube_request *request,
                                kube_reply_fn done, void *arg)
{
    struct kube_call *c = kube_call_new(api, request, arg);
    c->done = done;
    send_call(c);
    return c;
}

struct kube_call *kube_api_upgrade(struct kube_api *api, const char *path, uint64_t total_ms,
                                   kube_tunnel_fn done, void *arg)
{
    struct kube_request request = {.method = "GET", .path = path, .total_ms = total_ms};
    struct kube_call *c = kube_call_new(api, &request, arg);
    c->tunnel_done = done;
    if (websocket_key(c->key, NULL) < 0) {
        task_later(api->tasks, 0, on_unsent, c);
    } else {
        send_call(c);
    }
    return c;
}

void kube_api_cancel(struct kube_call *c)
{
    if (c->http != NULL) {
        http_cancel(c->http);
        kube_call_free(c);
    } else {
        c->cancelled = true; /* what it waits for frees it */
    }
}
