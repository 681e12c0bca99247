/*
 * Structs and functions shared by fleet.c (the interface), admit.c (limits), stop.c (the shutdown)
 * and the calls (supervisor/calls/door.c), and by nothing else. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_INTERNAL_H
#define CLOISTER_SUPERVISOR_FLEET_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/turns.h"

struct adopt;
struct engine;
struct fronts;
struct pool;
struct sweep;
struct sandbox;

struct fleet {
    struct fleet_host host; /* first, because on_host_released() gets it */
    struct engine *engine;
    struct sweep *sweep;
    struct adopt *adopt;   /* takes over the sandboxes of a named instance */
    bool adopt_failed;     /* the next lookup tries again */
    struct fronts *fronts; /* NULL: no other server takes over sandboxes of ours */
    TAILQ_HEAD(, sandbox) sandboxes;
    struct pool *pool;
    unsigned char key[FLEET_KEY_BYTES];
    bool has_key; /* it was read */
    bool shared;  /* fleet_set_shared() */

    struct turns turns; /* for closing if there are too many sandboxes to close all at once */
    uv_timer_t stop_timer;
    struct deferred_task stopped_task;
    void (*stopped)(void *arg); /* NULL: not stopping, or called already */
    void *stopped_arg;
    bool left; /* the host is closed */
    unsigned closing;
};

/* ---- fleet.c ---- */

/* fleet_create() with the table by which the fleet reports to what runs; borrowed for the life of
 * the fleet. */
struct fleet *fleet_create_for(uv_loop_t *loop, const struct config *config,
                               const struct fleet_runs *runs);

/* The sandbox if it accepts an operation now; otherwise NULL and the reason. */
struct sandbox *fleet_find_usable(struct fleet *f, const char *id, struct err *err,
                                  const char **ret_hint);

/* Tries again to take over an earlier server's sandboxes if that failed. */
void fleet_retry_adoption(struct fleet *f);

/* The owner's sandbox with this name, or NULL; "" matches none. */
struct sandbox *fleet_find_name(struct fleet *f, const char *owner, const char *name);

/* ---- admit.c ---- */

/* Whether this owner's name can be stored in a record. */
int fleet_admit_owner(const char *owner, struct err *err) WARN_UNUSED;

/* Whether this owner may have one more sandbox. Closes a failed one with the same name. Sets the
 * hint, a string literal, only if there is one. */
int fleet_admit(struct fleet *f, const char *owner, const struct fleet_spec *spec, struct err *err,
                const char **ret_hint) WARN_UNUSED;

/* Whether all sandboxes, those of the pool among them, are within the server's limits, and may have
 * this much more memory. With memory that means one more sandbox. */
bool fleet_has_room(const struct fleet *f, uint64_t more_mb);

/* Makes room for one more tombstone: failed sandboxes are kept to report why, within a limit. */
void fleet_bound_tombstones(struct fleet *f);

/* ---- stop.c ---- */

/* Called when something has ended: if the fleet is stopping and it was the last thing, closes the
 * host. */
void fleet_maybe_stopped(struct fleet *f);

/* Ends this server's part among others, if it is stopping and the last of its sandboxes is gone. */
void fleet_maybe_leave_others(struct fleet *f);

#endif
