/*
 * Growable bytes with a hard cap. The storage doubles, so adding n bytes one by one costs O(n). The
 * cap is checked against the exact size before any rounding, so no sum can overflow.
 */
#include "common/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_BYTES 256

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max = max_bytes};
}

void buf_finish(struct buf *b)
{
    if (b == NULL) {
        return;
    }
    free(b->data);
    buf_init(b, b->max);
}

/* Room for `need` bytes in all, which may include the uncounted NUL of buf_cstr(). */
static int grow(struct buf *b, size_t need, struct err *err)
{
    if (need <= b->cap) {
        return 0;
    }
    size_t cap = b->cap > 0 ? b->cap : BUF_FIRST_BYTES;
    while (cap < need) {
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    }
    uint8_t *data = realloc(b->data, cap);
    if (data == NULL) {
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu bytes", cap);
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_reserve(struct buf *b, size_t more_bytes, struct err *err)
{
    if (more_bytes > b->max - b->len) {
        return err_set(err, ERR_TOO_BIG, "%zu more bytes would exceed the limit of %zu", more_bytes,
                       b->max);
    }
    return grow(b, b->len + more_bytes, err);
}

int buf_add(struct buf *b, const void *data, size_t len, struct err *err)
{
    if (len == 0) {
        return 0;
    }
    int rc = buf_reserve(b, len, err);
    if (rc < 0) {
        return rc;
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return 0;
}

int buf_add_str(struct buf *b, const char *text, struct err *err)
{
    return buf_add(b, text, strlen(text), err);
}

int buf_printf(struct buf *b, struct err *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        return err_set(err, ERR_INTERNAL, "cannot format text");
    }
    int rc = buf_reserve(b, (size_t)n, err);
    if (rc < 0) {
        return rc;
    }
    rc = grow(b, b->len + (size_t)n + 1, err); /* vsnprintf appends a NUL */
    if (rc < 0) {
        return rc;
    }
    va_start(args, fmt);
    vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n == 0) {
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

void buf_reset(struct buf *b, size_t keep_bytes)
{
    if (b->cap > keep_bytes) {
        buf_finish(b);
    }
    b->len = 0;
}

const char *buf_cstr(struct buf *b)
{
    if (grow(b, b->len + 1, NULL) < 0) {
        return NULL;
    }
    b->data[b->len] = '\0';
    return (const char *)b->data;
}
