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
    size_t told;        /* bytes of it that were told */
    uint64_t place;     /* of the next byte, counted from what was told with the connection */
    size_t telling;     /* bytes that are on their way; 0: none */

    struct buf head; /* of the answer, until it is whole */
    unsigned interim;
    bool has_head;
    struct port_answer answer;
    struct port_body body;
    bool paused;

    /* WebSocket: what the client says is its request, which does not end, and the body is what the
     * program says */
    bool is_socket;
    bool deaf;             /* the program reads nothing more */
    uint64_t expires_ms;   /* then its address has expired */
    uint64_t last_word_ms; /* when either has said something */

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
    uint64_t idle_ms; /* a WebSocket on which nothing is said ends after that */
    LIST_HEAD(, port_transfer) transfers;
    LIST_HEAD(, room) rooms; /* of bodies that are on their way here */
    size_t open;
    size_t sockets;    /* of these, WebSockets */
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

/* Sends what the request has left, a piece at a time. */
void port_transfer_tell(struct port_transfer *t);

/* The program has so long to read on, if there is something to read. */
void port_transfer_wait(struct port_transfer *t);

/* Ends it: without an answer yet by this one, else by a cut. */
void port_transfer_fail(struct port_transfer *t, int status, const char *why);

/* ---- WebSockets (socket.c) ---- */

/* The program has answered 101. Returns 0 when the browser is told so; -ERR_PROTOCOL with the
 * reason, for people, if that is no answer to its handshake. */
int port_socket_begin(struct port_transfer *t, const struct http_head *head,
                      struct err *err) WARN_UNUSED;
/* Some of what the client said was told. */
void port_socket_told(struct port_transfer *t);
/* When it ends if nothing is said until then; 0: it is none. */
uint64_t port_socket_ends(const struct port_transfer *t);
/* Ends it if it is time. True: it has ended. */
bool port_socket_tick(struct port_transfer *t, uint64_t now_ms);

/* Does what is due. */
void port_transfer_tick(struct port_transfer *t, uint64_t now_ms);

/* The endpoint closes: nothing more is passed on. Frees it if its connection has ended. */
void port_transfer_cut(struct port_transfer *t);

/* Frees it, whatever it does. */
void port_transfer_destroy(struct port_transfer *t);

#endif
