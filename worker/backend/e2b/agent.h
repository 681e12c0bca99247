/*
 * The agent in a sandbox: its file, the command that starts it, and what the service does not
 * limit.
 *
 * Thread: any. Reading the agent blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_AGENT_H
#define CLOISTER_WORKER_BACKEND_E2B_AGENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "worker/backend/backend.h"

struct e2b_agent {
    struct buf bytes; /* of the program */
    char *path;       /* in a sandbox; it has a hash of the bytes */
};

int e2b_agent_read(const char *agent_path, struct e2b_agent *ret, struct err *err) WARN_UNUSED;
void e2b_agent_finish(struct e2b_agent *a);

/* The words that start it in a sandbox of this spec, and its environment: arrays of strings.
 * -ERR_INVALID for an environment that is none. The caller deletes both. */
int e2b_agent_command(const struct e2b_agent *a, const struct backend_spec *spec, cJSON **ret_words,
                      cJSON **ret_env, struct err *err) WARN_UNUSED;

/* Whether the daemon's list of processes has the agent of this sandbox of ours. */
bool e2b_agent_is_listed(const cJSON *list, const char *sandbox);

/* What the service does not apply of a sandbox's limits. Returns how many. */
size_t e2b_agent_unapplied(const char *ret[BACKEND_UNAPPLIED_MAX]);

#endif
