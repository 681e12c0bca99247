/*
 * What is kept of one output stream of a program, whatever amount that writes: its first bytes and
 * its last ones, and how many there were.
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

/* Of the end of a stream; as much as an agent has at a time for a server that takes over. */
#define STREAM_KEEP_TAIL (256u << 10)

struct stream_keep {
    struct buf bytes; /* the first ones; behind them those that were written last */
    size_t head_max, tail_max;
    bool head_ended;   /* bytes behind it were missed: it grows no more */
    size_t head_bytes; /* then */
    uint64_t total;    /* all that were written so far */
};

/* What can be shown; borrowed until the next change. An empty `tail`: head is all that is kept.
 * Otherwise the tail ends where the stream ends, and there is a gap between. */
struct stream_view {
    struct view head, tail;
};

void stream_keep_init(struct stream_keep *k, size_t head_max, size_t tail_max);
void stream_keep_finish(struct stream_keep *k);

/* The next bytes, which begin at `from`: where the stream ended so far, or behind that if some were
 * missed. */
void stream_keep_add(struct stream_keep *k, uint64_t from, struct view bytes);

struct stream_view stream_keep_look(const struct stream_keep *k);

#endif
