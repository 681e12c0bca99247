/*
 * What an operator says of the pool of sandboxes that are made in advance (--pool).
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_POOL_OPTION_H
#define CLOISTER_SUPERVISOR_BASE_POOL_OPTION_H

#include <stdint.h>

#include "common/err.h"

struct config;

struct pool_option {
    uint64_t count;    /* 0: no pool */
    const char *image; /* as in config.image; borrowed from the configuration */
};

/* Whether --pool makes sense beside the other options. -ERR_CONFIG. */
int pool_option_check(const struct config *c, struct err *err) WARN_UNUSED;

/* Of a configuration that has been checked. One without the option has no pool. */
struct pool_option pool_option_of(const struct config *c);

#endif
