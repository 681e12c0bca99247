/*
 * Files of this host that clients may have copied into sandboxes: those below the directories that
 * --local-files names, and nothing that a symbolic link leads to.
 *
 * Thread: any. Blocks as files do.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_LOCAL_FILE_H
#define CLOISTER_SUPERVISOR_TOOLS_LOCAL_FILE_H

#include <stdint.h>

#include "common/err.h"

/* Opens a regular file for reading. `dirs` are separated by commas; `path` is absolute, or relative
 * to one of them: to the first that has it. -ERR_PATH: it is none of theirs, or no file;
 * -ERR_FILE_NOT_FOUND; -ERR_DENIED: we may not read it. */
int local_file_open(const char *dirs, const char *path, int *ret_fd, uint64_t *ret_size,
                    struct err *err) WARN_UNUSED;

#endif
