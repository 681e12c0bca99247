/*
 * Where our other two programs are. Thread: any; a few stat() calls.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_BINARIES_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_BINARIES_H

#include "common/err.h"

struct config;

/* Absolute paths, owned by the caller (free). -ERR_ENGINE with the places that were searched. */
int binaries_find_worker(const struct config *config, char **ret, struct err *err) WARN_UNUSED;
int binaries_find_agent(const struct config *config, char **ret, struct err *err) WARN_UNUSED;

#endif
