/*
 * The work of a scan, in a process of its own that already is the sandbox user, in the workspace.
 * Blocks as directories do.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_CHANGESCAN_H
#define CLOISTER_WORKER_AGENT_RUN_CHANGESCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define CHANGESCAN_PRINT_BYTES 8

/* What happens in a directory with one of these is told by inotify. */
#define CHANGESCAN_EVENTS (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ATTRIB)

struct changescan {
    int watch_fd;         /* inotify that is to watch every directory; -1: none */
    int64_t since_ns;     /* of the file system's clock; what changed before does not count */
    const uint64_t *past; /* fingerprints of files that do not count either */
    size_t past_count;
};

/* Names that are nobody's results: hidden ones, caches and packages. */
bool changescan_skips(const char *name);

/* Writes each file that counts to out_fd, newest first, its fingerprint (8 bytes, big endian) and
 * then its framed ENTRY; then a complete report to report_fd: REPORT_OF_SCAN. With rc < 0 setting
 * up has failed already and only that is reported. */
void changescan_run(const struct changescan *s, int out_fd, int report_fd, int rc,
                    const struct err *err);

#endif
