/*
 * A request is told to the program as fast as it reads: the head and the first of the body with the
 * connection, the rest piece by piece, each when the one before it was taken. While the program has
 * much to read, we look again after a while that grows.
 *
 * A program may answer before it has been told everything, and close (a refusal of an upload). What
 * is left is not told then, and the answer goes on. The other way round the body is told to its end
 * although the answer has begun, or is whole and no error, as long as the program goes on reading.
 *
 * The exchange and the connection end in any order. Whichever is left is ended, and the transfer is
 * freed with the last of both.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/ports/handshake.h"
#include "supervisor/web/ports/internal.h"

#define PIECE_BYTES  (64u << 10)
#define UNREAD_MAX   (128u << 10) /* the program is given time to read when it has more than this */
#define AGAIN_MS     10
#define AGAIN_MAX_MS 500
#define INTERIM_MAX  8 /* answers 1xx */

/* ---- the end -------------------------------------------------------------------------------- */

static void drop_request(struct port_transfer *t)
{
    buf_finish(&t->request);
    t->told = 0;
    t->endpoint->body_bytes -= t->reserved;
    t->reserved = 0;
    t->again_ms = 0;
}

void port_transfer_destroy(struct port_transfer *t)
{
    drop_request(t);
    LIST_REMOVE(t, node);
    t->endpoint->open--;
    t->endpoint->sockets -= t->is_socket;
    metrics_lower(METRIC_PORT_OPEN, 0, 0);
    buf_finish(&t->head);
    port_answer_finish(&t->answer);
    free(t->owner);
    free(t->target);
    free(t->method);
    free(t);
}

/* The exchange has ended. */
static void leave_exchange(struct port_transfer *t)
{
    t->x = NULL;
    t->due_ms = 0;
    drop_request(t);
    if (t->connection != NULL) {
        t->endpoint->source.stop(t->connection);
    } else {
        port_transfer_destroy(t);
    }
}

void port_transfer_cut(struct port_transfer *t)
{
    if (t->x != NULL) {
        web_stream_cut(t->x);
    }
    t->x = NULL;
    t->due_ms = 0;
    drop_request(t);
    if (t->connection == NULL) {
        port_transfer_destroy(t);
    }
}

static void on_browser_gone(void *arg)
{
    leave_exchange(arg);
}

void port_transfer_fail(struct port_transfer *t, int status, const char *why)
{
    struct web_exchange *x = t->x;
    if (t->has_head) {
        log_debug("http: an answer of port %u of sandbox %s is cut: %s", (unsigned)t->address.port,
                  t->address.sandbox, why);
        web_stream_cut(x);
    } else {
        ports_refuse(x, status, why);
    }
    leave_exchange(t);
}

/* For the beginning of its answer, for it to read on, or, when it has answered, for its end. */
void port_transfer_wait(struct port_transfer *t)
{
    bool waits = !t->has_head || t->request.len > 0 || t->x == NULL || (t->is_socket && t->deaf);
    t->due_ms = waits ? uv_now(t->endpoint->loop) + t->endpoint->wait_ms : 0;
    ports_wake_at(t->endpoint, t->due_ms);
}

/* The answer is whole. A program that has not refused the request may still be reading it. */
static void leave_answered(struct port_transfer *t)
{
    if (t->request.len == 0 || t->connection == NULL || t->answer.status >= 400) {
        leave_exchange(t);
    } else {
        t->x = NULL;
        port_transfer_wait(t);
    }
}

static void end_answer(struct port_transfer *t)
{
    web_stream_end(t->x);
    leave_answered(t);
}

/* ---- the request ---------------------------------------------------------------------------- */

void port_transfer_tell(struct port_transfer *t)
{
    size_t left = t->request.len - t->told;
    if (t->telling == 0 && left > 0) {
        t->again_ms = 0;
        t->telling = left < PIECE_BYTES ? left : PIECE_BYTES;
        t->endpoint->source.tell(t->connection, t->place,
                                 view_bytes(t->request.data + t->told, t->telling));
    }
}

static void tell_later(struct port_transfer *t)
{
    t->pause_ms = t->pause_ms == 0                 ? AGAIN_MS
                  : t->pause_ms < AGAIN_MAX_MS / 2 ? 2 * t->pause_ms
                                                   : AGAIN_MAX_MS;
    t->again_ms = uv_now(t->endpoint->loop) + t->pause_ms;
    ports_wake_at(t->endpoint, t->again_ms);
}

static void on_program_told(void *arg, enum port_told what, uint64_t unread)
{
    struct port_transfer *t = arg;
    size_t bytes = t->telling;
    t->telling = 0;
    if (t->request.len == 0) {
        return; /* it was given up meanwhile */
    }
    if (what == PORT_TOLD_NEVER) {
        t->deaf = true;
        drop_request(t);
        port_transfer_wait(t);
        if (t->is_socket) {
            port_socket_told(t); /* the client's end is to be noticed */
        }
        return;
    }
    if (what == PORT_TOLD_LATER) {
        tell_later(t);
        return;
    }
    t->told += bytes;
    t->place += bytes;
    if (t->told == t->request.len) {
        drop_request(t);
    } else if (t->is_socket) {
        buf_consume(&t->request, t->told);
        t->told = 0;
    }
    port_transfer_wait(t);
    if (unread <= UNREAD_MAX) {
        t->pause_ms = 0;
    }
    if (t->is_socket) {
        port_socket_told(t);
    }
    if (t->request.len == 0) {
        return;
    }
    if (unread > UNREAD_MAX) {
        tell_later(t);
    } else {
        port_transfer_tell(t);
    }
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void go_on_reading(void *arg)
{
    struct port_transfer *t = arg;
    if (t->paused && t->connection != NULL) {
        t->paused = false;
        t->endpoint->source.pause(t->connection, false);
    }
}

/* How many of these bytes are of the body, which is here where they begin. */
static size_t count_body(struct port_body body, struct view data)
{
    struct view part;
    size_t len = 0;
    while (data.len > 0 && !port_body_is_whole(&body) &&
           port_body_take(&body, &data, &part, NULL) == 0) {
        len += part.len;
    }
    return len;
}

/* Passes on what is of the body. Only that is allocated, since only that is counted. */
static void take_body(struct port_transfer *t, struct view data)
{
    struct err err = ERR_INIT;
    char *out = alloc_block(count_body(t->body, data));
    size_t len = 0;
    int rc = 0;
    while (rc == 0 && data.len > 0 && !port_body_is_whole(&t->body)) {
        struct view part;
        rc = port_body_take(&t->body, &data, &part, &err);
        if (rc == 0 && part.len > 0) {
            memcpy(out + len, part.data, part.len);
            len += part.len;
        }
    }
    if (len > 0) {
        web_stream_write(t->x, out, len);
    } else {
        free(out);
    }
    if (rc < 0) {
        port_transfer_fail(t, 502, err.text);
    } else if (port_body_is_whole(&t->body)) {
        end_answer(t);
    } else if (!t->paused && web_stream_queued(t->x) > PORT_AHEAD_BYTES) {
        t->paused = true;
        t->endpoint->source.pause(t->connection, true);
    }
}

static void begin_answer(struct port_transfer *t, const struct http_head *head)
{
    const struct port_answer *a = &t->answer;
    port_head_pass_on(t->x, head, a);
    if (!a->has_body && (a->status == 204 || a->status == 205)) {
        web_respond(t->x, a->status, NULL, view_of(""));
        leave_answered(t);
        return;
    }
    if (a->framing.has_length) {
        web_stream_begin_sized(t->x, a->status, a->type, a->framing.length);
    } else {
        web_stream_begin(t->x, a->status, a->type);
    }
    web_on_drain(t->x, go_on_reading, t);
    if (port_body_is_whole(&t->body)) {
        end_answer(t);
    }
}

static void take_answer_head(struct port_transfer *t)
{
    struct err err = ERR_INIT;
    struct http_head head;
    int rc;
    while ((rc = http_head_parse(view_bytes(t->head.data, t->head.len), &head, &err)) > 0 &&
           head.status < 200 && head.status != 101 && t->interim++ < INTERIM_MAX) {
        buf_consume(&t->head, head.size);
    }
    if (rc == 0) {
        return;
    }
    if (rc > 0 && head.status == 101 && handshake_is_asked(t->x)) {
        rc = port_socket_begin(t, &head, &err);
    } else if (rc > 0) {
        rc = port_head_answer(&head, t->method, &t->address, &t->answer, &err);
    }
    if (rc < 0) {
        CLEANUP_FREE char *why =
            alloc_printf("the web server in the sandbox was not understood: %s", err.text);
        port_transfer_fail(t, 502, why);
        return;
    }
    t->has_head = true;
    port_transfer_wait(t);
    port_body_init(&t->body, t->answer.has_body, &t->answer.framing);
    if (t->is_socket) {
        web_on_drain(t->x, go_on_reading, t);
    } else {
        begin_answer(t, &head);
    }
    if (t->x != NULL && t->head.len > head.size) {
        struct buf rest = t->head;
        buf_init(&t->head, 0);
        take_body(t, view_bytes(rest.data + head.size, rest.len - head.size));
        buf_finish(&rest);
    } else if (t->x != NULL) {
        buf_finish(&t->head);
    }
}

static void on_program_said(void *arg, struct view bytes)
{
    struct port_transfer *t = arg;
    if (t->x == NULL) {
        return;
    }
    t->last_word_ms = uv_now(t->endpoint->loop);
    if (t->has_head) {
        take_body(t, bytes);
    } else if (buf_add(&t->head, bytes.data, bytes.len, NULL) < 0) {
        port_transfer_fail(t, 502,
                           "there is no memory for an answer of the web server in the sandbox");
    } else {
        take_answer_head(t);
    }
}

/* ---- the connection ends -------------------------------------------------------------------- */

static const struct {
    int status;
    const char *why;
} ends[] = {
    [PORT_END_WELL] = {502, "the web server in the sandbox has closed the connection without an "
                            "answer"},
    [PORT_END_NOBODY] = {502, "nothing listens at this port of the sandbox: start a web server in "
                              "it, and load this page again"},
    [PORT_END_BROKEN] = {502, "the web server in the sandbox has broken off the connection"},
    [PORT_END_LATE] = {504, "the web server in the sandbox took too long"},
    [PORT_END_BUSY] = {503, "the sandbox has too many connections open; try again"},
    [PORT_END_GONE] = {502, "the sandbox is gone, or does not answer"},
};

static void on_program_ended(void *arg, enum port_end how)
{
    struct port_transfer *t = arg;
    t->connection = NULL;
    t->telling = 0;
    if (t->x == NULL) {
        port_transfer_destroy(t);
    } else if (t->has_head && t->body.at == PORT_BODY_OPEN && how == PORT_END_WELL) {
        end_answer(t);
    } else {
        port_transfer_fail(t, ends[how].status, ends[how].why);
    }
}

static const struct port_events connection_events = {on_program_said, on_program_told,
                                                     on_program_ended};

/* ---- the beginning -------------------------------------------------------------------------- */

void port_transfer_tick(struct port_transfer *t, uint64_t now_ms)
{
    if (t->again_ms != 0 && now_ms >= t->again_ms) {
        t->again_ms = 0;
        port_transfer_tell(t);
    }
    if (port_socket_tick(t, now_ms) || t->due_ms == 0 || now_ms < t->due_ms) {
        return;
    }
    if (t->x == NULL) {
        leave_exchange(t);
    } else if (t->is_socket) {
        port_transfer_fail(t, 504, "the program reads nothing of what its client says");
    } else if (t->has_head) {
        drop_request(t); /* its answer goes on */
        t->due_ms = 0;
    } else {
        port_transfer_fail(t, 504, "the web server in the sandbox does not answer");
    }
}

/* Head and body, of which the body is copied behind the head. */
static int make_port_request(struct port_transfer *t, struct err *err)
{
    CLEANUP_BUF struct buf body;
    buf_init(&body, 0);
    web_take_body(t->x, &body);
    int rc = port_head_request(&t->request, t->x, &t->address, body.len, err);
    return rc == 0 && body.len > 0 ? buf_add(&t->request, body.data, body.len, err) : rc;
}

void port_transfer_begin(struct ports_endpoint *e, struct web_exchange *x, const char *owner,
                         size_t reserved)
{
    struct err err = ERR_INIT;
    struct port_transfer *t = alloc_one(struct port_transfer);
    t->endpoint = e;
    t->x = x;
    t->reserved = reserved;
    t->owner = alloc_strdup(owner);
    t->target = alloc_strdup(web_target(x));
    t->method = alloc_strdup(web_method(x));
    buf_init(&t->request, LIMIT_LINE_BYTES + 2 * LIMIT_HTTP_HEAD);
    buf_init(&t->head, HTTP_HEAD_MAX_BYTES + LIMIT_CHUNK);
    LIST_INSERT_HEAD(&e->transfers, t, node);
    e->open++;
    metrics_count(METRIC_PORT_OPEN, 0);
    port_address_parse(t->target, &t->address);
    if (make_port_request(t, &err) < 0) {
        port_transfer_fail(t, 503, err.text);
        return;
    }
    t->told = t->request.len < LIMIT_INPUT ? t->request.len : LIMIT_INPUT;
    t->connection = e->source.connect(e->source.arg, &t->address,
                                      view_bytes(t->request.data, t->told), &connection_events, t);
    if (t->told < t->request.len) {
        tell_later(t);
    } else {
        drop_request(t);
    }
    port_transfer_wait(t);
    web_on_gone(x, on_browser_gone, t);
}
