/*
 * What an operator says of the pool of sandboxes that are made in advance (--pool), and of the
 * Python modules that these import in advance (--preload).
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_POOL_OPTION_H
#define CLOISTER_SUPERVISOR_BASE_POOL_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"
#include "proto/limits.h"

struct config;

struct pool_option {
    uint64_t count;    /* 0: no pool */
    const char *image; /* as in config.image; borrowed from the configuration */
};

struct pool_modules {
    struct view names[LIMIT_PRELOADS]; /* in the order of their import; borrowed from the
                                          configuration */
    size_t count;
};

/* Whether --pool makes sense beside the other options. -ERR_CONFIG. */
int pool_option_check(const struct config *c, struct err *err) WARN_UNUSED;

/* Of a configuration that has been checked. One without the option has no pool. */
struct pool_option pool_option_of(const struct config *c);

/* Whether --preload makes sense beside the other options. -ERR_CONFIG. */
int pool_option_check_modules(const struct config *c, struct err *err) WARN_UNUSED;

/* Of a configuration that has been checked. One without the option has no modules. */
struct pool_modules pool_option_modules(const struct config *c);

#endif
