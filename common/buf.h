/*
 * Growable bytes with a hard cap, which buf_init() sets.
 *
 * All data whose size comes from outside the process is held in a buf, so the caps in
 * proto/limits.h bound the memory that a peer can make us use. Thread: none of its own; one owner
 * at a time.
 */
#ifndef CLOISTER_COMMON_BUF_H
#define CLOISTER_COMMON_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct buf {
    uint8_t *data; /* owned; NULL while empty. Not NUL-terminated unless buf_cstr() was called */
    size_t len;    /* bytes in use */
    size_t cap;    /* bytes allocated */
    size_t max;    /* bytes it may ever hold */
};

/* No allocation happens before the first byte is added. */
void buf_init(struct buf *b, size_t max_bytes);

/* Frees the storage; the object may be used again as if freshly initialised. NULL is fine. */
void buf_finish(struct buf *b);

/* -ERR_TOO_BIG over the cap, -ERR_NO_MEMORY if the allocation fails; *b is unchanged then. */
int buf_reserve(struct buf *b, size_t more_bytes, struct err *err) WARN_UNUSED;
int buf_add(struct buf *b, const void *data, size_t len, struct err *err) WARN_UNUSED;
int buf_add_str(struct buf *b, const char *text, struct err *err) WARN_UNUSED;
int buf_printf(struct buf *b, struct err *err, const char *fmt, ...) WARN_UNUSED PRINTF_LIKE(3, 4);

/* Drops the first n bytes (n <= len) and moves the rest to the front. */
void buf_consume(struct buf *b, size_t n);

/* Forgets the content; keeps the storage if it is at most keep_bytes, frees it otherwise. */
void buf_reset(struct buf *b, size_t keep_bytes);

/* Appends a NUL that is not counted in len and returns data; NULL if memory is out.
 * Borrowed until the next change. */
const char *buf_cstr(struct buf *b);

#endif
