/*
 * The pool: sandboxes that are made in advance, for whoever needs one next.
 *
 * Private to the fleet. Loop thread only; nothing blocks, and no callback runs inside a call.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_POOL_H
#define CLOISTER_SUPERVISOR_FLEET_POOL_H

#include "supervisor/fleet/sandbox/sandbox.h"

struct fleet;
struct pool;

/* Of the size that the configuration says, and empty: nothing is made before pool_begin(). */
struct pool *pool_create(struct fleet *f, const struct sandbox_setup *setup);

/* A client has got a sandbox: from now on the pool is kept full, though not in this moment. May be
 * repeated. */
void pool_begin(struct pool *p);

/* Something has changed that may let it make one: looks again, later. */
void pool_look(struct pool *p);

/* Gives the owner a sandbox of the pool that fits, as sandbox_claim() does; NULL if there is none,
 * which counts as a miss. */
struct sandbox *pool_take(struct pool *p, const char *owner, const struct fleet_spec *spec,
                          fleet_info_fn opened, void *arg);

/* What became of that. */
void pool_taken(struct pool *p, const struct sandbox *s, int rc, const struct err *err);

/* Closes as many of its sandboxes as it takes for the limits to hold. */
void pool_give_way(struct pool *p);

struct fleet_pool pool_figures(const struct pool *p);

/* Makes nothing any more; its sandboxes are closed by the fleet, as all are. */
void pool_stop(struct pool *p);

/* Frees it, when none of its sandboxes is left; then calls `closed`. */
void pool_destroy(struct pool *p, void (*closed)(void *arg), void *arg);

#endif
