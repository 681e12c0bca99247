/*
 * What a trial has found, for the next servers of the same user.
 *
 *     <top>/.trial-<n>   one framed TRIAL: all that it depended on, and what the worker answered
 *
 * Loop thread only; nothing blocks. What is looked at in file systems is looked at by another
 * thread, which is given up after a while; the host is held until then.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_ENGINE_KEPT_H
#define CLOISTER_SUPERVISOR_FLEET_ENGINE_KEPT_H

#include <stdint.h>

#include "proto/msg.h"

struct fleet_host;
struct oneshot_target;

/* `probed` is usable and borrowed during the call; NULL: nothing that counts. */
typedef void (*kept_fn)(void *arg, const struct msg_probed *probed);

/* Whether an earlier server has tried this target and nothing that matters has changed since. `fn`
 * is called once, later. */
void kept_find(struct fleet_host *host, const struct oneshot_target *target, kept_fn fn, void *arg);

/* Keeps the answer to a trial that began at `began_s` (of CLOCK_REALTIME), if it lasts. What cannot
 * be written is not kept. */
void kept_note(struct fleet_host *host, const struct oneshot_target *target,
               const struct msg_probed *probed, int64_t began_s);

/* Forgets it: it has failed, or is in doubt. */
void kept_forget(const struct fleet_host *host, const struct oneshot_target *target);

#endif
