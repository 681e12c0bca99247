/*
 * The log of a worker: what it writes to stderr becomes lines of ours, labelled with its sandbox.
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_CHILD_LOG_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_CHILD_LOG_H

#include <stdint.h>

#include "common/err.h"

struct fleet_host;
struct child_log;

/* Reads from pipe_fd, which it owns from now on, also on error. `sandbox` is copied. */
int child_log_start(struct fleet_host *host, int pipe_fd, const char *sandbox, uint64_t generation,
                    struct child_log **ret, struct err *err) WARN_UNUSED;

/* Known only after the pipe: shown in the lines from now on. */
void child_log_set_pid(struct child_log *log, int pid);

/* Takes what is still in the pipe, then ends; the object is freed later by itself. NULL is fine. */
void child_log_stop(struct child_log *log);

#endif
