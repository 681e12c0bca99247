/*
 * A request is judged when its head is here, before a byte of its body is read: its address, how
 * many are open, and whether there is room for the body; what may have changed while the body came
 * is looked at again. A body has to announce its length, so that
 * the room can be set aside; that room is a part of what all requests have, so calls of tools get
 * through however many uploads are under way.
 *
 * One timer serves all transfers. There are at most LIMIT_PORT_OPEN, so it looks at each.
 */
#include "supervisor/web/ports/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/ports/handshake.h"
#include "supervisor/web/ports/internal.h"

/* Room for the body of a request that was admitted. Stays with the exchange. */
struct room {
    LIST_ENTRY(room) node;
    struct ports_endpoint *endpoint;
    size_t bytes;
    char *owner;
};

static void on_exchange_over(void *note)
{
    struct room *room = note;
    LIST_REMOVE(room, node);
    room->endpoint->body_bytes -= room->bytes;
    free(room->owner);
    free(room);
}

/* ---- the timer ------------------------------------------------------------------------------ */

static uint64_t next_of(const struct port_transfer *t)
{
    const uint64_t times[] = {t->again_ms, t->due_ms, port_socket_ends(t)};
    uint64_t next = 0;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        next = times[i] != 0 && (next == 0 || times[i] < next) ? times[i] : next;
    }
    return next;
}

static void on_ports_timer(uv_timer_t *timer)
{
    struct ports_endpoint *e = timer->data;
    uint64_t now_ms = uv_now(e->loop);
    struct port_transfer *next;
    e->timer_ms = 0;
    for (struct port_transfer *t = LIST_FIRST(&e->transfers); t != NULL; t = next) {
        next = LIST_NEXT(t, node);
        port_transfer_tick(t, now_ms);
    }
    for (struct port_transfer *t = LIST_FIRST(&e->transfers); t != NULL; t = LIST_NEXT(t, node)) {
        ports_wake_at(e, next_of(t));
    }
}

void ports_wake_at(struct ports_endpoint *e, uint64_t at_ms)
{
    uint64_t now_ms = uv_now(e->loop);
    if (at_ms != 0 && (e->timer_ms == 0 || at_ms < e->timer_ms)) {
        e->timer_ms = at_ms;
        uv_timer_start(&e->timer, on_ports_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0);
    }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

struct ports_endpoint *ports_endpoint_create(uv_loop_t *loop, const struct ports_source *source,
                                             uint64_t wait_ms)
{
    struct ports_endpoint *e = alloc_one(struct ports_endpoint);
    e->loop = loop;
    e->source = *source;
    e->wait_ms = wait_ms;
    e->idle_ms = TIME_PORT_IDLE_MS;
    LIST_INIT(&e->transfers);
    LIST_INIT(&e->rooms);
    uv_timer_init(loop, &e->timer);
    e->timer.data = e;
    return e;
}

void ports_endpoint_close(struct ports_endpoint *e)
{
    struct port_transfer *next;
    if (e == NULL) {
        return;
    }
    for (struct port_transfer *t = LIST_FIRST(&e->transfers); t != NULL; t = next) {
        next = LIST_NEXT(t, node);
        port_transfer_cut(t);
    }
    uv_close((uv_handle_t *)&e->timer, NULL);
}

void ports_endpoint_destroy(struct ports_endpoint *e)
{
    while (e != NULL && !LIST_EMPTY(&e->transfers)) {
        port_transfer_destroy(LIST_FIRST(&e->transfers));
    }
    free(e);
}

size_t ports_endpoint_open_requests(const struct ports_endpoint *e)
{
    return e != NULL ? e->open - e->sockets : 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

void ports_refuse(struct web_exchange *x, int status, const char *why)
{
    port_head_protect(x);
    web_set_header(x, "Cache-Control", "no-store");
    if (status == 503) {
        web_set_header(x, "Retry-After", "1");
    } else if (status == 426) {
        web_set_header(x, "Sec-WebSocket-Version", "13");
    }
    web_respond_text(x, status, "text/plain; charset=utf-8", alloc_printf("%s\n", why));
}

_Static_assert(LIMIT_LINE_BYTES <= LIMIT_PORT_BODIES_EACH &&
                   LIMIT_PORT_BODIES_EACH <= LIMIT_PORT_BODIES / 2,
               "the largest body has room, whatever one other principal sends");

static int check_bodies(const struct ports_endpoint *e, const char *owner, size_t bytes,
                        const char **ret_why)
{
    size_t of_owner = 0;
    const struct port_transfer *t;
    const struct room *room;
    LIST_FOREACH(t, &e->transfers, node)
    {
        of_owner += strcmp(t->owner, owner) == 0 ? t->reserved : 0;
    }
    LIST_FOREACH(room, &e->rooms, node)
    {
        of_owner += strcmp(room->owner, owner) == 0 ? room->bytes : 0;
    }
    if (bytes > LIMIT_PORT_BODIES - e->body_bytes || bytes > LIMIT_PORT_BODIES_EACH - of_owner) {
        *ret_why = "too much is being sent to ports of sandboxes; try again";
        return 503;
    }
    return 0;
}

/* A sandbox has few places for operations, half of which ports leave to others. */
static int check_port_room(const struct ports_endpoint *e, const char *owner, const char *sandbox,
                           size_t bytes, const char **ret_why)
{
    size_t of_owner = 0, of_sandbox = 0;
    const struct port_transfer *t;
    LIST_FOREACH(t, &e->transfers, node)
    {
        of_owner += strcmp(t->owner, owner) == 0;
        of_sandbox += strcmp(t->address.sandbox, sandbox) == 0;
    }
    if (of_sandbox >= LIMIT_CONNECTS) {
        *ret_why = "the sandbox has too many connections open; try again";
        return 503;
    }
    if (e->open >= LIMIT_PORT_OPEN || of_owner >= LIMIT_PORT_OPEN_EACH) {
        *ret_why = "too many requests to ports of sandboxes are open; try again";
        return 503;
    }
    return check_bodies(e, owner, bytes, ret_why);
}

static bool is_passed_on(const char *method)
{
    static const char *const methods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                          "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(method, methods[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* How much of a body follows. Returns 0, or a status and why that cannot be taken. */
static int check_body(const struct web_exchange *x, uint64_t *ret_bytes, const char **ret_why)
{
    const char *length = web_header(x, "Content-Length");
    *ret_bytes = 0;
    if (handshake_is_asked(x)) {
        return handshake_check(x, ret_why);
    }
    if (web_header(x, "Transfer-Encoding") != NULL) {
        *ret_why = "say how long the body is (Content-Length)";
        return 411;
    }
    /* whoever received the head has refused anything but one number */
    err_ignore(length != NULL ? str_to_u64(length, 0, UINT64_MAX, ret_bytes, NULL) : 0);
    return 0;
}

static int judge(struct ports_endpoint *e, struct web_exchange *x, const char **ret_owner,
                 uint64_t *ret_bytes, const char **ret_why)
{
    struct port_address address;
    *ret_why = "this is no address of a port of a sandbox";
    if (!port_address_parse(web_target(x), &address)) {
        return 404;
    }
    int status = e->source.check(e->source.arg, &address, ret_owner, ret_why);
    if (status != 0) {
        return status;
    }
    if (!is_passed_on(web_method(x))) {
        *ret_why = "this method is not passed on to ports of sandboxes";
        return 501;
    }
    status = check_body(x, ret_bytes, ret_why);
    return status != 0
               ? status
               : check_port_room(e, *ret_owner, address.sandbox, (size_t)*ret_bytes, ret_why);
}

int ports_endpoint_admit(struct ports_endpoint *e, struct web_exchange *x)
{
    const char *owner = NULL, *why = NULL;
    uint64_t bytes = 0;
    int status = judge(e, x, &owner, &bytes, &why);
    if (status != 0) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_PORTS);
        ports_refuse(x, status, why);
        return -1;
    }
    if (port_head_preflight(x)) {
        return -1;
    }
    struct room *room = alloc_one(struct room);
    *room = (struct room){.endpoint = e, .bytes = (size_t)bytes, .owner = alloc_strdup(owner)};
    e->body_bytes += room->bytes;
    LIST_INSERT_HEAD(&e->rooms, room, node);
    web_set_note(x, room, on_exchange_over);
    return 0;
}

void ports_endpoint_handle(struct ports_endpoint *e, struct web_exchange *x)
{
    struct room *room = web_note(x);
    struct port_address address;
    const char *why = NULL, *owner = NULL;
    if (room == NULL || !port_address_parse(web_target(x), &address)) {
        ports_refuse(x, 404, "this is no address of a port of a sandbox"); /* it is not admitted */
        return;
    }
    if (*address.rest == '\0') {
        CLEANUP_FREE char *to = alloc_printf("%s/", address.signature);
        web_set_header(x, "Location", to);
        ports_refuse(x, 308, "a page's links need the slash at the end");
        return;
    }
    /* while the body came the address may have expired, and others have come */
    int status = e->source.check(e->source.arg, &address, &owner, &why);
    if (status == 0) {
        status = check_port_room(e, room->owner, address.sandbox, 0, &why);
    }
    if (status != 0) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_PORTS);
        ports_refuse(x, status, why);
        return;
    }
    size_t reserved = room->bytes;
    room->bytes = 0;
    metrics_count(METRIC_PORT_REQUESTS, 0);
    port_transfer_begin(e, x, room->owner, reserved);
}
