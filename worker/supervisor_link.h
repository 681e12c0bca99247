/*
 * Who is at the other end of the link to the supervisor: the drawing is in supervisor_link.c.
 *
 * Private to the worker. Loop thread only.
 */
#ifndef CLOISTER_WORKER_SUPERVISOR_LINK_H
#define CLOISTER_WORKER_SUPERVISOR_LINK_H

#include <stdbool.h>

#include "common/sm.h"

enum supervisor_state {
    SUPERVISOR_AWAY,    /* no link */
    SUPERVISOR_THERE,   /* a link, and no fitting HELLO on it */
    SUPERVISOR_GREETED, /* HELLO has been said on the present link */
    SUPERVISOR_HANGING_UP,
    SUPERVISOR_ENDED,
    SUPERVISOR_COUNT,
};

extern const struct sm_state supervisor_states[SUPERVISOR_COUNT];

struct worker;

void supervisor_link_init(struct worker *w);

/* The only writer of the state; asserts that the move is declared. */
void supervisor_link_set(struct worker *w, enum supervisor_state next);

bool supervisor_link_is_up(const struct worker *w);

/* We have hung up, for good. */
bool supervisor_link_is_over(const struct worker *w);

#endif
