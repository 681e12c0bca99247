/*
 * The path is walked name by name from an allowed directory, never through a symbolic link and
 * never upwards. So it cannot leave that directory even if somebody changes the tree meanwhile, and
 * there is no gap between check and open. Links are refused even if their target is allowed, since
 * the client can name the target itself.
 *
 * A file is checked before it is opened, because opening a device can have effects, and again
 * afterwards, because it may have been replaced.
 */
#include "supervisor/tools/local_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"

static int refuse_path(struct err *err, int sys, const char *path)
{
    if (sys == ENOENT) {
        return err_set(err, ERR_FILE_NOT_FOUND, "local_path: there is no %.400s", path);
    }
    if (sys == ELOOP) {
        return err_set(err, ERR_PATH,
                       "local_path: %.400s leads through a symbolic link; name the file itself",
                       path);
    }
    return err_sys(err, sys == EACCES || sys == EPERM ? ERR_DENIED : ERR_PATH, sys,
                   "local_path: %.400s", path);
}

/* Opens the last name of the path, in the directory `dir`. */
static int open_file(int dir, const char *name, const char *path, int *ret_fd, uint64_t *ret_size,
                     struct err *err)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return refuse_path(err, errno, path);
    }
    if (S_ISLNK(st.st_mode)) {
        return refuse_path(err, ELOOP, path);
    }
    CLEANUP_FD int fd = -1;
    if (S_ISREG(st.st_mode)) {
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
            return refuse_path(err, errno, path);
        }
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_PATH, "local_path: %.400s is %s", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
    }
    *ret_fd = steal_fd(&fd);
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

/* Replaces *dir by its directory `name`. */
static int go_down(int *dir, const char *name, const char *path, struct err *err)
{
    int below = openat(*dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
        struct stat st;
        int sys = errno;
        bool is_link = fstatat(*dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        return refuse_path(err, is_link ? ELOOP : sys, path);
    }
    close(*dir);
    *dir = below;
    return 0;
}

/* `inside` is relative to the directory `top`. */
static int walk(const char *top, const char *inside, const char *path, int *ret_fd,
                uint64_t *ret_size, struct err *err)
{
    CLEANUP_FD int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return refuse_path(err, errno, top);
    }
    for (;;) {
        inside += strspn(inside, "/");
        size_t len = strcspn(inside, "/");
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(inside, len));
        if (len == 0 || strcmp(name, "..") == 0) {
            return err_set(err, ERR_PATH, "local_path: %.400s names no file", path);
        }
        inside += len;
        if (*inside == '\0') {
            return open_file(dir, name, path, ret_fd, ret_size, err);
        }
        int rc = go_down(&dir, name, path, err);
        if (rc < 0) {
            return rc;
        }
    }
}

/* Returns the rest of an absolute path below `dir`; NULL if it is elsewhere. */
static const char *below(const char *dir, const char *path)
{
    size_t len = strlen(dir);
    while (len > 0 && dir[len - 1] == '/') {
        len--;
    }
    return strncmp(dir, path, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

/* False: the path is not below this directory. */
static bool try_dir(const char *dir, const char *path, int *ret_fd, uint64_t *ret_size, int *ret_rc,
                    struct err *err)
{
    const char *inside = path;
    CLEANUP_FREE char *real = NULL;
    if (path[0] == '/') {
        inside = below(dir, path);
        real = inside == NULL ? realpath(dir, NULL) : NULL;
        if (real != NULL) { /* the client may use the directory's resolved name */
            inside = below(real, path);
        }
        if (inside == NULL) {
            return false;
        }
    }
    *ret_rc = walk(dir, inside, path, ret_fd, ret_size, err);
    return path[0] == '/' || *ret_rc != -ERR_FILE_NOT_FOUND;
}

int local_file_open(const char *dirs, const char *path, int *ret_fd, uint64_t *ret_size,
                    struct err *err)
{
    int rc = dirs[0] == '\0'
                 ? err_set(err, ERR_PATH, "local_path: this server takes no files of its host")
                 : err_set(err, path[0] == '/' ? ERR_PATH : ERR_FILE_NOT_FOUND,
                           "local_path: %.400s is in none of the directories that this server may "
                           "take files from",
                           path);
    while (*dirs != '\0') {
        size_t len = strcspn(dirs, ",");
        CLEANUP_FREE char *dir = alloc_viewdup((struct view){dirs, len});
        dirs += len + (dirs[len] == ',' ? 1 : 0);
        if (len > 0 && try_dir(dir, path, ret_fd, ret_size, &rc, err)) {
            break;
        }
    }
    return rc;
}
