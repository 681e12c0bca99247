/*
 * The trace to which a request belongs, as its client says it: "traceparent" of W3C Trace Context.
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_TRACES_TRACEPARENT_H
#define CLOISTER_SUPERVISOR_TRACES_TRACEPARENT_H

#include <stdbool.h>

#define TRACE_ID_CHARS 32
#define SPAN_ID_CHARS  16

struct traceparent {
    char trace_id[TRACE_ID_CHARS + 1]; /* lower-case hexadecimal */
    char span_id[SPAN_ID_CHARS + 1];
    bool sampled; /* false: the client does not record this trace */
};

/* False: the text is none, and nothing was written. NULL is none. */
bool traceparent_read(const char *text, struct traceparent *ret);

#endif
