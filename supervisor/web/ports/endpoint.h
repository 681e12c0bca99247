/*
 * Ports of sandboxes: requests below /ports/… are passed on to a web server that listens in the
 * sandbox, and its answers back. The address is signed, and whoever has it may use that one port
 * until it expires; there is no other check.
 *
 * Both directions are bounded and push back: of an answer at most PORT_AHEAD_BYTES and one piece
 * are here before the browser has taken them, and a body is here once, within a sum of its own.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_PORTS_ENDPOINT_H
#define CLOISTER_SUPERVISOR_WEB_PORTS_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/view.h"
#include "supervisor/web/ports/address.h"

struct ports_endpoint;
struct web_exchange;

#define PORT_AHEAD_BYTES (256u << 10)

/* What became of bytes for the program. */
enum port_told {
    PORT_TOLD,       /* it has them, or will */
    PORT_TOLD_LATER, /* they were not taken: it has too many to read already */
    PORT_TOLD_NEVER, /* it reads nothing more */
};

/* How a connection ended. */
enum port_end {
    PORT_END_WELL,   /* the program has closed it */
    PORT_END_NOBODY, /* nobody listens at that port */
    PORT_END_BROKEN,
    PORT_END_LATE, /* it took longer than anything may */
    PORT_END_BUSY,
    PORT_END_GONE, /* with the sandbox, or the server */
};

struct port_events {
    /* Never after ended(). May pause or stop the connection. */
    void (*said)(void *arg, struct view bytes);
    void (*told)(void *arg, enum port_told what, uint64_t unread);
    void (*ended)(void *arg, enum port_end how); /* once; the connection is no more */
};

/* The way to sandboxes. */
struct ports_source {
    void *arg;
    /* Returns 0 and the owner of the sandbox (borrowed while it lives), or an HTTP status and why
     * the address is refused. */
    int (*check)(void *arg, const struct port_address *address, const char **ret_owner,
                 const char **ret_why);
    /* Connects and says `first`, at most LIMIT_INPUT. Nothing is called back from within this. */
    void *(*connect)(void *arg, const struct port_address *address, struct view first,
                     const struct port_events *events, void *events_arg);
    /* Says more, which belongs at this place; one at a time, answered by told(). */
    void (*tell)(void *connection, uint64_t at, struct view bytes);
    void (*pause)(void *connection, bool paused);
    void (*stop)(void *connection); /* ended() comes soon */
};

/* Copies the table. `wait_ms`: how long a program may take to begin an answer, and to read more of
 * a request while it answers. */
struct ports_endpoint *ports_endpoint_create(uv_loop_t *loop, const struct ports_source *source,
                                             uint64_t wait_ms);

/* Closes its handle on the loop; requests that are open are cut. Call destroy() after the source's
 * last callback, when the loop has run. NULL is fine, for both. */
void ports_endpoint_close(struct ports_endpoint *e);
void ports_endpoint_destroy(struct ports_endpoint *e);

/* Judges a request by its head: 0, or it was answered. Its body may come after that. */
int ports_endpoint_admit(struct ports_endpoint *e, struct web_exchange *x);

/* Handles an exchange that was admitted. */
void ports_endpoint_handle(struct ports_endpoint *e, struct web_exchange *x);

/* Those that end by themselves: WebSockets are not among them. */
size_t ports_endpoint_open_requests(const struct ports_endpoint *e);

#endif
