/*
 * One channel of a door: a request, the connection that it leads to, and what travels on it.
 * Private to this directory.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_DOOR_CHANNEL_H
#define CLOISTER_WORKER_DOOR_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/sm.h"
#include "common/view.h"
#include "worker/door/door.h"
#include "worker/door/relay.h"
#include "worker/door/request.h"
#include "worker/door/response.h"

#define DOOR_ADDRESSES 8 /* of one name that are tried */

enum channel_state {
    CHANNEL_HEAD,    /* the request is coming */
    CHANNEL_LOOKUP,  /* where the name leads is asked */
    CHANNEL_CONNECT, /* one address after the other is tried */
    CHANNEL_RELAY,
    CHANNEL_OVER, /* only handles are left */
};

struct door_channel {
    struct door_channel *next;
    struct door *door;
    uint64_t id;
    struct sm sm;
    uv_timer_t timer;
    size_t handles; /* open ones; freed with the last */

    struct buf in;     /* bytes of the program that are not with the server yet */
    uint64_t may_come; /* credit that the agent has */
    uint64_t may_send; /* credit that it has given */
    bool in_ended;     /* the program says nothing more */

    struct authority to;          /* what is asked for */
    const struct door_rule *rule; /* of what is connected to: that, or the proxy */
    bool confirm;                 /* the program waits for our 200 */
    struct buf head;              /* what the server is told first */
    size_t head_credit;           /* bytes of the program's own head */
    uint64_t body;                /* bytes that it may still say */
    struct door_asker asker;
    uint64_t late_ms; /* when looking up and connecting have lasted too long */
    struct sockaddr_storage addresses[DOOR_ADDRESSES];
    size_t address_count, address_at;
    int failure; /* of the last address, an error of libuv */
    struct door_dial *dial;
    struct door_relay relay;
    struct door_response response; /* `over` for a tunnel */
    uint64_t active_ms;            /* when something travelled last */
};

struct door_channel *door_channel_create(struct door *d, uint64_t id);

int door_channel_data(struct door_channel *c, struct view data, struct err *err) WARN_UNUSED;
int door_channel_credit(struct door_channel *c, uint64_t bytes, struct err *err) WARN_UNUSED;
int door_channel_close(struct door_channel *c, bool whole, struct err *err) WARN_UNUSED;

/* Ends it, and tells nobody. It is off the door's list then. */
void door_channel_drop(struct door_channel *c);

/* ---- for the parts of a channel ---- */

/* Ends it, and tells the agent. */
void door_channel_end(struct door_channel *c);

/* It has this long from now for what it does. */
void door_channel_wait(struct door_channel *c, uint64_t wait_ms);

/* One of its handles is closed; frees it with the last. */
void door_channel_handle_gone(struct door_channel *c);

/* Once there is a connection: what is said over it is the relay's. */
void door_channel_connected(struct door_channel *c, uv_tcp_t *tcp);

/* None of the addresses can be reached: an error of libuv. */
void door_channel_unreachable(struct door_channel *c, int status);

/* dial.c: tries the addresses, within the time that is left. */
void door_dial_begin(struct door_channel *c);
void door_dial_next(struct door_channel *c); /* the one that is tried takes too long */
void door_dial_stop(struct door_channel *c);

/* ---- door.c ---- */

struct door {
    struct door_setup setup;
    struct door_lookups lookups;
    struct door_channel *first;
    size_t count;  /* of them */
    size_t alive;  /* of all that are not freed yet */
    uint64_t last; /* channel of this stream */
    unsigned told; /* refusals that the log has */
    char scratch[LIMIT_DOOR_CHUNK];
    void (*closed)(void *arg);
    void *closed_arg;
};

void door_post_data(struct door_channel *c, struct view data); /* within its credit */
void door_post_credit(struct door_channel *c, uint64_t bytes);
void door_post_close(struct door_channel *c);
void door_forget(struct door_channel *c); /* off the list */
void door_freed(struct door *d);          /* one of its channels is */

#endif
