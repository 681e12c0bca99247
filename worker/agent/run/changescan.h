/*
 * The scan itself. Runs in a forked process that already is the sandbox user, in the workspace.
 * Blocks as directories do.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_CHANGESCAN_H
#define CLOISTER_WORKER_AGENT_RUN_CHANGESCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define CHANGESCAN_PRINT_BYTES 8

/* The events of a directory that inotify watches. */
#define CHANGESCAN_EVENTS (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ATTRIB)

struct changescan {
    int watch_fd;         /* inotify that is to watch every directory; -1: none */
    int64_t since_ns;     /* in the file system's clock; files changed before do not count */
    const uint64_t *past; /* fingerprints of files that do not count */
    size_t past_count;
};

/* True for names that are never results: hidden files, caches and packages. */
bool changescan_skips(const char *name);

/* Writes each file that counts to out_fd, newest first, its fingerprint (8 bytes, big endian) and
 * then its framed ENTRY; then a complete report to report_fd: REPORT_OF_SCAN. If rc < 0 the setup
 * of the process has failed, and only that is reported. */
void changescan_run(const struct changescan *s, int out_fd, int report_fd, int rc,
                    const struct err *err);

#endif
