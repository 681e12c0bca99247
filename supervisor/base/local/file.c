/*
 * The path is walked name by name from an allowed directory, never through a symbolic link and
 * never upwards. So it cannot leave that directory even if somebody changes the tree meanwhile, and
 * there is no gap between check and open. Links are refused even if their target is allowed, since
 * the client can name the target itself.
 *
 * A file is checked before it is opened, because opening a device can have effects, and again
 * afterwards, because it may have been replaced.
 */
#include "supervisor/base/local/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/local/reach.h"

/* ---- the list of directories ----------------------------------------------------------------- */

bool local_dirs_next(const char **list, struct view *ret_dir, bool *ret_writable)
{
    *list += strspn(*list, ",");
    size_t len = strcspn(*list, ",");
    *ret_dir = view_bytes(*list, len);
    *list += len;
    *ret_writable = view_cut_end(ret_dir, ":rw");
    if (!*ret_writable) {
        (void)view_cut_end(ret_dir, ":ro");
    }
    return len > 0;
}

bool local_dirs_writable(const char *list)
{
    struct view dir;
    bool writable = false;
    while (!writable && local_dirs_next(&list, &dir, &writable)) {
    }
    return writable;
}

/* ---- the way --------------------------------------------------------------------------------- */

int local_refuse(struct err *err, int sys, const char *path)
{
    if (sys == ENOENT) {
        return err_set(err, ERR_FILE_NOT_FOUND, "local_path: there is no %.400s", path);
    }
    if (sys == ELOOP) {
        return err_set(err, ERR_PATH,
                       "local_path: %.400s leads through a symbolic link; name the file itself",
                       path);
    }
    return err_sys(err,
                   sys == EACCES || sys == EPERM    ? ERR_DENIED
                   : sys == ENOSPC || sys == EDQUOT ? ERR_TOO_BIG
                                                    : ERR_PATH,
                   sys, "local_path: %.400s", path);
}

/* Replaces *dir by its directory `name`. */
static int go_down(int *dir, const char *name, const char *path, struct err *err)
{
    int below = openat(*dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
        struct stat st;
        int sys = errno;
        if (sys == ENOENT) {
            return err_set(err, ERR_FILE_NOT_FOUND,
                           "local_path: there is no directory %.100s on the way to %.300s", name,
                           path);
        }
        bool is_link = fstatat(*dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        return local_refuse(err, is_link ? ELOOP : sys, path);
    }
    close(*dir);
    *dir = below;
    return 0;
}

/* Walks to the directory of the last name; `inside` is relative to the directory `top`. */
static int walk(const char *top, const char *inside, const char *path, struct local_target *ret,
                struct err *err)
{
    CLEANUP_FD int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return local_refuse(err, errno, top);
    }
    for (;;) {
        inside += strspn(inside, "/");
        size_t len = strcspn(inside, "/");
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(inside, len));
        inside += len;
        bool last_dot = *inside == '\0' && strcmp(name, ".") == 0;
        if (len == 0 || strcmp(name, "..") == 0 || last_dot) {
            return err_set(err, ERR_PATH, "local_path: %.400s names no file", path);
        }
        if (*inside == '\0') {
            ret->dir = steal_fd(&dir);
            ret->name = STEAL_PTR(name);
            return 0;
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

/* The path relative to this directory; NULL if it is not below it. */
static const char *inside_of(const char *dir, const char *path)
{
    if (path[0] != '/') {
        return path;
    }
    const char *inside = below(dir, path);
    if (inside == NULL) { /* the client may use the directory's resolved name */
        CLEANUP_FREE char *real = realpath(dir, NULL);
        inside = real != NULL ? below(real, path) : NULL;
    }
    return inside;
}

void local_target_finish(struct local_target *t)
{
    if (t->dir >= 0) {
        close(t->dir);
    }
    free(t->name);
    *t = (struct local_target){.dir = -1};
}

int local_reach(const char *dirs, bool writing, const char *path, local_reached_fn reached,
                void *arg, struct err *err)
{
    const char *what = writing ? "save files to" : "take files from";
    bool any = writing ? local_dirs_writable(dirs) : dirs[0] != '\0';
    int rc = !any ? err_set(err, ERR_PATH, "local_path: this server has no directory to %s", what)
                  : err_set(err, path[0] == '/' ? ERR_PATH : ERR_FILE_NOT_FOUND,
                            "local_path: %.400s is in none of the directories that this server may "
                            "%s",
                            path, what);
    struct view text;
    bool writable = false;
    while (local_dirs_next(&dirs, &text, &writable)) {
        CLEANUP_FREE char *dir = alloc_viewdup(text);
        const char *inside = inside_of(dir, path);
        if (inside == NULL || (writing && !writable)) {
            continue;
        }
        struct local_target target = {.dir = -1};
        rc = walk(dir, inside, path, &target, err);
        rc = rc < 0 ? rc : reached(&target, path, arg, err);
        local_target_finish(&target);
        if (path[0] == '/' || rc != -ERR_FILE_NOT_FOUND) {
            break;
        }
    }
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct opened {
    int fd;
    uint64_t size;
};

/* Opens the last name of the path. */
static int open_file(struct local_target *target, const char *path, void *arg, struct err *err)
{
    struct opened *opened = arg;
    int dir = target->dir;
    const char *name = target->name;
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return local_refuse(err, errno, path);
    }
    if (S_ISLNK(st.st_mode)) {
        return local_refuse(err, ELOOP, path);
    }
    CLEANUP_FD int fd = -1;
    if (S_ISREG(st.st_mode)) {
        fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
            return local_refuse(err, errno, path);
        }
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_PATH, "local_path: %.400s is %s", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
    }
    *opened = (struct opened){.fd = steal_fd(&fd), .size = (uint64_t)st.st_size};
    return 0;
}

int local_file_open(const char *dirs, const char *path, int *ret_fd, uint64_t *ret_size,
                    struct err *err)
{
    struct opened opened = {.fd = -1};
    int rc = local_reach(dirs, false, path, open_file, &opened, err);
    if (rc == 0) {
        *ret_fd = opened.fd;
        *ret_size = opened.size;
    }
    return rc;
}
