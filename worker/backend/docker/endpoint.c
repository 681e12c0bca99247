/*
 * An endpoint as text or as a place, and back. All of them go through the text, also what was found
 * in Docker's own files and variables, and what a record holds: there is one function that decides
 * what a good endpoint is.
 *
 * A socket's path is written literally, as the docker command does, without escapes or a query. An
 * address has a query for TLS; otherwise the reader's environment would decide whether the link is
 * encrypted. Its values are percent-encoded.
 *
 * The text may come from a person, a context store or a record, so each part is checked for allowed
 * characters; none can end a line, a URL or a C string early.
 */
#include "worker/backend/docker/endpoint.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"

#define GIVEN_MAX    PLACE_ADDRESS_MAX /* of host and path; encoding can triple files */
#define ADDRESS_MAX  (GIVEN_MAX + 3 * 3 * PATH_MAX + 64)
#define TEXT_MAX     ADDRESS_MAX
#define HOST_MAX     255
#define PORT_DEFAULT 2375 /* also with TLS, as the docker command has it */
#define SOCKET_MAX   (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

void docker_endpoint_finish(struct docker_endpoint *e)
{
    free(e->text);
    free(e->origin);
    free(e->base_url);
    free(e->unix_socket);
    free(e->ca_file);
    free(e->cert_file);
    free(e->key_file);
    *e = (struct docker_endpoint){.text = NULL};
}

void docker_endpoint_http(const struct docker_endpoint *e, struct http_endpoint *ret)
{
    *ret = (struct http_endpoint){
        .name = e->text,
        .base_url = e->base_url,
        .unix_socket = e->unix_socket,
        .ca_file = e->ca_file,
        .cert_file = e->cert_file,
        .key_file = e->key_file,
        .verify = e->verify,
    };
}

/* ---- schemes that are not spoken ------------------------------------------------------------- */

static int refuse_scheme(struct view scheme, struct err *err)
{
    static const struct {
        const char *scheme, *hint;
    } hints[] = {
        {"ssh", "forward the engine's socket instead, ssh -nNT -L /tmp/engine.sock:"
                "/var/run/docker.sock USER@HOST, and name unix:///tmp/engine.sock"},
        {"npipe", "named pipes belong to Windows; inside WSL name unix:///var/run/docker.sock, and "
                  "switch on the engine's integration with this distribution"},
        {"fd", "that is how a daemon is handed its own socket; name the socket it listens on, such "
               "as unix:///var/run/docker.sock"},
        {"http", "write tcp://HOST:PORT"},
        {"https", "write tcp://HOST:PORT?tls=1"},
    };
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (view_is(scheme, hints[i].scheme)) {
            return err_set(err, ERR_CONFIG, "%s:// is not supported here: %s", hints[i].scheme,
                           hints[i].hint);
        }
    }
    return err_set(err, ERR_CONFIG,
                   "%.*s:// is not known: write unix:///PATH/TO/SOCKET or tcp://HOST:PORT",
                   scheme.len < 32 ? (int)scheme.len : 32, scheme.data);
}

/* ---- unix ------------------------------------------------------------------------------------ */

static int parse_unix(const char *path, struct docker_endpoint *e, struct err *err)
{
    path = path[0] != '\0' ? path : DOCKER_SOCKET_USUAL;
    if (path[0] != '/') {
        return err_set(err, ERR_CONFIG, "unix://%.128s: the path of a socket begins with a slash",
                       path);
    }
    if (strlen(path) > SOCKET_MAX) {
        return err_set(err, ERR_CONFIG,
                       "unix://%.64s…: a socket's path has at most %zu bytes; make a symbolic link "
                       "with a shorter name",
                       path, SOCKET_MAX);
    }
    e->text = alloc_printf("unix://%s", path);
    e->unix_socket = alloc_strdup(path);
    e->base_url = alloc_strdup("http://localhost"); /* for the Host header that HTTP requires */
    return 0;
}

/* ---- tcp ------------------------------------------------------------------------------------- */

struct address {
    struct view host; /* IPv6 with its brackets */
    uint64_t port;
    struct view base; /* "" or from the slash on, without one at the end */
};

static bool only(struct view v, const char *more)
{
    for (size_t i = 0; i < v.len; i++) {
        unsigned char c = (unsigned char)v.data[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!plain && (c == '\0' || strchr(more, c) == NULL)) {
            return false;
        }
    }
    return true;
}

/* "[…]", optionally with a zone: "[fe80::1%25eth0]". */
static bool good_ipv6(struct view host)
{
    struct view inner = {host.data + 1, host.len - 2};
    const char *percent = inner.len > 0 ? memchr(inner.data, '%', inner.len) : NULL;
    if (percent != NULL) {
        struct view zone = {percent + 1, (size_t)(inner.data + inner.len - percent - 1)};
        if (zone.len < 3 || memcmp(zone.data, "25", 2) != 0 || !only(zone, "-._~")) {
            return false;
        }
        inner.len = (size_t)(percent - inner.data);
    }
    for (size_t i = 0; i < inner.len; i++) {
        if (!isxdigit((unsigned char)inner.data[i]) && strchr(":.", inner.data[i]) == NULL) {
            return false;
        }
    }
    return inner.len >= 2 && memchr(inner.data, ':', inner.len) != NULL;
}

static int parse_host(struct view at, struct address *ret, struct err *err)
{
    if (at.len > 0 && memchr(at.data, '@', at.len) != NULL) {
        return err_set(err, ERR_CONFIG,
                       "an engine's address has no user in it: leave out what is "
                       "before the @");
    }
    bool ipv6 = at.len > 0 && at.data[0] == '[';
    const char *close = ipv6 ? memchr(at.data, ']', at.len) : NULL;
    const char *end = at.data + at.len;
    const char *colon = ipv6 ? close : at.data;
    colon = colon != NULL && at.len > 0 ? memchr(colon, ':', (size_t)(end - colon)) : NULL;
    ret->host = (struct view){at.data, (size_t)((colon != NULL ? colon : end) - at.data)};
    if (ret->host.len > HOST_MAX) {
        return err_set(err, ERR_CONFIG, "%.64s…: the name of the host is too long", at.data);
    }
    bool good =
        ipv6 ? close != NULL && close + 1 == ret->host.data + ret->host.len && good_ipv6(ret->host)
             : only(ret->host, "-._");
    if (!good) {
        return err_set(err, ERR_CONFIG, "\"%.*s\" is no HOST:PORT", VIEW_ARG(at));
    }
    if (ret->host.len == 0) {
        ret->host = view_of("127.0.0.1"); /* as the docker command understands ":2375" */
    }
    ret->port = PORT_DEFAULT;
    if (colon == NULL) {
        return 0;
    }
    CLEANUP_FREE char *port = alloc_viewdup((struct view){colon + 1, (size_t)(end - colon - 1)});
    if (!ipv6 && strchr(port, ':') != NULL) {
        return err_set(err, ERR_CONFIG,
                       "\"%.*s\": an IPv6 address is written in brackets, such as "
                       "[::1]:2375",
                       VIEW_ARG(at));
    }
    if (str_to_u64(port, 1, UINT16_MAX, &ret->port, NULL) < 0) {
        return err_set(err, ERR_CONFIG, "\"%.*s\": the port is no number from 1 to 65535",
                       VIEW_ARG(at));
    }
    return 0;
}

/* NULL if it is not well encoded, or hides a NUL or another control character. */
static char *decode_percent(struct view v)
{
    CLEANUP_FREE char *out = alloc_array(v.len + 1, 1);
    size_t len = 0;
    for (size_t i = 0; i < v.len; i++) {
        char c = v.data[i];
        if (c == '%') {
            int high = i + 2 < v.len ? str_hex_value(v.data[i + 1]) : -1;
            int low = i + 2 < v.len ? str_hex_value(v.data[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return NULL;
            }
            c = (char)(high << 4 | low);
            i += 2;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) {
            return NULL;
        }
        out[len++] = c;
    }
    return STEAL_PTR(out);
}

static int parse_bool(struct view key, struct view value, bool *ret, struct err *err)
{
    if (!view_is(value, "0") && !view_is(value, "1")) {
        return err_set(err, ERR_CONFIG, "%.*s=%.*s: write 0 or 1", VIEW_ARG(key),
                       value.len < 32 ? (int)value.len : 32, value.data);
    }
    *ret = value.data[0] == '1';
    return 0;
}

static int parse_file(struct view key, struct view value, char **ret, struct err *err)
{
    CLEANUP_FREE char *path = decode_percent(value);
    if (path == NULL || path[0] != '/') {
        return err_set(err, ERR_CONFIG,
                       "%.*s: write the file's absolute path, with %% and & as %%25 and %%26",
                       VIEW_ARG(key));
    }
    free(*ret);
    *ret = STEAL_PTR(path);
    return 0;
}

static int parse_option(struct view item, struct docker_tls *tls, struct err *err)
{
    const char *equals = item.len > 0 ? memchr(item.data, '=', item.len) : NULL;
    if (equals != NULL) {
        struct view key = {item.data, (size_t)(equals - item.data)};
        struct view value = {equals + 1, item.len - key.len - 1};
        if (view_is(key, "tls")) {
            return parse_bool(key, value, &tls->on, err);
        }
        if (view_is(key, "verify")) {
            return parse_bool(key, value, &tls->verify, err);
        }
        if (view_is(key, "ca")) {
            return parse_file(key, value, &tls->ca_file, err);
        }
        if (view_is(key, "cert")) {
            return parse_file(key, value, &tls->cert_file, err);
        }
        if (view_is(key, "key")) {
            return parse_file(key, value, &tls->key_file, err);
        }
    }
    return err_set(err, ERR_CONFIG,
                   "\"%.*s\" is no option of an address: they are tls, verify, ca, cert and key",
                   item.len < 64 ? (int)item.len : 64, item.len > 0 ? item.data : "");
}

static int parse_options(const char *query, struct docker_tls *tls, struct err *err)
{
    bool others = false;
    for (const char *at = query;; at++) {
        size_t len = strcspn(at, "&");
        others = others || strncmp(at, "tls=", 4) != 0;
        int rc = parse_option((struct view){at, len}, tls, err);
        if (rc < 0) {
            return rc;
        }
        at += len;
        if (*at == '\0') {
            break;
        }
    }
    if (!tls->on && others) { /* TLS files without TLS: the user expects an encrypted link */
        return err_set(err, ERR_CONFIG, "verify, ca, cert and key need tls=1 beside them");
    }
    return 0;
}

void docker_tls_finish(struct docker_tls *tls)
{
    free(tls->ca_file);
    free(tls->cert_file);
    free(tls->key_file);
    *tls = (struct docker_tls){.on = false};
}

static bool good_file(const char *path)
{
    if (path == NULL) {
        return true;
    }
    for (const char *p = path; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return false;
        }
    }
    return path[0] == '/' && strlen(path) < PATH_MAX;
}

static void add_file(struct buf *text, const char *key, const char *path)
{
    static const char digits[] = "0123456789ABCDEF";
    if (path == NULL) {
        return;
    }
    err_ignore(buf_printf(text, NULL, "&%s=", key)); /* the cap is far above what fits here */
    for (const char *p = path; *p != '\0'; p++) {
        char code[3] = {'%', digits[(unsigned char)*p >> 4], digits[*p & 15]};
        bool plain = only((struct view){p, 1}, "-._~/");
        err_ignore(buf_add(text, plain ? p : code, plain ? 1 : 3, NULL));
    }
}

static int set_tcp(const struct address *a, struct docker_tls *tls, struct docker_endpoint *e,
                   struct err *err)
{
    if ((tls->cert_file != NULL) != (tls->key_file != NULL)) {
        return err_set(err, ERR_CONFIG,
                       "a client's certificate and its key are needed together: "
                       "%s is missing",
                       tls->key_file == NULL ? "the key" : "the certificate");
    }
    if (!good_file(tls->ca_file) || !good_file(tls->cert_file) || !good_file(tls->key_file)) {
        return err_set(err, ERR_CONFIG,
                       "the path of a file for TLS is longer than a path can be, "
                       "not absolute, or has a control character in it");
    }
    CLEANUP_BUF struct buf text;
    buf_init(&text, ADDRESS_MAX);
    int rc = buf_printf(&text, err, "tcp://%.*s:%u%.*s", VIEW_ARG(a->host), (unsigned)a->port,
                        VIEW_ARG(a->base));
    if (rc == 0 && tls->on) {
        rc = buf_printf(&text, err, "?tls=1&verify=%d", tls->verify ? 1 : 0);
        add_file(&text, "ca", tls->ca_file);
        add_file(&text, "cert", tls->cert_file);
        add_file(&text, "key", tls->key_file);
    }
    const char *whole = rc == 0 ? buf_cstr(&text) : NULL;
    if (whole == NULL) {
        return rc < 0 ? rc : err_set(err, ERR_NO_MEMORY, "no memory for an endpoint");
    }
    e->text = alloc_strdup(whole);
    e->base_url = alloc_printf("%s://%.*s:%u%.*s", tls->on ? "https" : "http", VIEW_ARG(a->host),
                               (unsigned)a->port, VIEW_ARG(a->base));
    e->ca_file = STEAL_PTR(tls->ca_file);
    e->cert_file = STEAL_PTR(tls->cert_file);
    e->key_file = STEAL_PTR(tls->key_file);
    e->verify = tls->on && tls->verify;
    return 0;
}

static int parse_tcp(const char *text, const struct docker_tls *given, struct docker_endpoint *e,
                     struct err *err)
{
    struct address a;
    size_t place = strcspn(text, "?");
    size_t host = strcspn(text, "/?");
    a.base = (struct view){text + host, place - host};
    while (a.base.len > 0 && a.base.data[a.base.len - 1] == '/') {
        a.base.len--;
    }
    int rc = parse_host((struct view){text, host}, &a, err);
    if (rc < 0) {
        return rc;
    }
    if (a.base.len > GIVEN_MAX - HOST_MAX - 64 || !only(a.base, "/-._~%!$&'()*+,;=:@")) {
        return err_set(err, ERR_CONFIG,
                       "the path behind the port is too long, or has characters "
                       "that a URL cannot have: percent-encode them");
    }
    struct docker_tls tls __attribute__((cleanup(docker_tls_finish))) = {.verify = true};
    if (given != NULL) {
        tls.on = given->on;
        tls.verify = given->verify;
        tls.ca_file = given->ca_file != NULL ? alloc_strdup(given->ca_file) : NULL;
        tls.cert_file = given->cert_file != NULL ? alloc_strdup(given->cert_file) : NULL;
        tls.key_file = given->key_file != NULL ? alloc_strdup(given->key_file) : NULL;
    }
    if (text[place] == '?') {
        if (given != NULL) {
            docker_tls_finish(&tls); /* an address with a query ignores the given TLS */
            tls.verify = true;
        }
        rc = parse_options(text + place + 1, &tls, err);
    }
    return rc < 0 ? rc : set_tcp(&a, &tls, e, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

int docker_endpoint_make(const char *text, const struct docker_tls *tls,
                         struct docker_endpoint *ret, struct err *err)
{
    size_t len = strnlen(text, TEXT_MAX + 1);
    if (len > TEXT_MAX) {
        return err_set(err, ERR_CONFIG, "%.32s…: an endpoint has at most %d bytes", text, TEXT_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return err_set(err, ERR_CONFIG,
                           "there is a control character (a line break?) in \"%s\"", text);
        }
    }
    if (!utf8_valid(text, len)) {
        return err_set(err, ERR_CONFIG,
                       "it is not UTF-8; give the socket a name that is, by a "
                       "symbolic link");
    }
    const char *mark = strstr(text, "://");
    struct view scheme = {text, mark != NULL ? (size_t)(mark - text) : 0};
    struct docker_endpoint e = {.text = NULL};
    int rc;
    if (len == 0) {
        rc = err_set(err, ERR_CONFIG,
                     "it is empty: write unix:///PATH/TO/SOCKET or "
                     "tcp://HOST:PORT");
    } else if (mark != NULL && view_is(scheme, "unix")) {
        rc = parse_unix(mark + 3, &e, err);
    } else if (mark != NULL && view_is(scheme, "tcp")) {
        rc = parse_tcp(mark + 3, tls, &e, err);
    } else if (text[0] == '/') {
        rc = err_set(err, ERR_CONFIG, "%.128s: write unix:// before the path of a socket", text);
    } else if (mark != NULL && only(scheme, "+-.")) {
        rc = refuse_scheme(scheme, err);
    } else {
        rc = parse_tcp(text, tls, &e, err); /* the docker command takes "host:port" as well */
    }
    if (rc < 0) {
        docker_endpoint_finish(&e);
        return rc;
    }
    *ret = e;
    return 0;
}

int docker_endpoint_parse(const char *text, struct docker_endpoint *ret, struct err *err)
{
    return docker_endpoint_make(text, NULL, ret, err);
}

/* ---- places ---------------------------------------------------------------------------------- */

struct place docker_endpoint_place(const struct docker_endpoint *e)
{
    if (e->unix_socket != NULL) {
        return (struct place){.kind = PLACE_SOCKET, .address = e->unix_socket};
    }
    return (struct place){
        .kind = PLACE_URL,
        .address = e->base_url,
        .verify = e->verify,
        .ca_file = e->ca_file,
        .cert_file = e->cert_file,
        .key_file = e->key_file,
    };
}

static int url_endpoint(const struct place *place, struct docker_endpoint *ret, struct err *err)
{
    const char *mark = strstr(place->address, "://");
    struct docker_tls tls __attribute__((cleanup(docker_tls_finish))) = {
        .on = strncmp(place->address, "https:", 6) == 0,
        .verify = place->verify,
        .ca_file = place->ca_file != NULL ? alloc_strdup(place->ca_file) : NULL,
        .cert_file = place->cert_file != NULL ? alloc_strdup(place->cert_file) : NULL,
        .key_file = place->key_file != NULL ? alloc_strdup(place->key_file) : NULL,
    };
    CLEANUP_FREE char *text = alloc_printf("tcp%s", mark != NULL ? mark : "");
    return docker_endpoint_make(text, &tls, ret, err);
}

int docker_endpoint_of(const struct place *place, struct docker_endpoint *ret, struct err *err)
{
    if (place->kind == PLACE_NAMED) {
        return docker_endpoint_parse(place->address, ret, err);
    }
    if (place_check(place, err) < 0 || place->kind == PLACE_NONE) {
        return err_set(err, ERR_CONFIG, "that is no place of an engine");
    }
    if (place->kind == PLACE_URL) {
        return url_endpoint(place, ret, err);
    }
    CLEANUP_FREE char *text = alloc_printf("unix://%s", place->address);
    return docker_endpoint_make(text, NULL, ret, err);
}
