/*
 * Starting on stdio has no side effects and is fast, so the listener is opened for the first
 * address that somebody asks for, and only where the option allows it. It has any free port, and
 * keeps it until the server ends; addresses end with it, since the next server has another port.
 *
 * Every user and every page on this machine can reach it. A Host that is not its own is refused,
 * which keeps pages of elsewhere from reaching it under a name of theirs (DNS rebinding), and an
 * address has to be signed, as over HTTP.
 */
#include "supervisor/front/own_ports.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/links/links.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/guard.h"
#include "supervisor/web/http/listener.h"
#include "supervisor/web/ports/endpoint.h"

#define CONNECTIONS (2 * LIMIT_PORT_OPEN)

struct own_ports {
    uv_loop_t *loop;
    const struct config *config;
    struct links *links;
    struct ports_source source;
    struct web_listener *listener; /* NULL: nobody has asked for an address yet */
    struct guard *guard;
    struct ports_endpoint *endpoint;
    bool quiet;
};

struct own_ports *own_ports_create(uv_loop_t *loop, const struct config *config,
                                   struct links *links, const struct ports_source *source)
{
    struct own_ports *p = alloc_one(struct own_ports);
    p->loop = loop;
    p->config = config;
    p->links = links;
    p->source = *source;
    return p;
}

/* ---- what the listener does ----------------------------------------------------------------- */

static int on_port_admit(void *arg, struct web_exchange *x)
{
    struct own_ports *p = arg;
    if (!guard_admit_link(p->guard, x)) {
        return -1;
    }
    return ports_endpoint_admit(p->endpoint, x); /* which refuses what is no address of a port */
}

static void on_port_request(void *arg, struct web_exchange *x)
{
    struct own_ports *p = arg;
    ports_endpoint_handle(p->endpoint, x);
}

/* ---- its life ------------------------------------------------------------------------------- */

int own_ports_open(void *arg, struct err *err)
{
    struct own_ports *p = arg;
    const struct web_listener_config config = {
        .address = "127.0.0.1",
        .max_connections = CONNECTIONS,
        .max_body_bytes = LIMIT_LINE_BYTES,
        .upgrades = true,
        .admit = on_port_admit,
        .handle = on_port_request,
        .arg = p,
    };
    if (p->listener != NULL) {
        return 0;
    }
    if (p->quiet) {
        return err_set(err, ERR_SHUTTING_DOWN, "the server is shutting down");
    }
    int rc = guard_create(p->config, &p->guard, err);
    rc = rc < 0 ? rc : web_listener_open(p->loop, &config, &p->listener, err);
    if (rc < 0) {
        guard_destroy(STEAL_PTR(p->guard));
        return err_wrap(err, "ports of sandboxes");
    }
    p->endpoint = ports_endpoint_create(p->loop, &p->source, p->config->port_wait_s * 1000);
    guard_set_url(p->guard, web_listener_url(p->listener));
    links_set_base(p->links, web_listener_url(p->listener));
    log_info("ports of sandboxes are at %s", web_listener_url(p->listener));
    return 0;
}

void own_ports_quiesce(struct own_ports *p)
{
    if (p != NULL) {
        p->quiet = true;
    }
    if (p != NULL && p->listener != NULL) {
        web_listener_quiesce(p->listener);
    }
}

void own_ports_close(struct own_ports *p, uint64_t flush_ms, void (*closed)(void *arg), void *arg)
{
    if (p == NULL || p->listener == NULL) {
        closed(arg);
        return;
    }
    ports_endpoint_close(p->endpoint);
    web_listener_close(STEAL_PTR(p->listener), flush_ms, closed, arg);
}

void own_ports_destroy(struct own_ports *p)
{
    if (p != NULL) {
        ports_endpoint_destroy(p->endpoint);
        guard_destroy(p->guard);
        free(p);
    }
}
