/*
 * A rate limit for log lines that strangers can cause: one line now and then shows that something
 * is going on, and nobody can fill a disk.
 *
 * Thread: any, one owner at a time.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_RATE_LIMIT_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

#define RATE_LIMIT_MS 10000

/* True at most once in RATE_LIMIT_MS. `next_ms` belongs to the caller, and is 0 at first. */
static inline bool rate_limit(uint64_t *next_ms)
{
    uint64_t now_ms = clock_ms();
    if (now_ms < *next_ms) {
        return false;
    }
    *next_ms = now_ms + RATE_LIMIT_MS;
    return true;
}

#endif
