/*
 * How the modules do that sandboxes of the pool import in advance (--preload).
 *
 * Private to the pool. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_PRELOAD_H
#define CLOISTER_SUPERVISOR_FLEET_PRELOAD_H

#include "supervisor/base/pool_option.h"
#include "supervisor/fleet/fleet.h"

#define PRELOAD_REASON_BYTES 700

struct config;

struct preload {
    struct pool_modules option;
    struct fleet_preload modules[LIMIT_PRELOADS];
    unsigned failures[LIMIT_PRELOADS]; /* in a row */
    char reasons[LIMIT_PRELOADS][PRELOAD_REASON_BYTES];
};

/* The configuration has to stay. */
void preload_init(struct preload *p, const struct config *config);

/* A bit for each module that the next sandbox leaves out. */
unsigned preload_left_out(const struct preload *p);

/* A sandbox has imported a module (why NULL), or could not: that is told to people. */
void preload_tell(struct preload *p, size_t module, const char *why);

#endif
