/*
 * The body of an answer as it comes, in pieces of any size: by its length, in chunks, or up to the
 * end of the connection.
 *
 * Thread: any. Pure functions; nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_PORTS_BODY_H
#define CLOISTER_SUPERVISOR_WEB_PORTS_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/io/http_head.h"
#include "common/view.h"

enum port_body_at {
    PORT_BODY_SIZE, /* in the line of a chunk's size */
    PORT_BODY_EXTENSION,
    PORT_BODY_SIZE_END, /* its LF follows */
    PORT_BODY_DATA,
    PORT_BODY_DATA_END,  /* the CR behind a chunk follows, … */
    PORT_BODY_DATA_END2, /* … its LF */
    PORT_BODY_TRAILER,   /* at the beginning of a line behind the last chunk */
    PORT_BODY_TRAILER_TEXT,
    PORT_BODY_TRAILER_END, /* the LF of the last, empty line follows */
    PORT_BODY_WHOLE,       /* the end is here */
    PORT_BODY_OPEN,        /* only the connection's end is the end */
};

struct port_body {
    enum port_body_at at;
    bool chunked;
    uint64_t left;  /* of the length, or of the chunk */
    uint64_t spare; /* bytes of extensions that may come; each byte of data allows one more */
    unsigned seen;  /* digits of a size, or bytes of the trailer */
    bool ends_line; /* within a trailer: the last byte was a CR */
};

void port_body_init(struct port_body *b, bool has_body, const struct http_framing *framing);

/* Takes bytes off *data, and returns in *ret those of the body that came first; empty: all of *data
 * is taken, or the body is whole and the rest is no part of it. -ERR_PROTOCOL. */
int port_body_take(struct port_body *b, struct view *data, struct view *ret,
                   struct err *err) WARN_UNUSED;

static inline bool port_body_is_whole(const struct port_body *b)
{
    return b->at == PORT_BODY_WHOLE;
}

#endif
