/*
 * Takes over the sandboxes of a named instance that had a server before, and those that another
 * server has left to us.
 *
 * Private to the fleet. Loop thread only; blocks only to read a small file or two for each sandbox.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_SANDBOX_ADOPTION_H
#define CLOISTER_SUPERVISOR_FLEET_SANDBOX_ADOPTION_H

#include "supervisor/fleet/sandbox/sandbox.h"

struct adopt;
struct sweep;

struct adopt_setup {
    struct sandbox_setup sandbox;
    /* gets the sandboxes that cannot be taken over */
    struct sweep *sweep;
    void (*found)(void *arg, struct sandbox *s);    /* before adopt_begin() returns; oldest first */
    void (*settled)(void *arg, unsigned leftovers); /* later, when the fate of each is known */
    void *arg;
};

/* Reads the directories of our instance, which must be open, and starts to take the sandboxes
 * over. */
struct adopt *adopt_begin(const struct adopt_setup *setup);

/* Takes over one that another server had, of whose workers none had this generation. `backend` is
 * ours, and `place` where we find its engine. -ERR_PROTOCOL and others if its record says nothing
 * that we could go by; its remains are then ours to remove. */
int adopt_taken(struct adopt *a, const struct msg_taken *taken, const char *backend,
                struct view_list place, struct err *err) WARN_UNUSED;

/* The worker that was started for s is ready, or dead, so another one may be started. */
void adopt_started(struct adopt *a, struct sandbox *s);

/* The fate of s is known: it is READY, or has failed or is ending. */
void adopt_settled(struct adopt *a, struct sandbox *s);

/* No sandbox may be in takeover any more. NULL is fine. */
void adopt_destroy(struct adopt *a);

#endif
