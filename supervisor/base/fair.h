/*
 * Shares: how much one principal may take of what there is once for all, when others may come.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_FAIR_H
#define CLOISTER_SUPERVISOR_BASE_FAIR_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a principal that has `mine` may take `more`: of `total`, at least as much stays free then
 * as it has. `used` is taken already by all of them, `mine` included. */
bool fair_may_take(uint64_t total, uint64_t used, uint64_t mine, uint64_t more);

#endif
