/*
 * A file that comes in pieces, since one message cannot hold it.
 *
 * The pieces are appended to a hidden file beside the target. The sender chooses its name, so no
 * process keeps state from one piece to the next. The last piece renames the file, so a reader of
 * the target sees the old file or the whole new one. A piece must begin where the file ends; if it
 * does not, something in the sandbox has changed the file, and the whole write fails.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/agent/run/filework.h"

#define WORD_MAX 32

static int read_word(const struct msg_start *m, char ret[WORD_MAX + 1], struct err *err)
{
    struct view word = m->args.count == 1 ? m->args.items[0] : view_of("");
    bool good = word.len > 0 && word.len <= WORD_MAX;
    for (size_t i = 0; good && i < word.len; i++) {
        good = isalnum((unsigned char)word.data[i]) != 0;
    }
    if (!good) {
        return err_set(err, ERR_INVALID, "a piece of a file needs a word of letters and digits");
    }
    memcpy(ret, word.data, word.len);
    ret[word.len] = '\0';
    return 0;
}

static int add_part(const struct msg_start *m, const char *part, const char *path,
                    uint64_t *ret_size, int *ret_fd, struct err *err)
{
    int how = m->offset == 0 ? O_CREAT | O_EXCL : 0;
    CLEANUP_FD int fd =
        open(part, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | how, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return filework_error(err, errno, path);
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != m->offset) {
        return err_set(err, ERR_PATH, "%s: what was written of it so far has been changed", path);
    }
    int rc = fd_write_all(fd, m->data.data, m->data.len, err);
    if (rc < 0) {
        return filework_error(err, err->sys, path);
    }
    *ret_size = m->offset + m->data.len;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int put_in_place(int fd, const char *part, const struct filework_target *target,
                        const char *path, uint64_t *ret_stamp, struct err *err)
{
    struct stat st;
    if (fchmod(fd, (mode_t)target->mode) < 0 || rename(part, target->path) < 0 ||
        fstat(fd, &st) < 0) {
        return filework_error(err, errno, path);
    }
    *ret_stamp = filework_stamp(&st);
    return 0;
}

int filework_write_part(struct filework *w, const struct msg_start *m, const char *path,
                        struct err *err)
{
    struct filework_target target;
    char word[WORD_MAX + 1];
    char part[PATH_MAX];
    int rc = read_word(m, word, err);
    if (rc == 0) {
        rc = filework_resolve(m, path, &target, err);
    }
    if (rc == 0) {
        rc = filework_beside(target.path, word, part, sizeof(part), err);
    }
    if (rc < 0) {
        return rc;
    }
    if (m->flags & OP_FLAG_DROP) {
        return unlink(part) < 0 && errno != ENOENT ? filework_error(err, errno, path) : 0;
    }
    CLEANUP_FD int fd = -1;
    rc = add_part(m, part, path, &w->size, &fd, err);
    if (rc == 0 && m->flags & OP_FLAG_LAST) {
        rc = put_in_place(fd, part, &target, path, &w->stamp, err);
    }
    if (rc < 0) {
        unlink(part);
        return rc;
    }
    w->type = FILE_TYPE_FILE;
    return 0;
}
