/*
 * Directories of this host in a container of an engine: whether they can be shown, and whom user
 * code has to be so that what it writes there belongs to whoever runs this program.
 *
 * Thread: any. Looks at the directories.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_SHARES_H
#define CLOISTER_WORKER_BACKEND_DOCKER_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/engine.h"

/* The ids of user code, if shares decide them. */
struct docker_user {
    bool given;
    uint32_t uid, gid;
};

/* -ERR_CONFIG with a hint: the engine is on another host, a directory is not what it was, or it
 * cannot be writable. */
int docker_shares_settle(const struct backend_spec *spec, const struct docker_engine *engine,
                         struct docker_user *ret, char hint[BACKEND_HINT_MAX],
                         struct err *err) WARN_UNUSED;

/* Whom code is in a sandbox that exists, whose directories may have gone since. */
struct docker_user docker_shares_user(const struct backend_spec *spec);

/* Adds "share NAME: …" for directories that code may not read, after `count` texts; returns their
 * number. The caller frees each text. */
size_t docker_shares_note(const struct backend_spec *spec, const struct docker_user *user,
                          size_t count, char *texts[BACKEND_UNAPPLIED_MAX]);

#endif
