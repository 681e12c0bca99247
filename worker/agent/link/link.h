/*
 * One connection from a worker: frames in, frames out, bounded both ways.
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_LINK_H
#define CLOISTER_WORKER_AGENT_LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"

struct link {
    int fd; /* owned; -1 while there is none */
    struct buf in;
    struct buf out;
    bool last;         /* close as soon as everything is sent */
    uint64_t since_ms; /* clock_ms() of the connection */
};

void link_init(struct link *l);

/* Takes over a connected, non-blocking descriptor. */
void link_open(struct link *l, int fd);
void link_close(struct link *l);
bool link_is_open(const struct link *l);

/* Reads once what is there. -ERR_GONE when the peer has closed. */
int link_read(struct link *l, struct err *err) WARN_UNUSED;

/* Decodes the next whole message; 1 and the message, 0 if more bytes are needed, -ERR_PROTOCOL. The
 * message borrows from the link until link_next_done(). */
int link_next(struct link *l, struct msg *ret, size_t *ret_used, struct err *err) WARN_UNUSED;
void link_next_done(struct link *l, struct msg *m, size_t used);

/* Queues a message and sends as much as the socket takes. After an error the caller must close the
 * link. */
int link_send(struct link *l, const struct msg *m, struct err *err) WARN_UNUSED;
int link_flush(struct link *l, struct err *err) WARN_UNUSED;

/* False while the peer has too many replies to read: take no requests and answer no waits then. */
bool link_has_room(const struct link *l);

#endif
