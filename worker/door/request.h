/*
 * What a program asks a door for, read as a proxy reads it, and how it is said on.
 *
 * Thread: any. Pure functions; nothing blocks or allocates but the caller's buf.
 */
#ifndef CLOISTER_WORKER_DOOR_REQUEST_H
#define CLOISTER_WORKER_DOOR_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/io/http_head.h"
#include "common/net/authority.h"
#include "common/view.h"

#define DOOR_REQUEST_BYTES (2 * HTTP_HEAD_MAX_BYTES) /* of what door_request_write() makes */

struct door_request {
    bool tunnel;           /* CONNECT: what follows is the server's own affair */
    struct authority to;   /* with a port */
    uint64_t body;         /* bytes that follow the head; of a tunnel as many as there are */
    struct view path;      /* with a query, may be empty; borrowed from what was read, as … */
    struct http_head head; /* … this */
};

/* Returns 1 and fills *ret; 0 if the head is incomplete; -ERR_PROTOCOL or -ERR_TOO_BIG if it is
 * nothing that a proxy takes. */
int door_request_read(struct view data, struct door_request *ret, struct err *err) WARN_UNUSED;

/* Appends what a server is told, or with `by_proxy` the next proxy. Of a tunnel a server is told
 * nothing. A connection is for one request: the next may be for somebody else. `auth` is the value
 * of Proxy-Authorization, NULL or "" for none. */
int door_request_write(const struct door_request *r, bool by_proxy, const char *auth,
                       struct buf *out, struct err *err) WARN_UNUSED;

/* Appends an answer of ours. Package managers show people the reason phrase, and few the body, so
 * the reason is both; it is one line of text. */
int door_answer_write(int status, const char *reason, struct buf *out, struct err *err) WARN_UNUSED;

#endif
