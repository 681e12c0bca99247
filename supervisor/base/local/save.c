/*
 * A file that is written for a client gets a name of its own in the directory where it is to be,
 * and the name that was asked for when it is whole: nobody sees half of it, and an earlier one
 * stays until then. It is not executable, whatever it was in the sandbox, and belongs to the user
 * whose server this is; a server of root gives it to the owner of the directory.
 *
 * A name that is taken is replaced only on demand, and only if it is that of a regular file: a link
 * would be lost, and what it leads to is not the client's business. Without that a hard link gives
 * the name, which fails if the name has been taken meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "supervisor/base/local/file.h"
#include "supervisor/base/local/reach.h"

#define UNIQUE_CHARS 12
#define FILE_MODE    0644 /* and what the umask leaves of it */

static int refuse_taken(const char *path, struct err *err)
{
    return err_set(err, ERR_PATH, "local_path: %.400s exists; overwrite: true replaces it", path);
}

/* Whether the name can be given to a new file. */
static int check_free(const struct local_save *s, struct err *err)
{
    struct stat st;
    if (fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : local_refuse(err, errno, s->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_PATH, "local_path: %.400s is %s", s->path,
                       S_ISDIR(st.st_mode)   ? "a directory: name the file in it"
                       : S_ISLNK(st.st_mode) ? "a symbolic link"
                                             : "not a regular file");
    }
    return s->overwrite ? 0 : refuse_taken(s->path, err);
}

static int make_temporary(struct local_save *s, struct err *err)
{
    char unique[UNIQUE_CHARS + 1];
    struct stat st;
    int rc = random_id(unique, UNIQUE_CHARS, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *name = alloc_printf(".cloister-%s", unique);
    s->fd = openat(s->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (s->fd < 0 && errno == ENOENT) {
        return err_set(err, ERR_PATH, "local_path: the directory of %.400s has just been removed",
                       s->path);
    }
    if (s->fd < 0) {
        return local_refuse(err, errno, s->path);
    }
    s->temporary = STEAL_PTR(name);
    if (geteuid() == 0 && (fstat(s->dir, &st) < 0 || fchown(s->fd, st.st_uid, st.st_gid) < 0)) {
        return local_refuse(err, errno, s->path);
    }
    return 0;
}

static int begin_save(struct local_target *target, const char *path, void *arg, struct err *err)
{
    struct local_save *s = arg;
    s->dir = target->dir;
    s->name = STEAL_PTR(target->name);
    target->dir = -1;
    s->path = alloc_strdup(path);
    int rc = check_free(s, err);
    return rc < 0 ? rc : make_temporary(s, err);
}

int local_save_begin(const char *dirs, const char *path, bool overwrite, struct local_save *ret,
                     struct err *err)
{
    *ret = (struct local_save){.dir = -1, .fd = -1, .overwrite = overwrite};
    return local_reach(dirs, true, path, begin_save, ret, err);
}

static int report_write(const struct local_save *s, int sys, struct err *err)
{
    return err_sys(err, sys == ENOSPC || sys == EDQUOT || sys == EFBIG ? ERR_TOO_BIG : ERR_IO, sys,
                   "local_path: %.400s", s->path);
}

int local_save_add(struct local_save *s, struct view bytes, struct err *err)
{
    struct err why = ERR_INIT;
    int rc = fd_write_all(s->fd, bytes.data, bytes.len, &why);
    return rc < 0 ? report_write(s, why.sys, err) : 0;
}

/* Not every file system has hard links; there the name is looked at once more. */
static int give_name(struct local_save *s, struct err *err)
{
    if (!s->overwrite && linkat(s->dir, s->temporary, s->dir, s->name, 0) == 0) {
        return 0;
    }
    if (!s->overwrite && errno == EEXIST) {
        return refuse_taken(s->path, err);
    }
    int rc = check_free(s, err);
    if (rc == 0 && renameat(s->dir, s->temporary, s->dir, s->name) < 0) {
        rc = local_refuse(err, errno, s->path);
    }
    return rc;
}

int local_save_commit(struct local_save *s, struct err *err)
{
    int fd = s->fd;
    s->fd = -1;
    if (close(fd) < 0) { /* of a network's file system the last error comes here */
        return report_write(s, errno, err);
    }
    int rc = give_name(s, err);
    if (rc == 0) {
        unlinkat(s->dir, s->temporary, 0); /* gone if it was renamed */
        free(STEAL_PTR(s->temporary));
    }
    return rc;
}

void local_save_end(struct local_save *s)
{
    if (s->fd >= 0) {
        close(s->fd);
    }
    if (s->temporary != NULL) {
        unlinkat(s->dir, s->temporary, 0);
    }
    if (s->dir >= 0) {
        close(s->dir);
    }
    free(s->path);
    free(s->name);
    free(s->temporary);
    *s = (struct local_save){.dir = -1, .fd = -1};
}
