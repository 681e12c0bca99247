/*
 * Finds our other two programs. Thread: any; blocks for a few stat() calls.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_BINARIES_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_BINARIES_H

#include "common/err.h"

struct config;

/* Return absolute paths; the caller frees them. -ERR_ENGINE names the places that were searched. */
int binaries_find_worker(const struct config *config, char **ret, struct err *err) WARN_UNUSED;
int binaries_find_agent(const struct config *config, char **ret, struct err *err) WARN_UNUSED;

#endif
