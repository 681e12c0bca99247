/*
 * A queue for work of which only so much may run at once: `at_once` at a time, the rest first in,
 * first out. Loop thread only. No callback of another turn runs inside these functions.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_TURNS_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "supervisor/fleet/host/deferred.h"

/* Embedded in its owner; must be zeroed before its first use. */
struct turn {
    TAILQ_ENTRY(turn) node;
    void (*begin)(void *arg);
    void *arg;
    bool waits, has;
};

struct turns {
    struct deferred *deferred;
    struct deferred_task task;
    TAILQ_HEAD(, turn) waiting;
    size_t at_once, running;
};

void turns_init(struct turns *t, struct deferred *deferred, size_t at_once);

/* Calls begin(arg) from the loop as soon as there is room. */
void turns_take(struct turns *t, struct turn *turn, void (*begin)(void *arg), void *arg);

/* Gives the turn back, or leaves the queue. Does nothing without a turn. */
void turns_give(struct turns *t, struct turn *turn);

#endif
