/*
 * Descriptors and small files. The rule of the house is that every descriptor is close-on-exec
 * from birth; the few that a child shall have are handed over by the spawning code by number.
 */
#include "common/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
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

int file_replace(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
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
    int rc = fd_write_all(fd, data, len, err);
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

int dir_make(const char *path, mode_t mode, struct err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part)) {
        return err_set(err, ERR_TOO_BIG, "path is empty or too long: %.64s", path);
    }
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0') {
            continue;
        }
        part[i] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST) {
            return err_sys(err, ERR_IO, errno, "cannot create directory %s", part);
        }
        if (i < len) {
            part[i] = '/';
        }
    }
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_IO, "%s is not a directory", path);
    }
    return 0;
}

#define REMOVE_DEPTH 64 /* our own directories are shallow; one descriptor a level */

static int remove_at(int parent, const char *name, dev_t dev, int depth, struct err *err)
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
    if (st.st_dev != dev) {
        return err_set(err, ERR_IO, "%s is a mount point", name);
    }
    if (depth >= REMOVE_DEPTH) {
        return err_set(err, ERR_IO, "%s is nested too deeply", name);
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        int sys = errno;
        if (fd >= 0) {
            close(fd);
        }
        return err_sys(err, ERR_IO, sys, "cannot open %s", name);
    }
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc = remove_at(dirfd(dir), entry->d_name, dev, depth + 1, err);
        }
    }
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
    int rc = remove_at(AT_FDCWD, path, st.st_dev, 0, err);
    return rc < 0 ? err_wrap(err, "%s", path) : 0;
}
