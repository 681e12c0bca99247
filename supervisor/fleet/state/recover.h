/*
 * Cleaning up after servers that are gone: their workers, sandboxes and directories.
 * Loop thread only; nothing blocks beyond listing directories.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_RECOVER_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_RECOVER_H

struct fleet_host;
struct recover;

/* `backend` (borrowed for ever) is for sandboxes without a record. */
struct recover *recover_create(struct fleet_host *host, const char *backend);

/* Notes a sandbox that an earlier server of the same name left in our own instance, and that is not
 * taken over. */
void recover_add(struct recover *r, const char *id);

/* Looks for dead instances beside ours and starts to sweep all that was found. Once. */
void recover_run(struct recover *r);

/* The server stops: named instances are not looked at again. NULL is fine. */
void recover_stop(struct recover *r);

/* Gives up what has not been swept, for the next server. No worker of a sweep may live any more.
 * NULL is fine. */
void recover_destroy(struct recover *r);

#endif
