/*
 * A pair of pseudo-terminals for a program. Thread: the agent has one. Does not block.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_TERMINAL_H
#define CLOISTER_WORKER_AGENT_PROCESS_TERMINAL_H

#include <stdint.h>

#include "common/err.h"
#include "worker/agent/process/spawn.h"

#define TERMINAL_ROWS 24u /* the usual size */
#define TERMINAL_COLS 80u

/* Makes a terminal of this size that the sandbox user owns. The caller owns both ends, which are
 * close-on-exec; ours does not block. -ERR_IO if the container has no terminals (left). */
int terminal_open(const struct spawn_config *c, uint64_t rows, uint64_t cols, int *ret_ours,
                  int *ret_theirs, struct err *err) WARN_UNUSED;

#endif
