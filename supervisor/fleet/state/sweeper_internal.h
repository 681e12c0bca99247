/*
 * What sweeper.c (the life of the process) and sweeper_rest.c (one sandbox) share. Loop thread
 * only.
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
    struct fleet_host host; /* first, because on_sweeper_released() gets it */
    const char *dir;        /* of the instance */
    char *shared;
    const char *backend, *engine; /* for sandboxes without a record */
    int lock_fd;
    uv_timer_t tick;   /* during a round: checks for late ones; between rounds: the pause */
    uint64_t again_ms; /* its end */
    struct turns turns;
    TAILQ_HEAD(, rest) rests; /* all sandboxes of this round */
    size_t pending;           /* that are not done */
    bool installers;          /* this half of the round is for installers */
    unsigned round;
    bool failed; /* a removal of this round failed */
};

/* Starts to remove it; sweeper_rest_done() follows, never inside. */
void rest_begin(struct sweeper_process *p, const char *id, const char *dir);

/* Checks its time limit. */
void rest_check(struct rest *r, uint64_t now_ms);
void rest_free(struct rest *r);

struct rest {
    TAILQ_ENTRY(rest) node;
    struct sweeper_process *p;
    struct turn turn;
    char *id;
    char *dir;
    struct worker_process *worker; /* the dead server's worker, until it has ended */
    uint64_t due_ms;               /* … or until this time */
    bool killed;                   /* it got SIGKILL */
    char *backend, *runtime;
    struct view_list place; /* of its engine */
    bool done;
};

/* ---- sweeper.c, for sweeper_rest.c ---- */

void sweeper_rest_done(struct rest *r, bool removed);

#endif
