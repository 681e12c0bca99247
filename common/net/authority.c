/*
 * Trust decisions compare names, so each name must have one form only: names are put into lower
 * case, and the C library rewrites IPv6 addresses. An IPv4 address must have four decimal parts.
 * Other spellings ("127.1", "0x7f000001"), which browsers rewrite before they send them, are
 * treated as names here and match nothing.
 */
#include "common/net/authority.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_name_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_letter(char c)
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
        if (!is_name_digit(text.data[i]) || i == 5) {
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
        if (!is_name_letter(c) && !is_name_digit(c) && c != '-' && c != '.' && c != '_') {
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

bool authority_same(const struct authority *a, const struct authority *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

void authority_print(const struct authority *a, char ret[AUTHORITY_TEXT_SIZE])
{
    bool v6 = strchr(a->host, ':') != NULL;
    const char *open = v6 ? "[" : "";
    const char *close = v6 ? "]" : "";
    if (a->port == 0) {
        snprintf(ret, AUTHORITY_TEXT_SIZE, "%s%s%s", open, a->host, close);
    } else {
        snprintf(ret, AUTHORITY_TEXT_SIZE, "%s%s%s:%u", open, a->host, close, (unsigned)a->port);
    }
}

static bool is_printable(struct view text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f) {
            return false;
        }
    }
    return true;
}

static bool take_scheme(struct view *text, const char *scheme)
{
    size_t len = strlen(scheme);
    if (text->len < len || strncasecmp(text->data, scheme, len) != 0) {
        return false;
    }
    *text = view_bytes(text->data + len, text->len - len);
    return true;
}

bool authority_parse_url(struct view text, struct authority_url *ret)
{
    struct authority_url url = {.tls = take_scheme(&text, "https://")};
    if (!is_printable(text) || (!url.tls && !take_scheme(&text, "http://"))) {
        return false;
    }
    size_t len = 0;
    while (len < text.len && memchr("/?#", text.data[len], 3) == NULL) {
        len++;
    }
    url.rest = view_bytes(text.data + len, text.len - len);
    size_t user = len; /* the last @ counts, as for programs that fetch */
    while (user > 0 && text.data[user - 1] != '@') {
        user--;
    }
    url.user = view_bytes(text.data, user > 0 ? user - 1 : 0);
    if (!authority_parse(view_bytes(text.data + user, len - user), &url.authority)) {
        return false;
    }
    if (url.authority.port == 0) {
        url.authority.port = url.tls ? 443 : 80;
    }
    *ret = url;
    return true;
}
