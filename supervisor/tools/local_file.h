/*
 * Opens files of this host that clients may copy into sandboxes: files below the directories of
 * --local-files that are reached without a symbolic link.
 *
 * Thread: any. Blocks like file operations.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_LOCAL_FILE_H
#define CLOISTER_SUPERVISOR_TOOLS_LOCAL_FILE_H

#include <stdint.h>

#include "common/err.h"

/* Opens a regular file for reading. `dirs` are separated by commas; `path` is absolute, or relative
 * to the first of them that has it. -ERR_PATH: it is not in these directories, or no regular file;
 * -ERR_FILE_NOT_FOUND; -ERR_DENIED: we may not read it. */
int local_file_open(const char *dirs, const char *path, int *ret_fd, uint64_t *ret_size,
                    struct err *err) WARN_UNUSED;

#endif
