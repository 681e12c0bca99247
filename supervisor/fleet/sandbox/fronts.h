/*
 * This server among others of one engine: its rounds, and the sandboxes that they bring.
 *
 * Private to the fleet. Loop thread only; nothing blocks but a file of some bytes at the beginning.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_SANDBOX_FRONTS_H
#define CLOISTER_SUPERVISOR_FLEET_SANDBOX_FRONTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/view.h"

struct adopt;
struct fleet_host;
struct fronts;
struct instance;
struct msg_open;

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

/* From now on `told` is called with the sandboxes that other servers have made for nobody and that
 * may be claimed (sandbox_seek()), whenever they are others: of those that are like this one, of
 * which only the first call counts. The list is borrowed. NULL is fine. */
typedef void (*fronts_offers_fn)(void *arg, struct view_list sandboxes, uint64_t generation);
void fronts_hear_offers(struct fronts *f, const struct msg_open *like, fronts_offers_fn told,
                        void *arg);

/* From now on nothing is taken over. NULL is fine. */
void fronts_stop(struct fronts *f);

/* Each sandbox is removed or left: says to the others that this server has ended. After
 * fronts_stop(); the object frees itself when its worker has ended. NULL is fine. */
void fronts_end(struct fronts *f);

#endif
