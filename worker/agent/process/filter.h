/*
 * The system call filter that the agent gives user code where the engine has no filter of ours.
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_FILTER_H
#define CLOISTER_WORKER_AGENT_PROCESS_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* Numbers of the calls in common/syscalls.h, made at build time. */
extern const unsigned filter_allowed[], filter_refused[], filter_tracing[];
extern const size_t filter_allowed_count, filter_refused_count, filter_tracing_count;

/* Filters this process and all that come from it, for good. no_new_privs must be set. `tracing`:
 * let processes trace others of their own uid. -ERR_DENIED. */
int filter_install(bool tracing, struct err *err) WARN_UNUSED;

#endif
