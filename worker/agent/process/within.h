/*
 * `cloister-agent within`: runs a command on the host as root of the user namespace of a process.
 *
 *   within --pid N -- COMMAND…
 *
 * On the host this root is nobody: it has the id to which the sandbox's root is mapped, and no
 * capability. Where the process has the same user namespace, the command runs as it would without.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_WITHIN_H
#define CLOISTER_WORKER_AGENT_PROCESS_WITHIN_H

#include "common/err.h"

/* `argv` begins behind the word "within". Becomes the command; returns only with an exit code, and
 * err says why. */
int within_run(int argc, char **argv, struct err *err);

#endif
