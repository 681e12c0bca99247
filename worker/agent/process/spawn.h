/*
 * Becoming the sandbox user, for good. Called in freshly forked children only, never in the agent.
 * Thread: the agent has one. Nothing here blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_SPAWN_H
#define CLOISTER_WORKER_AGENT_PROCESS_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct spawn_config {
    uid_t uid; /* who user code runs as; ignored with single_uid */
    gid_t gid;
    uint64_t nproc;        /* RLIMIT_NPROC, 0 = leave */
    uint64_t nofile;       /* RLIMIT_NOFILE, 0 = leave */
    uint64_t data_bytes;   /* RLIMIT_DATA, 0 = leave */
    uint64_t memory_bytes; /* what the sandbox may use; whoever holds it to that is not us. 0 =
                              unknown */
    const char *workspace; /* where relative paths start; borrowed for ever */
    const char *packages;  /* directory of packages, NULL if there is none; borrowed for ever */
    bool filter;           /* filter its system calls: the container does not */
    bool single_uid;       /* there is only one uid here: drop everything else */
};

/* Turns the calling process into one of the sandbox user without any way back: rlimits, first in
 * line for a memory kill, user and groups, no capabilities, no new privileges, umask, default
 * signals, of which `held` (0: none) stays blocked for the program to unblock. -ERR_DENIED with the
 * step that failed; the caller must exit then. */
int spawn_become_user(const struct spawn_config *c, int held, struct err *err) WARN_UNUSED;

/* As above but keeps descriptors, limits and signals alone and says whether it could: for a trial.
 */
int spawn_drop_privileges(const struct spawn_config *c, struct err *err) WARN_UNUSED;

/* Closes every descriptor that is not in keep[] (ascending order). */
void spawn_close_all_but(const int *keep, size_t count);

/* A pipe; with `c` one that the sandbox user owns, so that user code may open /dev/stdout again.
 * Both ends are close-on-exec; the agent's end `ours` (0 reading, 1 writing) does not block. */
int spawn_pipe(const struct spawn_config *c, int ours, int ret_fds[2], struct err *err) WARN_UNUSED;

/* A memory file that the sandbox user owns and may read and write, but not execute; close-on-exec.
 */
int spawn_memory_file(const struct spawn_config *c, const char *name, int *ret_fd,
                      struct err *err) WARN_UNUSED;

#define SPAWN_DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin" /* where there is no PATH, or "" */

enum spawn_found {
    SPAWN_NOT_THERE,
    SPAWN_FOUND,
    SPAWN_UNKNOWN, /* it could not be looked at, for a reason that may pass: look again later */
};

/* A program that user code may run, looked for in our PATH, which is that of user code; with a
 * slash in its name just there. Sets *ret, owned by the caller, if it is found. */
enum spawn_found spawn_find_program(const struct spawn_config *c, const char *name,
                                    char **ret) WARN_UNUSED;

/* open(2), close-on-exec, with the rights that user code has to files. Returns -1 and errno. */
int spawn_open_as_user(const struct spawn_config *c, const char *path, int flags);

#endif
