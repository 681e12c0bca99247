/*
 * What the files of the traces share, and nothing else uses.
 */
#ifndef CLOISTER_SUPERVISOR_TRACES_INTERNAL_H
#define CLOISTER_SUPERVISOR_TRACES_INTERNAL_H

#include <stddef.h>

#include "supervisor/traces/traces.h"

/* The spans of a call as members of a JSON array, without its brackets; NULL: its client says that
 * the trace is not recorded. The caller frees it. */
char *span_text(const struct traced_call *call);

/* A request with these spans: texts of span_text(). The caller frees it. */
char *span_request(char *const *texts, size_t count);

#endif
