/*
 * This server among others of one engine: its rounds, and the sandboxes that they bring.
 *
 * Private to the fleet. Loop thread only; nothing blocks but a file of some bytes at the beginning.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_SANDBOX_FRONTS_H
#define CLOISTER_SUPERVISOR_FLEET_SANDBOX_FRONTS_H

#include <stdbool.h>

struct adopt;
struct fleet_host;
struct fronts;
struct instance;

struct fronts_setup {
    struct fleet_host *host;
    struct adopt *adopt;                      /* takes them over */
    const char *backend;                      /* which has to be the one of all of them */
    bool (*known)(void *arg, const char *id); /* whether we have this sandbox */
    /* Forgets one that has failed here, as it does when another server has taken it over. */
    void (*forget)(void *arg, const char *id);
    void *arg;
};

/* NULL if it cannot be one of them, which is logged. The instance is open and named. */
struct fronts *fronts_begin(const struct fronts_setup *setup);

/* This server is alone: its new sandboxes belong to whoever knows them. Not being able to say so is
 * logged. */
void fronts_leave(const struct instance *instance);

/* From now on nothing is taken over. NULL is fine. */
void fronts_stop(struct fronts *f);

/* Each sandbox is removed or left: says to the others that this server has ended. After
 * fronts_stop(); the object frees itself when its worker has ended. NULL is fine. */
void fronts_end(struct fronts *f);

#endif
