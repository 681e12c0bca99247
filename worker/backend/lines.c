/*
 * A line that was returned lies in the buffer until the next call, because whoever reads it may
 * need it whole while it comes in pieces.
 */
#include "worker/backend/lines.h"

#include <string.h>

void lines_init(struct lines *l, size_t max_bytes)
{
    buf_init(&l->line, max_bytes);
    l->max_bytes = max_bytes;
    l->returned = false;
}

void lines_finish(struct lines *l)
{
    buf_finish(&l->line);
}

void lines_reset(struct lines *l)
{
    buf_reset(&l->line, l->max_bytes);
    l->returned = false;
}

int lines_next(struct lines *l, struct view *bytes, struct view *ret_line, struct err *err)
{
    if (l->returned) {
        lines_reset(l);
    }
    while (bytes->len > 0) {
        const char *end = memchr(bytes->data, '\n', bytes->len);
        size_t n = end != NULL ? (size_t)(end - bytes->data) : bytes->len;
        int rc = buf_add(&l->line, bytes->data, n, err);
        if (rc < 0) {
            return rc;
        }
        n += end != NULL;
        bytes->data += n;
        bytes->len -= n;
        if (end != NULL && l->line.len > 0) {
            l->returned = true;
            *ret_line = view_bytes(l->line.data, l->line.len);
            return 1;
        }
    }
    return 0;
}
