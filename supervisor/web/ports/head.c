/*
 * Both heads are written anew from lists of what is passed on. A list of what is kept back would
 * have to know the headers by which every proxy says who somebody is; and on the way back a cookie,
 * a policy or a report address would be that of our own origin.
 *
 * A page of a sandbox is untrusted, and comes from our address. The policy takes its origin away,
 * so that its scripts can do nothing in our name, and lets it load only what comes from here. Its
 * own requests then are those of a foreign page, which is why all may read the answers: the address
 * is the only thing that opens them, and no cookie goes with it.
 *
 * A multipart answer has heads of its own inside, with cookies that browsers take.
 */
#include "supervisor/web/ports/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/ports/handshake.h"

#define METHODS           "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
#define PREFLIGHT_SECONDS "600"

/* What a program is told of a request; a star at the end is any rest. */
static const char *const told[] = {
    "Accept",
    "Accept-Language",
    "Accept-Encoding",
    "Cache-Control",
    "Content-Encoding",
    "Content-Language",
    "Content-Type",
    "HX-*",
    "If-Match",
    "If-Modified-Since",
    "If-None-Match",
    "If-Range",
    "If-Unmodified-Since",
    "Last-Event-ID",
    "Pragma",
    "Range",
    "User-Agent",
    "X-CSRF-Token",
    "X-CSRFToken",
    "X-Requested-With",
    "X-XSRF-TOKEN",
};

/* What a browser is told of an answer, besides its type and where it leads. */
static const char *const shown[] = {
    "Accept-Ranges", "Allow", "Content-Disposition", "Content-Encoding", "Content-Language",
    "Content-Range", "ETag",  "Last-Modified",       "Retry-After",      "Vary",
};

static const char policy[] =
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads; "
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; form-action 'self'; "
    "base-uri 'self'; frame-ancestors 'self'";

/* ---- the request ---------------------------------------------------------------------------- */

static bool is_told_of(const char *name)
{
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        size_t len = strlen(told[i]);
        bool any = told[i][len - 1] == '*';
        if (any ? strncasecmp(name, told[i], len - 1) == 0 : strcasecmp(name, told[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Several ranges at once would be answered by a multipart, which is not passed on. */
static bool is_multiple_range(const char *name, const char *value)
{
    return strcasecmp(name, "Range") == 0 && strchr(value, ',') != NULL;
}

static bool may_have_body(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

int port_head_request(struct buf *out, const struct web_exchange *x,
                      const struct port_address *address, size_t body_bytes, struct err *err)
{
    const char *name, *value;
    int rc = buf_printf(out, err, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n", web_method(x),
                        address->rest, (unsigned)address->port);
    for (size_t i = 0; rc == 0 && web_header_at(x, i, &name, &value); i++) {
        if (is_told_of(name) && !is_multiple_range(name, value)) {
            rc = buf_printf(out, err, "%s: %s\r\n", name, value);
        }
    }
    if (rc == 0 && (body_bytes > 0 || may_have_body(web_method(x)))) {
        rc = buf_printf(out, err, "Content-Length: %zu\r\n", body_bytes);
    }
    if (rc == 0) {
        rc = handshake_is_asked(x) ? handshake_request(out, x, err)
                                   : buf_add_str(out, "Connection: close\r\n", err);
    }
    return rc == 0 ? buf_add_str(out, "\r\n", err) : rc;
}

/* ---- the answer ----------------------------------------------------------------------------- */

void port_head_protect(struct web_exchange *x)
{
    web_set_header(x, "Content-Security-Policy", policy);
    web_set_header(x, "Referrer-Policy", "no-referrer");
    web_set_header(x, "X-Content-Type-Options", "nosniff");
    web_set_header(x, "Cross-Origin-Resource-Policy", "cross-origin");
    web_set_header(x, "Access-Control-Allow-Origin", "*");
    web_set_header(x, "X-Robots-Tag", "noindex");
}

static bool is_header_name(const char *text)
{
    return *text != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789-_")] == '\0';
}

/* What has a star in the table is allowed by the names that are asked for. */
static void add_asked_names(struct buf *names, const char *asked)
{
    asked += strspn(asked, ", \t");
    while (*asked != '\0') {
        size_t len = strcspn(asked, ", \t");
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(asked, len));
        bool fits = len <= PORT_NAMES_MAX && names->len + 2 + len <= PORT_NAMES_MAX;
        if (fits && is_header_name(name) && is_told_of(name)) {
            text_printf(names, ", %s", name);
        }
        asked += len;
        asked += strspn(asked, ", \t");
    }
}

char *port_head_allowed(const char *asked)
{
    CLEANUP_BUF struct buf names;
    buf_init(&names, PORT_NAMES_MAX + 1);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        if (strchr(told[i], '*') == NULL) {
            text_printf(&names, "%s%s", names.len > 0 ? ", " : "", told[i]);
        }
    }
    add_asked_names(&names, asked != NULL ? asked : "");
    return alloc_strdup(text_cstr(&names));
}

bool port_head_preflight(struct web_exchange *x)
{
    if (strcmp(web_method(x), "OPTIONS") != 0 ||
        web_header(x, "Access-Control-Request-Method") == NULL) {
        return false;
    }
    CLEANUP_FREE char *list = port_head_allowed(web_header(x, "Access-Control-Request-Headers"));
    port_head_protect(x);
    web_set_header(x, "Access-Control-Allow-Methods", METHODS);
    web_set_header(x, "Access-Control-Allow-Headers", list);
    web_set_header(x, "Access-Control-Max-Age", PREFLIGHT_SECONDS);
    web_respond(x, 204, NULL, view_of(""));
    return true;
}

static char *copy_value(struct view fields, const char *name)
{
    struct view value = http_head_value(fields, name);
    return value.len > 0 ? alloc_viewdup(value) : NULL;
}

/* How long the body is must have one meaning. */
static int check_lengths(struct view fields, struct err *err)
{
    size_t lengths = http_head_count(fields, "Content-Length");
    size_t encodings = http_head_count(fields, "Transfer-Encoding");
    if (lengths + encodings > 1) {
        return err_set(err, ERR_PROTOCOL, "its answer has more than one length");
    }
    if (encodings == 1 && http_head_value(fields, "Transfer-Encoding").len == 0) {
        return err_set(err, ERR_PROTOCOL, "its answer has an empty transfer encoding");
    }
    return 0;
}

static int check_type(struct view fields, const char *type, struct err *err)
{
    if (http_head_count(fields, "Content-Type") > 1) {
        return err_set(err, ERR_PROTOCOL, "its answer has more than one type");
    }
    if (type != NULL && strcasestr(type, "multipart/") != NULL) {
        return err_set(err, ERR_PROTOCOL,
                       "its answer is a multipart, which may carry cookies and is not passed on");
    }
    return 0;
}

static int read_location(struct view fields, const struct port_address *address,
                         struct port_answer *a, struct err *err)
{
    struct view to = http_head_value(fields, "Location");
    if (http_head_count(fields, "Location") > 1) {
        return err_set(err, ERR_PROTOCOL, "its answer leads to more than one place");
    }
    if (to.len == 0) {
        return 0;
    }
    a->location = port_address_location(address->rest, address->port, to);
    return a->location != NULL
               ? 0
               : err_set(err, ERR_PROTOCOL,
                         "it leads to \"%.*s\", and only what is below its own address is followed",
                         to.len < 200 ? (int)to.len : 200, to.data);
}

int port_head_answer(const struct http_head *head, const char *method,
                     const struct port_address *address, struct port_answer *ret, struct err *err)
{
    struct port_answer a = {.status = head->status};
    if (head->status < 200) {
        return err_set(err, ERR_PROTOCOL, "it wants to speak another protocol");
    }
    a.type = copy_value(head->fields, "Content-Type");
    a.has_body = strcmp(method, "HEAD") != 0 && head->status != 204 && head->status != 205 &&
                 head->status != 304;
    int rc = check_lengths(head->fields, err);
    rc = rc == 0 ? http_head_framing(head, &a.framing, err) : rc;
    rc = rc == 0 ? check_type(head->fields, a.type, err) : rc;
    rc = rc == 0 ? read_location(head->fields, address, &a, err) : rc;
    if (rc < 0) {
        port_answer_finish(&a);
        return rc;
    }
    *ret = a;
    return 0;
}

void port_answer_finish(struct port_answer *a)
{
    free(a->type);
    free(a->location);
    a->type = a->location = NULL;
}

static bool keeps_caches_out(const char *value)
{
    while (*value != '\0') {
        value += strspn(value, ", \t");
        size_t all = strcspn(value, ","), len = all;
        while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t')) {
            len--;
        }
        if ((len == 7 && strncasecmp(value, "private", len) == 0) ||
            (len == 8 && strncasecmp(value, "no-store", len) == 0)) {
            return true;
        }
        value += all;
    }
    return false;
}

char *port_head_caching(const char *value)
{
    if (value == NULL || strcasestr(value, "public") != NULL ||
        strcasestr(value, "s-maxage") != NULL) {
        return alloc_strdup("private, no-cache");
    }
    /* what is in quotes is no directive, and "private=…" is one for some headers alone */
    bool is_private = strchr(value, '"') == NULL && keeps_caches_out(value);
    return is_private ? alloc_strdup(value) : alloc_printf("private, %s", value);
}

static void set_caching(struct web_exchange *x, const struct http_head *head)
{
    CLEANUP_FREE char *value = copy_value(head->fields, "Cache-Control");
    CLEANUP_FREE char *ours = port_head_caching(value);
    /* what several lines say together is not for us to weigh: the strictest word covers it */
    bool has_many = http_head_count(head->fields, "Cache-Control") > 1;
    web_set_header(x, "Cache-Control", has_many ? "no-store" : ours);
}

void port_head_pass_on(struct web_exchange *x, const struct http_head *head,
                       const struct port_answer *answer)
{
    port_head_protect(x);
    set_caching(x, head);
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        char *value = copy_value(head->fields, shown[i]);
        if (value != NULL) {
            web_set_header(x, shown[i], value);
        }
        free(value);
    }
    if (answer->location != NULL) {
        web_set_header(x, "Location", answer->location);
    }
}
