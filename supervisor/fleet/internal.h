/*
 * The inside of a fleet, shared by fleet.c (the door), admit.c (who gets in), stop.c
 * (the way out) and the calls' own door (supervisor/calls/door.c), and by nothing else. Loop thread
 * only.
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
struct sweep;
struct sandbox;

struct fleet {
    struct fleet_host host; /* first: on_host_released() gets it */
    struct engine *engine;
    struct sweep *sweep;
    struct adopt *adopt; /* of a named instance */
    bool adopt_failed;   /* to be tried again */
    TAILQ_HEAD(, sandbox) sandboxes;
    unsigned char key[FLEET_KEY_BYTES];
    bool has_key; /* it has been read */

    struct turns turns; /* once there are too many sandboxes to close them all at once */
    uv_timer_t stop_timer;
    struct deferred_task stopped_task;
    void (*stopped)(void *arg); /* NULL: not stopping, or told already */
    void *stopped_arg;
    bool left; /* the host is closed down */
    unsigned closing;
};

/* ---- fleet.c ---- */

/* fleet_create(), with what is told of things that run. The table is borrowed for the life of the
 * fleet. */
struct fleet *fleet_create_for(uv_loop_t *loop, const struct config *config,
                               const struct fleet_runs *runs);

/* The sandbox if it takes an operation now; NULL with the reason otherwise. */
struct sandbox *fleet_find_usable(struct fleet *f, const char *id, struct err *err,
                                  const char **ret_hint);

/* If an earlier server's sandboxes could not be taken over: tries it again. */
void fleet_retry_adoption(struct fleet *f);

/* The owner's sandbox of that name, NULL if there is none; "" names none. */
struct sandbox *fleet_find_name(struct fleet *f, const char *owner, const char *name);

/* ---- admit.c ---- */

/* Whether it can be written down. */
int fleet_admit_owner(const char *owner, struct err *err) WARN_UNUSED;

/* Whether there may be one more for this owner. A failed sandbox of the same name is closed. The
 * hint, a fixed text, is set only if there is something to say. */
int fleet_admit(struct fleet *f, const char *owner, const struct fleet_spec *spec, struct err *err,
                const char **ret_hint) WARN_UNUSED;

/* Failed sandboxes stay to tell why, but not without bound: makes room for one more. */
void fleet_bound_tombstones(struct fleet *f);

/* ---- stop.c ---- */

/* Something has ended: if we are stopping and it was the last thing, the host is closed down. */
void fleet_maybe_stopped(struct fleet *f);

#endif
