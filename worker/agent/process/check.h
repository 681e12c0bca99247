/*
 * Checks whether the agent can work here: for a trial sandbox, before a real one is made.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_CHECK_H
#define CLOISTER_WORKER_AGENT_PROCESS_CHECK_H

#include "common/err.h"
#include "worker/agent/process/spawn.h"

/* Tries what `serve` needs in this process and a child of it, and tells on stdout what it finds
 * (common/relay.h). On failure err names what does not work: with `views` also if the root is not
 * shown by overlays; a socket that `listen_fd` is not, unless that is negative. Blocks for a
 * moment. */
int check_sandbox(const struct spawn_config *c, int listen_fd, bool views,
                  struct err *err) WARN_UNUSED;

#endif
