/*
 * A named instance that had a server before: its sandboxes are taken over.
 *
 * Private to the fleet. Loop thread only; nothing blocks beyond reading a small file or two per
 * sandbox.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_SANDBOX_ADOPTION_H
#define CLOISTER_SUPERVISOR_FLEET_SANDBOX_ADOPTION_H

#include "supervisor/fleet/sandbox/sandbox.h"

struct adopt;
struct sweep;

struct adopt_setup {
    struct sandbox_setup sandbox;
    struct sweep *sweep;                            /* gets what cannot be taken over */
    void (*found)(void *arg, struct sandbox *s);    /* inside; oldest first */
    void (*settled)(void *arg, unsigned leftovers); /* later: what became of each is known */
    void *arg;
};

/* Reads what is in our instance and begins to take it over. The instance has been opened. */
struct adopt *adopt_begin(const struct adopt_setup *setup);

/* The worker that was started for s is ready, or dead: there is room for the start of another. */
void adopt_started(struct adopt *a, struct sandbox *s);

/* What became of s is known: it is READY, or on its way out. */
void adopt_settled(struct adopt *a, struct sandbox *s);

/* No sandbox is being taken over any more. NULL is fine. */
void adopt_destroy(struct adopt *a);

#endif
