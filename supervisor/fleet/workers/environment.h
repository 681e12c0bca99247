/*
 * The environment of the processes that we start: workers, and the sweeper, which starts workers.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_ENVIRONMENT_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_ENVIRONMENT_H

#include <stdbool.h>

/* Those of our variables that a worker of this backend may have, NULL at the end; NULL: it is not
 * known which, so it gets no backend's secret. The caller frees the array; the texts are our
 * environment's and stay as long as that is not changed. */
char **worker_environment(const char *backend);

/* Whether a worker may have this one ("NAME=value", or the name alone). */
bool worker_environment_has(const char *variable, const char *backend);

#endif
