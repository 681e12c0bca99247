/*
 * An address has one spelling: ids of sandboxes have no character that would be escaped, and a port
 * has no zeros in front. So the signature is over what was parsed, and what comes behind it is the
 * program's affair: it is passed on as it came, printable ASCII without blanks.
 *
 * A redirect is resolved here, as a browser would do it against the program's own root, and then
 * said as a relative reference that climbs to that root and no higher. Browsers take "%2e" for a
 * dot and a backslash for a slash, so these are read in the same way, or refused.
 */
#include "supervisor/web/ports/address.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"

#define LOCATION_BYTES (64u << 10)

/* ---- the address ---------------------------------------------------------------------------- */

/* Copies up to the next slash. False if that is nothing or does not fit. */
static bool take_address_segment(const char **at, char *ret, size_t size)
{
    size_t len = strcspn(*at, "/");
    if (len == 0 || len >= size) {
        return false;
    }
    memcpy(ret, *at, len);
    ret[len] = '\0';
    *at += len;
    return true;
}

static bool take_slash(const char **at)
{
    if (**at != '/') {
        return false;
    }
    *at += 1;
    return true;
}

static bool consists_of(const char *text, const char *chars)
{
    return text[strspn(text, chars)] == '\0';
}

static bool is_target_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text >= 0x7f || *text == '#') {
            return false;
        }
    }
    return true;
}

bool port_address_parse(const char *target, struct port_address *ret)
{
    static const char digits[] = "0123456789";
    static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const char *at = target;
    char port[6];
    uint64_t number = 0;
    *ret = (struct port_address){0};
    if (!port_address_has(target)) {
        return false;
    }
    at += strlen(PORTS_PATH);
    if (!take_address_segment(&at, ret->sandbox, sizeof(ret->sandbox)) || !take_slash(&at) ||
        !take_address_segment(&at, port, sizeof(port)) || !take_slash(&at) ||
        !take_address_segment(&at, ret->expires, sizeof(ret->expires)) || !take_slash(&at)) {
        return false;
    }
    size_t len = strcspn(at, "/?");
    if (len != PORT_SIGNATURE_CHARS) {
        return false;
    }
    memcpy(ret->signature, at, len);
    ret->rest = at + len;
    if (!consists_of(ret->sandbox, names) || !consists_of(port, digits) || port[0] == '0' ||
        str_to_u64(port, 1, UINT16_MAX, &number, NULL) < 0 || !consists_of(ret->expires, digits) ||
        !consists_of(ret->signature, "0123456789abcdef") || !is_target_text(ret->rest)) {
        return false;
    }
    ret->port = (uint16_t)number;
    if (*ret->rest == '?') {
        ret->rest = ""; /* whoever adds a query has left out the slash */
    }
    return true;
}

/* ---- where a redirect leads ----------------------------------------------------------------- */

static bool location_begins(struct view text, const char *word)
{
    return text.len >= strlen(word) && strncasecmp(text.data, word, strlen(word)) == 0;
}

static struct view without(struct view text, size_t bytes)
{
    return view_bytes(text.data + bytes, text.len - bytes);
}

/* Takes "http://127.0.0.1:PORT" off, or the same by another name of loopback. False if something
 * else is there that is no path: another host, another scheme. */
static bool take_origin(struct view *location, uint16_t port)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]", "0.0.0.0"};
    struct view at = *location;
    bool schemeless = location_begins(at, "//");
    if (!schemeless && !location_begins(at, "http://")) {
        size_t word = 0;
        while (word < at.len && strchr("/?#:", at.data[word]) == NULL) {
            word++;
        }
        return word == at.len || at.data[word] != ':';
    }
    at = without(at, schemeless ? 2 : strlen("http://"));
    CLEANUP_FREE char *number = alloc_printf(":%u", (unsigned)port);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        if (!location_begins(at, hosts[i])) {
            continue;
        }
        struct view behind = without(at, strlen(hosts[i]));
        if (location_begins(behind, number)) {
            behind = without(behind, strlen(number));
        } else if (port != 80) {
            return false;
        }
        *location = behind;
        return behind.len == 0 || strchr("/?#", behind.data[0]) != NULL;
    }
    return false;
}

static bool is_location_text(struct view text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>') {
            return false;
        }
    }
    return true;
}

static size_t path_length(struct view text)
{
    size_t len = 0;
    while (len < text.len && text.data[len] != '?' && text.data[len] != '#') {
        len++;
    }
    return len;
}

/* How many dots a segment is, also if they are escaped; 0: it is something else. */
static int count_dots(struct view segment)
{
    int dots = 0;
    for (size_t i = 0; i < segment.len; dots++) {
        if (segment.data[i] == '.') {
            i++;
        } else if (location_begins(without(segment, i), "%2e")) {
            i += 3;
        } else {
            return 0;
        }
    }
    return dots;
}

/* Appends the segments of a path to one that ends with a slash, or is empty. */
static int add_location_segments(struct buf *path, struct view more)
{
    int rc = 0;
    while (rc == 0 && more.len > 0) {
        const char *slash = memchr(more.data, '/', more.len);
        size_t len = slash != NULL ? (size_t)(slash - more.data) : more.len;
        struct view segment = view_bytes(more.data, len);
        int dots = count_dots(segment);
        if (dots == 2) {
            size_t to = path->len > 0 ? path->len - 1 : 0; /* the slash behind the last segment */
            while (to > 0 && path->data[to - 1] != '/') {
                to--;
            }
            path->len = to;
        } else if (dots != 1) {
            rc = buf_add(path, segment.data, segment.len, NULL);
            rc = rc == 0 && slash != NULL ? buf_add(path, "/", 1, NULL) : rc;
        }
        more = without(more, slash != NULL ? len + 1 : len);
    }
    return rc;
}

/* Whether two readers may see different directories in it. */
static bool has_dots(struct view path)
{
    while (path.len > 0) {
        size_t len = 0;
        while (len < path.len && path.data[len] != '/') {
            len++;
        }
        if (count_dots(view_bytes(path.data, len)) > 0) {
            return true;
        }
        path = without(path, len < path.len ? len + 1 : len);
    }
    return false;
}

char *port_address_location(const char *rest, uint16_t port, struct view location)
{
    struct view asked = view_of(*rest == '/' ? rest + 1 : rest);
    CLEANUP_BUF struct buf path, text;
    buf_init(&path, LOCATION_BYTES);
    buf_init(&text, LOCATION_BYTES);
    asked.len = path_length(asked);
    struct view here = asked;
    while (here.len > 0 && here.data[here.len - 1] != '/') {
        here.len--; /* the directory of the request */
    }
    struct view to = location;
    if (to.len == 0 || !is_location_text(to) || !is_location_text(asked) || has_dots(here) ||
        !take_origin(&to, port)) {
        return NULL;
    }
    size_t path_len = path_length(to);
    struct view behind = without(to, path_len);
    struct view segments = view_bytes(to.data, path_len);
    bool absolute = segments.len > 0 ? segments.data[0] == '/' : to.len != location.len;
    int rc = absolute ? 0 : add_location_segments(&path, here);
    if (rc == 0 && segments.len == 0 && !absolute) {
        path.len = 0; /* another query of the same */
        rc = add_location_segments(&path, asked);
    } else if (rc == 0) {
        rc = add_location_segments(&path,
                                   absolute && segments.len > 0 ? without(segments, 1) : segments);
    }
    rc = rc == 0 ? buf_add(&text, "./", 2, NULL) : rc;
    for (size_t i = 0; rc == 0 && i < here.len; i++) {
        rc = here.data[i] == '/' ? buf_add(&text, "../", 3, NULL) : 0;
    }
    rc = rc == 0 ? buf_add(&text, path.data, path.len, NULL) : rc;
    rc = rc == 0 ? buf_add(&text, behind.data, behind.len, NULL) : rc;
    return rc == 0 ? alloc_viewdup(view_bytes(text.data, text.len)) : NULL;
}
