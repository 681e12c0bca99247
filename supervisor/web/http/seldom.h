/*
 * What strangers can make us say is said seldom: a line of the log now and then shows that
 * something is going on, and nobody can fill a disk by it.
 * Thread: any, one owner at a time.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_SELDOM_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_SELDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

#define SELDOM_MS 10000

/* True once in SELDOM_MS. `next_ms` is the caller's, 0 at first. */
static inline bool seldom(uint64_t *next_ms)
{
    uint64_t now_ms = clock_ms();
    if (now_ms < *next_ms) {
        return false;
    }
    *next_ms = now_ms + SELDOM_MS;
    return true;
}

#endif
