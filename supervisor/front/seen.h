/*
 * What is noted about each tool call: its numbers for the page of metrics.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_SEEN_H
#define CLOISTER_SUPERVISOR_FRONT_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct result;

/* A call that is under way. */
struct seen {
    size_t tool; /* value of its label */
    uint64_t begun_us;
};

/* Counts it as in flight. `compat`: it is a tool of a profile, whatever its name is. */
void seen_begin(struct seen *s, const char *tool, bool compat);

/* It ends with this result, before the result is shaped; `cancelled`: nobody wanted it any more. */
void seen_end(struct seen *s, const struct result *result, bool cancelled);

/* It ends without an answer, with the server. */
void seen_lost(struct seen *s);

/* A call whose arguments were refused, so that it never began. */
void seen_invalid(const char *tool, bool compat);

#endif
