/*
 * What is under way within a state of a worker: the drawing is in step.c.
 *
 * Private to the worker. Loop thread only.
 */
#ifndef CLOISTER_WORKER_STEP_H
#define CLOISTER_WORKER_STEP_H

#include <stdint.h>

#include "common/sm.h"

enum worker_step {
    STEP_NONE,    /* nothing was begun */
    STEP_CREATE,  /* create or attach has not called back */
    STEP_AGENT,   /* the agent is greeted, or works */
    STEP_STOP,    /* what runs is cancelled */
    STEP_JUDGE,   /* the figures may tell why the sandbox has ended */
    STEP_TELL,    /* who waits is told why */
    STEP_DESTROY, /* the backend removes what there is */
    /* Leaving: each step has the next to itself. */
    STEP_ONESHOTS, /* PROBE and SWEEP have backends of their own */
    STEP_BACKEND,
    STEP_PARTS, /* figures, operations, the link to the agent */
    STEP_SERVER,
    STEP_TIMERS,
    STEP_COUNT,
};

extern const struct sm_state worker_steps[STEP_COUNT];

/* SM_BIT()s of the enum worker_state in which a step may be under way. */
extern const uint32_t worker_step_states[STEP_COUNT];

struct worker;

void worker_step_init(struct worker *w);

/* The only writer of the step; asserts that the move is declared, and logs it. */
void worker_set_step(struct worker *w, enum worker_step next);

#endif
