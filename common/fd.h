/*
 * Descriptors and small files. Everything opened here is close-on-exec. Retries EINTR.
 */
#ifndef CLOISTER_COMMON_FD_H
#define CLOISTER_COMMON_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

int fd_set_nonblock(int fd, struct err *err) WARN_UNUSED;
int fd_set_cloexec(int fd, bool on, struct err *err) WARN_UNUSED;

/* Closes *fd and sets it to -1; a negative one is left alone. */
void fd_close(int *fd);

/* Writes all bytes to a blocking descriptor. */
int fd_write_all(int fd, const void *data, size_t len, struct err *err) WARN_UNUSED;

/* Reads a whole small file (also of /proc and /sys, whose sizes lie); -ERR_TOO_BIG over out->max.
 */
int file_read(const char *path, struct buf *out, struct err *err) WARN_UNUSED;

/* Writes to "<path>.tmp", syncs, renames: readers see the old content or the new, never a part. */
int file_replace(const char *path, const void *data, size_t len, mode_t mode,
                 struct err *err) WARN_UNUSED;

/* The same for a file of somebody's: owner, group and mode stay those that it has, and what a
 * symbolic link names is replaced, not the link. `new_mode` is for a file that is not there yet. */
int file_replace_like(const char *path, const void *data, size_t len, mode_t new_mode,
                      struct err *err) WARN_UNUSED;

/* Creates path and its parents; existing directories are fine. `mode` is for those created. */
int dir_make(const char *path, mode_t mode, struct err *err) WARN_UNUSED;

/* The same without parents: -ERR_IO if the parent does not exist. */
int dir_make_one(const char *path, mode_t mode, struct err *err) WARN_UNUSED;

/* Removes a tree without following symlinks or crossing mounts; an absent path is fine. */
int dir_remove(const char *path, struct err *err) WARN_UNUSED;

#endif
