/*
 * From a program's pipe to its operation's output. Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_PUMP_H
#define CLOISTER_WORKER_AGENT_RUN_PUMP_H

#include <stdbool.h>

#include "worker/agent/run/op.h"

/* Takes what is there as long as the reader's debts leave room: so a slow reader slows the program
 * down. False at the end of the file. */
bool pump_stream(int fd, struct op_stream *s);

/* Takes what the program has left behind at its end, room or not, but never more than a pipe holds:
 * something else may be writing to it for ever. */
void pump_tail(int fd, struct op_stream *s);

#endif
