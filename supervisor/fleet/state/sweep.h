/*
 * The sweep: removes workers, sandboxes and directories of dead servers.
 *
 * Loop thread only; nothing blocks except listing directories.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_SWEEP_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_SWEEP_H

struct fleet_host;
struct sweep;

/* `backend` (borrowed for ever) is used for sandboxes without a record. */
struct sweep *sweep_create(struct fleet_host *host, const char *backend);

/* Adds a sandbox that an earlier server of the same name left in our own instance, and that is not
 * taken over. */
void sweep_add(struct sweep *r, const char *id);

/* Finds dead instances beside ours, and starts to sweep everything found. Call once. */
void sweep_run(struct sweep *r);

/* The server stops: suspects are not checked again, and nothing is tried again. NULL is fine. */
void sweep_stop(struct sweep *r);

/* Leaves the rest to the next server. No worker of a sweep may live any more. NULL is fine. */
void sweep_destroy(struct sweep *r);

#endif
