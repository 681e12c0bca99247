/*
 * Ordinary calls: each has an easy handle, and all handles are in one multi.
 *
 * http_send(), http_cancel() and http_client_close() only note the request and start an idle
 * handle; the next turn of the loop executes it. So they may be called from anywhere, also from
 * on_data, which runs inside libcurl, where no handle may be added or removed. And no callback runs
 * inside the call that takes it. A flag marks a cancelled call at once: its request body is not
 * read again and `done` is not called.
 *
 * Each call has one timer for its timeouts. libcurl's own timeout for silence wakes up every
 * second; ours sleeps until the timeout would be over, and then checks when the last byte came.
 * Only the timeout of connecting, which has many phases, is libcurl's.
 */
#include "common/io/http_client.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_internal.h"

enum {
    IDLE_CONNECTIONS_MAX = 4,
    CONNECT_DEFAULT_MS = 5000,
    RESPONSE_DEFAULT_MAX_BYTES = 1024 * 1024,
    WHAT_PATH_MAX = 100, /* characters of a path in an error */
};

/* ---- calls as objects ---- */

static bool is_line(const char *text)
{
    const char *p = text;
    while ((unsigned char)*p >= ' ' && *p != 0x7f) {
        p++;
    }
    return *p == '\0';
}

/* True if no part of the request contains bytes that would end its request line or a header
 * line. */
static bool is_sendable(const struct http_request *request)
{
    bool good = request->method[0] != '\0' && request->path[0] == '/' &&
                (request->content_type == NULL || is_line(request->content_type)) &&
                (request->upgrade == NULL || is_line(request->upgrade));
    for (const char *p = request->method; *p != '\0' && good; p++) {
        good = *p >= 'A' && *p <= 'Z';
    }
    for (const char *p = request->path; *p != '\0' && good; p++) {
        good = *p > ' ' && *p < 0x7f && *p != '#';
    }
    for (const char *const *line = request->headers; line != NULL && *line != NULL && good;
         line++) {
        good = is_line(*line) && strchr(*line, ':') != NULL;
    }
    return good;
}

static char *join_fields(const struct http_request *request)
{
    char *fields = request->content_type != NULL
                       ? alloc_printf("Content-Type: %s\r\n", request->content_type)
                       : alloc_strdup("");
    for (const char *const *line = request->headers; line != NULL && *line != NULL; line++) {
        char *longer = alloc_printf("%s%s\r\n", fields, *line);
        free(fields);
        fields = longer;
    }
    return fields;
}

static void on_http_deadline(uv_timer_t *timer);
static void kick(struct http_client *c);

struct http_call *http_call_create(struct http_client *c, const struct http_request *request,
                                   void *arg)
{
    assert(!c->closing);
    assert(request->total_ms > 0 || request->silence_ms > 0);
    struct http_call *call = alloc_one(struct http_call);
    size_t path_len = strcspn(request->path, "?");
    *call = (struct http_call){
        .client = c,
        .slot = c->calls_end,
        .valid = is_sendable(request),
        .method = alloc_strdup(request->method),
        .path = alloc_strdup(request->path),
        .what =
            alloc_printf("%s %.*s", request->method,
                         path_len < WHAT_PATH_MAX ? (int)path_len : WHAT_PATH_MAX, request->path),
        .fields = join_fields(request),
        .upgrade = alloc_strdup(request->upgrade != NULL ? request->upgrade : "tcp"),
        .body = request->body,
        .fill = request->fill,
        .connect_ms = request->connect_ms > 0 ? request->connect_ms : CONNECT_DEFAULT_MS,
        .silence_ms = request->silence_ms,
        .total_ms = request->total_ms,
        .on_data = request->on_data,
        .once = request->once,
        .arg = arg,
    };
    buf_init(&call->head, HTTP_HEAD_MAX_BYTES);
    buf_init(&call->collected,
             request->max_bytes > 0 ? request->max_bytes : RESPONSE_DEFAULT_MAX_BYTES);
    uv_timer_init(c->loop, &call->timer);
    call->timer.data = call;
    *c->calls_end = call;
    c->calls_end = &call->next;
    c->parts++;
    kick(c);
    return call;
}

static void on_call_closed(uv_handle_t *handle)
{
    struct http_call *call = handle->data;
    struct http_client *c = call->client;
    free(call->method);
    free(call->path);
    free(call->what);
    free(call->fields);
    free(call->upgrade);
    buf_finish(&call->head);
    buf_finish(&call->collected);
    free(call);
    http_client_part_gone(c);
}

/* Removes the call from all lists; its memory is freed when its timer is closed. */
static void drop_http_call(struct http_call *call)
{
    struct http_client *c = call->client;
    *call->slot = call->next;
    if (call->next != NULL) {
        call->next->slot = call->slot;
    } else {
        c->calls_end = call->slot;
    }
    if (call->easy != NULL) {
        http_multi_remove(&c->multi, call->easy);
        c->lib.easy_cleanup(call->easy);
        c->lib.slist_free_all(call->lines);
        call->easy = NULL;
    }
    http_tunnel_close(STEAL_PTR(call->tunnel));
    uv_close((uv_handle_t *)&call->timer, on_call_closed);
}

static void finish_http_call(struct http_call *call, int rc, const struct http_response *response,
                             struct http_tunnel *tunnel, const struct err *err)
{
    uv_timer_stop(&call->timer);
    if (!call->cancelled && !call->client->closing) {
        if (call->tunnel_done != NULL) {
            call->tunnel_done(call->arg, rc, tunnel, response, err);
        } else {
            call->done(call->arg, rc, response, err);
        }
    }
    drop_http_call(call);
}

void http_call_fail(struct http_call *call, const struct err *err)
{
    finish_http_call(call, -err->code, NULL, NULL, err);
}

void http_call_succeed(struct http_call *call, int status, struct view body,
                       struct http_tunnel *tunnel)
{
    struct http_response response = {.status = status, .body = body, .call = call};
    finish_http_call(call, 0, &response, tunnel, NULL);
}

struct view http_response_header(const struct http_response *response, const char *name)
{
    const struct buf *head = &response->call->head;
    return http_head_value(view_bytes(head->data, head->len), name);
}

/* ---- time ---- */

void http_call_heard(struct http_call *call)
{
    call->last_byte_ms = uv_now(call->client->loop);
}

/* The time of the last byte in either direction; UINT64_MAX while there is no connection, or this
 * side takes nothing. */
static uint64_t silent_since(const struct http_call *call)
{
    if (call->held) {
        return UINT64_MAX;
    }
    if (call->tunnel != NULL) {
        return http_tunnel_connected(call->tunnel) ? call->last_byte_ms : UINT64_MAX;
    }
    curl_off_t connected_us = 0;
    CURLcode rc =
        call->client->lib.easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    if (rc != CURLE_OK || connected_us <= 0) {
        return UINT64_MAX;
    }
    uint64_t connected_ms = call->begin_ms + (uint64_t)connected_us / 1000;
    return connected_ms > call->last_byte_ms ? connected_ms : call->last_byte_ms;
}

static void fail_late(struct http_call *call, const char *what, uint64_t bound_ms)
{
    struct err err = ERR_INIT;
    if (call->tunnel != NULL && http_tunnel_late(call->tunnel)) {
        return;
    }
    err_set(&err, ERR_TIMEOUT, "%s: %s: %s within %llu ms", call->client->site.name, call->what,
            what, (unsigned long long)bound_ms);
    http_call_fail(call, &err);
}

/* Ends the call if a timeout is over, else starts the timer for the next one. */
static void watch_time(struct http_call *call)
{
    uint64_t now_ms = uv_now(call->client->loop);
    uint64_t wait_ms = UINT64_MAX;
    if (call->total_ms > 0) {
        if (now_ms >= call->begin_ms + call->total_ms) {
            fail_late(call, "no complete answer", call->total_ms);
            return;
        }
        wait_ms = call->begin_ms + call->total_ms - now_ms;
    }
    if (call->silence_ms > 0) {
        uint64_t since_ms = silent_since(call);
        uint64_t silent_ms = since_ms < now_ms ? now_ms - since_ms : 0;
        if (silent_ms >= call->silence_ms) {
            fail_late(call, "not a byte", call->silence_ms);
            return;
        }
        uint64_t left_ms = call->silence_ms - silent_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    uv_timer_start(&call->timer, on_http_deadline, wait_ms, 0);
}

static void on_http_deadline(uv_timer_t *timer)
{
    struct http_call *call = timer->data;
    if (!call->cancelled && !call->client->closing) {
        watch_time(call);
    }
}

/* ---- what libcurl asks of a call; a count other than the given one ends the transfer ---- */

static size_t on_body_wanted(char *out, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    if (call->cancelled || call->client->closing) {
        return CURL_READFUNC_ABORT;
    }
    if (call->fill != NULL) {
        size_t cap = size * count < INT_MAX ? size * count : INT_MAX;
        int n = call->fill(call->arg, out, cap);
        call->failure = n < 0 ? n : 0;
        call->body_sent += n > 0 ? (size_t)n : 0;
        http_call_heard(call);
        return n < 0 || call->cancelled || call->client->closing ? CURL_READFUNC_ABORT : (size_t)n;
    }
    size_t left = call->body.len - call->body_sent;
    size_t n = size * count < left ? size * count : left;
    if (n > 0) {
        memcpy(out, call->body.data + call->body_sent, n);
    }
    call->body_sent += n;
    http_call_heard(call);
    return n;
}

/* libcurl asks to rewind the body when a kept connection was dead and it retries. A body that comes
 * in pieces cannot be rewound. */
static int on_body_again(void *arg, curl_off_t offset, int origin)
{
    struct http_call *call = arg;
    bool is_first = call->body_sent == 0 && offset == 0;
    bool at_hand = call->fill != NULL || call->once
                       ? is_first
                       : offset >= 0 && (uint64_t)offset <= call->body.len;
    if (origin != SEEK_SET || !at_hand) {
        return CURL_SEEKFUNC_FAIL;
    }
    call->body_sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t on_head_line(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    http_call_heard(call);
    size_t len = size * count;
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        call->head.len = 0; /* the head before was interim: "100 Continue" */
        call->head_whole = false;
    }
    call->head_whole = call->head_whole || (len > 0 && (data[0] == '\r' || data[0] == '\n'));
    call->failure = buf_add(&call->head, data, len, NULL);
    return call->failure < 0 ? len + 1 : len;
}

static long http_status_of(const struct http_call *call)
{
    long status = 0;
    CURLcode rc = call->client->lib.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    return rc == CURLE_OK ? status : 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    size_t len = size * count;
    if (call->cancelled || call->client->closing) {
        return len + 1;
    }
    http_call_heard(call);
    if (call->held) {
        call->waiting = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (call->on_data != NULL && http_status_of(call) / 100 == 2) {
        call->failure = call->on_data(call->arg, view_bytes(data, len)) ? 0 : -ERR_INVALID;
    } else {
        call->failure = buf_add(&call->collected, data, len, NULL);
    }
    return call->failure < 0 || call->cancelled || call->client->closing ? len + 1 : len;
}

/* ---- from the request to its end ---- */

static CURLcode set_request(struct http_call *call)
{
    const struct http_lib *lib = &call->client->lib;
    CURL *easy = call->easy;
    CURLcode rc = CURLE_OK;
    bool is_head = strcmp(call->method, "HEAD") == 0;
    bool is_get = strcmp(call->method, "GET") == 0;
    bool has_body = call->body.len > 0 || call->fill != NULL || strcmp(call->method, "POST") == 0 ||
                    strcmp(call->method, "PUT") == 0;
    if (is_head) {
        HTTP_SET(CURLOPT_NOBODY, 1L);
    } else if (has_body) {
        /* "Upload" only means that a body follows, chunked if its length is unknown, without a
         * default content type */
        HTTP_SET(CURLOPT_UPLOAD, 1L);
        HTTP_SET(CURLOPT_INFILESIZE_LARGE,
                 call->fill != NULL ? (curl_off_t)-1 : (curl_off_t)call->body.len);
        HTTP_SET(CURLOPT_READFUNCTION, on_body_wanted);
        HTTP_SET(CURLOPT_READDATA, call);
        HTTP_SET(CURLOPT_SEEKFUNCTION, on_body_again);
        HTTP_SET(CURLOPT_SEEKDATA, call);
    }
    if (!is_head && !is_get) {
        HTTP_SET(CURLOPT_CUSTOMREQUEST, call->method);
    }
    HTTP_SET(CURLOPT_HTTPHEADER, call->lines);
    HTTP_SET(CURLOPT_HEADERFUNCTION, on_head_line);
    HTTP_SET(CURLOPT_HEADERDATA, call);
    HTTP_SET(CURLOPT_WRITEFUNCTION, on_body);
    HTTP_SET(CURLOPT_WRITEDATA, call);
    HTTP_SET(CURLOPT_PRIVATE, call);
    HTTP_SET(CURLOPT_FRESH_CONNECT, call->again ? 1L : 0L);
    return rc;
}

static void add_line(struct http_call *call, const char *line)
{
    call->lines = alloc_check(call->client->lib.slist_append(call->lines, line));
}

static void make_lines(struct http_call *call)
{
    add_line(call, "Expect:"); /* sends no Expect header: engines need no 100-continue */
    char *rest = call->fields;
    for (char *end; (end = strstr(rest, "\r\n")) != NULL; rest = end + 2) {
        *end = '\0';
        add_line(call, rest);
        *end = '\r';
    }
}

static int begin_ordinary(struct http_call *call, struct err *err)
{
    struct http_client *c = call->client;
    CURL *easy = NULL;
    int rc = http_easy_create(call, call->error, &easy, err);
    if (rc < 0) {
        return rc;
    }
    call->easy = easy;
    if (call->lines == NULL) {
        make_lines(call);
    }
    CURLcode set = set_request(call);
    if (set != CURLE_OK) {
        err_set(err, ERR_ENGINE, "%s: libcurl: %s", c->site.name, c->lib.easy_strerror(set));
    } else {
        rc = http_multi_add(&c->multi, easy, err);
    }
    if (set != CURLE_OK || rc < 0) {
        c->lib.easy_cleanup(STEAL_PTR(call->easy));
        c->lib.slist_free_all(STEAL_PTR(call->lines));
        return -ERR_ENGINE;
    }
    return 0;
}

static void begin_http_call(struct http_call *call)
{
    struct err err = ERR_INIT;
    call->begun = true;
    call->begin_ms = uv_now(call->client->loop);
    int rc = 0;
    if (!call->valid) {
        rc = err_set(&err, ERR_INVALID, "%s: a request that cannot be sent: %s",
                     call->client->site.name, call->what);
    } else if (call->tunnel_done != NULL) {
        rc = http_tunnel_begin(call, &err);
    } else {
        rc = begin_ordinary(call, &err);
    }
    if (rc < 0) {
        http_call_fail(call, &err);
        return;
    }
    watch_time(call);
}

/* True if the peer closed a kept connection just when it was used again, and sent no answer.
 * libcurl retries by itself after an end of file, but not after a reset. */
static bool was_dropped(const struct http_call *call, CURLcode result)
{
    const struct http_lib *lib = &call->client->lib;
    long connects = 1;
    if (call->again || call->once || call->cancelled || call->failure != 0 || call->fill != NULL ||
        call->head.len > 0 || (result != CURLE_RECV_ERROR && result != CURLE_SEND_ERROR) ||
        lib->easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &connects) != CURLE_OK) {
        return false;
    }
    return connects == 0;
}

static void send_again(struct http_call *call)
{
    struct http_client *c = call->client;
    struct err err = ERR_INIT;
    http_multi_remove(&c->multi, call->easy);
    c->lib.easy_cleanup(STEAL_PTR(call->easy));
    call->again = true;
    call->body_sent = 0;
    if (begin_ordinary(call, &err) < 0) {
        http_call_fail(call, &err);
    }
}

static void fail_transfer(struct http_call *call, CURLcode result)
{
    struct err err = ERR_INIT;
    const char *name = call->client->site.name;
    if (call->failure == -ERR_TOO_BIG) {
        err_set(&err, ERR_TOO_BIG,
                "%s: %s: the answer is larger than %d (head) or %zu (body) bytes", name, call->what,
                HTTP_HEAD_MAX_BYTES, call->collected.max);
    } else if (call->failure < 0) {
        err_set(&err, (enum err_code) - call->failure, "%s: %s: %s", name, call->what,
                call->failure == -ERR_INVALID && call->fill == NULL ? "the answer makes no sense"
                                                                    : err_text(call->failure));
    } else {
        http_easy_error(call, call->easy, result, call->error, &err);
    }
    http_call_fail(call, &err);
}

static void on_transfer_done(void *arg, CURL *easy, CURLcode result)
{
    struct http_client *c = arg;
    struct http_call *call = NULL;
    CURLcode rc = c->lib.easy_getinfo(easy, CURLINFO_PRIVATE, &call);
    assert(rc == CURLE_OK && call != NULL);
    if (result == CURLE_OK && !call->head_whole) {
        result = CURLE_GOT_NOTHING; /* libcurl accepts an incomplete head as an answer */
    }
    if (rc == CURLE_OK && result == CURLE_OK) {
        struct view body = view_bytes(call->collected.data, call->collected.len);
        http_call_succeed(call, (int)http_status_of(call), body, NULL);
    } else if (was_dropped(call, result)) {
        send_again(call);
    } else {
        fail_transfer(call, result);
    }
}

struct http_call *http_send(struct http_client *c, const struct http_request *request,
                            http_done_fn done, void *arg)
{
    struct http_call *call = http_call_create(c, request, arg);
    call->done = done;
    return call;
}

void http_cancel(struct http_call *call)
{
    call->cancelled = true;
    call->body = view_bytes(NULL, 0);
    call->body_sent = 0;
    kick(call->client);
}

void http_hold(struct http_call *call, bool hold)
{
    call->held = hold;
    if (!hold) {
        http_call_heard(call);
        kick(call->client);
    }
}

/* libcurl hands out what it has kept, inside this call. */
static void let_come(struct http_call *call)
{
    call->waiting = false;
    CURLcode rc = call->client->lib.easy_pause(call->easy, CURLPAUSE_CONT);
    if (rc != CURLE_OK) { /* nobody else is told */
        fail_transfer(call, rc);
    }
}

/* ---- the client ---- */

void http_client_part_gone(struct http_client *c)
{
    assert(c->parts > 0);
    c->parts--;
    if (c->parts > 0) {
        return;
    }
    void (*closed)(void *arg) = c->closed;
    void *arg = c->arg;
    if (c->connect_to != NULL) {
        c->lib.slist_free_all(c->connect_to);
    }
    http_lib_close(&c->lib);
    http_site_finish(&c->site);
    free(c);
    closed(arg);
}

static void on_client_kick_closed(uv_handle_t *handle)
{
    http_client_part_gone(handle->data);
}

static void on_client_multi_closed(void *arg)
{
    http_client_part_gone(arg);
}

static void close_now(struct http_client *c)
{
    while (c->calls != NULL) {
        drop_http_call(c->calls);
    }
    while (c->tunnels != NULL) {
        http_tunnel_close(c->tunnels); /* removes itself from the list */
    }
    http_multi_close(&c->multi, on_client_multi_closed);
    uv_close((uv_handle_t *)&c->kick, on_client_kick_closed);
}

static void on_client_kick(uv_idle_t *idle)
{
    struct http_client *c = idle->data;
    uv_idle_stop(idle);
    struct http_call *next = c->calls;
    while (next != NULL && !c->closing) {
        struct http_call *call = next;
        next = call->next; /* only this loop removes calls meanwhile */
        if (call->cancelled) {
            drop_http_call(call);
        } else if (!call->begun) {
            begin_http_call(call);
        } else if (call->waiting && !call->held) {
            let_come(call);
        }
    }
    if (c->closing) {
        close_now(c);
    }
}

static void kick(struct http_client *c)
{
    uv_idle_start(&c->kick, on_client_kick);
}

int http_client_create(uv_loop_t *loop, const struct http_endpoint *endpoint,
                       struct http_client **ret, struct err *err)
{
    struct http_client *c = alloc_one(struct http_client);
    c->loop = loop;
    c->calls_end = &c->calls;
    int rc = http_site_init(&c->site, endpoint, err);
    if (rc < 0) {
        free(c);
        return rc;
    }
    rc = http_lib_open(&c->lib, err);
    if (rc == 0) {
        rc = http_multi_init(&c->multi, &c->lib, loop, IDLE_CONNECTIONS_MAX, on_transfer_done, c,
                             err);
    }
    if (rc < 0) {
        http_lib_close(&c->lib);
        http_site_finish(&c->site);
        free(c);
        return rc;
    }
    if (c->site.connect_to != NULL) {
        c->connect_to = alloc_check(c->lib.slist_append(NULL, c->site.connect_to));
    }
    uv_idle_init(loop, &c->kick);
    c->kick.data = c;
    c->parts = 2; /* the multi and the kick */
    *ret = c;
    return 0;
}

void http_client_close(struct http_client *c, void (*closed)(void *arg), void *arg)
{
    assert(!c->closing);
    c->closing = true;
    c->closed = closed;
    c->arg = arg;
    kick(c);
}
