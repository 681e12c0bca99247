/*
 * A worker for one request, PROBE or SWEEP, which ends after it.
 *
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_ONESHOT_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_ONESHOT_H

#include "supervisor/fleet/workers/link.h"

struct config;

#define ONESHOT_PROBE_MS 90000 /* a trial on a busy machine takes up to 60 s, and its removal */
#define ONESHOT_SWEEP_MS 20000

/* The target of a PROBE or SWEEP; "" or none where unknown. */
struct oneshot_target {
    const char *backend;
    struct view_list place; /* of its engine; see proto/place.h */
    const char *runtime;
    const char *image; /* PROBE: one that its engine is asked for; NULL: none */
    bool pull;         /* whether the engine may fetch that */
};

/* What is asked about a target: PROBE without its number. It borrows from both. */
struct msg_probe oneshot_question(const struct oneshot_target *target, const struct config *config);

/* Starts a worker with `args` and sends it `type` (MSG_PROBE or MSG_SWEEP) for the target.
 * Everything is copied. `done` is called exactly once unless this fails, as a worker_reply_fn whose
 * err is never NULL on failure; the worker then ends by itself. -ERR_GONE means that the worker
 * ended before the request was sent, so it has changed nothing; after any other failure it may
 * have. */
int worker_oneshot_start(struct fleet_host *host, const struct worker_args *args,
                         enum msg_type type, const struct oneshot_target *target,
                         worker_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

#endif
