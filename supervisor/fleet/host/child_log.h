/*
 * The log of a worker: lines from its stderr become lines of our log, labelled with its sandbox.
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_CHILD_LOG_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_CHILD_LOG_H

#include <stdint.h>

#include "common/err.h"

struct fleet_host;
struct child_log;

/* Reads from pipe_fd, and owns it from now on, also on error. `sandbox` is copied. */
int child_log_start(struct fleet_host *host, int pipe_fd, const char *sandbox, uint64_t generation,
                    struct child_log **ret, struct err *err) WARN_UNUSED;

/* The pid is known only after the pipe is made; later lines show it. */
void child_log_set_pid(struct child_log *log, int pid);

/* Reads what is left in the pipe, then stops; the object frees itself later. NULL is fine. */
void child_log_stop(struct child_log *log);

#endif
