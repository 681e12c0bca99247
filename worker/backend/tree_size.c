/*
 * The tree belongs to code that is not trusted and that changes it meanwhile. So every step is
 * taken from an open directory, nothing is followed through a link, and what went in the meantime
 * counts nothing. How much work it is, is bounded by `max_bytes`, since every entry counts for
 * something.
 *
 * What is moved about while it is counted may be missed. Files that have no name any more are. So a
 * figure is exact only of a tree that nobody changes.
 */
#include "worker/backend/tree_size.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"

struct count {
    struct task task;
    uv_work_t work;
    char *path;
    uint64_t bytes, max_bytes;
    int rc;
    struct err err;
    tree_size_fn fn; /* NULL: dropped */
    void *arg;
};

static int count_directory(struct count *c, int fd, int depth);

/* Whether an entry is not there any more, or is another kind of file by now. */
static bool has_changed(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

static int count_entry(struct count *c, int parent, const char *name, int depth)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return has_changed(errno) ? 0 : err_sys(&c->err, ERR_IO, errno, "cannot look at %s", name);
    }
    uint64_t blocks = (uint64_t)st.st_blocks * 512;
    c->bytes += blocks > TREE_SIZE_ENTRY ? blocks : TREE_SIZE_ENTRY;
    if (!S_ISDIR(st.st_mode) || c->bytes > c->max_bytes) {
        return 0;
    }
    if (depth == TREE_SIZE_DEPTH) {
        return err_set(&c->err, ERR_TOO_BIG, "directories are nested more than %d deep",
                       TREE_SIZE_DEPTH);
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return has_changed(errno) ? 0 : err_sys(&c->err, ERR_IO, errno, "cannot open %s", name);
    }
    return count_directory(c, fd, depth + 1);
}

/* Takes fd over. */
static int count_directory(struct count *c, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int error = errno;
        close(fd);
        return err_sys(&c->err, ERR_IO, error, "cannot read a directory");
    }
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && c->bytes <= c->max_bytes && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc = count_entry(c, dirfd(dir), entry->d_name, depth);
        }
    }
    closedir(dir);
    return rc;
}

/* In a thread of the pool. */
static void on_count(uv_work_t *work)
{
    struct count *c = work->data;
    int fd = open(c->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        c->rc = count_directory(c, fd, 0);
    } else if (errno != ENOENT) {
        c->rc = err_sys(&c->err, ERR_IO, errno, "cannot open %s", c->path);
    }
}

static void on_counted(uv_work_t *work, int status)
{
    struct count *c = work->data;
    (void)status; /* never cancelled */
    if (c->fn != NULL) {
        c->fn(c->arg, c->rc, c->bytes, c->rc < 0 ? &c->err : NULL);
    }
    task_leave(&c->task);
    free(c->path);
    free(c);
}

/* The thread goes on to its end, which is not far. */
static void drop_count(struct task *task)
{
    ((struct count *)task)->fn = NULL;
}

void tree_size_start(struct tasks *tasks, const char *path, uint64_t max_bytes, tree_size_fn fn,
                     void *arg)
{
    struct count *c = alloc_one(struct count);
    c->path = alloc_strdup(path);
    c->max_bytes = max_bytes;
    c->fn = fn;
    c->arg = arg;
    c->work.data = c;
    task_enter(tasks, &c->task, drop_count);
    /* fails only without a callback */
    (void)uv_queue_work(tasks->loop, &c->work, on_count, on_counted);
}
