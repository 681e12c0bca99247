/*
 * `cloister-agent devices`: runs a command on the host, an OCI runtime, in a mount namespace of its
 * own in which /dev/null and its like are device files of its own.
 *
 *   devices --at DIR -- COMMAND…
 *
 * DIR is an empty directory, which stays empty on the host. Root only, and only where files of
 * devices can be made: not in a user namespace.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_DEVICES_H
#define CLOISTER_WORKER_AGENT_PROCESS_DEVICES_H

#include "common/err.h"

/* `argv` begins behind the word "devices". Becomes the command; returns only with an exit code, and
 * err says why. Blocks. */
int devices_run(int argc, char **argv, struct err *err);

#endif
