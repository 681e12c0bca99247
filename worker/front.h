/*
 * A server among others of one engine: what it has kept there for them (KEEP), and its rounds
 * (FRONT), for which a worker of its own is started, and which also hears what others offer
 * (OFFERS).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_FRONT_H
#define CLOISTER_WORKER_FRONT_H

#include <stdbool.h>

#include "common/io/ipc.h"
#include "proto/msg.h"

struct worker;

void front_keep(struct worker *w, struct ipc_request *request, const struct msg *m);
void front_round(struct worker *w, struct ipc_request *request, const struct msg *m);
void front_offers(struct worker *w, struct ipc_request *request, const struct msg *m);

/* For CLOSE: says that the server has ended, and closes the worker then; false if it has not been
 * among others. */
bool front_leave(struct worker *w);

#endif
