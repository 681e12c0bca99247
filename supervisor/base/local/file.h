/*
 * Files of this host that clients may copy into sandboxes, and into which they may copy from them:
 * below the directories of --local-files, reached without a symbolic link. The latter only below
 * those that are marked ":rw".
 *
 * Thread: any. Blocks like file operations.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_LOCAL_FILE_H
#define CLOISTER_SUPERVISOR_BASE_LOCAL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

/* Takes the next directory off a list of them, "DIR[:ro|:rw]" with commas between; false at its
 * end. */
bool local_dirs_next(const char **list, struct view *ret_dir, bool *ret_writable);

/* Whether one of them can be written to. */
bool local_dirs_writable(const char *list);

/* Opens a regular file for reading. `dirs` is such a list; `path` is absolute, or relative to the
 * first of them that has it. -ERR_PATH: it is not in these directories, or no regular file;
 * -ERR_FILE_NOT_FOUND; -ERR_DENIED: we may not read it. */
int local_file_open(const char *dirs, const char *path, int *ret_fd, uint64_t *ret_size,
                    struct err *err) WARN_UNUSED;

/* A file that is being written. It appears under its name when it is whole. */
struct local_save {
    int dir, fd;     /* -1: none */
    char *path;      /* as the client said it */
    char *name;      /* in `dir`; NULL if there is no way there */
    char *temporary; /* likewise; NULL if there is none (any more) */
    bool overwrite;
};

/* Begins a file below a writable directory; its parent must be there. Errors as above, -ERR_PATH
 * also if it exists and may not be overwritten, and -ERR_TOO_BIG: there is no room, which the next
 * two may say as well. *ret is to be ended in any case. */
int local_save_begin(const char *dirs, const char *path, bool overwrite, struct local_save *ret,
                     struct err *err) WARN_UNUSED;
int local_save_add(struct local_save *s, struct view bytes, struct err *err) WARN_UNUSED;

/* Gives it its name. -ERR_PATH if somebody has made such a file meanwhile. */
int local_save_commit(struct local_save *s, struct err *err) WARN_UNUSED;

/* Frees what it holds; what was not committed is removed, which may take as long as it is large. */
void local_save_end(struct local_save *s);

#endif
