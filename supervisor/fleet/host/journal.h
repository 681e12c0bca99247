/*
 * The journal of a fleet: the latest things that happened to sandboxes and executions, numbered,
 * for whoever operates the server (fleet.h: fleet_note_after()).
 *
 * Loop thread only. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_JOURNAL_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_JOURNAL_H

#include <stdint.h>

#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/deferred.h"

#define JOURNAL_KEPT 1024 /* notes; older ones are forgotten */

/* Zeroed at first. */
struct journal {
    struct fleet_note *notes[JOURNAL_KEPT]; /* by number, in a ring; each is one allocation */
    uint64_t last;                          /* number of the latest; 0: there is none */
    void (*more)(void *arg);                /* NULL: nobody watches */
    void *more_arg;
    struct deferred_task task;
};

/* Adds a copy, with the next number and the present time; texts that are NULL are "", and long ones
 * are cut. Whoever watches is told by a task of `deferred`. */
void journal_add(struct journal *j, struct deferred *deferred, const struct fleet_note *note);

/* The first kept note with a higher number; NULL: there is none yet. Borrowed until the next
 * journal_add(). */
const struct fleet_note *journal_after(const struct journal *j, uint64_t number);

/* Nobody is told any more. */
void journal_quiet(struct journal *j, struct deferred *deferred);

/* Frees the notes. */
void journal_finish(struct journal *j);

#endif
