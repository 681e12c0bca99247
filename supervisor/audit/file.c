/*
 * Whoever can choose the file chooses what the server overwrites, and whoever can read it learns
 * who runs what. So a symbolic link is not followed, and a file that is somebody else's, or that
 * others may read, is refused, rather than corrected: the operator may have meant another one.
 *
 * Lines are appended by one write each, so that several servers can share a file. When a write
 * failed in the middle, nothing is cut off behind it, since that might be another server's line;
 * the next line only begins on a line of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "supervisor/audit/internal.h"

static int check_audit_file(int fd, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_CONFIG, "%s is not a file", path);
    }
    if (st.st_uid != geteuid()) {
        return err_set(err, ERR_CONFIG,
                       "%s belongs to user %u, and not to user %u, as whom this runs: name another "
                       "file, or chown %u %s",
                       path, (unsigned)st.st_uid, (unsigned)geteuid(), (unsigned)geteuid(), path);
    }
    if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
        return err_set(err, ERR_CONFIG,
                       "others may read or change %s, which tells who runs what: chmod 600 %s "
                       "(640 if a group has to read it)",
                       path, path);
    }
    return 0;
}

int audit_file_open(const char *path, bool may_make, struct err *err)
{
    /* non-blocking, because it may be a pipe */
    const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    CLEANUP_FD int fd = open(path, flags | (may_make ? O_CREAT : 0), S_IRUSR | S_IWUSR);
    if (fd < 0 && errno == ELOOP) {
        return err_set(err, ERR_CONFIG,
                       "%s is a symbolic link, and whoever can change it would choose the file: "
                       "name the file itself",
                       path);
    }
    if (fd < 0) {
        return err_sys(err, ERR_CONFIG, errno, "%s", path);
    }
    int rc = check_audit_file(fd, path, err);
    return rc < 0 ? rc : steal_fd(&fd);
}

/* Whether the file ends with a part of a line, ours or that of a server which was killed. */
static bool is_torn(int fd)
{
    struct stat st;
    char last = '\n';
    if (fstat(fd, &st) == 0 && st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1) {
        return true;
    }
    return last != '\n';
}

static bool write_whole(int fd, const char *data, size_t len)
{
    size_t at = 0;
    while (at < len) {
        ssize_t n = write(fd, data + at, len - at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

bool audit_file_write(int fd, const char *line, size_t len, bool *doubtful)
{
    if (*doubtful && is_torn(fd) && !write_whole(fd, "\n", 1)) {
        return false;
    }
    *doubtful = !write_whole(fd, line, len);
    return !*doubtful;
}
