/*
 * Says where programs of user code are looked for and what there is of each place, for a sandbox in
 * which no interpreter is found: a root that is empty, that the user may not enter or that is not
 * the image's shows there. Thread: the agent has one. Blocks as long as opening a directory does.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_PLACES_H
#define CLOISTER_WORKER_AGENT_PROCESS_PLACES_H

#include <stddef.h>

#include "worker/agent/process/spawn.h"

#define PLACES_MAX 1000 /* bytes of such a text that say all of usual images */

/* Both write printable ASCII, which is cut off where it does not fit. */

/* "/usr/bin: No such file or directory, /bin: there": the directories of PATH, as the user sees
 * them. */
void places_list(const struct spawn_config *c, char *out, size_t size);

/* "uid 50528; / has type 0xef53, mode 0700 and 2 names: dev proc; /usr/bin: Permission denied,
 * /bin: there (python3: No such file or directory, bash: mode 0644)": the root as the agent sees
 * it, then directories and programs as the user does. */
void places_explain(const struct spawn_config *c, const char *const *programs, size_t count,
                    char *out, size_t size);

#endif
