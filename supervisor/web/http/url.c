/*
 * Parsing is for trust decisions: of a URL there is one reading only, and what has another is
 * refused. The names are read by common/net/authority.c.
 */
#include "supervisor/web/http/url.h"

#include <string.h>
#include <strings.h>

#include "common/str.h"

static bool is_url_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool read_scheme(const char *text, struct view *ret)
{
    const char *end = strstr(text, "://");
    if (end == NULL || !is_letter(text[0])) {
        return false;
    }
    for (const char *p = text; p < end; p++) {
        if (!is_letter(*p) && !is_url_digit(*p) && strchr("+-.", *p) == NULL) {
            return false;
        }
    }
    *ret = view_bytes(text, (size_t)(end - text));
    return true;
}

bool url_parse(const char *text, struct url *ret)
{
    struct url u;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f || strchr("?#@\\\"<>", *p) != NULL) {
            return false;
        }
    }
    if (!read_scheme(text, &u.scheme)) {
        return false;
    }
    const char *host = text + u.scheme.len + strlen("://");
    size_t host_len = strcspn(host, "/");
    if (!authority_parse(view_bytes(host, host_len), &u.authority)) {
        return false;
    }
    u.origin = view_bytes(text, (size_t)(host - text) + host_len);
    u.path = view_of(host + host_len);
    while (u.path.len > 0 && u.path.data[u.path.len - 1] == '/') {
        u.path.len--;
    }
    *ret = u;
    return true;
}

bool url_is(const struct url *u, const char *scheme)
{
    return u->scheme.len == strlen(scheme) &&
           strncasecmp(u->scheme.data, scheme, u->scheme.len) == 0;
}

uint16_t url_port(const struct url *u)
{
    if (u->authority.port != 0) {
        return u->authority.port;
    }
    return url_is(u, "http") ? 80 : url_is(u, "https") ? 443 : 0;
}

int listen_address_parse(const char *text, struct authority *ret, struct err *err)
{
    const char *colon = strrchr(text, ':');
    const char *port_text = colon != NULL ? colon + 1 : text;
    struct view host =
        colon != NULL ? view_bytes(text, (size_t)(colon - text)) : view_of("127.0.0.1");
    struct authority a;
    uint64_t port = 0;
    if (str_to_u64(port_text, 0, UINT16_MAX, &port, err) < 0) {
        err->code = ERR_CONFIG;
        return err_wrap(err, "--http: port");
    }
    if (!authority_parse(host, &a) || a.port != 0) {
        return err_set(err, ERR_CONFIG,
                       "--http: expected PORT, HOST:PORT or [IPv6]:PORT, got \"%.100s\"", text);
    }
    a.port = (uint16_t)port;
    *ret = a;
    return 0;
}
