/*
 * Two forms are taken (RFC 9112): "CONNECT host:port", for https, and "GET http://host:port/path".
 *
 * A client may use a connection to its proxy for several requests, of which each may name another
 * host. So the second form is passed on as the only one of its connection: with "Connection:
 * close", and with exactly the body that it announces. Headers that are for the proxy end here.
 */
#include "worker/door/request.h"

#include <string.h>
#include <strings.h>

static int refuse_head(struct err *err, const char *why)
{
    return err_set(err, ERR_PROTOCOL, "this is no request that a proxy takes: %s", why);
}

static int read_tunnel_request(struct door_request *r, struct err *err)
{
    if (!authority_parse(r->head.target, &r->to) || r->to.port == 0) {
        return refuse_head(err, "CONNECT needs a host and a port");
    }
    r->tunnel = true;
    r->body = UINT64_MAX;
    return 1;
}

static int read_plain_request(struct door_request *r, struct err *err)
{
    struct authority_url url;
    struct http_framing framing;
    bool good = authority_parse_url(r->head.target, &url) && !url.tls && url.user.len == 0;
    if (!good || (url.rest.len > 0 && memchr(url.rest.data, '#', url.rest.len) != NULL)) {
        return refuse_head(err, "it names no http URL");
    }
    if (http_head_framing(&r->head, &framing, err) < 0 || framing.chunked) {
        return refuse_head(err, "it does not say how long it is");
    }
    r->to = url.authority;
    r->path = url.rest;
    r->body = framing.length;
    return 1;
}

int door_request_read(struct view data, struct door_request *ret, struct err *err)
{
    struct door_request r = {.tunnel = false};
    int rc = http_head_parse_request(data, &r.head, err);
    if (rc > 0) {
        rc = view_is(r.head.method, "CONNECT") ? read_tunnel_request(&r, err)
                                               : read_plain_request(&r, err);
    }
    if (rc > 0) {
        *ret = r;
    }
    return rc;
}

static bool is_for_proxy(struct view line)
{
    static const char *const names[] = {
        "Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "TE", "Upgrade",
        "Host"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i]);
        if (line.len > len && line.data[len] == ':' && strncasecmp(line.data, names[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static int write_fields(const struct door_request *r, struct buf *out, struct err *err)
{
    struct view rest = r->head.fields;
    int rc = 0;
    while (rest.len > 0 && rc == 0) {
        struct view line = view_take_line(&rest); /* with its CR */
        if (!is_for_proxy(line)) {
            rc = buf_add(out, line.data, line.len, err);
            rc = rc < 0 ? rc : buf_add(out, "\n", 1, err);
        }
    }
    return rc;
}

static int write_auth(const char *auth, struct buf *out, struct err *err)
{
    return auth != NULL && auth[0] != '\0'
               ? buf_printf(out, err, "Proxy-Authorization: %s\r\n", auth)
               : 0;
}

int door_request_write(const struct door_request *r, bool by_proxy, const char *auth,
                       struct buf *out, struct err *err)
{
    char to[AUTHORITY_TEXT_SIZE];
    struct authority host = r->to;
    host.port = host.port == 80 && !r->tunnel ? 0 : host.port;
    authority_print(&host, to);
    int rc = 0;
    if (r->tunnel && by_proxy) {
        rc = buf_printf(out, err, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", to, to);
        rc = rc < 0 ? rc : write_auth(auth, out, err);
        return rc < 0 ? rc : buf_add_str(out, "\r\n", err);
    }
    if (r->tunnel) {
        return 0;
    }
    bool bare = r->path.len == 0 || r->path.data[0] != '/';
    rc = buf_printf(out, err, "%.*s %s%s%s%.*s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n",
                    VIEW_ARG(r->head.method), by_proxy ? "http://" : "", by_proxy ? to : "",
                    bare ? "/" : "", VIEW_ARG(r->path), to);
    rc = rc < 0 ? rc : write_auth(by_proxy ? auth : NULL, out, err);
    rc = rc < 0 ? rc : write_fields(r, out, err);
    return rc < 0 ? rc : buf_add_str(out, "\r\n", err);
}

int door_answer_write(int status, const char *reason, struct buf *out, struct err *err)
{
    return buf_printf(out, err,
                      "HTTP/1.1 %d %s\r\n"
                      "Content-Type: text/plain\r\n"
                      "Content-Length: %zu\r\n"
                      "Connection: close\r\n\r\n"
                      "%s\n",
                      status, reason, strlen(reason) + 1, reason);
}
