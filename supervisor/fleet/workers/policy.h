/*
 * When a dead worker is started again, and when its sandbox is given up.
 * Thread: none of its own; nothing blocks. Times are monotonic milliseconds.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_POLICY_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define WORKER_POLICY_DEATHS    5     /* so many in a row ... */
#define WORKER_POLICY_WINDOW_MS 30000 /* ... within this time are enough */
#define WORKER_POLICY_REPAIR_MS 60000 /* a sandbox is without a worker for at most this long */
#define WORKER_POLICY_DELAY_MS  50    /* before the second attempt; doubles from there */

#define WORKER_POLICY_PAUSE_MS 1000 /* longest pause before another attempt on a host in need */

struct worker_policy {
    uint64_t died_ms[WORKER_POLICY_DEATHS]; /* ring of the latest deaths */
    unsigned deaths;                        /* since the last success */
    unsigned refusals;                      /* of the host, in a row */
};

/* An operation came to its end: whatever was wrong is over. */
void worker_policy_success(struct worker_policy *p);

/* A worker reached the sandbox: the host gives again what it refused. */
void worker_policy_reached(struct worker_policy *p);

/* A worker died at now_ms; its sandbox has been without one since broken_ms. True: start another
 * one after *ret_delay_ms. False: give the sandbox up. */
bool worker_policy_died(struct worker_policy *p, uint64_t now_ms, uint64_t broken_ms,
                        uint64_t *ret_delay_ms);

/* The host gave no worker, or no way into the sandbox, at now_ms: it is short of something, or its
 * engine is away. The same answer. */
bool worker_policy_refused(struct worker_policy *p, uint64_t now_ms, uint64_t broken_ms,
                           uint64_t *ret_delay_ms);

#endif
