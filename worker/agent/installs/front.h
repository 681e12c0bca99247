/*
 * `pip`, `pip3` and `npm` of a sandbox: this program under another name. What the installer can do
 * it asks the agent for; all else the image's own program does.
 *
 * Runs as the sandbox user, started by user code. Blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_INSTALLS_FRONT_H
#define CLOISTER_WORKER_AGENT_INSTALLS_FRONT_H

#include <stdbool.h>

/* Whether the program was started under such a name. */
bool front_is_named(const char *argv0);

/* Returns the exit code, or becomes another program. */
int front_run(int argc, char **argv);

#endif
