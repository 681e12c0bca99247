/*
 * An engine answers an error with a status and a JSON message (a hijacked call with plain text,
 * Podman also with a "cause"). People get that message, programs a code of ERR_LIST. The code is
 * chosen by the status first and the text second, because engines disagree on statuses: what is 404
 * in one is 500 in another, with the same text.
 *
 * A call keeps its body until its end, because libcurl reads it while it sends.
 */
#include "worker/backend/docker/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"

#define BODY_MAX   (4u << 20) /* /info and inspect are tens of KiB, a list of containers more */
#define JSON_DEPTH 32
#define WORDS_MAX  400
#define WORDS_HEAD 140
#define WORDS_TAIL 240

struct docker_call {
    LIST_ENTRY(docker_call) node;
    struct http_call *http;
    char *what; /* "POST /containers/create", for errors */
    char *json; /* the body */
    docker_reply_fn done;
    docker_tunnel_fn tunnel_done;
    http_data_fn on_data;
    http_fill_fn fill;
    void *arg;
};

struct docker_api {
    struct http_client *http;
    unsigned minor;
    LIST_HEAD(, docker_call) calls;
};

int docker_api_create(uv_loop_t *loop, const struct docker_endpoint *endpoint,
                      struct docker_api **ret, struct err *err)
{
    struct http_endpoint http;
    struct docker_api *api = alloc_one(struct docker_api);
    docker_endpoint_http(endpoint, &http);
    int rc = http_client_create(loop, &http, &api->http, err);
    if (rc < 0) {
        free(api);
        return rc;
    }
    LIST_INIT(&api->calls);
    *ret = api;
    return 0;
}

static void call_free(struct docker_call *c)
{
    LIST_REMOVE(c, node);
    free(c->what);
    free(c->json);
    free(c);
}

void docker_api_close(struct docker_api *api, void (*closed)(void *arg), void *arg)
{
    struct http_client *http = api->http;
    struct docker_call *c;
    while ((c = LIST_FIRST(&api->calls)) != NULL) {
        docker_api_cancel(c);
    }
    free(api);
    http_client_close(http, closed, arg);
}

void docker_api_set_version(struct docker_api *api, unsigned minor)
{
    api->minor = minor;
}

/* ---- errors --------------------------------------------------------------------------------- */

/* The engine's error message on one line. */
static void read_words(const cJSON *json, struct view body, char ret[WORDS_MAX])
{
    const char *message = json_get_str(json, "message");
    struct view text = message != NULL ? view_of(message) : body;
    const char *data = text.data != NULL ? text.data : "";
    if (text.len < WORDS_MAX) {
        size_t len = utf8_valid_prefix(data, text.len);
        snprintf(ret, WORDS_MAX, "%.*s", (int)len, data);
    } else { /* layers of an engine prepend their messages, so the cause is at the end */
        size_t head = utf8_valid_prefix(data, WORDS_HEAD);
        size_t at = text.len - WORDS_TAIL;
        while (at < text.len && ((unsigned char)data[at] & 0xc0) == 0x80) {
            at++; /* not in the middle of a character */
        }
        size_t tail = utf8_valid_prefix(data + at, text.len - at);
        snprintf(ret, WORDS_MAX, "%.*s ... %.*s", (int)head, data, (int)tail, data + at);
    }
    for (size_t i = 0; ret[i] != '\0'; i++) {
        if ((unsigned char)ret[i] < ' ') {
            ret[i] = ' ';
        }
    }
    for (size_t n = strlen(ret); n > 0 && ret[n - 1] == ' '; n--) {
        ret[n - 1] = '\0';
    }
}

static bool says(const char *words, const char *part)
{
    return strcasestr(words, part) != NULL;
}

static enum err_code code_of(int status, const char *words)
{
    static const char *const image[] = {"no such image",      "image not known",
                                        "manifest unknown",   "unable to find image",
                                        "pull access denied", "repository does not exist"};
    static const char *const gone[] = {"no such container", "is not running", "no such exec",
                                       "container state improper", "no container with name"};
    for (size_t i = 0; i < sizeof(image) / sizeof(image[0]); i++) {
        if (says(words, image[i])) {
            return ERR_IMAGE;
        }
    }
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        if (says(words, gone[i])) {
            return ERR_GONE;
        }
    }
    return status == 400 ? ERR_INVALID : ERR_ENGINE;
}

static int refused(const struct docker_call *c, int status, const char *words, struct err *err)
{
    return err_set(err, code_of(status, words), "%s: %s%s(HTTP status %d of %s)", "the engine says",
                   words[0] != '\0' ? words : "nothing", words[0] != '\0' ? " " : ", ", status,
                   c->what);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void on_http_reply(void *arg, int rc, const struct http_response *response,
                          const struct err *failure)
{
    struct docker_call *c = arg;
    struct err err = ERR_INIT;
    struct docker_reply reply = {0};
    cJSON *json = NULL;
    if (rc < 0) {
        err = *failure;
    } else {
        bool has_nul = false;
        char words[WORDS_MAX];
        reply.http = response;
        reply.status = response->status;
        int parsed = response->body.len > 0
                         ? json_parse(response->body.data, response->body.len, BODY_MAX, JSON_DEPTH,
                                      &json, &has_nul, &err)
                         : 0;
        if (parsed == 0 && has_nul) {
            cJSON_Delete(json); /* its strings would be cut short at the NUL */
            json = NULL;
        }
        reply.json = json;
        if (parsed == -ERR_NO_MEMORY) {
            rc = err_wrap(&err, "the engine's answer"); /* its fault is not that it has no JSON */
        } else if (response->status / 100 != 2 && response->status != 304) {
            read_words(json, response->body, words);
            rc = refused(c, response->status, words, &err);
        }
    }
    docker_reply_fn done = c->done;
    void *done_arg = c->arg;
    call_free(c);
    done(done_arg, rc, &reply, rc < 0 ? &err : NULL);
    cJSON_Delete(json);
}

static bool on_data(void *arg, struct view piece)
{
    struct docker_call *c = arg;
    return c->on_data(c->arg, piece);
}

static int on_request_fill(void *arg, char *out, size_t cap)
{
    struct docker_call *c = arg;
    return c->fill(c->arg, out, cap);
}

static struct docker_call *call_new(struct docker_api *api, const char *method, const char *path,
                                    const char *json, void *arg)
{
    struct docker_call *c = alloc_one(struct docker_call);
    LIST_INSERT_HEAD(&api->calls, c, node);
    c->what = alloc_printf("%s %s", method, path);
    c->json = json != NULL ? alloc_strdup(json) : NULL;
    c->arg = arg;
    return c;
}

static char *versioned(const struct docker_api *api, const char *path, bool unversioned)
{
    return unversioned || api->minor == 0 ? alloc_strdup(path)
                                          : alloc_printf("/v1.%u%s", api->minor, path);
}

struct docker_call *docker_api_call(struct docker_api *api, const struct docker_request *request,
                                    docker_reply_fn done, void *arg)
{
    struct docker_call *c = call_new(api, request->method, request->path, request->json, arg);
    CLEANUP_FREE char *path = versioned(api, request->path, request->unversioned);
    struct http_request http = {
        .method = request->method,
        .path = path,
        .content_type = c->json != NULL ? "application/json" : request->content_type,
        .body = c->json != NULL ? view_of(c->json) : request->body,
        .fill = request->fill != NULL ? on_request_fill : NULL,
        .silence_ms = request->silence_ms,
        .total_ms = request->total_ms,
        .max_bytes = BODY_MAX,
        .on_data = request->on_data != NULL ? on_data : NULL,
    };
    if (http.total_ms == 0 && http.silence_ms == 0) {
        http.total_ms = DOCKER_CALL_MS;
    }
    c->done = done;
    c->on_data = request->on_data;
    c->fill = request->fill;
    c->http = http_send(api->http, &http, on_http_reply, c);
    return c;
}

void docker_api_cancel(struct docker_call *c)
{
    http_cancel(c->http);
    call_free(c);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void on_api_tunnel(void *arg, int rc, struct http_tunnel *tunnel,
                          const struct http_response *response, const struct err *failure)
{
    struct docker_call *c = arg;
    struct err err = ERR_INIT;
    if (rc < 0) {
        err = *failure;
    } else if (tunnel == NULL) {
        char words[WORDS_MAX];
        cJSON *json = NULL;
        err_ignore(json_parse(response->body.data != NULL ? response->body.data : "",
                              response->body.len, BODY_MAX, JSON_DEPTH, &json, NULL, NULL));
        read_words(json, response->body, words);
        cJSON_Delete(json);
        rc = refused(c, response->status, words, &err);
    }
    docker_tunnel_fn done = c->tunnel_done;
    void *done_arg = c->arg;
    call_free(c);
    done(done_arg, rc, tunnel, rc < 0 ? &err : NULL);
}

struct docker_call *docker_api_upgrade(struct docker_api *api, const char *path, const char *json,
                                       docker_tunnel_fn done, void *arg)
{
    struct docker_call *c = call_new(api, "POST", path, json, arg);
    CLEANUP_FREE char *full = versioned(api, path, false);
    struct http_request http = {
        .method = "POST",
        .path = full,
        .content_type = c->json != NULL ? "application/json" : NULL,
        .body = c->json != NULL ? view_of(c->json) : view_of(""),
        .total_ms = DOCKER_CALL_MS,
    };
    c->tunnel_done = done;
    c->http = http_tunnel_open(api->http, &http, on_api_tunnel, c);
    return c;
}
