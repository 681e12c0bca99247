/*
 * The inside of the sweeper process: sweeper.c (its life and the order of things) and
 * sweeper_rest.c (one sandbox). Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_SWEEPER_INTERNAL_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_SWEEPER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/turns.h"

struct rest;

struct sweeper_process {
    struct fleet_host host; /* first: on_sweeper_released() gets it */
    const char *dir;        /* the instance's */
    char *shared;
    const char *backend, *engine; /* of sandboxes without a record */
    int lock_fd;
    uv_timer_t tick; /* while a round runs: who is late; between two rounds: the next one */
    struct turns turns;
    TAILQ_HEAD(, rest) rests; /* of this round, all of them */
    size_t pending;           /* that are not done */
    bool installers;          /* this half of the round is theirs */
    unsigned round;
    bool failed; /* one of this round could not be removed */
};

/* Begins to remove it; sweeper_rest_done() follows, never inside. */
void rest_begin(struct sweeper_process *p, const char *id, const char *dir);

/* Time has passed. */
void rest_check(struct rest *r, uint64_t now_ms);
void rest_free(struct rest *r);

struct rest {
    TAILQ_ENTRY(rest) node;
    struct sweeper_process *p;
    struct turn turn;
    char *id;
    char *dir;
    struct worker_process *worker; /* the dead server's, while its end is waited for */
    uint64_t due_ms;               /* … until then */
    bool killed;                   /* it has been told by force */
    char *backend, *engine, *runtime;
    bool done;
};

/* ---- sweeper.c, for sweeper_rest.c ---- */

void sweeper_rest_done(struct rest *r, bool removed);

#endif
