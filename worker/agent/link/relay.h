/*
 * Joins standard input and output to the agent's socket, for engines whose only way into a sandbox
 * is to start a program there, or to attach to its first one.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_RELAY_H
#define CLOISTER_WORKER_AGENT_LINK_RELAY_H

#include <sys/types.h>

#include "common/err.h"

#define RELAY_BUFFER_BYTES 65536 /* buffered in each direction before its writer must wait */
#define RELAY_CONNECT_MS   2000  /* retries while the agent does not listen yet */
#define RELAY_FLUSH_MS     1000  /* to pass on what was sent before a hang-up */

/* Connects to the agent's socket, sends the greeting (common/relay.h), then runs until either side
 * ends. Blocks, and takes over stdin and stdout: the process should exit afterwards. Returns an
 * exit code of proto/exit_codes.h; err says why if it is not OK. */
int relay_run(const char *socket, struct err *err);

/* Called by the agent when it listens: forks a child that relays standard input and output, and
 * replaces both by /dev/null in the agent. The child keeps only standard error besides and exits by
 * itself; the caller reaps *ret_pid. */
int relay_start(const char *socket, pid_t *ret_pid, struct err *err) WARN_UNUSED;

#endif
