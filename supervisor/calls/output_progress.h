/*
 * New output for a follower of running code: how much there was since the previous callback, and
 * its latest bytes. Bounded, whatever a program writes.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_OUTPUT_PROGRESS_H
#define CLOISTER_SUPERVISOR_CALLS_OUTPUT_PROGRESS_H

#include "common/view.h"
#include "supervisor/fleet/fleet.h"

/* New output of one stream. */
struct output_tail {
    char bytes[FLEET_OUTPUT_BYTES];
    size_t len;
    uint64_t count; /* new bytes, of which the last `len` are here */
};

struct output_progress {
    fleet_output_fn output;
    void *arg;
    uint64_t every_ms;
    uint64_t next_ms; /* earliest time of the next callback, on the loop's clock */
    struct output_tail out, err;
};

/* `output` gets `arg`, at most once in every_ms. The caller frees the object with free(). */
struct output_progress *output_progress_create(uint64_t every_ms, fleet_output_fn output,
                                               void *arg);

/* Adds output. */
void output_progress_add(struct output_progress *n, struct view out, struct view err);

/* Whether there is output for a callback at next_ms or later. */
bool output_progress_any(const struct output_progress *n);

/* Makes the callback, with the totals of `so_far`. */
void output_progress_tell(struct output_progress *n, const struct fleet_outcome *so_far,
                          uint64_t now_ms);

#endif
