/*
 * When a dead worker is restarted, and when its sandbox is given up.
 *
 * Thread: none of its own; nothing blocks. Times are monotonic milliseconds.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_POLICY_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define WORKER_POLICY_DEATHS    5     /* deaths in a row ... */
#define WORKER_POLICY_WINDOW_MS 30000 /* ... within this time give the sandbox up */
#define WORKER_POLICY_REPAIR_MS 60000 /* longest time that a sandbox is without a worker */
#define WORKER_POLICY_DELAY_MS  50    /* before the second restart; doubles from there */

#define WORKER_POLICY_PAUSE_MS 1000 /* longest delay during a shortage of the host */

struct worker_policy {
    uint64_t died_ms[WORKER_POLICY_DEATHS]; /* ring of the latest deaths */
    unsigned deaths;                        /* since the last success */
    unsigned refusals;                      /* of the host, in a row */
};

/* An operation has ended, which resets the counts. */
void worker_policy_success(struct worker_policy *p);

/* A worker has reached the sandbox, so the shortage is over. */
void worker_policy_reached(struct worker_policy *p);

/* A worker died at now_ms; its sandbox has had no worker since broken_ms. True: restart after
 * *ret_delay_ms. False: give the sandbox up. */
bool worker_policy_died(struct worker_policy *p, uint64_t now_ms, uint64_t broken_ms,
                        uint64_t *ret_delay_ms);

/* The host gave no worker, or no way into the sandbox, at now_ms: it is short of something, or its
 * engine is away. The same answer. */
bool worker_policy_refused(struct worker_policy *p, uint64_t now_ms, uint64_t broken_ms,
                           uint64_t *ret_delay_ms);

#endif
