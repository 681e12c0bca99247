/*
 * What somebody who follows running code has not been told yet: how much it was, and the latest
 * bytes of it, whatever a program writes.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_OUTPUT_PROGRESS_H
#define CLOISTER_SUPERVISOR_CALLS_OUTPUT_PROGRESS_H

#include "common/view.h"
#include "supervisor/fleet/fleet.h"

/* The news of one stream. */
struct output_tail {
    char bytes[FLEET_NEWS_BYTES];
    size_t len;
    uint64_t count; /* bytes that are news, of which the last `len` are here */
};

struct output_progress {
    fleet_output_fn output;
    void *arg;
    uint64_t every_ms;
    uint64_t next_ms; /* not to be told before that, on the loop's clock */
    struct output_tail out, err;
};

struct output_progress *output_progress_create(uint64_t every_ms, fleet_output_fn output,
                                               void *arg);

/* More was written. */
void output_progress_add(struct output_progress *n, struct view out, struct view err);

/* There is something to tell, at next_ms or later. */
bool output_progress_any(const struct output_progress *n);

/* Tells it, with how much was written in all. */
void output_progress_tell(struct output_progress *n, const struct fleet_outcome *so_far,
                          uint64_t now_ms);

#endif
