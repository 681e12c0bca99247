/*
 * Becoming the sandbox user, and helpers that make descriptors for it. spawn_become_user() and
 * spawn_drop_privileges() are called in freshly forked children only. Thread: the agent has one.
 * Nothing here blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_SPAWN_H
#define CLOISTER_WORKER_AGENT_PROCESS_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct spawn_config {
    uid_t uid; /* user of user code; ignored with single_uid */
    gid_t gid;
    uint64_t nproc;        /* RLIMIT_NPROC, 0 = leave */
    uint64_t nofile;       /* RLIMIT_NOFILE, 0 = leave */
    uint64_t data_bytes;   /* RLIMIT_DATA, 0 = leave */
    uint64_t memory_bytes; /* memory of the sandbox, which others enforce; 0 = unknown */
    const char *workspace; /* where relative paths start; borrowed for ever */
    const char *cwd;       /* where code begins, usually the workspace; borrowed for ever */
    bool one_stream;       /* what code writes to stderr goes to its stdout */
    const char *packages;  /* directory of packages, NULL if there is none; borrowed for ever */
    bool filter;           /* install our system call filter (filter.h) */
    gid_t mark;            /* supplementary group by which a keeper knows its own; 0: none */
    bool single_uid;       /* there is only one uid: keep it and drop all privileges */
    /* Netlink sockets in this network that are none of user code (netlink.h). */
    unsigned netlink_others;
    /* Not NULL: gets the listener of the filter, by which somebody else has to answer, or -1; the
     * caller owns it. */
    int *ret_listener;
};

/* Turns the calling process into one of the sandbox user for good: rlimits, memory-kill score, user
 * and groups, no capabilities, no new privileges, umask, default signals. The signal `held` (0:
 * none) stays blocked until the program unblocks it. -ERR_DENIED with the step that failed; the
 * caller must exit then. */
int spawn_become_user(const struct spawn_config *c, int held, struct err *err) WARN_UNUSED;

/* The same without descriptors, limits and signals, for a trial. -ERR_DENIED as above.
 */
int spawn_drop_privileges(const struct spawn_config *c, struct err *err) WARN_UNUSED;

/* Closes every descriptor that is not in keep[], which must be in ascending order. */
void spawn_close_all_but(const int *keep, size_t count);

/* Makes a pipe; the caller owns both ends, which are close-on-exec. With `c` the sandbox user owns
 * the pipe's inode, so that user code may reopen /dev/stdout. The agent's end `ours` (0 reading, 1
 * writing) is non-blocking. */
int spawn_pipe(const struct spawn_config *c, int ours, int ret_fds[2], struct err *err) WARN_UNUSED;

/* Makes a memory file that the sandbox user may read and write, but not execute. The caller owns
 * *ret_fd (close-on-exec).
 */
int spawn_memory_file(const struct spawn_config *c, const char *name, int *ret_fd,
                      struct err *err) WARN_UNUSED;

#define SPAWN_DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin" /* used when PATH is unset or empty */

enum spawn_found {
    SPAWN_NOT_THERE,
    SPAWN_FOUND,
    SPAWN_UNKNOWN, /* the lookup failed for a reason that may pass: repeat it later */
};

/* Looks for a program that user code may run, in the agent's PATH, which user code inherits; a name
 * with a slash is a path. If it is found, sets *ret, which the caller frees; if that is unknown,
 * errno says why. */
enum spawn_found spawn_find_program(const struct spawn_config *c, const char *name,
                                    char **ret) WARN_UNUSED;

/* Where programs without a slash are looked for: the agent's PATH. Borrowed until it changes. */
const char *spawn_search_path(void);

/* open(2), close-on-exec, with user code's rights to files. Returns -1 and errno on failure. */
int spawn_open_as_user(const struct spawn_config *c, const char *path, int flags);

#endif
