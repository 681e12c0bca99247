/*
 * Traces: a span for each tool call, with spans for what it waited for, sent to a collector by OTLP
 * over HTTP as JSON.
 *
 * A collector that is away, hangs or refuses costs spans, which are counted, and never delays a
 * call: spans wait in a queue with a limit, and one batch is on its way at a time.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TRACES_TRACES_H
#define CLOISTER_SUPERVISOR_TRACES_TRACES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

#define TRACES_QUEUE_CALLS 2048
#define TRACES_BATCH_CALLS 256
#define TRACES_EVERY_MS    1000  /* spans wait for others for so long */
#define TRACES_SEND_MS     10000 /* a batch that is not taken in this time is lost */
#define TRACES_CLOSE_MS    1000  /* what the end of a server waits for the last ones */

struct traces;

/* One call that has ended; all borrowed, and text in UTF-8. */
struct traced_call {
    const char *traceparent; /* of the request, or NULL; anything else than one is ignored */
    const char *principal, *tool, *outcome;
    const char *error; /* code of a failure, or NULL */
    bool is_error;
    const char *sandbox, *execution; /* "": none */
    uint64_t begun_wall_us, duration_us;
    /* of its execution, if that has ended; 0: not known */
    uint64_t asked_wall_us; /* when its worker was asked to run it */
    uint64_t run_us;        /* as the agent measured it */
};

/* Whether it is the URL of a collector; -ERR_CONFIG says what was expected. */
int traces_check(const char *url, struct err *err) WARN_UNUSED;

/* /v1/traces is added to the URL. -ERR_CONFIG as above, -ERR_ENGINE if libcurl is missing. */
int traces_create(uv_loop_t *loop, const char *url, struct traces **ret,
                  struct err *err) WARN_UNUSED;

/* Queues the spans of a call, unless its client says that the trace is not recorded. NULL: there
 * is no collector. */
void traces_call(struct traces *t, const struct traced_call *call);

/* Sends what is queued, for at most TRACES_CLOSE_MS, then frees it and calls back. */
void traces_close(struct traces *t, void (*closed)(void *arg), void *arg);

#endif
