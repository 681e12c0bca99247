/*
 * The agent's socket as a path inside the sandbox: one end listens, relays connect. The directory
 * keeps others out, and the agent checks each peer besides (agent.c). Thread: the agent has one.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_ENDPOINT_H
#define CLOISTER_WORKER_AGENT_LINK_ENDPOINT_H

#include <stdint.h>

#include "common/err.h"

#define ENDPOINT_DEFAULT "/run/cloister/agent.sock"

/* Makes a socket of mode 0600 that listens. A socket that a dead agent left is replaced; -ERR_BUSY
 * if its agent lives, -ERR_PATH if something else has the name, the directory is not there, or the
 * path is longer than a socket address. The caller owns *ret_fd (close-on-exec). */
int endpoint_listen(const char *path, int *ret_fd, struct err *err) WARN_UNUSED;

/* Connects; blocks for up to wait_ms while nobody listens yet, and gives up as soon as the other
 * end of the descriptor `client` has hung up. -ERR_TIMEOUT, -ERR_GONE for the client, -ERR_PATH as
 * above. The caller owns *ret_fd (non-blocking, close-on-exec). */
int endpoint_connect(const char *path, uint64_t wait_ms, int client, int *ret_fd,
                     struct err *err) WARN_UNUSED;

#endif
