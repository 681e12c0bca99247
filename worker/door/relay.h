/*
 * What travels between a channel and its connection, both ways, each within the other's credit.
 * Private to this directory.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_DOOR_RELAY_H
#define CLOISTER_WORKER_DOOR_RELAY_H

#include <stdbool.h>
#include <uv.h>

#include "common/buf.h"

struct door_channel;

struct door_relay {
    uv_tcp_t *tcp;      /* owned, freed when it is closed; NULL: there is none */
    struct buf writing; /* what libuv has */
    size_t credit;      /* of these bytes, what the program has said */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool busy, shut, reading;
};

/* `head` is what the server is told first; taken over. */
void door_relay_begin(struct door_channel *c, uv_tcp_t *tcp, struct buf *head);

/* There is more to write, or nothing follows, or there is more credit to read by. */
void door_relay_go_on(struct door_channel *c);

/* Closes the connection. */
void door_relay_stop(struct door_channel *c);

#endif
