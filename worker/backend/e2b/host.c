/*
 * What may be repeated: 429 says that it was too much, and with Retry-After when it will not be;
 * 503 that the service is busy. Both are waited for a few times. Any other failure is told at once,
 * since only the caller knows whether the request may be done twice. So is a 503 to a request with
 * `once`: a proxy says it also of one that it has passed on.
 *
 * The same holds below: libcurl sends a request again if a kept connection was dead, and that can
 * be a request that was done. With `once` it does not.
 */
#include "worker/backend/e2b/host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"

#define BODY_MAX    (4u << 20)
#define JSON_DEPTH  32
#define AGAIN_MAX   4
#define AGAIN_MS    300
#define PATIENCE_MS 20000 /* at most, of one wait */
#define STREAM_MORE 2
#define IDLE_S      540 /* the service's balancer drops connections after ten minutes */

struct e2b_host {
    struct tasks *tasks;
    struct http_client *http;
    const char *what;
    char *url;
    struct e2b_secrets secrets;
    char *headers[E2B_HEADERS_MAX];
    LIST_HEAD(, e2b_call) calls;
};

struct e2b_call {
    LIST_ENTRY(e2b_call) node;
    struct e2b_host *host;
    struct http_call *http; /* NULL while it waits to be sent once more */
    char *method, *path, *json;
    char *old_path, *old_json; /* for an old service, until it has turned out to be one */
    struct view bytes;
    const char *content_type;
    uint64_t total_ms;
    unsigned again;
    bool once, cancelled;
    e2b_reply_fn done;
    void *arg;
};

static void send_e2b_call(struct e2b_call *c);

static void forget_text(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

static char *copy_or_none(const char *text)
{
    return text != NULL ? alloc_strdup(text) : NULL;
}

int e2b_host_create(struct tasks *tasks, const char *what, const char *url, const char *key,
                    struct e2b_host **ret, struct err *err)
{
    struct e2b_host *h = alloc_one(struct e2b_host);
    struct http_endpoint endpoint = {
        .name = url,
        .base_url = url,
        .verify = strncmp(url, "https://", 8) == 0,
        .idle_s = IDLE_S,
    };
    h->tasks = tasks;
    h->what = what;
    LIST_INIT(&h->calls);
    int rc = http_client_create(tasks->loop, &endpoint, &h->http, err);
    if (rc < 0) {
        free(h);
        return rc;
    }
    h->url = alloc_strdup(url);
    h->secrets.key = copy_or_none(key);
    *ret = h;
    return 0;
}

static void free_e2b_call(struct e2b_call *c)
{
    LIST_REMOVE(c, node);
    free(c->method);
    free(c->path);
    free(c->json);
    free(c->old_path);
    free(c->old_json);
    free(c);
}

void e2b_host_close(struct e2b_host *h, void (*closed)(void *arg), void *arg)
{
    struct http_client *http = h->http;
    struct e2b_call *c;
    while ((c = LIST_FIRST(&h->calls)) != NULL) {
        if (c->http != NULL) {
            http_cancel(c->http);
        }
        free_e2b_call(c);
    }
    for (size_t i = 0; i < E2B_HEADERS_MAX; i++) {
        forget_text(h->headers[i]);
    }
    forget_text(h->secrets.key);
    forget_text(h->secrets.token);
    free(h->url);
    free(h);
    http_client_close(http, closed, arg);
}

void e2b_host_header(struct e2b_host *h, size_t n, const char *line)
{
    forget_text(h->headers[n]);
    h->headers[n] = line != NULL ? alloc_strdup(line) : NULL;
}

void e2b_host_token(struct e2b_host *h, const char *token)
{
    forget_text(h->secrets.token);
    h->secrets.token = copy_or_none(token);
}

const struct e2b_secrets *e2b_host_secrets(const struct e2b_host *h)
{
    return &h->secrets;
}

struct tasks *e2b_host_tasks(const struct e2b_host *h)
{
    return h->tasks;
}

const char *e2b_host_url(const struct e2b_host *h)
{
    return h->url;
}

/* ---- errors --------------------------------------------------------------------------------- */

/* A 404 of a proxy, or of another server, says nothing about what was asked for. */
static bool is_own_absence(int status, const cJSON *json)
{
    const cJSON *code = json_get(json, "code");
    return status == 404 && ((json_is_int(code) && code->valueint == 404) ||
                             (cJSON_IsString(code) && strcmp(code->valuestring, "not_found") == 0));
}

int e2b_host_refused(const struct e2b_host *h, int status, const cJSON *json, struct view body,
                     const char *what, struct err *err)
{
    char words[E2B_WORDS_MAX];
    enum err_code code = is_own_absence(status, json) ? ERR_GONE
                         : status == 400              ? ERR_INVALID
                                                      : ERR_ENGINE;
    const char *message = json_get_str(json, "message");
    e2b_words(&h->secrets, message != NULL ? view_of(message) : body, words, sizeof(words));
    return err_set(err, code, "%s: %s says: %s%s(HTTP status %d of %.100s)", h->url, h->what, words,
                   words[0] != '\0' ? " " : "", status, what);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void on_e2b_again(void *arg)
{
    struct e2b_call *c = arg;
    if (c->cancelled) {
        free_e2b_call(c);
    } else {
        send_e2b_call(c);
    }
}

/* How long the host wants to be left alone, bounded; 0: it does not say. */
static uint64_t patience_of(const struct http_response *response)
{
    uint64_t seconds = 0;
    CLEANUP_FREE char *after = alloc_viewdup(http_response_header(response, "Retry-After"));
    bool says = str_to_u64(after, 0, PATIENCE_MS / 1000, &seconds, NULL) == 0;
    return says && seconds == 0 ? AGAIN_MS : seconds * 1000;
}

/* True if the call is made once more. */
static bool call_again(struct e2b_call *c, const struct http_response *response)
{
    c->http = NULL;
    if (c->old_path != NULL && (response->status == 404 || response->status == 405)) {
        free(c->path);
        free(c->json);
        c->path = STEAL_PTR(c->old_path);
        c->json = STEAL_PTR(c->old_json);
        task_later(c->host->tasks, 0, on_e2b_again, c);
        return true;
    }
    if ((response->status != 429 && response->status != 503) || c->again == AGAIN_MAX) {
        return false;
    }
    uint64_t patience_ms = patience_of(response);
    if (response->status == 429 ? patience_ms == 0 : c->once) {
        return false;
    }
    uint64_t wait_ms = patience_ms > 0 ? patience_ms : (uint64_t)AGAIN_MS << c->again;
    c->again++;
    task_later(c->host->tasks, wait_ms, on_e2b_again, c);
    return true;
}

static void on_e2b_reply(void *arg, int rc, const struct http_response *response,
                         const struct err *failure)
{
    struct e2b_call *c = arg;
    struct err err = ERR_INIT;
    struct e2b_reply reply = {0};
    cJSON *json = NULL;
    if (rc < 0) {
        err = *failure;
    } else if (call_again(c, response)) {
        return;
    } else {
        bool has_nul = false;
        const char *body = response->body.data != NULL ? response->body.data : "";
        int parsed =
            json_parse(body, response->body.len, BODY_MAX, JSON_DEPTH, &json, &has_nul, &err);
        if (parsed == 0 && has_nul) {
            cJSON_Delete(json);
            json = NULL;
        }
        reply.status = response->status;
        reply.json = json;
        reply.patience_ms = patience_of(response);
        reply.next = http_response_header(response, "X-Next-Token");
        if (response->status / 100 != 2) {
            CLEANUP_FREE char *what =
                alloc_printf("%s %.*s", c->method, (int)strcspn(c->path, "?"), c->path);
            rc = e2b_host_refused(c->host, response->status, json, response->body, what, &err);
        } else if (json == NULL && response->body.len > 0) {
            rc = err_set(&err, ERR_ENGINE, "%s: the answer of %s is no JSON", c->host->url,
                         c->host->what);
        }
    }
    e2b_reply_fn done = c->done;
    void *done_arg = c->arg;
    free_e2b_call(c);
    done(done_arg, rc, &reply, rc < 0 ? &err : NULL);
    cJSON_Delete(json);
}

static size_t take_headers(const struct e2b_host *h, const char *ret[E2B_HEADERS_MAX + STREAM_MORE])
{
    size_t count = 0;
    for (size_t i = 0; i < E2B_HEADERS_MAX; i++) {
        if (h->headers[i] != NULL) {
            ret[count++] = h->headers[i];
        }
    }
    return count;
}

static void send_e2b_call(struct e2b_call *c)
{
    const char *headers[E2B_HEADERS_MAX + STREAM_MORE + 1] = {NULL};
    size_t count = take_headers(c->host, headers);
    if (c->json != NULL) { /* the daemon wants it of unary calls; others do not mind */
        headers[count] = "Connect-Protocol-Version: 1";
    }
    struct http_request http = {
        .method = c->method,
        .path = c->path,
        .headers = headers,
        .content_type = c->json != NULL ? "application/json" : c->content_type,
        .body = c->json != NULL ? view_of(c->json) : c->bytes,
        .total_ms = c->total_ms,
        .max_bytes = BODY_MAX,
        .once = c->once,
    };
    c->http = http_send(c->host->http, &http, on_e2b_reply, c);
}

struct e2b_call *e2b_host_call(struct e2b_host *h, const struct e2b_request *request,
                               e2b_reply_fn done, void *arg)
{
    struct e2b_call *c = alloc_one(struct e2b_call);
    LIST_INSERT_HEAD(&h->calls, c, node);
    c->host = h;
    c->method = alloc_strdup(request->method);
    c->path = alloc_strdup(request->path);
    c->json = copy_or_none(request->json);
    c->old_path = copy_or_none(request->old_path);
    c->old_json = copy_or_none(request->old_json);
    c->bytes = request->bytes;
    c->content_type = request->content_type;
    c->total_ms = request->total_ms > 0 ? request->total_ms : E2B_CALL_MS;
    c->once = request->once;
    c->done = done;
    c->arg = arg;
    send_e2b_call(c);
    return c;
}

void e2b_host_cancel(struct e2b_call *c)
{
    if (c->http != NULL) {
        http_cancel(c->http);
        free_e2b_call(c);
    } else {
        c->cancelled = true; /* what it waits for frees it */
    }
}

struct http_call *e2b_host_stream(struct e2b_host *h, struct http_request *request,
                                  const char *const *more, http_done_fn done, void *arg)
{
    const char *headers[E2B_HEADERS_MAX + STREAM_MORE + 1] = {NULL};
    size_t count = take_headers(h, headers);
    for (size_t i = 0; i < STREAM_MORE && more[i] != NULL; i++) {
        headers[count++] = more[i];
    }
    request->headers = headers;
    return http_send(h->http, request, done, arg);
}
