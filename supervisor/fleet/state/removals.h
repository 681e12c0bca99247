/*
 * Sandboxes that could not be removed in time. Removal is retried while the server lives, and once
 * more at its end. A directory that is still there then stays, and the next server finds it.
 *
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_REMOVALS_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_REMOVALS_H

#include <stdint.h>

struct oneshot_target;
struct fleet_host;

/* Adds the sandbox `id` with its directory; both are copied. `target`: where it was made, for a
 * sweep by workers of this generation and later ones; NULL if only the directory is left. The first
 * attempt is after delay_ms. */
void removals_add(struct fleet_host *host, const char *id, const char *dir,
                  const struct oneshot_target *target, uint64_t generation, uint64_t delay_ms);

/* The server stops: makes a last attempt for each, now. */
void removals_stop(struct fleet_host *host);

#endif
