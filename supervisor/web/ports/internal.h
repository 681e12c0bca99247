/*
 * What the files of the endpoint share: the endpoint (endpoint.c) and its transfers (transfer.c).
 */
#ifndef CLOISTER_SUPERVISOR_WEB_PORTS_INTERNAL_H
#define CLOISTER_SUPERVISOR_WEB_PORTS_INTERNAL_H

#include <sys/queue.h>

#include "common/buf.h"
#include "supervisor/web/ports/body.h"
#include "supervisor/web/ports/endpoint.h"
#include "supervisor/web/ports/head.h"

/* One request and its answer. It lives while it has an exchange or a connection. */
struct port_transfer {
    LIST_ENTRY(port_transfer) node;
    struct ports_endpoint *endpoint;
    struct web_exchange *x; /* NULL: answered, or the client has gone */
    void *connection;       /* NULL: ended */
    char *owner, *target, *method;
    struct port_address address; /* borrows from `target` */

    struct buf request; /* head and body, until they are told */
    size_t reserved;    /* bytes of it in the endpoint's sum */
    size_t first;       /* bytes of it that were told with the connection */
    size_t told;        /* bytes of it that were told in all */
    size_t telling;     /* bytes that are on their way; 0: none */

    struct buf head; /* of the answer, until it is whole */
    unsigned interim;
    bool has_head;
    struct port_answer answer;
    struct port_body body;
    bool paused;

    /* by then the answer has begun, or more of the request was read, or, after the answer, the
     * program has closed; 0: nothing waits for that */
    uint64_t due_ms;
    uint64_t again_ms; /* when more is told; 0: nothing waits for that */
    uint64_t pause_ms; /* between two attempts */
};

struct ports_endpoint {
    uv_loop_t *loop;
    struct ports_source source;
    uint64_t wait_ms;
    LIST_HEAD(, port_transfer) transfers;
    LIST_HEAD(, room) rooms; /* of bodies that are on their way here */
    size_t open;
    size_t body_bytes; /* announced by requests that were admitted, until they are told */
    uv_timer_t timer;
    uint64_t timer_ms; /* 0: not set */
};

/* Makes the timer look at the transfers at this time, or earlier. */
void ports_wake_at(struct ports_endpoint *e, uint64_t at_ms);

/* Answers with a line for people. */
void ports_refuse(struct web_exchange *x, int status, const char *why);

/* Begins to pass the request on. Takes the body; `reserved` bytes of the sum are its own. */
void port_transfer_begin(struct ports_endpoint *e, struct web_exchange *x, const char *owner,
                         size_t reserved);

/* Does what is due. */
void port_transfer_tick(struct port_transfer *t, uint64_t now_ms);

/* The endpoint closes: nothing more is passed on. Frees it if its connection has ended. */
void port_transfer_cut(struct port_transfer *t);

/* Frees it, whatever it does. */
void port_transfer_destroy(struct port_transfer *t);

#endif
