/*
 * A stream of bytes as lines, of a length that is bounded: engines and clusters report what goes on
 * as one JSON object a line.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_LINES_H
#define CLOISTER_WORKER_BACKEND_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

struct lines {
    struct buf line; /* begun, or returned */
    size_t max_bytes;
    bool returned;
};

void lines_init(struct lines *l, size_t max_bytes);
void lines_finish(struct lines *l);

/* Forgets a line that has begun. */
void lines_reset(struct lines *l);

/* Takes bytes off the beginning of `bytes`. 1: *ret_line is the next line, without its end, valid
 * until the next call; 0: all are taken, and the line goes on; -ERR_TOO_BIG, -ERR_NO_MEMORY. Empty
 * lines are passed over. */
int lines_next(struct lines *l, struct view *bytes, struct view *ret_line,
               struct err *err) WARN_UNUSED;

#endif
