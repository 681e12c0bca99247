/*
 * The part of an output stream that a result shows: head and tail of a long one, or the part that a
 * client asked for.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESULTS_STREAM_H
#define CLOISTER_SUPERVISOR_RESULTS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/view.h"

/* A stream, as in fleet_outcome. */
struct result_stream {
    const char *execution;
    const char *argument; /* of get_execution: the offset in this stream */
    struct view head, tail;
    uint64_t total;
    bool over; /* nothing more will come */
};

/* The shown part. */
struct result_part {
    struct buf text; /* UTF-8 */
    uint64_t from;   /* offset in the written output; after the requested one if that is not kept */
    uint64_t next;   /* offset where to continue */
    bool cut;        /* not all is shown */
    bool more_kept;  /* output is kept at `next` */
    bool is_page;
};

/* Shows the beginning and the end, and a line about what is left out between. `text` costs at most
 * max_cost as JSON, and that line RESULT_STREAM_LINE. */
#define RESULT_STREAM_LINE 300
void result_stream_summary(struct result_part *p, const struct result_stream *s, size_t max_cost);

/* Shows what begins at `from`, which is at most s->total. */
void result_stream_page(struct result_part *p, const struct result_stream *s, uint64_t from,
                        size_t max_cost);

/* Appends all kept output, with a line where bytes are missing; `out` must have room. */
void result_stream_all(struct buf *out, const struct result_stream *s, size_t max_cost);

void result_part_finish(struct result_part *p);

#endif
