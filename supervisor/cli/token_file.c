/*
 * A server may read the file at any moment, so it is replaced as a whole, when the new text is one
 * that servers take: tokens_read() has read it. Comments and other lines stay as they are, with
 * owner, group and mode of the file, which may be the end of a symbolic link.
 *
 * Two commands at once would each read the old text, and the later would undo what the earlier has
 * written. So from the reading to the end of the replacement a command holds the flock of a file
 * beside it. The file of tokens itself would not do, since its name is another file's then. The
 * lock is removed while it is held: who has waited for it finds that it has no name any more, and
 * makes the next one.
 */
#include "supervisor/cli/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "supervisor/base/secret_file.h"
#include "supervisor/web/auth/tokens.h"

#define NEW_MODE 0600
#define BLANKS   " \t\r"

/* A line without its end; `rest` begins behind the name. False: it has no token. */
struct token_line {
    struct view whole, name, rest;
};

static bool next_token_line(struct view *text, struct token_line *ret)
{
    const char *end = memchr(text->data, '\n', text->len);
    size_t len = end != NULL ? (size_t)(end - text->data) : text->len;
    struct view line = view_bytes(text->data, len);
    size_t skip = end != NULL ? len + 1 : len;
    *text = view_bytes(text->data + skip, text->len - skip);
    ret->whole = line;
    struct view body = view_trimmed(line);
    size_t name_len = 0;
    while (name_len < body.len && strchr(BLANKS, body.data[name_len]) == NULL) {
        name_len++;
    }
    ret->name = view_bytes(body.data, name_len);
    ret->rest = view_trimmed(view_bytes(body.data + name_len, body.len - name_len));
    return body.len > 0 && body.data[0] != '#';
}

static int check_text(const char *path, struct view text, struct err *err)
{
    const struct principal_limits limits = {0};
    struct tokens *tokens = NULL;
    bool plain = false;
    int rc = tokens_read(text, &limits, clock_wall_ms(), &tokens, &plain, err);
    tokens_destroy(tokens);
    return rc < 0 ? err_wrap(err, "%s", path) : 0;
}

static int replace_text(const char *path, const struct buf *text, struct err *err)
{
    int rc = check_text(path, view_bytes(text->data, text->len), err);
    return rc < 0 ? rc
                  : file_replace_like(path, text->data != NULL ? text->data : (const uint8_t *)"",
                                      text->len, NEW_MODE, err);
}

/* Empty if there is no file yet, and `may_lack`. */
static int read_token_text(const char *path, bool may_lack, struct buf *ret, struct err *err)
{
    bool open = false;
    if (may_lack && access(path, F_OK) < 0 && errno == ENOENT) {
        buf_init(ret, SECRET_FILE_MAX_BYTES + 1);
        return 0;
    }
    return secret_file_read(path, ret, &open, err);
}

/* Waits for the lock. *ret_path is its name, and the caller's, as the descriptor is. */
static int lock_tokens(const char *path, char **ret_path, struct err *err)
{
    CLEANUP_FREE char *real = realpath(path, NULL); /* the same for all links to it */
    *ret_path = alloc_printf("%s.lock", real != NULL ? real : path);
    while (true) {
        struct stat ours, named;
        const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
        CLEANUP_FD int fd = open(*ret_path, flags, NEW_MODE);
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &ours) < 0) {
            return err_sys(err, ERR_IO, errno, "%s", *ret_path);
        }
        bool has_name = stat(*ret_path, &named) == 0;
        if (has_name && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev) {
            return steal_fd(&fd);
        }
    }
}

static void unlock_tokens(int owned_fd, const char *lock)
{
    (void)unlink(lock);
    close(owned_fd);
}

static int append_token(const char *path, const char *line, struct err *err)
{
    struct buf text;
    int rc = read_token_text(path, true, &text, err);
    if (rc < 0) {
        return rc;
    }
    if (text.len > 0 && text.data[text.len - 1] != '\n') {
        rc = buf_add_str(&text, "\n", err);
    }
    if (rc == 0) {
        rc = buf_printf(&text, err, "%s\n", line);
    }
    if (rc == 0) {
        rc = replace_text(path, &text, err);
    }
    secret_file_wipe(&text);
    return rc;
}

int token_file_add(const char *path, const char *line, struct err *err)
{
    CLEANUP_FREE char *lock = NULL;
    int fd = lock_tokens(path, &lock, err);
    if (fd < 0) {
        return fd;
    }
    int rc = append_token(path, line, err);
    unlock_tokens(fd, lock);
    return rc;
}

static int drop_tokens(const char *path, const char *name, size_t *ret_count, struct err *err)
{
    struct buf text, kept;
    struct token_line line;
    int rc = read_token_text(path, false, &text, err);
    if (rc < 0) {
        return rc;
    }
    buf_init(&kept, text.len + 1);
    *ret_count = 0;
    for (struct view rest = view_bytes(text.data, text.len); rest.len > 0 && rc == 0;) {
        bool has_token = next_token_line(&rest, &line);
        if (has_token && view_is(line.name, name)) {
            *ret_count += 1;
        } else {
            rc = buf_add(&kept, line.whole.data, line.whole.len, err);
            rc = rc == 0 ? buf_add_str(&kept, "\n", err) : rc;
        }
    }
    if (rc == 0 && *ret_count > 0) {
        rc = replace_text(path, &kept, err);
    }
    secret_file_wipe(&text);
    secret_file_wipe(&kept);
    return rc;
}

int token_file_remove(const char *path, const char *name, size_t *ret_count, struct err *err)
{
    CLEANUP_FREE char *lock = NULL;
    int fd = lock_tokens(path, &lock, err);
    if (fd < 0) {
        return fd;
    }
    int rc = drop_tokens(path, name, ret_count, err);
    unlock_tokens(fd, lock);
    return rc;
}

int token_file_list(const char *path, void (*each)(const char *name, const char *words),
                    struct err *err)
{
    struct buf text;
    struct token_line line;
    int rc = read_token_text(path, false, &text, err);
    if (rc < 0) {
        return rc;
    }
    rc = check_text(path, view_bytes(text.data, text.len), err);
    for (struct view rest = view_bytes(text.data, text.len); rest.len > 0 && rc == 0;) {
        if (!next_token_line(&rest, &line)) {
            continue;
        }
        size_t token = 0; /* which is shown to nobody */
        while (token < line.rest.len && strchr(BLANKS, line.rest.data[token]) == NULL) {
            token++;
        }
        CLEANUP_FREE char *name = alloc_viewdup(line.name);
        CLEANUP_FREE char *words =
            alloc_viewdup(view_trimmed(view_bytes(line.rest.data + token, line.rest.len - token)));
        each(name, words);
    }
    secret_file_wipe(&text);
    return rc;
}
