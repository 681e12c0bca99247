/*
 * What a trial has found, for the next servers of the same user.
 *
 *     <top>/.trial-<n>   one framed TRIAL: all that it depended on, and what the worker answered
 *
 * Loop thread only. Blocks for some dozens of small files of /proc and some stat() calls: half a
 * millisecond.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_ENGINE_KEPT_H
#define CLOISTER_SUPERVISOR_FLEET_ENGINE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "proto/msg.h"

struct fleet_host;
struct oneshot_target;

/* Borrows from `text`; kept_finish() frees it. */
struct kept {
    struct buf text;
    struct msg trial;
    struct msg probed; /* type MSG_PROBED, usable */
};

/* Whether an earlier server has tried this target and nothing that matters has changed since. */
bool kept_find(const struct fleet_host *host, const struct oneshot_target *target,
               struct kept *ret);
void kept_finish(struct kept *k);

/* Keeps the answer to a trial that began at `began_s` (of CLOCK_REALTIME), if it lasts. What cannot
 * be written is not kept. */
void kept_note(const struct fleet_host *host, const struct oneshot_target *target,
               const struct msg_probed *probed, int64_t began_s);

/* Forgets it: it has failed, or is in doubt. */
void kept_forget(const struct fleet_host *host, const struct oneshot_target *target);

#endif
