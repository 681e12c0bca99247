/*
 * One request to a server, and a wait for its answer: a loop that lives as long as the request.
 * That costs a moment each time, which a person does not notice, and leaves nothing to keep.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/http_client.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define ANSWER_MAX_BYTES (64u << 20)

struct asking {
    uv_loop_t loop;
    struct http_client *client;
    struct buf rest;     /* the beginning of a line */
    server_line_fn line; /* NULL: the answer is one object, … */
    FILE *bytes;         /* … or bytes that go there */
    void *arg;
    bool enough; /* `line` wants no more */
    int *status; /* all that is wanted of the answer; NULL: more */
    uv_poll_t interrupt;
    bool watches_interrupt;
    cJSON *answer;
    int rc;
    struct err err;
};

/* ---- answers -------------------------------------------------------------------------------- */

/* Codes travel by their names, so the first of a name stands for all of them. */
static int code_of_name(const char *name)
{
#define X(code, number, wire, text)                                                                \
    if (name != NULL && strcmp(name, (wire)) == 0 && ERR_##code != ERR_INTERNAL) {                 \
        return ERR_##code;                                                                         \
    }
    ERR_LIST(X)
#undef X
    return ERR_ENGINE;
}

int server_refusal(const cJSON *answer, int status, struct err *err)
{
    const cJSON *error = json_get(answer, "error");
    const char *message = json_get_str(error, "message"), *hint = json_get_str(error, "hint");
    if (message == NULL) {
        return err_set(err, ERR_ENGINE, "the server answers with status %d", status);
    }
    return err_set(err, (enum err_code)code_of_name(json_get_str(error, "code")), "%s%s%s", message,
                   hint != NULL ? "; " : "", hint != NULL ? hint : "");
}

static int take_answer(struct asking *a, const struct http_response *response)
{
    bool good = response->status >= 200 && response->status < 300;
    if (good && (a->line != NULL || a->bytes != NULL)) {
        return 0;
    }
    cJSON *answer = NULL;
    int rc = json_parse(response->body.data, response->body.len, ANSWER_MAX_BYTES, SERVER_DEPTH,
                        &answer, NULL, &a->err);
    if (!good) {
        rc = server_refusal(rc == 0 ? answer : NULL, response->status, &a->err);
        cJSON_Delete(answer);
        return rc;
    }
    a->answer = answer;
    return rc;
}

static void on_client_closed(void *arg)
{
    (void)arg; /* nothing is on the loop any more, so it ends */
}

static void close_asking(struct asking *a)
{
    if (a->watches_interrupt) {
        uv_close((uv_handle_t *)&a->interrupt, NULL);
    }
    http_client_close(a->client, on_client_closed, NULL);
}

/* What was asked for may be half done: its answer tells what is to be stopped or closed. So it is
 * waited for until somebody insists. */
static void on_asking_interrupted(uv_poll_t *poll, int status, int events)
{
    struct asking *a = poll->data;
    (void)status, (void)events;
    interrupts_take();
    if (interrupts_insist()) {
        a->rc = err_set(&a->err, ERR_GONE, "interrupted");
        close_asking(a);
    }
}

static void watch_interrupts(struct asking *a)
{
    a->watches_interrupt =
        interrupts_fd() >= 0 && uv_poll_init(&a->loop, &a->interrupt, interrupts_fd()) == 0;
    if (a->watches_interrupt) {
        a->interrupt.data = a;
        uv_poll_start(&a->interrupt, UV_READABLE, on_asking_interrupted);
    }
}

static void on_asked(void *arg, int rc, const struct http_response *response, const struct err *err)
{
    struct asking *a = arg;
    if (rc == 0 && a->status != NULL) {
        *a->status = response->status;
    } else if (rc == 0) {
        a->rc = take_answer(a, response);
    } else if (!a->enough) {
        a->err = *err;
        a->rc = rc;
    }
    close_asking(a);
}

/* ---- lines ---------------------------------------------------------------------------------- */

bool server_cut_lines(struct buf *rest, struct view piece, server_line_fn line, void *arg)
{
    const uint8_t *end;
    bool goes_on = buf_add(rest, piece.data, piece.len, NULL) == 0;
    while (goes_on && rest->len > 0 && (end = memchr(rest->data, '\n', rest->len)) != NULL) {
        size_t len = (size_t)(end - rest->data);
        cJSON *object = NULL;
        struct err err = ERR_INIT;
        goes_on = len == 0 || (json_parse((const char *)rest->data, len, SERVER_LINE_BYTES,
                                          SERVER_DEPTH, &object, NULL, &err) == 0 &&
                               line(arg, object));
        cJSON_Delete(object);
        buf_consume(rest, len + 1);
    }
    return goes_on;
}

static bool on_answer_line(void *arg, const cJSON *line)
{
    struct asking *a = arg;
    a->enough = !a->line(a->arg, line);
    return !a->enough;
}

static bool on_answer_piece(void *arg, struct view piece)
{
    struct asking *a = arg;
    if (a->bytes != NULL) {
        return fwrite(piece.data, 1, piece.len, a->bytes) == piece.len;
    }
    return server_cut_lines(&a->rest, piece, on_answer_line, a);
}

struct http_endpoint server_endpoint(const struct server *server)
{
    return (struct http_endpoint){.name = server->name,
                                  .base_url = "http://cloister",
                                  .unix_socket = server->socket,
                                  .verify = true};
}

/* ---- asking --------------------------------------------------------------------------------- */

static int ask_at(struct asking *a, const struct http_endpoint *endpoint,
                  const struct http_request *request, struct err *err)
{
    if (uv_loop_init(&a->loop) < 0) {
        return err_set(err, ERR_INTERNAL, "no event loop: out of descriptors?");
    }
    buf_init(&a->rest, SERVER_LINE_BYTES);
    int rc = http_client_create(&a->loop, endpoint, &a->client, err);
    if (rc == 0) {
        watch_interrupts(a);
        (void)http_send(a->client, request, on_asked, a);
        uv_run(&a->loop, UV_RUN_DEFAULT);
        rc = a->rc;
        if (rc < 0) {
            *err = a->err;
        }
    }
    buf_finish(&a->rest);
    (void)uv_loop_close(&a->loop);
    return rc;
}

static int ask_and_wait(struct asking *a, const struct server *server, const char *method,
                        const char *path, struct view body, struct err *err)
{
    const struct http_endpoint endpoint = server_endpoint(server);
    bool streams = a->line != NULL || a->bytes != NULL;
    const struct http_request request = {
        .method = method,
        .path = path,
        .content_type = body.len > 0 ? "application/octet-stream" : NULL,
        .body = body,
        .total_ms = streams ? SERVER_STREAM_MS : SERVER_ANSWER_MS,
        .max_bytes = ANSWER_MAX_BYTES,
        .on_data = streams ? on_answer_piece : NULL,
    };
    return ask_at(a, &endpoint, &request, err);
}

int server_send(const struct server *server, const char *method, const char *path, struct view body,
                cJSON **ret, struct err *err)
{
    struct asking a = {.client = NULL};
    int rc = ask_and_wait(&a, server, method, path, body, err);
    if (rc == 0) {
        *ret = a.answer;
    }
    return rc;
}

int server_post(const struct server *server, const char *path, cJSON *owned, cJSON **ret,
                struct err *err)
{
    CLEANUP_FREE char *text = alloc_check(cJSON_PrintUnformatted(owned));
    cJSON_Delete(owned);
    return server_send(server, "POST", path, view_of(text), ret, err);
}

int server_ask(const struct server *server, const char *method, const char *path, cJSON **ret,
               struct err *err)
{
    return server_send(server, method, path, view_of(""), ret, err);
}

int server_bytes(const struct server *server, const char *path, FILE *out, struct err *err)
{
    struct asking a = {.bytes = out};
    return ask_and_wait(&a, server, "GET", path, view_of(""), err);
}

int server_lines(const struct server *server, const char *path, server_line_fn line, void *arg,
                 struct err *err)
{
    struct asking a = {.line = line, .arg = arg};
    return ask_and_wait(&a, server, "GET", path, view_of(""), err);
}

int server_greet(const char *url, int *ret_status, struct err *err)
{
    static const char hello[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"cloister-demo\","
        "\"version\":\"1\"}}}";
    static const char *const headers[] = {"Accept: application/json, text/event-stream", NULL};
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    const char *path = host + strcspn(host, "/");
    CLEANUP_FREE char *base = alloc_viewdup(view_bytes(url, (size_t)(path - url)));
    /* whose certificate it has is for its clients to say; here it is our own server */
    const struct http_endpoint endpoint = {.name = url, .base_url = base, .verify = false};
    const struct http_request request = {
        .method = "POST",
        .path = path[0] != '\0' ? path : "/",
        .content_type = "application/json",
        .body = view_of(hello),
        .headers = headers,
        .total_ms = SERVER_ANSWER_MS,
    };
    struct asking a = {.status = ret_status};
    return ask_at(&a, &endpoint, &request, err);
}

static void on_pause_over(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}

void server_pause(unsigned ms)
{
    uv_loop_t loop;
    uv_timer_t timer;
    if (uv_loop_init(&loop) < 0) {
        return;
    }
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_pause_over, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
}
