/*
 * What all parts of the fleet share: the loop, the configuration, this instance's place on disk,
 * the programs to run, and a count of everything that must be closed before the loop may be left.
 *
 * Owned by fleet.c, borrowed by all others for the life of the fleet. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_HOST_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/deferred.h"
#include "supervisor/fleet/host/journal.h"

struct config;
struct executions;
struct fleet_runs;
struct instance;
struct kept_job;
struct removals;
struct sweeper;
struct turns;
struct worker_link;

struct fleet_host {
    uv_loop_t *loop;
    const struct config *config;
    struct deferred deferred;
    const struct fleet_runs *runs;
    struct executions *executions;     /* of the calls, which create and free it */
    const struct fleet_events *events; /* NULL: no observer */
    void *events_arg;
    struct journal journal;
    fleet_instance_fn opened; /* NULL: nobody is told; see fleet_on_instance() */
    void *opened_arg;
    fleet_install_fn install; /* NULL: nobody installs; see fleet_on_install() */
    void *install_arg;
    struct view_list runners; /* for the agents; see fleet_set_runners() */

    /* Set from the first sandbox on; NULL or -1 before that. */
    struct instance *instance;
    char *worker_path;
    char *agent_path;
    /* fd 3 of every worker: its end of file means that the supervisor is dead */
    int lifeline_read;
    int lifeline_write; /* never passed on, never written to */

    struct sweeper *sweeper;         /* NULL: none lives */
    struct turns *turns;             /* NULL: sandboxes may close all at once */
    struct removals *removals;       /* NULL: no removal is pending */
    TAILQ_HEAD(, worker_link) links; /* all living worker processes */
    LIST_HEAD(, kept_job) kept_jobs; /* of engine/kept.c, under way */
    uint64_t kept_late_ms;           /* 0: its own limit; tests set another */
    bool adopting;                   /* sandboxes of an earlier server are still being taken over */
    bool stopping;                   /* no new sandboxes; closing must be quick */
    bool forcing;                    /* out of time: no new processes */

    size_t held; /* number of handles on the loop */
    void (*on_released)(struct fleet_host *host);
};

/* Finds the programs, opens the instance and takes its lock. If one fails, the others are kept for
 * the next attempt. *ret_hint (a string literal) says what to do then. */
int fleet_host_prepare(struct fleet_host *host, struct err *err, const char **ret_hint) WARN_UNUSED;

/* How long a caller waits for a worker that does not answer: as long as a call may take, and no
 * less than it takes to detect and replace a worker that hangs. */
uint64_t fleet_host_patience_ms(const struct fleet_host *host);

static inline void fleet_host_hold(struct fleet_host *host)
{
    host->held++;
}

static inline void fleet_host_release(struct fleet_host *host)
{
    host->held--;
    if (host->held == 0) {
        host->on_released(host);
    }
}

#endif
