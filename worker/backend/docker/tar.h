/*
 * Tar archives that bring files into an engine's volumes: whole ones in memory, or piece by piece.
 *
 * Thread: the loop thread. Nothing blocks but loading libarchive, once.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_TAR_H
#define CLOISTER_WORKER_BACKEND_DOCKER_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

/* A regular file of root that everybody may read and execute. */
struct docker_tar_file {
    const char *name;
    struct view content;
};

/* Appends a tar archive of these files, in this order. -ERR_ENGINE if libarchive is missing,
 * -ERR_TOO_BIG over the cap of `out`. */
int docker_tar_write(const struct docker_tar_file *files, size_t count, struct buf *out,
                     struct err *err) WARN_UNUSED;

/* An archive that is appended to `out` piece by piece; the caller may take bytes off `out` between
 * calls. `out` needs room for the data of one call and about 10 KiB of blocks and headers. */
struct docker_tar;

int docker_tar_open(struct buf *out, struct docker_tar **ret, struct err *err) WARN_UNUSED;

/* Begins a file of this size, whose content must follow, or a directory; owned by root, readable
 * for everybody. */
int docker_tar_entry(struct docker_tar *t, const char *name, bool is_dir, uint64_t size,
                     struct err *err) WARN_UNUSED;
int docker_tar_content(struct docker_tar *t, struct view piece, struct err *err) WARN_UNUSED;

/* Writes the end of the archive to `out`. */
int docker_tar_finish(struct docker_tar *t, struct err *err) WARN_UNUSED;

/* NULL is fine. */
void docker_tar_close(struct docker_tar *t);

#endif
