/*
 * A strict reader of HTTP/1.1 heads, with header values by name and chunked bodies: of responses to
 * tunnels (libcurl reads ordinary ones), and of requests to the door of a sandbox.
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
    int status;         /* of a response: 100 to 599 */
    struct view method; /* of a request; borrowed from what was parsed, as its target */
    struct view target;
    struct view fields; /* the lines "Name: value\r\n"; borrowed from what was parsed */
    size_t size;        /* bytes of the whole head, its blank line included */
};

/* Returns 1 and fills *ret; 0 if the head is incomplete; -ERR_PROTOCOL if it is none; -ERR_TOO_BIG
 * if it has more bytes or fields than the limits above. */
int http_head_parse(struct view data, struct http_head *ret, struct err *err) WARN_UNUSED;

/* The same for the head of a request, whose target is any text of printable ASCII. */
int http_head_parse_request(struct view data, struct http_head *ret, struct err *err) WARN_UNUSED;

/* The value of the first field of that name (case-insensitive) without surrounding blanks; empty if
 * absent. `fields` are lines as above; a line that is no field is skipped. */
struct view http_head_value(struct view fields, const char *name);

/* How many fields of that name there are. */
size_t http_head_count(struct view fields, const char *name);

/* How a response body ends: by its length, by its last chunk, or with the connection. */
struct http_framing {
    bool chunked;
    bool has_length;
    uint64_t length;
};

/* Finds the framing of the body. -ERR_PROTOCOL for invalid or conflicting lengths and encodings. */
int http_head_framing(const struct http_head *head, struct http_framing *ret,
                      struct err *err) WARN_UNUSED;

/* Decodes `data`, the beginning of a chunked body, and appends as much as `out` may hold. Returns 1
 * after the last chunk or when `out` is full, 0 if more follows, or -ERR_PROTOCOL. */
int http_head_dechunk(struct view data, struct buf *out, struct err *err) WARN_UNUSED;

#endif
