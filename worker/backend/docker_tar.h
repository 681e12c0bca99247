/*
 * The archive that brings the agent into an engine's volume.
 *
 * Thread: the loop thread. Nothing blocks but loading libarchive, once.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_TAR_H
#define CLOISTER_WORKER_BACKEND_DOCKER_TAR_H

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

/* A regular file of root's that anybody may read and run. */
struct docker_tar_file {
    const char *name;
    struct view content;
};

/* Appends a tar archive of these files, in this order. -ERR_ENGINE if libarchive is missing,
 * -ERR_TOO_BIG over the cap of `out`. */
int docker_tar_write(const struct docker_tar_file *files, size_t count, struct buf *out,
                     struct err *err) WARN_UNUSED;

#endif
