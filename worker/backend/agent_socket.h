/*
 * The unix socket "<dir>/agent.sock" that joins a worker to the agent of its sandbox, for backends
 * whose agent shares this host's kernel.
 *
 * The worker listens before the agent exists and passes the descriptor on. So the sandbox needs no
 * path to the socket, a stream can be opened before the agent is ready, and no polling is needed.
 * The path of the directory may have any length: see agent_socket.c.
 *
 * Thread: any. Nothing blocks longer than the file system does.
 */
#ifndef CLOISTER_WORKER_BACKEND_AGENT_SOCKET_H
#define CLOISTER_WORKER_BACKEND_AGENT_SOCKET_H

#include "common/err.h"

#define AGENT_SOCKET_NAME "agent.sock"

/* Replaces "<dir>/agent.sock" by a listening socket. The caller owns *ret_fd (blocking,
 * close-on-exec) and closes it as soon as the agent has it. Then only the agent holds the socket,
 * so a refused connection means that the agent is gone. */
int agent_socket_listen(const char *dir, int *ret_fd, struct err *err) WARN_UNUSED;

/* Connects. The caller owns *ret_fd (non-blocking, close-on-exec). -ERR_GONE if no process listens
 * any more or there is no socket, -ERR_BUSY if the agent's queue is full just now, else -ERR_IO. */
int agent_socket_connect(const char *dir, int *ret_fd, struct err *err) WARN_UNUSED;

#endif
