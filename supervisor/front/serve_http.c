/*
 * MCP over HTTP: opens listener, authentication and endpoint, and closes them in the right order.
 *
 * Everything that can fail comes first, before there is a fleet to undo. At the end the endpoint is
 * closed first, so that waiting clients get an answer and streams end properly; the listener then
 * gives the answers time to leave; authentication is last, since requests in progress refer to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/base/principal.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/front/control_page.h"
#include "supervisor/front/metrics_page.h"
#include "supervisor/front/serve_internal.h"
#include "supervisor/page/page.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/files/endpoint.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/listener.h"
#include "supervisor/web/http/url.h"
#include "supervisor/web/mcp/endpoint.h"
#include "supervisor/web/mcp/session_id.h"
#include "supervisor/web/ports/endpoint.h"

#define HEARTBEAT_MS 8000 /* clients and proxies give up after 10 s or more of silence */

struct serve_http {
    uv_loop_t *loop;
    const struct config *config;
    struct web_auth *auth;
    struct web_listener *listener;
    struct mcp_endpoint *endpoint;
    struct files_endpoint *files;
    struct ports_endpoint *ports; /* NULL: not with this configuration */
    const struct app *app;
    struct fleet *fleet; /* from serve_http_start() */
    struct control *control;
    bool quiet, closing;
    uint64_t flush_ms;
    void (*closed)(void *arg);
    void *closed_arg;
};

static bool is_for_ports(const struct serve_http *h, const struct web_exchange *x)
{
    return h->ports != NULL && port_address_has(web_path(x));
}

static int on_admit(void *arg, struct web_exchange *x)
{
    struct serve_http *h = arg;
    if (is_for_ports(h, x)) {
        return web_auth_admit_link(h->auth, x) ? ports_endpoint_admit(h->ports, x) : -1;
    }
    return web_auth_admit(h->auth, x) ? 0 : -1;
}

static void on_handle(void *arg, struct web_exchange *x)
{
    struct serve_http *h = arg;
    if (h->closing) { /* the body was still arriving when we stopped to listen */
        web_respond(x, 503, "text/plain", view_of("the server is shutting down\n"));
    } else if (is_for_ports(h, x)) {
        ports_endpoint_handle(h->ports, x);
    } else if (files_endpoint_has(web_path(x))) {
        files_endpoint_handle(h->files, x);
    } else if (metrics_page_has(web_path(x))) {
        const struct metrics_page page = {h->auth, h->fleet, h->app};
        metrics_page_handle(&page, x);
    } else if (control_page_has(web_path(x))) {
        control_page_handle(h->auth, h->control, x);
    } else if (page_has(web_path(x))) {
        page_handle(x);
    } else {
        mcp_endpoint_handle(h->endpoint, x);
    }
}

/* ---- start ---------------------------------------------------------------------------------- */

static void on_given_up(void *arg)
{
    *(bool *)arg = true;
}

static void give_up_http(struct serve_http *h)
{
    bool closed = false;
    web_auth_close(h->auth, on_given_up, &closed);
    while (!closed) {
        uv_run(h->loop, UV_RUN_ONCE);
    }
}

static int listen_on(struct serve_http *h, struct err *err)
{
    const struct config *config = h->config;
    struct authority at;
    bool tls = config->tls_cert[0] != '\0';
    if (tls != (config->tls_key[0] != '\0')) {
        return err_set(err, ERR_CONFIG, "--tls-cert and --tls-key go together");
    }
    if (listen_address_parse(config->http, &at, err) < 0) {
        return -err->code;
    }
    struct web_listener_config listener = {
        .address = at.host,
        .port = at.port,
        .cert_file = tls ? config->tls_cert : NULL,
        .key_file = tls ? config->tls_key : NULL,
        .max_connections = (size_t)config->max_connections,
        .max_body_bytes = LIMIT_LINE_BYTES,
        .upgrades = config->ports,
        .admit = on_admit,
        .handle = on_handle,
        .arg = h,
    };
    int rc = web_listener_open(h->loop, &listener, &h->listener, err);
    if (rc < 0 && err->code != ERR_INTERNAL && err->code != ERR_NO_MEMORY) {
        err->code = ERR_CONFIG; /* a configured address or file cannot be used */
    }
    return rc;
}

/* Clients may call us by what the certificate says. */
static void allow_certified_names(struct serve_http *h)
{
    const char *const *names;
    size_t count = web_listener_names(h->listener, &names);
    web_auth_set_names(h->auth, names, count);
}

struct serve_http *serve_http_open(uv_loop_t *loop, const struct config *config, struct err *err)
{
    CLEANUP_FREE struct serve_http *h = alloc_one(struct serve_http);
    h->loop = loop;
    h->config = config;
    if (web_auth_create(loop, config, &h->auth, err) < 0) {
        return NULL;
    }
    if (listen_on(h, err) < 0) {
        give_up_http(h);
        return NULL;
    }
    web_auth_set_open(h->auth, page_has);
    web_auth_set_url(h->auth, web_listener_url(h->listener));
    allow_certified_names(h);
    return STEAL_PTR(h);
}

/* A wildcard address is no destination, so the URL has the loopback address. */
char *serve_http_url(const struct serve_http *h)
{
    struct url u;
    if (h->config->public_url[0] != '\0' && url_parse(h->config->public_url, &u)) {
        return alloc_printf("%.*s%.*s", VIEW_ARG(u.origin), VIEW_ARG(u.path));
    }
    const char *url = web_listener_url(h->listener);
    if (url_parse(url, &u) && authority_is_any(&u.authority)) {
        return alloc_printf("%.*s://localhost:%u", VIEW_ARG(u.scheme), url_port(&u));
    }
    return alloc_strdup(url);
}

_Static_assert(SESSION_KEY_BYTES == FLEET_KEY_BYTES, "session ids are signed with the fleet's key");

/* The first session opens the instance, because the key is a file of it. */
static int session_key(void *arg, unsigned char *ret, struct err *err)
{
    struct fleet *fleet = arg;
    int rc = fleet_open_instance(fleet, err);
    return rc == 0 ? fleet_key(fleet, ret, err) : rc;
}

/* Beside clients over HTTP, whoever started us by a pipe is a principal of his own. */
static void share_fleet(struct serve_http *h)
{
    fleet_set_shared(h->fleet, h->config->stdio || web_auth_has_several(h->auth));
}

void serve_http_start(struct serve_http *h, struct mcp_server *server, struct fleet *fleet,
                      const struct app *app, struct control *control,
                      const struct files_source *files, const struct ports_source *ports)
{
    struct url url;
    CLEANUP_FREE char *path =
        h->config->public_url[0] != '\0' && url_parse(h->config->public_url, &url)
            ? alloc_viewdup(url.path)
            : NULL;
    struct mcp_endpoint_config config = {
        .server = server,
        .auth = h->auth,
        .base_path = path,
        .max_sessions = (size_t)h->config->max_sessions,
        .session_idle_ms = h->config->session_idle_s * 1000,
        .heartbeat_ms = HEARTBEAT_MS,
        .key = session_key,
        .key_arg = fleet,
    };
    h->endpoint = mcp_endpoint_create(h->loop, &config);
    h->files = files_endpoint_create(files);
    if (h->config->ports) {
        h->ports = ports_endpoint_create(h->loop, ports, h->config->port_wait_s * 1000);
    }
    h->fleet = fleet;
    h->app = app;
    h->control = control;
    share_fleet(h);
    /* Not a log line: scripts wait for it at every log level. */
    fprintf(stderr, "cloister: listening on %s/mcp\n", web_listener_url(h->listener));
}

/* ---- while it runs -------------------------------------------------------------------------- */

static void on_revoked(void *arg, struct principal *p)
{
    struct serve_http *h = arg;
    log_info("%s has no token any more", p->name);
    mcp_endpoint_revoke(h->endpoint, p);
}

int serve_http_reload(struct serve_http *h, struct err *err)
{
    if (h->closing) {
        return 0;
    }
    int rc = web_auth_reload(h->auth, on_revoked, h, err);
    if (rc < 0) {
        log_error("tokens stay as they were: %s", err->text);
    } else {
        log_info("tokens were read again");
        share_fleet(h);
    }
    if (h->config->tls_cert[0] == '\0') {
        return rc;
    }
    if (web_listener_reload(h->listener, err) < 0) {
        log_error("the certificate stays as it was: %s", err->text);
        return -err->code;
    }
    allow_certified_names(h);
    log_info("the certificate was read again");
    return rc;
}

size_t serve_http_open_requests(const struct serve_http *h)
{
    return mcp_endpoint_open_requests(h->endpoint) + files_endpoint_open_requests(h->files) +
           ports_endpoint_open_requests(h->ports);
}

/* ---- close ----------------------------------------------------------------------------------- */

void serve_http_quiesce(struct serve_http *h)
{
    if (!h->quiet) {
        h->quiet = true;
        web_listener_quiesce(h->listener);
    }
}

static void on_auth_closed(void *arg)
{
    struct serve_http *h = arg;
    h->closed(h->closed_arg);
}

static void on_listener_closed(void *arg)
{
    struct serve_http *h = arg;
    web_auth_close(h->auth, on_auth_closed, h);
}

static void on_endpoint_closed(void *arg)
{
    struct serve_http *h = arg;
    web_listener_close(h->listener, h->flush_ms, on_listener_closed, h);
}

void serve_http_close(struct serve_http *h, uint64_t flush_ms, void (*closed)(void *arg), void *arg)
{
    h->closing = true;
    h->flush_ms = flush_ms;
    h->closed = closed;
    h->closed_arg = arg;
    serve_http_quiesce(h);
    ports_endpoint_close(h->ports);
    mcp_endpoint_close(h->endpoint, on_endpoint_closed, h);
}

void serve_http_free(struct serve_http *h)
{
    if (h != NULL) {
        files_endpoint_destroy(h->files);
        ports_endpoint_destroy(h->ports);
    }
    free(h);
}
