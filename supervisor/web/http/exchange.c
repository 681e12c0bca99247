/*
 * The handler's side of an exchange.
 *
 * Whatever happens to the connection, an exchange stays until its handler has ended it or has been
 * told that its client is gone; later calls do nothing. So a handler has to keep one rule only: it
 * does not touch an exchange that is over.
 */
#include "supervisor/web/http/exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/web/http/internal.h"

#define STALLED_MS 1000 /* without progress a response is stalled after this time */

/* ---- the request ---- */

const char *web_method(const struct web_exchange *x)
{
    return x->method;
}

const char *web_path(const struct web_exchange *x)
{
    return x->path;
}

const char *web_header(const struct web_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->header_count; i++) {
        if (strcasecmp(x->headers[i].name, name) == 0) {
            return x->headers[i].value;
        }
    }
    return NULL;
}

size_t web_header_count(const struct web_exchange *x, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < x->header_count; i++) {
        count += strcasecmp(x->headers[i].name, name) == 0;
    }
    return count;
}

const char *web_header_twice(const struct web_exchange *x, const char *prefix)
{
    for (size_t i = 0; i < x->header_count; i++) {
        const char *name = x->headers[i].name;
        if (strncasecmp(name, prefix, strlen(prefix)) == 0 && web_header_count(x, name) > 1) {
            return name;
        }
    }
    return NULL;
}

const char *web_query(const struct web_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->query_count; i++) {
        if (strcmp(x->query[i].name, name) == 0) {
            return x->query[i].value;
        }
    }
    return NULL;
}

struct view web_body(const struct web_exchange *x)
{
    return view_bytes(x->body.data, x->body.len);
}

const char *web_peer(const struct web_exchange *x)
{
    return x->peer;
}

/* ---- its end ---- */

void web_exchange_free_if_done(struct web_exchange *x)
{
    if (x->connection != NULL || (x->handed && !x->over) || x->late) {
        return;
    }
    web_exchange_drop_body(x);
    web_reply_finish(x);
    struct web_listener *l = x->listener;
    free(x->head);
    free(x);
    web_listener_release(l);
}

static void tell_gone(struct web_exchange *x)
{
    void (*gone)(void *arg) = x->on_gone;
    x->on_gone = NULL;
    x->over = true; /* calls of the handler have no effect from here on */
    gone(x->gone_arg);
}

void web_exchange_lose(struct web_exchange *x)
{
    if (!x->handed || x->over || x->lost) {
        return;
    }
    x->lost = true;
    if (x->connection != NULL) {
        web_connection_unwatch(x->connection);
    }
    if (x->on_gone != NULL) {
        tell_gone(x);
        web_exchange_free_if_done(x);
    }
}

void web_exchange_tell_late(struct web_listener *l)
{
    while (l->late != NULL) {
        struct web_exchange *x = l->late;
        l->late = x->next_late;
        x->late = false;
        if (!x->over && x->on_gone != NULL) {
            tell_gone(x);
        }
        web_exchange_free_if_done(x);
    }
}

void web_on_gone(struct web_exchange *x, void (*gone)(void *arg), void *arg)
{
    if (x->over) {
        return;
    }
    x->on_gone = gone;
    x->gone_arg = arg;
    struct web_listener *l = x->listener;
    if (!x->lost || gone == NULL || x->late) {
        return;
    }
    if (l->stopped) { /* the listener's idle handle has stopped */
        tell_gone(x);
        web_exchange_free_if_done(x);
    } else { /* from the loop, not from inside this call */
        x->late = true;
        x->next_late = l->late;
        l->late = x;
        web_listener_kick(l);
    }
}

void web_on_drain(struct web_exchange *x, void (*drained)(void *arg), void *arg)
{
    x->on_drain = drained;
    x->drain_arg = arg;
}

/* ---- the response ---- */

static bool plain_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

void web_set_header(struct web_exchange *x, const char *name, const char *value)
{
    if (x->over || x->answered) {
        return;
    }
    assert(plain_text(name));
    if (!plain_text(value)) { /* the value may echo what a client sent */
        log_debug("http: header %s left out: its value has control characters", name);
        return;
    }
    struct web_field *more = alloc_array(x->set_count + 1, sizeof(*more));
    if (x->set_count > 0) {
        memcpy(more, x->set, x->set_count * sizeof(*more));
    }
    more[x->set_count++] = (struct web_field){alloc_strdup(name), alloc_strdup(value)};
    free(x->set);
    x->set = more;
}

static void set_response(struct web_exchange *x, int status, const char *content_type)
{
    x->answered = true;
    x->status = status;
    x->content_type = content_type != NULL ? alloc_strdup(content_type) : NULL;
}

static void end_by_handler(struct web_exchange *x)
{
    x->over = true;
    if (x->connection != NULL) {
        web_connection_unwatch(x->connection);
        web_connection_resume(x->connection);
    }
    web_exchange_free_if_done(x);
}

/* ---- room for responses ----
 *
 * Responses that wait for slow clients have a sum that they may not exceed. What was answered is
 * never lost for want of it, nor for others' slowness: the largest response goes, with its
 * connection, or one about as large of which its client has taken nothing for a while. */

static bool output_fits(const struct web_listener *l, size_t len)
{
    size_t max = l->config.max_output_bytes, waiting = l->output_bytes;
    return waiting == 0 || (waiting < max && len <= max - waiting);
}

static void count_output(struct web_exchange *x, size_t len)
{
    if (x->output_bytes == 0) {
        web_exchange_moved(x);
    }
    x->output_bytes += len;
    x->listener->output_bytes += len;
}

void web_exchange_uncount(struct web_exchange *x, size_t len)
{
    x->output_bytes -= len;
    x->listener->output_bytes -= len;
}

void web_exchange_moved(struct web_exchange *x)
{
    x->moved_ms = uv_now(x->listener->loop);
}

/* The largest response that has not moved for `unmoved_ms`; of equal ones the one that has been
 * unmoved for longest. NULL if no response is waiting. */
static struct web_exchange *largest(const struct web_listener *l, uint64_t unmoved_ms)
{
    struct web_exchange *found = NULL;
    for (const struct web_connection *c = l->connections; c != NULL; c = c->next) {
        struct web_exchange *x = c->exchange;
        if (x == NULL || x->output_bytes == 0 || c->killed ||
            uv_now(l->loop) - x->moved_ms < unmoved_ms) {
            continue;
        }
        if (found == NULL || x->output_bytes > found->output_bytes ||
            (x->output_bytes == found->output_bytes && x->moved_ms < found->moved_ms)) {
            found = x;
        }
    }
    return found;
}

/* The response to cut: the largest stalled one, unless it is less than half as large as the largest
 * of all, so that small stalled responses are not cut in place of a large one. */
static struct web_exchange *first_to_go(const struct web_listener *l)
{
    struct web_exchange *any = largest(l, 0), *stalled = largest(l, STALLED_MS);
    return stalled != NULL && stalled->output_bytes >= any->output_bytes / 2 ? stalled : any;
}

static void cut_connection(struct web_exchange *x)
{
    log_warn("http: the response to %s is cut: it has %zu of %zu bytes that wait for clients",
             x->peer, x->output_bytes, x->listener->output_bytes);
    web_reply_drop(x);
    web_connection_kill(x->connection);
}

/* Cuts responses until `len` bytes fit. False if x itself had to be cut. */
static bool make_body_room(struct web_exchange *x, size_t len)
{
    struct web_listener *l = x->listener;
    struct web_exchange *victim;
    if (x->connection == NULL || x->connection->killed) {
        return true; /* its connection is gone, so nothing will be sent */
    }
    while (!output_fits(l, len) && (victim = first_to_go(l)) != NULL) {
        cut_connection(victim);
        if (victim == x) {
            return false;
        }
    }
    return true;
}

/* ---- answers ---- */

static void respond_text(struct web_exchange *x, int status, const char *content_type, char *text,
                         size_t len)
{
    if (x->over || x->answered) { /* the listener itself may have answered when it closed */
        free(text);
    } else {
        make_body_room(x, len);
        set_response(x, status, content_type);
        x->text = text;
        x->text_len = len;
        count_output(x, len);
    }
    if (!x->over) {
        end_by_handler(x);
    }
}

void web_respond(struct web_exchange *x, int status, const char *content_type, struct view body)
{
    char *text = NULL;
    if (body.len > 0) {
        text = alloc_array(1, body.len);
        memcpy(text, body.data, body.len);
    }
    respond_text(x, status, content_type, text, body.len);
}

void web_respond_text(struct web_exchange *x, int status, const char *content_type, char *text)
{
    respond_text(x, status, content_type, text, strlen(text));
}

void web_exchange_fail(struct web_exchange *x, int status, const char *text)
{
    if (!x->answered) {
        set_response(x, status, "text/plain; charset=utf-8");
        x->close = true;
        x->text = alloc_printf("%s\n", text);
        x->text_len = strlen(x->text);
    }
}

void web_stream_begin(struct web_exchange *x, int status, const char *content_type)
{
    if (x->over || x->answered) {
        return;
    }
    set_response(x, status, content_type);
    x->stream = true;
    if (x->connection != NULL) {
        web_connection_resume(x->connection);
    }
}

void web_stream_begin_sized(struct web_exchange *x, int status, const char *content_type,
                            uint64_t size)
{
    if (!x->over && !x->answered) {
        x->sized = true;
        x->size = size;
        web_stream_begin(x, status, content_type);
    }
}

void web_stream_write(struct web_exchange *x, char *data, size_t len)
{
    if (x->over || x->lost || !x->stream || len == 0 ||
        (x->connection != NULL && x->connection->killed)) {
        free(data);
        return;
    }
    if (!make_body_room(x, len)) { /* a stream with a gap is useless, so nothing is queued */
        free(data);
        return;
    }
    count_output(x, len);
    struct web_chunk *chunk = alloc_one(struct web_chunk);
    *chunk = (struct web_chunk){.data = data, .len = len};
    *(x->last != NULL ? &x->last->next : &x->first) = chunk;
    x->last = chunk;
    x->queue_bytes += len;
    if (x->connection != NULL) {
        web_connection_resume(x->connection);
    }
}

size_t web_stream_queued(const struct web_exchange *x)
{
    return x->queue_bytes;
}

void web_stream_end(struct web_exchange *x)
{
    if (!x->over) {
        x->ended = true;
        end_by_handler(x);
    }
}

void web_stream_cut(struct web_exchange *x)
{
    if (x->over) {
        return;
    }
    web_reply_drop(x);
    if (x->connection != NULL) {
        web_connection_kill(x->connection);
    }
    web_stream_end(x);
}
