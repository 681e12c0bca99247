/*
 * From a program's pipe to its operation's output. Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_PUMP_H
#define CLOISTER_WORKER_AGENT_RUN_PUMP_H

#include <stdbool.h>

#include "worker/agent/run/op.h"

/* Reads while less than LIMIT_OP_OUTPUT is unacknowledged, so a slow reader slows the program down.
 * False at end of file. */
bool pump_stream(int fd, struct op_stream *s);

/* Reads what the program left in the pipe at its end, whatever is unacknowledged, but at most
 * OP_TAIL_MAX bytes: another process may be writing to it for ever. */
void pump_tail(int fd, struct op_stream *s);

/* The same for a terminal, which hands its bytes out in small pieces. */
void pump_terminal(int fd, struct op_stream *s);

#endif
