/*
 * Can the agent do its work here? For a trial sandbox, before anybody relies on it.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_CHECK_H
#define CLOISTER_WORKER_AGENT_PROCESS_CHECK_H

#include "common/err.h"
#include "worker/agent/process/spawn.h"

/* Tries everything that serving takes in this process and a child of it. Blocks for a moment. */
int check_sandbox(const struct spawn_config *c, struct err *err) WARN_UNUSED;

#endif
