/*
 * A web page may make the browser send requests to any address, including this machine's own. The
 * page cannot choose two parts of such a request: the Host header, which is the name that the
 * browser was told to visit, and Origin, which says where the page came from.
 *
 * Rebinding: a page of evil.example lets its own name resolve to 127.0.0.1 and talks to us as to
 * its own server. The browser need not send an Origin then, but Host says evil.example, so we
 * accept only our own names in Host. An address cannot be rebound. A listener on all addresses does
 * not know by which of them a client reaches it, so it accepts any address, but only the names that
 * were configured, and those of the certificate that it shows: a page of another name cannot have
 * got through the browser's check of that.
 *
 * Programs that are not browsers send no Origin. If there is one, it must be on the list; "null"
 * (files, sandboxed frames, redirects) identifies nobody and is never on it. A strange page may
 * also load us as an <img> or a <script>, which sends no Origin. The page learns nothing that way,
 * but could open sessions until none is left, so we refuse those by the header with which browsers
 * mark them (Sec-Fetch-Site).
 *
 * Allowed pages get the headers of CORS for their own origin, never for all origins. We grant no
 * credentials: browsers hold none for us, since pages set the token themselves. Preflight requests
 * carry no token, and are answered without one, which is harmless for the same reason.
 */
#include "supervisor/web/http/guard.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/rate_limit.h"
#include "supervisor/web/http/url.h"

#define LIST_MAX        64 /* entries of an option */
#define PARAM_PREFIX    "mcp-param-"
#define PARAMS_MAX      64 /* in one preflight request; more are not allowed */
#define ALLOW_BYTES     8192
#define ALLOWED_METHODS "GET, POST, DELETE, OPTIONS"
#define ALLOWED_HEADERS                                                                            \
    "content-type, accept, authorization, mcp-protocol-version, mcp-method, mcp-name, "            \
    "mcp-session-id, last-event-id"
#define EXPOSED_HEADERS   "Mcp-Session-Id, WWW-Authenticate"
#define PREFLIGHT_SECONDS "600"

struct origin {
    char *text; /* "https://app.example" */
    struct url url;
};

/* "*.example.org" stands for one label more. */
struct certified {
    struct authority name;
    bool any_label;
};

struct guard {
    struct authority bound[2]; /* as configured, and as the listener bound it */
    bool any;                  /* the listener listens on all addresses */
    struct authority hosts[LIST_MAX];
    size_t host_count;
    struct certified names[LIST_MAX]; /* in the certificate */
    size_t name_count;
    struct origin origins[LIST_MAX];
    size_t origin_count; /* 0: only origins of this machine are allowed */
    uint64_t next_log_ms;
};

/* ---- options -------------------------------------------------------------------------------- */

/* Takes the next entry of a list separated by commas, without the blanks around it; skips empty
 * entries. */
static bool next_entry(const char **at, struct view *ret)
{
    while (**at == ',' || **at == ' ') {
        (*at)++;
    }
    size_t len = strcspn(*at, ",");
    struct view entry = view_bytes(*at, len);
    *at += len;
    while (entry.len > 0 && entry.data[entry.len - 1] == ' ') {
        entry.len--;
    }
    *ret = entry;
    return entry.len > 0;
}

static int too_many(const char *option, struct err *err)
{
    return err_set(err, ERR_CONFIG, "%s: at most %d entries", option, LIST_MAX);
}

static int read_hosts(struct guard *g, const char *list, struct err *err)
{
    struct view entry;
    while (next_entry(&list, &entry)) {
        if (g->host_count == LIST_MAX) {
            return too_many("--allow-hosts", err);
        }
        if (!authority_parse(entry, &g->hosts[g->host_count])) {
            return err_set(err, ERR_CONFIG,
                           "--allow-hosts: expected NAME or NAME:PORT, separated by commas, got "
                           "\"%.*s\"",
                           entry.len < 100 ? (int)entry.len : 100, entry.data);
        }
        g->host_count++;
    }
    return 0;
}

static int read_origins(struct guard *g, const char *list, struct err *err)
{
    struct view entry;
    while (next_entry(&list, &entry)) {
        if (g->origin_count == LIST_MAX) {
            return too_many("--allow-origins", err);
        }
        struct origin *o = &g->origins[g->origin_count++];
        o->text = alloc_viewdup(entry);
        if (!url_parse(o->text, &o->url) || o->url.origin.len != entry.len) {
            return err_set(err, ERR_CONFIG,
                           "--allow-origins: expected SCHEME://HOST or SCHEME://HOST:PORT, "
                           "separated by commas, got \"%.100s\"; there is no entry for all origins",
                           o->text);
        }
    }
    return 0;
}

static int read_options(struct guard *g, const struct config *config, struct err *err)
{
    struct url public;
    int rc = listen_address_parse(config->http[0] != '\0' ? config->http : "0", &g->bound[0], err);
    if (rc < 0) {
        return rc;
    }
    g->bound[1] = g->bound[0];
    g->any = authority_is_any(&g->bound[0]);
    if (config->public_url[0] != '\0') {
        if (!url_parse(config->public_url, &public)) {
            return err_set(err, ERR_CONFIG, "--public-url: expected https://HOST[:PORT][/PATH]");
        }
        g->hosts[0] = public.authority;
        g->hosts[0].port = 0; /* some proxies send the port, others do not */
        g->host_count = 1;
    }
    rc = read_hosts(g, config->allow_hosts, err);
    return rc < 0 ? rc : read_origins(g, config->allow_origins, err);
}

int guard_create(const struct config *config, struct guard **ret, struct err *err)
{
    struct guard *g = alloc_one(struct guard);
    int rc = read_options(g, config, err);
    if (rc < 0) {
        guard_destroy(g);
        return rc;
    }
    *ret = g;
    return 0;
}

void guard_destroy(struct guard *g)
{
    if (g != NULL) {
        for (size_t i = 0; i < g->origin_count; i++) {
            free(g->origins[i].text);
        }
        free(g);
    }
}

void guard_set_url(struct guard *g, const char *url)
{
    struct url u;
    if (url_parse(url, &u)) {
        g->bound[1] = u.authority;
    }
}

void guard_set_names(struct guard *g, const char *const *names, size_t count)
{
    g->name_count = 0;
    for (size_t i = 0; i < count && g->name_count < LIST_MAX; i++) {
        struct certified *c = &g->names[g->name_count];
        c->any_label = strncmp(names[i], "*.", 2) == 0;
        if (authority_parse(view_of(names[i] + (c->any_label ? 2 : 0)), &c->name) &&
            c->name.port == 0 && !(c->any_label && c->name.is_address)) {
            g->name_count++;
        }
    }
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool same_host(const struct authority *a, const struct authority *b)
{
    return strcmp(a->host, b->host) == 0;
}

/* Accepts any port for our own names: a tunnel or a published port may differ from ours. */
static bool is_bound(const struct guard *g, const struct authority *a)
{
    for (size_t i = 0; i < 2; i++) {
        if (same_host(a, &g->bound[i]) ||
            (authority_is_loopback(&g->bound[i]) && authority_is_local(a))) {
            return true;
        }
    }
    return g->any && (a->is_address || authority_is_local(a));
}

static bool is_certified(const struct guard *g, const struct authority *a)
{
    for (size_t i = 0; i < g->name_count; i++) {
        const struct certified *c = &g->names[i];
        const char *dot = strchr(a->host, '.');
        const char *host = !c->any_label ? a->host : dot != NULL && !a->is_address ? dot + 1 : "";
        if (strcmp(host, c->name.host) == 0) {
            return true;
        }
    }
    return false;
}

bool guard_host_ok(const struct guard *g, const char *host)
{
    struct authority a;
    if (host == NULL || !authority_parse(view_of(host), &a)) {
        return false;
    }
    if (is_bound(g, &a) || is_certified(g, &a)) {
        return true;
    }
    for (size_t i = 0; i < g->host_count; i++) {
        const struct authority *ours = &g->hosts[i];
        if (same_host(&a, ours) && (ours->port == 0 || ours->port == a.port)) {
            return true;
        }
    }
    return false;
}

static bool same_origin(const struct url *a, const struct url *b)
{
    return a->scheme.len == b->scheme.len &&
           strncasecmp(a->scheme.data, b->scheme.data, a->scheme.len) == 0 &&
           same_host(&a->authority, &b->authority) && url_port(a) == url_port(b);
}

bool guard_origin_ok(const struct guard *g, const char *origin)
{
    struct url u;
    if (!url_parse(origin, &u) || u.origin.len != strlen(origin)) {
        return false;
    }
    for (size_t i = 0; i < g->origin_count; i++) {
        if (same_origin(&u, &g->origins[i].url)) {
            return true;
        }
    }
    return g->origin_count == 0 && (url_is(&u, "http") || url_is(&u, "https")) &&
           authority_is_local(&u.authority);
}

/* ---- CORS ----------------------------------------------------------------------------------- */

static bool is_param_name(struct view name)
{
    size_t prefix = strlen(PARAM_PREFIX);
    if (name.len <= prefix || strncasecmp(name.data, PARAM_PREFIX, prefix) != 0) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL) {
            return false;
        }
    }
    return true;
}

/* Names each header that the request asks for: CORS has no wildcard for a prefix. */
static void allow_headers(struct web_exchange *x)
{
    const char *asked = web_header(x, "Access-Control-Request-Headers");
    CLEANUP_BUF struct buf list;
    struct view name;
    size_t params = 0;
    buf_init(&list, ALLOW_BYTES);
    int rc = buf_add_str(&list, ALLOWED_HEADERS, NULL);
    while (rc == 0 && asked != NULL && params < PARAMS_MAX && next_entry(&asked, &name)) {
        if (is_param_name(name)) {
            rc = buf_printf(&list, NULL, ", %.*s", VIEW_ARG(name));
            params++;
        }
    }
    const char *text = rc == 0 ? buf_cstr(&list) : NULL;
    web_set_header(x, "Access-Control-Allow-Headers", text != NULL ? text : ALLOWED_HEADERS);
}

static bool is_preflight(const struct web_exchange *x)
{
    return strcmp(web_method(x), "OPTIONS") == 0 &&
           web_header(x, "Access-Control-Request-Method") != NULL;
}

static void answer_preflight(struct web_exchange *x)
{
    web_set_header(x, "Access-Control-Allow-Methods", ALLOWED_METHODS);
    allow_headers(x);
    web_set_header(x, "Access-Control-Max-Age", PREFLIGHT_SECONDS);
    web_respond(x, 204, NULL, view_of(""));
}

/* ---- requests ------------------------------------------------------------------------------- */

/* The client learns which header was refused, but not which values are allowed; the log says
 * that. */
static bool refuse_by_guard(struct guard *g, struct web_exchange *x, const char *name,
                            const char *hint)
{
    static const char text[] = "Forbidden: the Host or Origin of this request is not allowed.\n";
    const char *value = web_header(x, name);
    if (rate_limit(&g->next_log_ms)) {
        log_warn("HTTP: refused a request of %s: its %s is \"%.200s\", which is not allowed; %s",
                 web_peer(x), name, value != NULL ? value : "", hint);
    }
    metrics_count(METRIC_REJECTED, METRIC_REASON_HOST_ORIGIN);
    web_respond(x, 403, "text/plain; charset=utf-8", view_of(text));
    return false;
}

/* Whether a browser says that a page of another origin sent this, without naming the page. */
static bool is_of_nameless_page(const struct web_exchange *x)
{
    const char *site = web_header(x, "Sec-Fetch-Site");
    return site != NULL && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0;
}

bool guard_admit_link(struct guard *g, struct web_exchange *x)
{
    if (web_header_count(x, "Host") != 1 || !guard_host_ok(g, web_header(x, "Host"))) {
        return refuse_by_guard(g, x, "Host", "if it should be, name it in --allow-hosts");
    }
    return true;
}

bool guard_admit(struct guard *g, struct web_exchange *x)
{
    const char *origin = web_header(x, "Origin");
    if (!guard_admit_link(g, x)) {
        return false;
    }
    web_set_header(x, "Vary",
                   /* set even without an Origin: a cache may keep the answer for other pages */
                   "Origin");
    if (origin == NULL && is_of_nameless_page(x)) {
        return refuse_by_guard(g, x, "Sec-Fetch-Site",
                               "a web page sent it, which may be anybody's");
    }
    if (origin == NULL) {
        return true;
    }
    if (web_header_count(x, "Origin") != 1 || !guard_origin_ok(g, origin)) {
        return refuse_by_guard(g, x, "Origin", "if it should be, name it in --allow-origins");
    }
    web_set_header(x, "Access-Control-Allow-Origin", origin);
    web_set_header(x, "Access-Control-Expose-Headers", EXPOSED_HEADERS);
    if (is_preflight(x)) {
        answer_preflight(x);
        return false;
    }
    return true;
}
