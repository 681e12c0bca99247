/*
 * What somebody who follows running code has not been told yet: how much it was, and the latest
 * bytes of it, whatever a program writes.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_OUTPUT_NEWS_H
#define CLOISTER_SUPERVISOR_CALLS_OUTPUT_NEWS_H

#include "common/view.h"
#include "supervisor/fleet/fleet.h"

/* The news of one stream. */
struct output_tail {
    char bytes[FLEET_NEWS_BYTES];
    size_t len;
    uint64_t count; /* bytes that are news, of which the last `len` are here */
};

struct output_news {
    fleet_output_fn output;
    void *arg;
    uint64_t every_ms;
    uint64_t next_ms; /* not to be told before that, on the loop's clock */
    struct output_tail out, err;
};

struct output_news *output_news_create(uint64_t every_ms, fleet_output_fn output, void *arg);

/* More was written. */
void output_news_add(struct output_news *n, struct view out, struct view err);

/* There is something to tell, at next_ms or later. */
bool output_news_any(const struct output_news *n);

/* Tells it, with how much was written in all. */
void output_news_tell(struct output_news *n, const struct fleet_outcome *so_far, uint64_t now_ms);

#endif
