/*
 * Only permissions for all users and the owner matter. Group permissions are up to the
 * administrator: a service often reads its secrets as a member of a group (0640), and nobody
 * becomes a member by accident. A file that everybody may write is refused whatever it contains,
 * since adding a line would grant access. So is a file of a user who is neither root nor us,
 * because its owner can always write it.
 */
#include "supervisor/base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
    for (;;) {
        int rc = buf_reserve(out, 1, err);
        if (rc < 0) {
            return err_wrap(err, "%s", path);
        }
        ssize_t n = read(fd, out->data + out->len, out->cap - out->len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(err, ERR_CONFIG, errno, "%s", path);
        }
        if (n == 0) {
            return 0;
        }
        out->len += (size_t)n;
    }
}

int secret_file_read(const char *path, struct buf *out, bool *ret_open, struct err *err)
{
    struct stat st;
    /* non-blocking, because it may be a pipe */
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_CONFIG, "%s is not a file", path);
    }
    if ((st.st_mode & S_IWOTH) != 0) {
        return err_set(err, ERR_CONFIG,
                       "everybody may write %s, and so let himself in: chmod o-rwx %s", path, path);
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        return err_set(err, ERR_CONFIG,
                       "%s belongs to user %u, who can change it, and not to user %u, as whom this "
                       "runs, or root: chown %u %s",
                       path, (unsigned)st.st_uid, (unsigned)geteuid(), (unsigned)geteuid(), path);
    }
    if (st.st_size > (off_t)SECRET_FILE_MAX_BYTES) {
        return err_set(err, ERR_CONFIG, "%s is larger than %u KiB", path,
                       SECRET_FILE_MAX_BYTES >> 10);
    }
    /* allocated at once, with room to detect the end: growing would leave copies in freed memory */
    buf_init(out, SECRET_FILE_MAX_BYTES + 1);
    int rc = buf_reserve(out, (size_t)st.st_size + 1, err);
    rc = rc < 0 ? err_wrap(err, "%s", path) : read_all(fd, path, out, err);
    if (rc < 0) {
        secret_file_wipe(out);
        return rc;
    }
    *ret_open = (st.st_mode & S_IROTH) != 0;
    return 0;
}

void secret_file_wipe(struct buf *out)
{
    if (out->data != NULL) {
        explicit_bzero(out->data, out->cap);
    }
    buf_finish(out);
}
