/*
 * What could not be removed when its time had come: it is tried again for as long as the server
 * lives, and once more when that ends. Then it keeps its directory, by which the next server finds
 * it.
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_REMOVALS_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_REMOVALS_H

#include <stdint.h>

struct oneshot_target;
struct fleet_host;

/* Hands over the sandbox `id` with its directory; both are copied. `target`: where it was made, for
 * a sweep by workers of this generation and later ones; NULL if nothing but the directory is left.
 * The first attempt is made after delay_ms. */
void removals_add(struct fleet_host *host, const char *id, const char *dir,
                  const struct oneshot_target *target, uint64_t generation, uint64_t delay_ms);

/* The server stops: a last attempt for each, now. */
void removals_stop(struct fleet_host *host);

#endif
