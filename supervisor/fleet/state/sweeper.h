/*
 * The process that removes what a server of its own instance could not remove before it was gone.
 * sweeper_start.c is the server's side of it, sweeper.c and sweeper_rest.c are the process.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_SWEEPER_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_SWEEPER_H

#include <stdbool.h>

struct fleet_host;

/* The first argument of the program that makes it a sweeper; for ourselves, not for people. */
#define SWEEPER_ARGUMENT "--sweep-after-server"

/* The descriptors it is started with, beside a log as its stderr. */
#define SWEEPER_LOW_FD  3 /* at the end of file of either of these two the server is gone */
#define SWEEPER_HIGH_FD 4
#define SWEEPER_LOCK_FD 5 /* the instance's lock, held together with the server */

/* ---- the server's side: loop thread only ---- */

/* Starts one for host->instance, an own one, with the program config->sweeper (NULL: none is
 * wanted), if none lives. A failure is logged: then the next server sweeps, as it does if all are
 * killed. `backend`: where a sandbox without a record was made. */
void sweeper_start(struct fleet_host *host, const char *backend);

/* Whether there is one that would go on if this process ended now. */
bool sweeper_lives(const struct fleet_host *host);

/* Behind the end of the instance: one that has nothing to do is ended, one that has (`needed`)
 * lives on. `closed` is called when nothing of it is on the loop, never inside. False if there was
 * none: then it is not called. */
bool sweeper_close(struct fleet_host *host, bool needed, void (*closed)(void *arg), void *arg);

/* ---- the process ---- */

/* Waits for the end of the server, sweeps, and returns the exit status. */
int sweeper_run(int argc, char **argv);

#endif
