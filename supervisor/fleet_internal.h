/*
 * The inside of a fleet, shared by fleet.c (the door) and fleet_stop.c (the way out), and by
 * nothing else. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_INTERNAL_H
#define CLOISTER_SUPERVISOR_FLEET_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/fleet.h"
#include "supervisor/fleet_host.h"

struct adopt;
struct engine;
struct recover;
struct sandbox;

struct fleet {
    struct fleet_host host; /* first: on_released() gets it */
    struct engine *engine;
    struct recover *recover;
    struct adopt *adopt; /* of a named instance */
    bool adopt_failed;   /* to be tried again */
    TAILQ_HEAD(, sandbox) sandboxes;

    uv_timer_t stop_timer;
    struct deferred_task stopped_task;
    void (*stopped)(void *arg); /* NULL: not stopping, or told already */
    void *stopped_arg;
    bool left; /* the host is closed down */
    unsigned closing;
};

/* Something has ended: if we are stopping and it was the last thing, the host is closed down. */
void fleet_maybe_stopped(struct fleet *f);

#endif
