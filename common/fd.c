/*
 * Descriptors and small files. Every descriptor is created close-on-exec; code that starts a child
 * passes on the few that the child needs.
 */
#include "common/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

int fd_set_nonblock(int fd, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot make descriptor %d non-blocking", fd);
    }
    return 0;
}

int fd_set_cloexec(int fd, bool on, struct err *err)
{
    if (fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot set close-on-exec of descriptor %d", fd);
    }
    return 0;
}

void fd_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

int fd_write_all(int fd, const void *data, size_t len, struct err *err)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return err_sys(err, ERR_IO, errno, "write");
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int file_read(const char *path, struct buf *out, struct err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_FILE_NOT_FOUND : ERR_IO, errno, "%s", path);
    }
    for (;;) {
        char chunk[4096];
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return err_sys(err, ERR_IO, errno, "%s", path);
        }
        if (n == 0) {
            return 0;
        }
        int rc = buf_add(out, chunk, (size_t)n, err);
        if (rc < 0) {
            return err_wrap(err, "%s", path);
        }
    }
}

/* Owner and group first, since a change of them takes bits of the mode away. */
static int make_like(int fd, const struct stat *like, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_sys(err, ERR_IO, errno, "stat");
    }
    bool is_theirs = st.st_uid == like->st_uid && st.st_gid == like->st_gid;
    if (!is_theirs && fchown(fd, like->st_uid, like->st_gid) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot keep its owner %u and group %u",
                       (unsigned)like->st_uid, (unsigned)like->st_gid);
    }
    return fchmod(fd, like->st_mode & 07777) < 0 ? err_sys(err, ERR_IO, errno, "mode") : 0;
}

/* `like`: what the new file takes owner, group and mode from; NULL: it is ours, with `mode`. */
static int replace_content(const char *path, const void *data, size_t len, mode_t mode,
                           const struct stat *like, struct err *err)
{
    char tmp[PATH_MAX];
    int n = snprintf(tmp, sizeof(tmp), "%s.tmp", path);
    if (n < 0 || (size_t)n >= sizeof(tmp)) {
        return err_set(err, ERR_TOO_BIG, "path is too long: %.64s...", path);
    }
    CLEANUP_FD int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", tmp);
    }
    int rc = like != NULL ? make_like(fd, like, err) : 0;
    if (rc == 0) {
        rc = fd_write_all(fd, data, len, err);
    }
    if (rc == 0 && fsync(fd) < 0) {
        rc = err_sys(err, ERR_IO, errno, "sync");
    }
    if (rc == 0 && rename(tmp, path) < 0) {
        rc = err_sys(err, ERR_IO, errno, "rename");
    }
    if (rc < 0) {
        unlink(tmp);
        return err_wrap(err, "%s", path);
    }
    return 0;
}

int file_replace(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    return replace_content(path, data, len, mode, NULL, err);
}

int file_replace_like(const char *path, const void *data, size_t len, mode_t new_mode,
                      struct err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0 && errno == ENOENT) {
        return file_replace(path, data, len, new_mode, err);
    }
    CLEANUP_FREE char *real = realpath(path, NULL);
    if (real == NULL || stat(real, &st) < 0) {
        return err_sys(err, ERR_IO, errno, "%s", path);
    }
    return replace_content(real, data, len, S_IRUSR | S_IWUSR, &st, err);
}

int dir_make_one(const char *path, mode_t mode, struct err *err)
{
    if (mkdir(path, mode) < 0 && errno != EEXIST) {
        return err_sys(err, ERR_IO, errno, "cannot create directory %s", path);
    }
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_IO, "%s is not a directory", path);
    }
    return 0;
}

int dir_make(const char *path, mode_t mode, struct err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part)) {
        return err_set(err, ERR_TOO_BIG, "path is empty or too long: %.64s", path);
    }
    memcpy(part, path, len + 1);
    for (size_t i = 1; i < len; i++) {
        if (part[i] != '/') {
            continue;
        }
        part[i] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST) {
            return err_sys(err, ERR_IO, errno, "cannot create directory %s", part);
        }
        part[i] = '/';
    }
    return dir_make_one(path, mode, err);
}

/* User code may have made the tree: it may have any depth, and directories that not even their
 * owner may list. Each level holds one descriptor; a directory below REMOVE_DEPTH is moved up to
 * the top first. */
#define REMOVE_DEPTH 64

struct removal {
    dev_t dev;
    int top; /* descriptor of the root of the removed tree */
    unsigned moved;
};

static int remove_at(struct removal *r, int parent, const char *name, int depth, struct err *err);

/* Opens a directory to empty it. If we own it, its mode is made to allow that. The mode is changed
 * by descriptor, because the name may refer to another file by then. */
static int open_to_empty(int parent, const char *name)
{
    const int how = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    CLEANUP_FD int fd = openat(parent, name, O_RDONLY | how);
    if (fd < 0 && errno == EACCES) {
        CLEANUP_FD int closed = openat(parent, name, O_PATH | how);
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", closed);
        if (closed < 0 || chmod(path, S_IRWXU) < 0) {
            errno = EACCES;
            return -1;
        }
        fd = openat(parent, name, O_RDONLY | how);
    }
    struct stat st;
    bool may = fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & S_IRWXU) == S_IRWXU ||
               fchmod(fd, S_IRWXU) == 0;
    (void)may; /* root needs no mode; for others the removal fails and reports it */
    return steal_fd(&fd);
}

static int move_entry_up(struct removal *r, int parent, const char *name, struct err *err)
{
    char there[32];
    int rc;
    do {
        snprintf(there, sizeof(there), "deep-%u", r->moved++);
        rc = renameat(parent, name, r->top, there);
    } while (rc < 0 && (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR));
    return rc < 0 ? err_sys(err, ERR_IO, errno, "cannot remove %s, which is nested deeply", name)
                  : 0;
}

static int empty(struct removal *r, DIR *dir, int depth, struct err *err)
{
    int rc = 0;
    struct dirent *entry;
    rewinddir(dir);
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc = remove_at(r, dirfd(dir), entry->d_name, depth + 1, err);
        }
    }
    return rc;
}

static int remove_at(struct removal *r, int parent, const char *name, int depth, struct err *err)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, ERR_IO, errno, "%s", name);
    }
    if (!S_ISDIR(st.st_mode)) {
        if (unlinkat(parent, name, 0) < 0 && errno != ENOENT) {
            return err_sys(err, ERR_IO, errno, "cannot remove %s", name);
        }
        return 0;
    }
    if (st.st_dev != r->dev) {
        return err_set(err, ERR_IO, "%s is a mount point", name);
    }
    if (depth >= REMOVE_DEPTH) {
        return move_entry_up(r, parent, name, err);
    }
    int fd = open_to_empty(parent, name);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        int sys = errno;
        if (fd >= 0) {
            close(fd);
        }
        return err_sys(err, ERR_IO, sys, "cannot open %s", name);
    }
    if (depth == 0) {
        r->top = fd;
    }
    unsigned moved;
    int rc;
    do { /* directories that were moved up may come before the position that was read */
        moved = r->moved;
        rc = empty(r, dir, depth, err);
    } while (rc == 0 && depth == 0 && r->moved != moved);
    closedir(dir);
    if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        rc = err_sys(err, ERR_IO, errno, "cannot remove directory %s", name);
    }
    return rc;
}

int dir_remove(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, ERR_IO, errno, "%s", path);
    }
    struct removal r = {.dev = st.st_dev, .top = -1};
    int rc = remove_at(&r, AT_FDCWD, path, 0, err);
    return rc < 0 ? err_wrap(err, "%s", path) : 0;
}
