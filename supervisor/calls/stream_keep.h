/*
 * Keeps the first and last bytes of a program's output stream, and its length. Bounded, whatever a
 * program writes.
 *
 * Private to the calls. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_STREAM_KEEP_H
#define CLOISTER_SUPERVISOR_CALLS_STREAM_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/view.h"

/* Limit of the tail; an agent keeps as much for the next server. */
#define STREAM_KEEP_TAIL (256u << 10)

struct stream_keep {
    struct buf bytes; /* the head, then the latest bytes */
    size_t head_max, tail_max;
    bool head_ended;   /* bytes after it were missed, so it does not grow any more */
    size_t head_bytes; /* its length then */
    uint64_t total;    /* bytes written so far */
};

/* The kept output; borrowed until the next change. If `tail` is empty, head is all; otherwise there
 * is a gap between, and the tail ends where the stream ends. */
struct stream_view {
    struct view head, tail;
};

void stream_keep_init(struct stream_keep *k, size_t head_max, size_t tail_max);
void stream_keep_finish(struct stream_keep *k);

/* Adds bytes that begin at `from`: at the present end of the stream, or after it if some were
 * missed. */
void stream_keep_add(struct stream_keep *k, uint64_t from, struct view bytes);

struct stream_view stream_keep_look(const struct stream_keep *k);

#endif
