/*
 * Cleaning up after servers that are gone: their workers, sandboxes and directories.
 * Loop thread only; nothing blocks beyond listing directories.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_SWEEP_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_SWEEP_H

struct fleet_host;
struct sweep;

/* `backend` (borrowed for ever) is for sandboxes without a record. */
struct sweep *sweep_create(struct fleet_host *host, const char *backend);

/* Notes a sandbox that an earlier server of the same name left in our own instance, and that is not
 * taken over. */
void sweep_add(struct sweep *r, const char *id);

/* Looks for dead instances beside ours and starts to sweep all that was found. Once. */
void sweep_run(struct sweep *r);

/* The server stops: named instances are not looked at again. NULL is fine. */
void sweep_stop(struct sweep *r);

/* Gives up what has not been swept, for the next server. No worker of a sweep may live any more.
 * NULL is fine. */
void sweep_destroy(struct sweep *r);

#endif
