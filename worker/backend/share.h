/*
 * Directories of this host that a sandbox sees (`shares` of a spec), and what holds for them in
 * every backend. How their files get the ids that code may write as is the backend's own matter.
 *
 * Thread: any. Looks at the directory.
 */
#ifndef CLOISTER_WORKER_BACKEND_SHARE_H
#define CLOISTER_WORKER_BACKEND_SHARE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/err.h"
#include "worker/backend/backend.h"

/* Looks at the directory as it is now. -ERR_CONFIG: it is gone, no directory, or its path has come
 * to lead through a symbolic link. */
int share_check(const struct backend_share *share, struct stat *ret_st,
                struct err *err) WARN_UNUSED;

/* Whether everybody may read it. */
bool share_is_open(const struct stat *st);

#define SHARE_HINT                                                                                 \
    "the operator's --share names this directory: put it right, or start the server without it"

#endif
