/*
 * A request as it arrives: its first line, its head, its body in parts, its end.
 *
 * The head is copied as soon as it is there: libmicrohttpd keeps it only as long as the connection
 * lives, and a handler may read it after the client has gone.
 *
 * We refuse a message that two readers could understand differently: two Host headers, two lengths,
 * a length beside chunks, an encoding other than chunks. A proxy in front of us may have read it
 * the other way.
 *
 * If possible, a refusal is sent before the body; then the connection is closed after it, since the
 * body would be taken for the next request. A body may also turn out to be too large while it
 * arrives (in chunks, or because others filled the budget). libmicrohttpd cannot answer then before
 * the body's end, so the rest is read and dropped, up to twice the limit in all, and then answered.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/web/http/internal.h"

/* ---- the head ---- */

/* The head is copied in two passes over libmicrohttpd's values: one counts, one copies. */
struct head_copy {
    struct web_field *fields; /* NULL while counting */
    size_t count;
    char *text;
    size_t bytes;
};

static const char *copy_head_text(struct head_copy *copy, const char *text, size_t len)
{
    char *at = copy->text != NULL ? copy->text + copy->bytes : NULL;
    if (at != NULL) {
        memcpy(at, text, len);
        at[len] = '\0';
    }
    copy->bytes += len + 1;
    return at;
}

static const char *add_value(struct head_copy *copy, const char *value)
{
    static const char blanks[] = " \t\r\n";
    value = value != NULL ? value + strspn(value, blanks) : "";
    size_t len = strlen(value);
    while (len > 0 && strchr(blanks, value[len - 1]) != NULL) {
        len--;
    }
    return copy_head_text(copy, value, len);
}

static enum MHD_Result on_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    struct head_copy *copy = arg;
    const char *name_copy = copy_head_text(copy, name, strlen(name));
    const char *value_copy =
        kind == MHD_HEADER_KIND
            ? add_value(copy, value)
            : copy_head_text(copy, value != NULL ? value : "", value != NULL ? strlen(value) : 0);
    if (copy->fields != NULL) {
        copy->fields[copy->count] = (struct web_field){name_copy, value_copy};
    }
    copy->count++;
    return MHD_YES;
}

/* A client may send an absolute URL; only its path counts. */
static const char *path_of(const char *url)
{
    size_t scheme = strncasecmp(url, "http://", 7) == 0    ? 7
                    : strncasecmp(url, "https://", 8) == 0 ? 8
                                                           : 0;
    if (scheme == 0) {
        return url;
    }
    const char *slash = strchr(url + scheme, '/');
    return slash != NULL ? slash : "/";
}

static void copy_head(struct web_exchange *x, struct MHD_Connection *mhd, const char *url,
                      const char *method)
{
    const struct mhd_lib *lib = &x->listener->mhd;
    struct head_copy headers = {0}, query = {0};
    lib->get_connection_values(mhd, MHD_HEADER_KIND, on_field, &headers);
    lib->get_connection_values(mhd, MHD_GET_ARGUMENT_KIND, on_field, &query);
    url = path_of(url);
    size_t fields = (headers.count + query.count) * sizeof(struct web_field);
    x->request.head =
        alloc_array(1, fields + headers.bytes + query.bytes + strlen(url) + strlen(method) + 2);
    x->request.headers = (struct web_field *)(void *)x->request.head;
    x->request.query = x->request.headers + headers.count;
    headers = (struct head_copy){.fields = x->request.headers, .text = x->request.head + fields};
    lib->get_connection_values(mhd, MHD_HEADER_KIND, on_field, &headers);
    query = (struct head_copy){.fields = x->request.query, .text = headers.text + headers.bytes};
    lib->get_connection_values(mhd, MHD_GET_ARGUMENT_KIND, on_field, &query);
    x->request.header_count = headers.count;
    x->request.query_count = query.count;
    x->request.path = copy_head_text(&query, url, strlen(url));
    x->request.method = copy_head_text(&query, method, strlen(method));
}

/* Refuses what libmicrohttpd lets through but others would read differently: blanks before the
 * colon, line ends within a value. */
static bool clean_headers(const struct web_exchange *x)
{
    for (size_t i = 0; i < x->request.header_count; i++) {
        const char *at = x->request.headers[i].name;
        if (*at == '\0' || strpbrk(at, " \t\r\n\"(),/:;<=>?@[\\]{}") != NULL) {
            return false;
        }
        for (at = x->request.headers[i].value; *at != '\0'; at++) {
            if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f) {
                return false;
            }
        }
    }
    return true;
}

static void too_large(struct web_exchange *x)
{
    char *text =
        alloc_printf("the body is larger than %zu bytes", x->listener->config.max_body_bytes);
    web_exchange_fail(x, 413, text);
    free(text);
}

static void too_busy(struct web_exchange *x)
{
    web_set_header(x, "Retry-After", "1");
    web_exchange_fail(x, 503, "too many requests are being received; try again");
}

/* Answers requests that need no handler. True if a body follows. */
static bool check_head(struct web_exchange *x)
{
    struct web_listener *l = x->listener;
    const char *encoding = web_header(x, "Transfer-Encoding");
    const char *announced = web_header(x, "Content-Length");
    uint64_t length = 0; /* libmicrohttpd has refused anything but a number */
    err_ignore(announced != NULL ? str_to_u64(announced, 0, UINT64_MAX, &length, NULL) : 0);
    if (l->quiesced) {
        web_exchange_fail(x, 503, "the server is shutting down");
    } else if (x->request.bad_uri ||
               (x->request.path[0] != '/' && strcmp(x->request.path, "*") != 0)) {
        web_exchange_fail(x, 400, "the path must begin with / and have no NUL");
    } else if (!clean_headers(x)) {
        web_exchange_fail(x, 400, "malformed header");
    } else if (web_header_count(x, "Host") > 1) {
        web_exchange_fail(x, 400, "more than one Host header");
    } else if (web_header_count(x, "Content-Length") > 1 ||
               web_header_count(x, "Transfer-Encoding") > 1 ||
               (announced != NULL && encoding != NULL)) {
        web_exchange_fail(x, 400, "more than one length of the body");
    } else if (encoding != NULL && strcasecmp(encoding, "chunked") != 0) {
        web_exchange_fail(x, 400, "Transfer-Encoding can only be chunked");
    } else if (length > l->config.max_body_bytes) {
        too_large(x);
    } else if (length > 0 && l->body_bytes + length > l->config.max_bodies_bytes) {
        too_busy(x);
    }
    return encoding != NULL || length > 0;
}

static enum MHD_Result head_here(struct web_exchange *x, struct MHD_Connection *mhd,
                                 const char *url, const char *method)
{
    struct web_listener *l = x->listener;
    copy_head(x, mhd, url, method);
    web_connection_receiving(x->connection, 0); /* the rest has more time */
    bool has_body = check_head(x);
    if (!web_exchange_is_answered(x) && l->config.admit != NULL) {
        web_handler_set(x, WEB_HANDLER_HAS);
        if (l->config.admit(l->config.arg, x) == 0 && !web_exchange_is_over(x)) {
            web_handler_set(x, WEB_HANDLER_NONE);
        }
    }
    if (!web_exchange_is_answered(x) || !has_body) {
        return MHD_YES; /* without a body, the next call is for the end of the request */
    }
    x->connection->linger = true;
    return web_reply_queue(x);
}

/* ---- the body ---- */

void web_exchange_drop_body(struct web_exchange *x)
{
    x->listener->body_bytes -= x->request.body.len;
    buf_finish(&x->request.body);
}

static enum MHD_Result body_part(struct web_exchange *x, const char *data, size_t len)
{
    struct web_listener *l = x->listener;
    struct err err = ERR_INIT;
    x->request.body_seen += len;
    web_connection_receiving(x->connection, x->request.body_seen);
    if (web_exchange_is_answered(x)) {
        return x->request.body_seen > 2 * (uint64_t)l->config.max_body_bytes ? MHD_NO : MHD_YES;
    }
    if (l->body_bytes + len > l->config.max_bodies_bytes) {
        web_exchange_drop_body(x);
        too_busy(x);
        return MHD_YES;
    }
    int rc = buf_add(&x->request.body, data, len, &err);
    if (rc < 0) {
        web_exchange_drop_body(x);
        if (rc == -ERR_TOO_BIG) {
            too_large(x);
        } else {
            too_busy(x);
        }
        return MHD_YES;
    }
    l->body_bytes += len;
    return MHD_YES;
}

/* ---- the end ---- */

static enum MHD_Result whole(struct web_exchange *x)
{
    struct web_listener *l = x->listener;
    struct web_connection *c = x->connection;
    if (!web_exchange_was_handed(x) && !web_exchange_is_answered(x)) {
        web_connection_received(c);
        web_handler_set(x, WEB_HANDLER_HAS);
        l->config.handle(l->config.arg, x);
        if (c->killed) {
            return MHD_NO;
        }
    }
    if (web_exchange_is_answered(x)) {
        return web_reply_queue(x);
    }
    web_connection_suspend(c);
    web_connection_watch(c);
    return MHD_YES;
}

/* ---- callbacks ---- */

void *web_request_line(void *arg, const char *uri, struct MHD_Connection *mhd)
{
    struct web_listener *l = arg;
    const union MHD_ConnectionInfo *info =
        l->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct web_connection *c = info->socket_context;
    struct web_exchange *x = alloc_one(struct web_exchange);
    x->listener = l;
    l->refs++;
    x->connection = c;
    c->exchange = x;
    web_exchange_init_states(x);
    buf_init(&x->request.body, l->config.max_body_bytes);
    /* both buffers have the same size */
    err_ignore(str_copy(x->request.peer, sizeof(x->request.peer), c->peer.text, NULL));
    x->request.line = alloc_strdup(uri);
    x->request.target = path_of(x->request.line);
    x->request.bad_uri = strstr(uri, "%00") != NULL; /* a NUL would cut the path short */
    web_connection_receiving(c, 0);
    return x;
}

enum MHD_Result web_request_part(void *arg, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *len, void **context)
{
    (void)arg;
    struct web_exchange *x = *context;
    if (x == NULL || x->connection->killed) {
        return MHD_NO;
    }
    if (x->request.head == NULL) {
        x->request.is_old = strcmp(version, "HTTP/1.1") != 0;
        return head_here(x, mhd, url, method);
    }
    if (*len > 0) {
        size_t n = *len;
        *len = 0;
        return body_part(x, data, n);
    }
    return whole(x);
}

void web_request_done(void *arg, struct MHD_Connection *mhd, void **context,
                      enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)mhd, (void)why;
    struct web_exchange *x = *context;
    if (x == NULL) {
        return;
    }
    *context = NULL;
    struct web_connection *c = x->connection;
    web_connection_unwatch(c);
    web_connection_idle(c);
    c->exchange = NULL;
    if (x->listener->quiesced) {
        web_connection_kill(c); /* a response has begun, so no other one can be sent */
    }
    /* This cannot free x, because x->connection is not NULL yet. */
    web_exchange_lose(x);
    web_tunnel_end(x);
    x->connection = NULL;
    web_exchange_drop_body(x);
    web_reply_finish(x);
    web_exchange_free_if_done(x);
}
