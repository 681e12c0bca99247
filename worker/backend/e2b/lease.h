/*
 * Keeps a sandbox alive: the service ends each when its time is over.
 *
 * Thread: the loop thread. Nothing blocks. Ends with the tasks of its host.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_LEASE_H
#define CLOISTER_WORKER_BACKEND_E2B_LEASE_H

#include <stdint.h>

#include "worker/backend/e2b/host.h"

struct e2b_lease;

/* How long a sandbox is to live without its worker, in seconds: longer than its grace period. */
uint64_t e2b_lease_ttl(uint64_t grace_ms);

/* Extends its life at once, and again and again until the service says that it has no such sandbox.
 */
struct e2b_lease *e2b_lease_start(struct e2b_host *api, const char *id, uint64_t ttl_s);

/* It is there: its life is extended as before. NULL is fine. */
void e2b_lease_go_on(struct e2b_lease *l);

/* No more. Only after the tasks are closed. NULL is fine. */
void e2b_lease_free(struct e2b_lease *l);

#endif
