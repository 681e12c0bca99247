/*
 * Gives a driver's source to its interpreter. Thread: the agent has one. Blocks as memory files do.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_SOURCE_H
#define CLOISTER_WORKER_AGENT_RUN_SOURCE_H

#include <stddef.h>

#include "common/err.h"

/* Writes a constant string of this program, without its NUL, to fd. `text` must be a constant: its
 * pages are dropped from memory. */
int source_write(int fd, const char *text, struct err *err) WARN_UNUSED;

/* The same for constant bytes. */
int source_write_bytes(int fd, const char *data, size_t len, struct err *err) WARN_UNUSED;

#endif
