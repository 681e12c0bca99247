/*
 * File operations, seen from the agent: a forked process of the sandbox user does the work
 * (filework.h), its output comes over one pipe and its report over another.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_FILES_OP_H
#define CLOISTER_WORKER_AGENT_FILES_OP_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/msg.h"
#include "worker/agent/link/poll_set.h"
#include "worker/agent/process/spawn.h"
#include "worker/agent/run/changes.h"
#include "worker/agent/run/op.h"

struct fileop {
    pid_t pid; /* 0 once it is reaped */
    int out_fd, report_fd;
    bool offended; /* its report was malformed */
    struct poll_slot slot_out, slot_report;
};

/* Begins at once. On failure the operation is done, as failed. */
void fileop_begin(struct op_table *t, struct op *op, const struct msg_start *m,
                  const struct spawn_config *spawn);

/* Kills the forked process; the operation ends when that has exited. */
void fileop_stop(struct op *op, enum op_stop reason);

void fileop_poll(struct op *op, struct poll_set *set);
void fileop_handle(struct changes *c, struct op_table *t, struct op *op,
                   const struct poll_set *set);

/* A child was reaped: true if it was this operation's. */
bool fileop_reaped(struct op *op, pid_t pid);

#endif
