/*
 * Handing the source of a driver to its interpreter.
 * Thread: the agent has one. Blocks as memory files do.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_SOURCE_H
#define CLOISTER_WORKER_AGENT_RUN_SOURCE_H

#include "common/err.h"

/* Appends a constant text of this program, up to its NUL. */
int source_write(int fd, const char *text, struct err *err) WARN_UNUSED;

#endif
