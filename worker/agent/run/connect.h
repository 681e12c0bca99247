/*
 * A connection to a program of the sandbox that listens at a port of its loopback (OP_CONNECT):
 * INPUT is what it is told, output what it says.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_CONNECT_H
#define CLOISTER_WORKER_AGENT_RUN_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/msg.h"
#include "worker/agent/link/poll_set.h"
#include "worker/agent/run/op.h"

struct connect {
    int fd; /* owned; -1 between two addresses */
    uint16_t port;
    bool is_there; /* connected */
    bool tried_v6; /* the last address is being tried, or was */
    struct poll_slot slot;
};

/* Begins at once. On failure the operation is done, as failed. */
void connect_begin(struct op_table *t, struct op *op, const struct msg_start *m);

/* Closes the connection; the operation is done. */
void connect_stop(struct op_table *t, struct op *op, enum op_stop reason);

void connect_poll(struct op *op, struct poll_set *set);
void connect_handle(struct op_table *t, struct op *op, const struct poll_set *set);

/* Closes it without a word, at the end of the agent. */
void connect_drop(struct op *op);

#endif
