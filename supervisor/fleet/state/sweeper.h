/*
 * The sweeper: a process that removes what a server with its own instance could not remove before
 * it ended. sweeper_start.c is the server's side; sweeper.c and sweeper_rest.c are the process.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_SWEEPER_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_SWEEPER_H

#include <stdbool.h>

struct fleet_host;

/* The first argument that makes the program a sweeper; not for people. */
#define SWEEPER_ARGUMENT "--sweep-after-server"

/* Descriptors at its start, beside stderr for its log. */
#define SWEEPER_LOW_FD  3 /* the end of file of either pipe means that the server is gone */
#define SWEEPER_HIGH_FD 4
#define SWEEPER_LOCK_FD 5 /* the instance's lock, shared with the server */

/* ---- the server's side: loop thread only ---- */

/* Starts a sweeper for host->instance, which must be its own, with the program config->sweeper
 * (NULL: none), unless one lives. A failure is logged; the next server then sweeps, as it does if
 * all are killed. `backend`: where a sandbox without a record was made. */
void sweeper_start(struct fleet_host *host, const char *backend);

/* Whether a sweeper would go on if this process ended now. */
bool sweeper_lives(const struct fleet_host *host);

/* Called after the instance was closed. Ends an idle sweeper; one that is `needed` lives on.
 * `closed` is called, never inside, when nothing of it is on the loop. False if there was no
 * sweeper: then `closed` is not called. */
bool sweeper_close(struct fleet_host *host, bool needed, void (*closed)(void *arg), void *arg);

/* ---- the process ---- */

/* Waits for the end of the server, sweeps, and returns the exit status. */
int sweeper_run(int argc, char **argv);

#endif
