/*
 * The head of an HTTP/1.1 response, read strictly, and the two small things around it: header
 * values by name, and a body in chunks. Only tunnels need the head read here; ordinary responses
 * are libcurl's work.
 *
 * Thread: any. Pure functions; nothing blocks or allocates but the caller's buf.
 */
#ifndef CLOISTER_COMMON_IO_HTTP_HEAD_H
#define CLOISTER_COMMON_IO_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

enum {
    HTTP_HEAD_MAX_BYTES = 16 * 1024, /* of one response, interim heads ("100 Continue") included */
    HTTP_HEAD_MAX_FIELDS = 100,
};

struct http_head {
    int status;         /* 100 to 599 */
    struct view fields; /* the lines "Name: value\r\n"; borrowed from what was parsed */
    size_t size;        /* bytes of the whole head, its blank line included */
};

/* 1: *ret is filled; 0: the head goes on behind `data`; -ERR_PROTOCOL: not a head;
 * -ERR_TOO_BIG: more bytes or fields than the limits above. */
int http_head_parse(struct view data, struct http_head *ret, struct err *err) WARN_UNUSED;

/* The value of the first field of that name, in any case, blanks around it taken off; empty if
 * absent. `fields` are lines as above; a line that is no field is skipped. */
struct view http_head_value(struct view fields, const char *name);

/* How a response body ends: by its length, by its last chunk, or with the connection. */
struct http_framing {
    bool chunked;
    bool has_length;
    uint64_t length;
};

/* -ERR_PROTOCOL for lengths and encodings that cannot be meant. */
int http_head_framing(const struct http_head *head, struct http_framing *ret,
                      struct err *err) WARN_UNUSED;

/* Appends to `out` what the chunks in `data`, the beginning of a chunked body, hold; only as much
 * as `out` may hold. 1: the last chunk was there or `out` is full; 0: it goes on; -ERR_PROTOCOL. */
int http_head_dechunk(struct view data, struct buf *out, struct err *err) WARN_UNUSED;

#endif
