/*
 * The system call filter that the agent applies to user code, on every backend.
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

/* Filters this process and its descendants for good. no_new_privs must be set. With `tracing` a
 * process may trace others of its uid. With `ret_listener` whoever has the listener makes netlink
 * sockets (netlink.h); it is -1 where the kernel knows none, and the caller owns it. -ERR_DENIED if
 * the kernel refuses. */
int filter_install(bool tracing, int *ret_listener, struct err *err) WARN_UNUSED;

#endif
