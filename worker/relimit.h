/*
 * LIMITS: other limits for the sandbox while it is open.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_RELIMIT_H
#define CLOISTER_WORKER_RELIMIT_H

#include "proto/msg.h"

struct ipc_request;
struct worker;

/* Answers later: OK when the backend has applied them and the agent knows them. */
void relimit(struct worker *w, struct ipc_request *request, const struct msg *m);

#endif
