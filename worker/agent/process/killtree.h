/*
 * Ending whole process trees, fork bombs included. Blocks: for keepers, never for the agent's loop
 * (but for its own end).
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_KILLTREE_H
#define CLOISTER_WORKER_AGENT_PROCESS_KILLTREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "worker/agent/process/procs.h"
#include "worker/agent/process/spawn.h"

/* Called for each child that was reaped on the way. */
typedef void (*killtree_reaped_fn)(void *arg, pid_t pid, int wait_status);

/* Kills and reaps every descendant of the calling process, which must be a subreaper or pid 1.
 * `last_resort` allows a kill of everything that the sandbox user runs, if nothing else helps. True
 * when none is left. */
bool killtree_descendants(const struct spawn_config *c, bool last_resort, killtree_reaped_fn reaped,
                          void *arg);

/* Kills what `main`, a child of the calling process, has started since that moment, whoever it
 * belongs to now; what was there before, and what that has started, goes on. False if there is
 * always more. */
bool killtree_since(pid_t main, const struct procs_moment *since, killtree_reaped_fn reaped,
                    void *arg);

/* Kills the children of the calling process that are not in known[]: processes that were left to
 * it by a parent that died. One pass, nothing is reaped. */
void killtree_strays(const pid_t *known, size_t count);

#endif
