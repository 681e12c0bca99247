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
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/internal.h"

#define STALLED_MS   1000 /* without progress a response is stalled after this time */
#define MERGED_BYTES 4096 /* pieces of a stream are put together up to this size */

/* ---- the request ---- */

void web_set_known(struct web_exchange *x, uint64_t who)
{
    if (x->connection != NULL) {
        x->connection->who = who;
    }
}

bool web_would_crowd(const struct web_exchange *x, uint64_t who)
{
    return x->connection != NULL && x->connection->who != who &&
           web_connection_would_be_of_many(x->connection, who);
}

const char *web_method(const struct web_exchange *x)
{
    return x->request.method;
}

const char *web_path(const struct web_exchange *x)
{
    return x->request.path;
}

const char *web_header(const struct web_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->request.header_count; i++) {
        if (strcasecmp(x->request.headers[i].name, name) == 0) {
            return x->request.headers[i].value;
        }
    }
    return NULL;
}

size_t web_header_count(const struct web_exchange *x, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < x->request.header_count; i++) {
        count += strcasecmp(x->request.headers[i].name, name) == 0;
    }
    return count;
}

const char *web_header_twice(const struct web_exchange *x, const char *prefix)
{
    for (size_t i = 0; i < x->request.header_count; i++) {
        const char *name = x->request.headers[i].name;
        if (strncasecmp(name, prefix, strlen(prefix)) == 0 && web_header_count(x, name) > 1) {
            return name;
        }
    }
    return NULL;
}

const char *web_query(const struct web_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->request.query_count; i++) {
        if (strcmp(x->request.query[i].name, name) == 0) {
            return x->request.query[i].value;
        }
    }
    return NULL;
}

const char *web_target(const struct web_exchange *x)
{
    return x->request.target;
}

bool web_is_current(const struct web_exchange *x)
{
    return !x->request.is_old;
}

bool web_header_at(const struct web_exchange *x, size_t at, const char **ret_name,
                   const char **ret_value)
{
    if (at >= x->request.header_count) {
        return false;
    }
    *ret_name = x->request.headers[at].name;
    *ret_value = x->request.headers[at].value;
    return true;
}

void web_take_body(struct web_exchange *x, struct buf *ret)
{
    *ret = x->request.body;
    x->listener->body_bytes -= ret->len;
    buf_init(&x->request.body, 0);
}

struct view web_body(const struct web_exchange *x)
{
    return view_bytes(x->request.body.data, x->request.body.len);
}

const char *web_peer(const struct web_exchange *x)
{
    return x->request.peer;
}

/* ---- its end ---- */

static void end_note(struct web_exchange *x)
{
    if (x->handler.note_over != NULL) {
        x->handler.note_over(x->handler.note);
        x->handler.note_over = NULL;
        x->handler.note = NULL;
    }
}

void web_exchange_free_if_done(struct web_exchange *x)
{
    if (x->connection != NULL || (web_exchange_was_handed(x) && !web_exchange_is_over(x))) {
        return;
    }
    end_note(x); /* left by who admitted it, if the rest never came */
    web_exchange_drop_body(x);
    web_reply_finish(x);
    struct web_listener *l = x->listener;
    free(x->request.head);
    free(x->request.line);
    free(x);
    web_listener_release(l);
}

static void leave_late(struct web_exchange *x)
{
    struct web_exchange **at = &x->listener->late;
    while (*at != x) {
        at = &(*at)->handler.next_late;
    }
    *at = x->handler.next_late;
}

/* Calls of the handler have no effect from here on. */
static void handler_is_done(struct web_exchange *x)
{
    if (x->handler.sm.state == WEB_HANDLER_LATE) {
        leave_late(x);
    }
    web_handler_set(x, WEB_HANDLER_OVER);
    end_note(x);
}

static void tell_gone(struct web_exchange *x)
{
    void (*gone)(void *arg) = x->handler.on_gone;
    x->handler.on_gone = NULL;
    handler_is_done(x);
    gone(x->handler.gone_arg);
}

void web_exchange_lose(struct web_exchange *x)
{
    if (!web_exchange_is_live(x)) {
        return;
    }
    web_handler_set(x, WEB_HANDLER_LOST);
    if (x->connection != NULL) {
        web_connection_unwatch(x->connection);
    }
    if (x->handler.on_gone != NULL) {
        tell_gone(x);
        web_exchange_free_if_done(x);
    }
}

void web_exchange_tell_late(struct web_listener *l)
{
    while (l->late != NULL) {
        struct web_exchange *x = l->late;
        if (x->handler.on_gone != NULL) {
            tell_gone(x);
        } else { /* it does not want to know any more */
            leave_late(x);
            web_handler_set(x, WEB_HANDLER_LOST);
        }
        web_exchange_free_if_done(x);
    }
}

void web_on_gone(struct web_exchange *x, void (*gone)(void *arg), void *arg)
{
    if (web_exchange_is_over(x)) {
        return;
    }
    x->handler.on_gone = gone;
    x->handler.gone_arg = arg;
    struct web_listener *l = x->listener;
    if (x->handler.sm.state != WEB_HANDLER_LOST || gone == NULL) {
        return;
    }
    if (l->stopped) { /* the listener does not run any more */
        tell_gone(x);
        web_exchange_free_if_done(x);
    } else { /* tell it from the loop, because the caller expects no callback in this call */
        x->handler.next_late = l->late;
        l->late = x;
        web_handler_set(x, WEB_HANDLER_LATE);
        web_listener_kick(l);
    }
}

void web_set_note(struct web_exchange *x, void *note, void (*over)(void *note))
{
    x->handler.note = note;
    x->handler.note_over = over;
}

void *web_note(const struct web_exchange *x)
{
    return x->handler.note;
}

void web_on_drain(struct web_exchange *x, void (*drained)(void *arg), void *arg)
{
    x->handler.on_drain = drained;
    x->handler.drain_arg = arg;
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
    if (web_exchange_is_over(x) || web_exchange_is_answered(x)) {
        return;
    }
    assert(plain_text(name));
    if (!plain_text(value)) { /* the value may echo what a client sent */
        log_debug("http: header %s left out: its value has control characters", name);
        return;
    }
    struct web_field *more = alloc_array(x->response.set_count + 1, sizeof(*more));
    if (x->response.set_count > 0) {
        memcpy(more, x->response.set, x->response.set_count * sizeof(*more));
    }
    more[x->response.set_count++] = (struct web_field){alloc_strdup(name), alloc_strdup(value)};
    free(x->response.set);
    x->response.set = more;
}

static void set_response(struct web_exchange *x, enum web_response_state kind, int status,
                         const char *content_type)
{
    if (status >= 200) { /* all are 2xx to 5xx, but for the change to another protocol */
        metrics_count(METRIC_HTTP_RESPONSES, (size_t)(status / 100 - 2));
    }
    x->response.status = status;
    x->response.content_type = content_type != NULL ? alloc_strdup(content_type) : NULL;
    web_response_set(x, kind);
}

static void end_by_handler(struct web_exchange *x)
{
    handler_is_done(x);
    if (x->connection != NULL) {
        web_connection_unwatch(x->connection);
        web_connection_resume(x->connection);
        web_tunnel_update(x);
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
    if (x->response.output_bytes == 0) {
        web_exchange_moved(x);
    }
    x->response.output_bytes += len;
    x->listener->output_bytes += len;
}

void web_exchange_uncount(struct web_exchange *x, size_t len)
{
    x->response.output_bytes -= len;
    x->listener->output_bytes -= len;
}

void web_exchange_moved(struct web_exchange *x)
{
    x->response.moved_ms = uv_now(x->listener->loop);
}

/* The largest response that has not moved for `unmoved_ms`; of equal ones the one that has been
 * unmoved for longest. NULL if no response is waiting. */
static struct web_exchange *largest(const struct web_listener *l, uint64_t unmoved_ms)
{
    struct web_exchange *found = NULL;
    for (const struct web_connection *c = l->connections; c != NULL; c = c->next) {
        struct web_exchange *x = c->exchange;
        if (x == NULL || x->response.output_bytes == 0 || c->killed ||
            uv_now(l->loop) - x->response.moved_ms < unmoved_ms) {
            continue;
        }
        if (found == NULL || x->response.output_bytes > found->response.output_bytes ||
            (x->response.output_bytes == found->response.output_bytes &&
             x->response.moved_ms < found->response.moved_ms)) {
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
    return stalled != NULL && stalled->response.output_bytes >= any->response.output_bytes / 2
               ? stalled
               : any;
}

/* The answer is not whole, and must not look so. */
static void break_off_response(struct web_exchange *x)
{
    web_reply_drop(x);
    if (x->request.is_old && x->response.size == MHD_SIZE_UNKNOWN) {
        web_connection_reset(x->connection);
    } else {
        web_connection_kill(x->connection);
    }
}

static void cut_connection(struct web_exchange *x)
{
    log_warn("http: the response to %s is cut: it has %zu of %zu bytes that wait for clients",
             x->request.peer, x->response.output_bytes, x->listener->output_bytes);
    break_off_response(x);
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
    if (web_exchange_is_over(x) ||
        web_exchange_is_answered(x)) { /* the listener itself may have answered when it closed */
        free(text);
    } else {
        make_body_room(x, len);
        set_response(x, WEB_RESPONSE_WHOLE, status, content_type);
        x->response.text = text;
        x->response.text_len = len;
        count_output(x, len);
    }
    if (!web_exchange_is_over(x)) {
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
    if (!web_exchange_is_answered(x)) {
        set_response(x, WEB_RESPONSE_WHOLE, status, "text/plain; charset=utf-8");
        x->response.close = true;
        x->response.text = alloc_printf("%s\n", text);
        x->response.text_len = strlen(x->response.text);
    }
}

void web_stream_begin(struct web_exchange *x, int status, const char *content_type)
{
    web_stream_begin_sized(x, status, content_type, MHD_SIZE_UNKNOWN);
}

void web_stream_begin_sized(struct web_exchange *x, int status, const char *content_type,
                            uint64_t size)
{
    if (web_exchange_is_over(x) || web_exchange_is_answered(x)) {
        return;
    }
    x->response.size = size;
    set_response(x, WEB_RESPONSE_STREAM, status, content_type);
    if (x->connection != NULL) {
        web_connection_resume(x->connection);
    }
}

/* Small pieces are put together, as only their bytes are counted, and not what each costs besides.
 */
static bool add_to_last(struct web_exchange *x, const char *data, size_t len)
{
    struct web_chunk *last = x->response.last;
    if (last == NULL || len > MERGED_BYTES || last->len > MERGED_BYTES - len) {
        return false;
    }
    last->data = alloc_check(realloc(last->data, last->len + len));
    memcpy(last->data + last->len, data, len);
    last->len += len;
    return true;
}

void web_stream_write(struct web_exchange *x, char *data, size_t len)
{
    if (!web_exchange_is_live(x) || x->response.sm.state != WEB_RESPONSE_STREAM || len == 0 ||
        (x->connection != NULL && x->connection->killed)) {
        free(data);
        return;
    }
    if (!make_body_room(x, len)) { /* a stream with a gap is useless, so nothing is queued */
        free(data);
        return;
    }
    count_output(x, len);
    if (add_to_last(x, data, len)) {
        free(data);
    } else {
        struct web_chunk *chunk = alloc_one(struct web_chunk);
        *chunk = (struct web_chunk){.data = data, .len = len};
        *(x->response.last != NULL ? &x->response.last->next : &x->response.first) = chunk;
        x->response.last = chunk;
    }
    x->response.queue_bytes += len;
    if (x->connection != NULL) {
        web_connection_resume(x->connection);
        web_tunnel_update(x);
    }
}

size_t web_stream_queued(const struct web_exchange *x)
{
    return x->response.queue_bytes;
}

void web_stream_end(struct web_exchange *x)
{
    if (!web_exchange_is_over(x)) {
        if (x->response.sm.state == WEB_RESPONSE_STREAM) {
            web_response_set(x, WEB_RESPONSE_ENDED);
        }
        end_by_handler(x);
    }
}

void web_stream_cut(struct web_exchange *x)
{
    if (web_exchange_is_over(x)) {
        return;
    }
    if (x->connection != NULL) {
        break_off_response(x);
    } else {
        web_reply_drop(x);
    }
    web_stream_end(x);
}
