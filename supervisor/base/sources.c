/*
 * An index is one host, and its files may be on another: those of the usual indexes are known here,
 * others the operator names (--package-hosts). What the operator names is "own": it may be in a
 * private network. What we know ourselves is "public", and can only be on the internet.
 */
#include "supervisor/base/sources.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/net/authority.h"
#include "common/str.h"
#include "proto/limits.h"

#define PIP_INDEX    "https://pypi.org/simple/"
#define NPM_REGISTRY "https://registry.npmjs.org/"
#define HTTPS_PORT   443
#define AUTH_BYTES   4096

static const struct {
    const char *index, *files;
} file_hosts[] = {
    {"pypi.org", "files.pythonhosted.org"},
    {"test.pypi.org", "test-files.pythonhosted.org"},
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Takes the next of --package-hosts; false after the last. */
static bool next_host(const char **at, struct view *ret)
{
    if (**at == '\0') {
        return false;
    }
    size_t len = strcspn(*at, ",");
    *ret = view_trimmed(view_bytes(*at, len));
    *at += len + ((*at)[len] == ',' ? 1 : 0);
    return true;
}

static int check_source(const char *option, const char *value, struct err *err)
{
    struct authority_url url;
    if (value[0] != '\0' && !authority_parse_url(view_of(value), &url)) {
        return err_set(err, ERR_CONFIG,
                       "--%s: expected a URL like https://packages.example/simple/, got \"%.200s\"",
                       option, value);
    }
    return 0;
}

static int check_proxy(const char *value, struct err *err)
{
    struct authority_url url;
    if (value[0] != '\0' && (!authority_parse_url(view_of(value), &url) || url.tls)) {
        return err_set(err, ERR_CONFIG,
                       "--package-proxy: expected a URL like http://proxy.example:3128 (it is "
                       "spoken to by http; what is fetched through it may be https)");
    }
    return 0;
}

static int check_hosts(const char *hosts, struct err *err)
{
    struct view host;
    struct authority place;
    size_t count = 0;
    for (const char *at = hosts; next_host(&at, &host); count++) {
        if (!authority_parse(host, &place)) {
            return err_set(err, ERR_CONFIG,
                           "--package-hosts: expected HOST or HOST:PORT, separated by commas, got "
                           "\"%.*s\"",
                           host.len < 200 ? (int)host.len : 200, host.data);
        }
    }
    /* with the index, its files and the registry */
    if (count + 3 > LIMIT_DOOR_RULES) {
        return err_set(err, ERR_CONFIG, "--package-hosts: at most %d", LIMIT_DOOR_RULES - 3);
    }
    return 0;
}

int sources_check(const struct config *c, struct err *err)
{
    int rc = check_source("package-index", c->package_index, err);
    rc = rc < 0 ? rc : check_source("npm-registry", c->npm_registry, err);
    rc = rc < 0 ? rc : check_proxy(c->package_proxy, err);
    return rc < 0 ? rc : check_hosts(c->package_hosts, err);
}

/* ---- the places ------------------------------------------------------------------------------ */

struct places {
    struct view items[2 * LIMIT_DOOR_RULES];
    size_t count;
};

static void add_place(struct places *p, const struct authority *place, bool own)
{
    char text[AUTHORITY_TEXT_SIZE];
    authority_print(place, text);
    if (p->count < sizeof(p->items) / sizeof(p->items[0])) {
        p->items[p->count++] = view_of(alloc_strdup(text));
        p->items[p->count++] = view_of(alloc_strdup(own ? "own" : "public"));
    }
}

static void add_source(struct places *p, const char *url_text, bool own)
{
    struct authority_url url;
    if (!authority_parse_url(view_of(url_text), &url)) {
        return; /* it was checked */
    }
    add_place(p, &url.authority, own);
    for (size_t i = 0; i < sizeof(file_hosts) / sizeof(file_hosts[0]); i++) {
        if (strcmp(url.authority.host, file_hosts[i].index) == 0) {
            struct authority files = {.port = HTTPS_PORT};
            err_ignore(str_copy(files.host, sizeof(files.host), file_hosts[i].files, NULL));
            add_place(p, &files, false);
        }
    }
}

static void add_hosts(struct places *p, const char *hosts)
{
    struct view host;
    struct authority place;
    for (const char *at = hosts; next_host(&at, &host);) {
        if (authority_parse(host, &place)) {
            place.port = place.port != 0 ? place.port : HTTPS_PORT;
            add_place(p, &place, true);
        }
    }
}

/* ---- the proxy ------------------------------------------------------------------------------- */

static int add_decoded(struct buf *out, struct view text)
{
    int rc = 0;
    for (size_t i = 0; i < text.len && rc == 0; i++) {
        char c = text.data[i];
        bool escaped = c == '%' && i + 2 < text.len && str_hex_value(text.data[i + 1]) >= 0 &&
                       str_hex_value(text.data[i + 2]) >= 0;
        if (escaped) {
            c = (char)(str_hex_value(text.data[i + 1]) * 16 + str_hex_value(text.data[i + 2]));
            i += 2;
        }
        rc = buf_add(out, &c, 1, NULL);
    }
    return rc;
}

/* The header for "user:password" of a URL, NULL for none. */
static char *auth_of(struct view user)
{
    CLEANUP_BUF struct buf plain;
    CLEANUP_BUF struct buf text;
    buf_init(&plain, AUTH_BYTES / 2);
    buf_init(&text, AUTH_BYTES);
    if (user.len == 0 || add_decoded(&plain, user) < 0 || buf_add_str(&text, "Basic ", NULL) < 0 ||
        base64_encode(&text, view_bytes(plain.data, plain.len), NULL) < 0) {
        return NULL;
    }
    return alloc_viewdup(view_bytes(text.data, text.len));
}

void sources_init(struct sources *s, const struct config *c, bool pip)
{
    struct places p = {.count = 0};
    struct authority_url proxy;
    const char *named = pip ? c->package_index : c->npm_registry;
    *s = (struct sources){.proxy = NULL};
    if (named[0] != '\0') {
        add_source(&p, named, true);
    } else if (!pip || c->package_dir[0] == '\0') { /* a directory alone needs nobody */
        add_source(&p, pip ? PIP_INDEX : NPM_REGISTRY, false);
    }
    add_hosts(&p, c->package_hosts);
    s->places = alloc_listdup((struct view_list){p.items, p.count});
    for (size_t i = 0; i < p.count; i++) {
        free((char *)(uintptr_t)p.items[i].data);
    }
    if (c->package_proxy[0] != '\0' && authority_parse_url(view_of(c->package_proxy), &proxy)) {
        char text[AUTHORITY_TEXT_SIZE];
        authority_print(&proxy.authority, text);
        s->proxy = alloc_strdup(text);
        s->proxy_auth = auth_of(proxy.user);
    }
}

void sources_finish(struct sources *s)
{
    alloc_listfree(&s->places);
    free(s->proxy);
    free(s->proxy_auth);
    *s = (struct sources){.proxy = NULL};
}
