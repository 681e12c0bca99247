/*
 * The part of one output stream that a result shows: of a long one its head and its tail, or the
 * part that somebody asked for.
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

/* What there is of a stream: as fleet_outcome has it. */
struct result_stream {
    const char *execution;
    const char *argument; /* of get_execution: its name for an offset in this stream */
    struct view head, tail;
    uint64_t total;
    bool over; /* no more will come */
};

/* What is shown. */
struct result_part {
    struct buf text; /* UTF-8 */
    uint64_t from;   /* offset in what was written; behind what was asked for if that is not kept */
    uint64_t next;   /* where to go on */
    bool cut;        /* there is more than is shown */
    bool more_kept;  /* at `next` */
    bool is_page;
};

/* From the beginning to the end, with a line that tells what is left out between. `text` costs at
 * most max_cost, and RESULT_STREAM_LINE for that line, as JSON. */
#define RESULT_STREAM_LINE 300
void result_stream_summary(struct result_part *p, const struct result_stream *s, size_t max_cost);

/* What begins at `from`, which is at most s->total. */
void result_stream_page(struct result_part *p, const struct result_stream *s, uint64_t from,
                        size_t max_cost);

/* All that is kept, in any case, with a line where bytes are missing; `out` has room for that. */
void result_stream_all(struct buf *out, const struct result_stream *s, size_t max_cost);

void result_part_finish(struct result_part *p);

#endif
