/*
 * Trust decisions compare names, so each name must have one form only: names are put into lower
 * case, and the C library rewrites IPv6 addresses. An IPv4 address must have four decimal parts.
 * Other spellings ("127.1", "0x7f000001"), which browsers rewrite before they send them, are
 * treated as names here and match nothing.
 */
#include "supervisor/web/http/url.h"

#include <arpa/inet.h>
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

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool read_port(struct view text, uint16_t *ret)
{
    uint32_t port = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_url_digit(text.data[i]) || i == 5) {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    if (text.len == 0 || port == 0 || port > UINT16_MAX) {
        return false;
    }
    *ret = (uint16_t)port;
    return true;
}

static bool read_ipv6(struct view text, struct authority *a)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (text.len == 0 || text.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (strlen(copy) != text.len || inet_pton(AF_INET6, copy, &address) != 1) {
        return false;
    }
    a->is_address = true;
    return inet_ntop(AF_INET6, &address, a->host, sizeof(a->host)) != NULL;
}

static bool read_name(struct view text, struct authority *a)
{
    if (text.len == 0 || text.len >= sizeof(a->host)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!is_letter(c) && !is_url_digit(c) && c != '-' && c != '.' && c != '_') {
            return false;
        }
        a->host[i] = lower(c);
    }
    a->host[text.len] = '\0';
    struct in_addr address;
    a->is_address = inet_pton(AF_INET, a->host, &address) == 1;
    return true;
}

bool authority_parse(struct view text, struct authority *ret)
{
    struct authority a = {.port = 0};
    struct view rest;
    if (text.len > 0 && text.data[0] == '[') {
        const char *end = memchr(text.data, ']', text.len);
        if (end == NULL ||
            !read_ipv6(view_bytes(text.data + 1, (size_t)(end - text.data) - 1), &a)) {
            return false;
        }
        size_t used = (size_t)(end - text.data) + 1;
        rest = view_bytes(text.data + used, text.len - used);
    } else {
        const char *colon = text.len > 0 ? memchr(text.data, ':', text.len) : NULL;
        size_t len = colon != NULL ? (size_t)(colon - text.data) : text.len;
        if (!read_name(view_bytes(text.data, len), &a)) {
            return false;
        }
        rest = view_bytes(text.data + len, text.len - len);
    }
    if (rest.len > 0 &&
        (rest.data[0] != ':' || !read_port(view_bytes(rest.data + 1, rest.len - 1), &a.port))) {
        return false;
    }
    *ret = a;
    return true;
}

bool authority_is_local(const struct authority *a)
{
    return strcmp(a->host, "localhost") == 0 || strcmp(a->host, "127.0.0.1") == 0 ||
           strcmp(a->host, "::1") == 0;
}

bool authority_is_loopback(const struct authority *a)
{
    return authority_is_local(a) || (a->is_address && strncmp(a->host, "127.", 4) == 0);
}

bool authority_is_any(const struct authority *a)
{
    return strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0;
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
