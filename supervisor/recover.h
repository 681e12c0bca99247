/*
 * Cleaning up after servers that are gone: their workers, sandboxes and directories.
 * Loop thread only; nothing blocks beyond listing directories.
 */
#ifndef CLOISTER_SUPERVISOR_RECOVER_H
#define CLOISTER_SUPERVISOR_RECOVER_H

struct fleet_host;
struct recover;

/* Notes what an earlier server of the same name left in our own instance; it must be called before
 * the first sandbox is made. `backend` (borrowed for ever) is for sandboxes without a record. */
struct recover *recover_create(struct fleet_host *host, const char *backend);

/* Looks for dead instances beside ours and starts to sweep all that was found. Once. */
void recover_run(struct recover *r);

/* Gives up what has not been swept, for the next server. No worker of a sweep may live any more.
 * NULL is fine. */
void recover_destroy(struct recover *r);

#endif
