/*
 * Listing directories, depth first and each sorted by name, so that the same tree always gives the
 * same list and a cut list is its beginning. A directory is read completely before its first entry
 * is reported, but at most LIST_SLACK times as many names are kept as can still be reported: the
 * last ones in the order are dropped. No descriptor stays open on the way down, so only the length
 * of paths limits the depth. Symlinks are reported, never followed, but whether one leads to a
 * directory is told.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "proto/codec.h"
#include "worker/agent/run/filework.h"

#define LIST_SLACK  2
#define FLUSH_BYTES (32u << 10)

struct listing {
    struct filework *w;
    int root;
    bool recursive;
    size_t left;               /* entries that may still be reported */
    char path[LIMIT_PATH + 1]; /* of the current entry, relative to the root */
    struct buf frames;
};

struct names {
    char **items; /* owned strings */
    size_t count, cap;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_cut(struct names *n, size_t most)
{
    while (n->count > most) {
        free(n->items[--n->count]);
    }
}

static void names_finish(struct names *n)
{
    names_cut(n, 0);
    free(n->items);
}

static int names_add(struct names *n, const char *name, struct err *err)
{
    if (n->count == n->cap) {
        size_t cap = n->cap > 0 ? n->cap * 2 : 64;
        char **items = realloc(n->items, cap * sizeof(*items));
        if (items == NULL) {
            return err_set(err, ERR_NO_MEMORY, "too many names");
        }
        n->items = items;
        n->cap = cap;
    }
    char *copy = strdup(name);
    if (copy == NULL) {
        return err_set(err, ERR_NO_MEMORY, "too many names");
    }
    n->items[n->count++] = copy;
    return 0;
}

/* The smallest l->left names, and one more if there are more. */
static int read_names(const struct listing *l, int fd, struct names *ret, struct err *err)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int rc = err_sys(err, ERR_IO, errno, "read a directory");
        close(fd);
        return rc;
    }
    size_t most = l->left + 1;
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        rc = names_add(ret, entry->d_name, err);
        if (ret->count >= most * LIST_SLACK) {
            qsort(ret->items, ret->count, sizeof(ret->items[0]), compare_entries);
            names_cut(ret, most);
        }
    }
    closedir(dir);
    if (ret->count > 0) {
        qsort(ret->items, ret->count, sizeof(ret->items[0]), compare_entries);
    }
    names_cut(ret, most);
    return rc;
}

static int flush(struct listing *l, struct err *err)
{
    int rc = fd_write_all(l->w->out_fd, l->frames.data, l->frames.len, err);
    buf_reset(&l->frames, l->frames.cap);
    return rc;
}

void filework_entry(struct msg_entry *e, const char *path, const struct stat *st)
{
    int64_t seconds = st->st_mtim.tv_sec > 0 ? st->st_mtim.tv_sec : 0;
    e->path = view_of(path);
    e->type = filework_type(st->st_mode);
    e->size = (uint64_t)st->st_size;
    e->mode = st->st_mode & 07777;
    e->mtime_ms = (uint64_t)seconds * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000;
}

static int report_entry(struct listing *l, const struct stat *st, struct err *err)
{
    struct msg m = {.type = MSG_ENTRY};
    struct stat target;
    filework_entry(&m.entry, l->path, st);
    if (S_ISLNK(st->st_mode) && fstatat(l->root, l->path, &target, 0) == 0 &&
        S_ISDIR(target.st_mode)) {
        m.entry.type = FILE_TYPE_SYMLINK_DIRECTORY;
    }
    int rc = msg_encode_frame(&l->frames, &m, err);
    if (rc == 0 && l->frames.len >= FLUSH_BYTES) {
        rc = flush(l, err);
    }
    l->left--;
    l->w->size++;
    return rc;
}

static int walk(struct listing *l, int fd, size_t path_len, struct err *err);

/* The entry `name` of the directory whose path fills the first path_len bytes. */
static int visit(struct listing *l, const char *name, size_t path_len, struct err *err)
{
    struct stat st;
    size_t slash = path_len > 0 ? 1 : 0;
    size_t len = path_len + slash + strlen(name);
    if (len > LIMIT_PATH) {
        l->w->truncated = true; /* nobody could name it */
        return 0;
    }
    if (slash > 0) {
        l->path[path_len] = '/';
    }
    memcpy(l->path + path_len + slash, name, strlen(name) + 1);
    if (fstatat(l->root, l->path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0; /* gone meanwhile */
    }
    int rc = report_entry(l, &st, err);
    if (rc < 0 || !l->recursive || !S_ISDIR(st.st_mode)) {
        return rc;
    }
    int fd = openat(l->root, l->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return 0; /* the user may not read it: its entry is listed, its content is not */
    }
    return walk(l, fd, len, err);
}

static int walk(struct listing *l, int fd, size_t path_len, struct err *err)
{
    struct names names = {0};
    int rc = read_names(l, fd, &names, err);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        if (l->left == 0) {
            l->w->truncated = true;
            break;
        }
        rc = visit(l, names.items[i], path_len, err);
    }
    names_finish(&names);
    return rc;
}

int filework_list(struct filework *w, const struct msg_start *m, const char *path, struct err *err)
{
    CLEANUP_FD int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (root < 0) {
        if (errno == ENOTDIR && stat(path, &st) == 0) {
            w->type = filework_type(st.st_mode);
            return err_set(err, ERR_PATH, "%s: is not a directory", path);
        }
        return filework_error(err, errno, path);
    }
    w->type = FILE_TYPE_DIRECTORY;
    struct listing l = {
        .w = w,
        .root = root,
        .recursive = (m->flags & OP_FLAG_RECURSIVE) != 0,
        .left = m->length > 0 && m->length < LIMIT_ENTRIES ? (size_t)m->length : LIMIT_ENTRIES,
    };
    buf_init(&l.frames, FLUSH_BYTES + 2 * LIMIT_PATH);
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? filework_error(err, errno, path) : walk(&l, fd, 0, err);
    if (rc == 0) {
        rc = flush(&l, err);
    }
    buf_finish(&l.frames);
    return rc;
}
