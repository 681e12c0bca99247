/*
 * Who may go on when not all can at once: so many at a time, the rest in the order in which they
 * came. Loop thread only. No callback of another's turn runs inside these functions.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_TURNS_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "supervisor/fleet/host/deferred.h"

/* Part of whoever waits; zeroed before its first use. */
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

/* Calls begin(arg) by the loop as soon as there is room. */
void turns_take(struct turns *t, struct turn *turn, void (*begin)(void *arg), void *arg);

/* It does not need its turn any more, or does not want one. Nothing if it has none. */
void turns_give(struct turns *t, struct turn *turn);

#endif
