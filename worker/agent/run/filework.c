/*
 * Reading and writing files, and the frame around all three kinds of work.
 *
 * Only regular files are touched. The file is opened with O_NONBLOCK and checked by fstat() after
 * that, so a FIFO or a device can neither block the process nor be read. A whole write goes to a
 * temporary file beside the target, which is renamed, so that neither a reader nor a full disk
 * meets half a file.
 */
#include "worker/agent/run/filework.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "worker/agent/link/report.h"

#define COPY_BYTES    (64u << 10)
#define SYMLINKS_MAX  40 /* as the kernel has it */
#define PARENT_MODE   0755
#define NEW_FILE_MODE 0644

int filework_error(struct err *err, int sys, const char *path)
{
    enum err_code code = ERR_IO;
    switch (sys) {
    case ENOENT:
        code = ERR_FILE_NOT_FOUND;
        break;
    case EACCES:
    case EPERM:
    case EROFS:
    case ETXTBSY:
        code = ERR_DENIED;
        break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        code = ERR_NO_SPACE;
        break;
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case EINVAL:
    case ENXIO:
    case ENODEV:
        code = ERR_PATH;
        break;
    case ENOMEM:
        code = ERR_NO_MEMORY;
        break;
    default:
        break;
    }
    return err_sys(err, code, sys, "%s", path);
}

enum file_type filework_type(unsigned mode)
{
    return S_ISREG(mode)   ? FILE_TYPE_FILE
           : S_ISDIR(mode) ? FILE_TYPE_DIRECTORY
           : S_ISLNK(mode) ? FILE_TYPE_SYMLINK
                           : FILE_TYPE_OTHER;
}

int filework_refuse_kind(struct err *err, unsigned mode, const char *path)
{
    return err_set(err, ERR_PATH, "%s: %s", path,
                   S_ISDIR(mode) ? "is a directory" : "is not a regular file");
}

/* Uses the ctime, which nobody can set; some programs set the mtime of a file that they rewrote
 * back to what it was. */
uint64_t filework_stamp(const struct stat *st)
{
    const uint64_t parts[] = {(uint64_t)st->st_dev,          (uint64_t)st->st_ino,
                              (uint64_t)st->st_size,         (uint64_t)st->st_mtim.tv_sec,
                              (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
                              (uint64_t)st->st_ctim.tv_nsec};
    return hash_bytes(parts, sizeof(parts)) & INT64_MAX;
}

/* True if the file has bytes at `end` although its size says otherwise: it has grown, or is in
 * /proc, whose files have size 0. */
static bool goes_on(int fd, uint64_t end)
{
    char byte;
    return pread(fd, &byte, 1, (off_t)end) == 1;
}

int filework_read(struct filework *w, const struct msg_start *m, const char *path, struct err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return filework_error(err, errno, path);
    }
    w->type = filework_type(st.st_mode);
    if (!S_ISREG(st.st_mode)) {
        return filework_refuse_kind(err, st.st_mode, path);
    }
    w->size = (uint64_t)st.st_size;
    w->stamp = filework_stamp(&st);
    if (m->offset > 0 && lseek(fd, (off_t)m->offset, SEEK_SET) < 0) {
        return filework_error(err, errno, path);
    }
    char chunk[COPY_BYTES];
    uint64_t done = 0;
    while (m->length == 0 || done < m->length) {
        uint64_t want = m->length == 0 ? sizeof(chunk) : m->length - done;
        ssize_t n = read(fd, chunk, want < sizeof(chunk) ? (size_t)want : sizeof(chunk));
        if (n < 0) {
            return filework_error(err, errno, path);
        }
        if (n == 0) {
            break;
        }
        int rc = fd_write_all(w->out_fd, chunk, (size_t)n, err);
        if (rc < 0) {
            return rc;
        }
        done += (uint64_t)n;
    }
    uint64_t end = m->offset + done;
    if (done > 0 && w->size <= end) {
        bool more = done == m->length && goes_on(fd, end);
        w->size = end + more; /* at least one byte more; how many is unknown */
    }
    w->truncated = end < w->size;
    return 0;
}

/* Creates the directories above the last component. */
static int make_parents(const char *path, struct err *err)
{
    char parents[PATH_MAX];
    int rc = str_copy(parents, sizeof(parents), path, err);
    char *slash = rc == 0 ? strrchr(parents, '/') : NULL;
    if (rc < 0 || slash == NULL || slash == parents) {
        return rc;
    }
    *slash = '\0';
    struct stat st;
    if (stat(parents, &st) == 0) {
        return S_ISDIR(st.st_mode) ? 0 : filework_error(err, ENOTDIR, parents);
    }
    rc = dir_make(parents, PARENT_MODE, err);
    return rc < 0 && err->sys != 0 ? filework_error(err, err->sys, parents) : rc;
}

/* Follows symlinks at the last component of `path` to the file that a write changes, which may not
 * exist yet. The kernel follows links in the directories before it. */
static int resolve(const char *path, char *ret, size_t size, struct err *err)
{
    char target[PATH_MAX];
    char next[PATH_MAX];
    int rc = str_copy(ret, size, path, err);
    for (int i = 0; rc == 0 && i < SYMLINKS_MAX; i++) {
        ssize_t n = readlink(ret, target, sizeof(target) - 1);
        if (n < 0) {
            return 0; /* not a link; other errors will show when it is opened */
        }
        target[n] = '\0';
        const char *slash = strrchr(ret, '/');
        size_t dir = target[0] == '/' || slash == NULL ? 0 : (size_t)(slash - ret) + 1;
        int len = snprintf(next, sizeof(next), "%.*s%s", (int)dir, ret, target);
        if (len < 0 || (size_t)len >= sizeof(next)) {
            return filework_error(err, ENAMETOOLONG, path);
        }
        rc = str_copy(ret, size, next, err);
    }
    return rc < 0 ? rc : filework_error(err, ELOOP, path);
}

int filework_beside(const char *path, const char *word, char *ret, size_t size, struct err *err)
{
    const char *slash = strrchr(path, '/');
    int dir = slash != NULL ? (int)(slash - path) + 1 : 0;
    int len = snprintf(ret, size, "%.*s.cloister-%s.tmp", dir, path, word);
    return len < 0 || (size_t)len >= size ? filework_error(err, ENAMETOOLONG, path) : 0;
}

static int write_to(int fd, const struct msg_start *m, const char *path, struct err *err)
{
    int rc = fd_write_all(fd, m->data.data, m->data.len, err);
    return rc < 0 ? filework_error(err, err->sys, path) : 0;
}

static int replace(const struct msg_start *m, const char *path, mode_t mode, struct err *err)
{
    char temporary[PATH_MAX];
    char id[17];
    int rc = random_id(id, sizeof(id) - 1, err);
    if (rc == 0) {
        rc = filework_beside(path, id, temporary, sizeof(temporary), err);
    }
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FD int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return filework_error(err, errno, path);
    }
    rc = write_to(fd, m, path, err);
    if (rc == 0 && fchmod(fd, mode) < 0) {
        rc = filework_error(err, errno, path);
    }
    if (rc == 0 && rename(temporary, path) < 0) {
        rc = filework_error(err, errno, path);
    }
    if (rc < 0) {
        unlink(temporary);
    }
    return rc;
}

/* For appending, and for a whole write of a file in whose directory the user may not create
 * files. */
static int write_in_place(const struct msg_start *m, const char *path, int how, mode_t mode,
                          struct err *err)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | how, mode);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return filework_error(err, errno, path);
    }
    if (!S_ISREG(st.st_mode)) {
        return filework_refuse_kind(err, st.st_mode, path);
    }
    int rc = write_to(fd, m, path, err);
    if (rc < 0) {
        if (how & O_APPEND) {
            (void)!ftruncate(fd, st.st_size); /* best effort to leave no part of the write */
        }
        return rc;
    }
    if (m->mode != 0 && fchmod(fd, mode) < 0) {
        return filework_error(err, errno, path);
    }
    return 0;
}

int filework_resolve(const struct msg_start *m, const char *path, struct filework_target *ret,
                     struct err *err)
{
    struct stat st;
    size_t len = strlen(path);
    if (len == 0 || path[len - 1] == '/') {
        return err_set(err, ERR_PATH, "%s: names a directory", len == 0 ? "(empty path)" : path);
    }
    int rc = resolve(path, ret->path, sizeof(ret->path), err);
    if (rc == 0) {
        rc = make_parents(ret->path, err);
    }
    if (rc < 0) {
        return rc;
    }
    ret->exists = stat(ret->path, &st) == 0;
    if (!ret->exists && errno != ENOENT) {
        return filework_error(err, errno, path);
    }
    if (ret->exists && !S_ISREG(st.st_mode)) {
        return filework_refuse_kind(err, st.st_mode, path);
    }
    ret->mode = m->mode != 0 ? (unsigned)m->mode : ret->exists ? st.st_mode & 07777 : NEW_FILE_MODE;
    return 0;
}

int filework_write(struct filework *w, const struct msg_start *m, const char *path, struct err *err)
{
    struct filework_target target;
    struct stat st;
    int rc = filework_resolve(m, path, &target, err);
    if (rc < 0) {
        return rc;
    }
    if (m->flags & OP_FLAG_APPEND) {
        rc = write_in_place(m, target.path, O_CREAT | O_APPEND, target.mode, err);
    } else {
        rc = replace(m, target.path, target.mode, err);
        if (rc == -ERR_DENIED && target.exists) {
            rc = write_in_place(m, target.path, O_TRUNC, target.mode, err);
        }
    }
    if (rc < 0) {
        return rc;
    }
    w->type = FILE_TYPE_FILE;
    if (stat(target.path, &st) == 0) {
        w->size = (uint64_t)st.st_size;
        w->stamp = filework_stamp(&st);
    }
    return 0;
}

static int work(struct filework *w, const struct msg_start *m, struct err *err)
{
    char path[LIMIT_PATH + 1];
    memcpy(path, m->path.data != NULL ? m->path.data : "", m->path.len);
    path[m->path.len] = '\0';
    switch (m->kind) {
    case OP_FILE_READ:
        return filework_read(w, m, path, err);
    case OP_FILE_WRITE:
        return m->flags & OP_FLAG_PART ? filework_write_part(w, m, path, err)
                                       : filework_write(w, m, path, err);
    default:
        return filework_list(w, m, path[0] != '\0' ? path : ".", err);
    }
}

void filework_run(const struct msg_start *m, int out_fd, int report_fd, int rc,
                  const struct err *err)
{
    struct filework w = {.out_fd = out_fd};
    struct err now = *err;
    struct buf report;
    buf_init(&report, LIMIT_TEXT * 2);
    if (rc == 0) {
        rc = work(&w, m, &now);
    }
    int put = 0;
    if (rc < 0) {
        put = report_put_number(&report, 'F', (uint64_t)-rc, NULL);
        if (put == 0) {
            put = report_put(&report, 'M', now.text, strlen(now.text), NULL);
        }
    }
    if (put == 0) {
        put = report_put_number(&report, 'Y', w.type, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'S', w.size, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'U', w.truncated, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'H', w.stamp, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'D', 0, NULL);
    }
    if (put == 0) {
        err_ignore(fd_write_all(report_fd, report.data, report.len, NULL));
    }
    buf_finish(&report);
}
