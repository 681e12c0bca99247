/*
 * What all parts of the fleet share: the loop, the configuration, this instance's place on disk,
 * the programs to run, and a count of everything that must be gone before the loop may be left.
 *
 * Owned by fleet.c, borrowed by everybody else for the life of the fleet. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_HOST_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/fleet/host/deferred.h"

struct config;
struct executions;
struct fleet_events;
struct fleet_runs;
struct instance;
struct removals;
struct sweeper;
struct turns;
struct worker_link;

struct fleet_host {
    uv_loop_t *loop;
    const struct config *config;
    struct deferred deferred;
    const struct fleet_runs *runs;
    struct executions *executions;     /* of the calls, who make and free them */
    const struct fleet_events *events; /* NULL: nobody watches */
    void *events_arg;
    struct view_list runners; /* for the agents; see fleet_set_runners() */

    /* From the first sandbox on; NULL or -1 before that. */
    struct instance *instance;
    char *worker_path;
    char *agent_path;
    int lifeline_read;  /* fd 3 of every worker: at its end of file the supervisor is dead */
    int lifeline_write; /* never handed out, never written to */

    struct sweeper *sweeper;         /* NULL: none lives */
    struct turns *turns;             /* NULL: sandboxes need not close one after the other */
    struct removals *removals;       /* NULL: nothing waits to be removed */
    TAILQ_HEAD(, worker_link) links; /* every worker process that lives */
    bool adopting;                   /* not all is known of what an earlier server left */
    bool stopping;                   /* no new sandboxes; closing has to be quick */
    bool forcing;                    /* out of time: no new processes at all */

    size_t held; /* things with a handle on the loop */
    void (*on_released)(struct fleet_host *host);
};

/* Finds the programs, opens the instance and takes its lock; what it has got stays for the next
 * attempt if one of them fails. *ret_hint (fixed text) says what to do then. */
int fleet_host_prepare(struct fleet_host *host, struct err *err, const char **ret_hint) WARN_UNUSED;

/* How long anybody waits for what does not answer: as long as a call may take, and no less than it
 * takes to find and replace a worker that hangs. */
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
