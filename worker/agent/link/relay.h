/*
 * Joins standard input and output to the agent's socket, for engines whose only way into a sandbox
 * is to start a program there, or to attach to its first one.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_RELAY_H
#define CLOISTER_WORKER_AGENT_LINK_RELAY_H

#include <sys/types.h>

#include "common/err.h"

#define RELAY_BUFFER_BYTES 65536 /* held in each direction; then its writer has to wait */
#define RELAY_CONNECT_MS   2000  /* for an agent that does not listen yet */
#define RELAY_FLUSH_MS     1000  /* to pass on what was sent before a hang-up */

/* Says its greeting (common/relay.h) once it has the agent's socket, then runs until either side
 * ends. Blocks; the process is good for nothing else. Returns an exit code
 * of proto/exit_codes.h; err says why if it is not OK. */
int relay_run(const char *socket, struct err *err);

/* In the agent, once it listens there: a child takes over standard input and output as a relay,
 * and the agent has /dev/null for them from then on. The child keeps no other descriptor but
 * standard error and ends by itself; the caller reaps *ret_pid. */
int relay_start(const char *socket, pid_t *ret_pid, struct err *err) WARN_UNUSED;

#endif
