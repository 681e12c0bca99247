/*
 * What is noted about each tool call: its numbers for the page of metrics, its line of the audit
 * log, its trace.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_SEEN_H
#define CLOISTER_SUPERVISOR_FRONT_SEEN_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit;
struct result;
struct tool_call;
struct traces;

/* Where calls are noted beside the numbers; each NULL: nowhere. It may change while calls are under
 * way. */
struct seen_sinks {
    struct audit *audit;
    struct traces *traces;
};

/* What is called, and by whom. All borrowed. */
struct seen_what {
    const struct seen_sinks *sinks;
    const cJSON *meta; /* of the request, or NULL */
    const char *principal;
    const char *session; /* its kind */
    const char *tool;
    bool compat;       /* it is a tool of a profile, whatever its name is */
    const cJSON *args; /* or NULL */
};

/* A call that is under way. */
struct seen {
    struct seen_what what;
    size_t tool; /* value of its label */
    uint64_t begun_us, begun_wall_ms;
};

/* Counts it as in flight. What `what` refers to must stay until the call ends. */
void seen_begin(struct seen *s, const struct seen_what *what);

/* It ends with this result, before the result is shaped. */
void seen_end(struct seen *s, const struct tool_call *call, const struct result *result);

/* It ends without an answer, with the server. */
void seen_lost(struct seen *s, const struct tool_call *call);

/* A call whose arguments were refused, so that it never began. */
void seen_invalid(const struct seen_what *what);

#endif
