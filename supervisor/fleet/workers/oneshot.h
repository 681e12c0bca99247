/*
 * A worker that is started for one request and ends after it: PROBE or SWEEP.
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_ONESHOT_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_ONESHOT_H

#include "supervisor/fleet/workers/link.h"

#define ONESHOT_PROBE_MS 20000
#define ONESHOT_SWEEP_MS 20000

/* What a probe or a sweep is about, as in PROBE and SWEEP; "" where nothing is known. */
struct oneshot_target {
    const char *backend;
    const char *engine;
    const char *runtime;
};

/* Starts a worker with `args` and asks it for `type` (MSG_PROBE or MSG_SWEEP) of the target. All is
 * copied. `done` is called exactly once unless this fails, as a worker_reply_fn
 * whose err is never NULL on failure; the worker ends by itself after it. With -ERR_GONE the worker
 * ended before it was asked, so it has touched nothing; after any other failure it may have. */
int worker_oneshot_start(struct fleet_host *host, const struct worker_args *args,
                         enum msg_type type, const struct oneshot_target *target,
                         worker_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

#endif
