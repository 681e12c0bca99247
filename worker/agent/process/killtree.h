/*
 * Kills whole process trees, fork bombs included. Blocks, so it is for keepers; the agent calls it
 * only at its own end.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_KILLTREE_H
#define CLOISTER_WORKER_AGENT_PROCESS_KILLTREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "worker/agent/process/procs.h"
#include "worker/agent/process/spawn.h"

/* Called for each reaped child. */
typedef void (*killtree_reaped_fn)(void *arg, pid_t pid, int wait_status);

/* Kills and reaps every descendant of the calling process, which must be a subreaper or pid 1, or
 * have marked them (c->mark, see procs.h). `last_resort` allows kill(-1) as the sandbox user if
 * nothing else helps. True when none is left. */
bool killtree_descendants(const struct spawn_config *c, bool last_resort, killtree_reaped_fn reaped,
                          void *arg);

/* Kills the processes that `main`, a child of the calling process, has started since that moment,
 * whoever their parent is now. Older processes and their descendants go on. `mark` as in procs.h.
 * False if new ones keep coming. */
bool killtree_since(gid_t mark, pid_t main, const struct procs_moment *since,
                    killtree_reaped_fn reaped, void *arg);

/* Kills the children of the calling process that are not in known[]: orphans that it has inherited.
 * One pass; reaps nothing. */
void killtree_strays(const pid_t *known, size_t count);

#endif
