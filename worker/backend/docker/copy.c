/*
 * A bind mount would be faster if the engine sees this host's files, but that cannot be known: in
 * the virtual machine of a desktop the path may exist and be another file. A copy works everywhere,
 * and each installer gets a fresh one.
 *
 * Each mount is one archive, made while it is sent, so memory holds one piece of one file, however
 * large the directory is. The list of files is made first, so that limits are checked before
 * anything is sent; a file that changes meanwhile fails the copy.
 *
 * Symlinks are followed only to files, and directories only to a limited depth, so a directory
 * cannot contain itself. Sockets, devices and the like are left out.
 */
#include "worker/backend/docker/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "worker/backend/docker/tar.h"

#define FILES_MAX  20000
#define DEPTH_MAX  8
#define BYTES_MAX  ((uint64_t)8 << 30)
#define PIECE      (64u << 10)
#define OUT_MAX    (4 * PIECE)
#define SILENCE_MS 60000 /* an engine may be busy unpacking */

struct item {
    char *name; /* in the archive */
    char *path; /* here */
    bool is_dir;
    uint64_t size;
};

struct docker_copy {
    struct docker_api *api;
    struct docker_call *call;
    char *container;
    const struct backend_mount *mounts;
    size_t count, next;

    struct item *items; /* of the mount that is being copied */
    size_t item_count, item_room, item_next;
    uint64_t bytes;
    struct docker_tar *tar;
    struct buf out; /* of the archive, not yet sent */
    int fd;         /* the file that is being read, or -1 */
    uint64_t left;  /* of it */
    bool ended;

    struct err err;
    docker_copy_fn done;
    void *arg;
};

int docker_copy_target(const struct backend_mount *mount, char **ret, struct err *err)
{
    struct stat st;
    if (stat(mount->host_path, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "%s", mount->host_path);
    }
    const char *slash = strrchr(mount->inside_path, '/');
    if (S_ISDIR(st.st_mode)) {
        *ret = alloc_strdup(mount->inside_path);
    } else if (slash == NULL || slash == mount->inside_path) {
        return err_set(err, ERR_CONFIG, "%s: a file needs a directory of its own in a container",
                       mount->inside_path);
    } else {
        *ret = alloc_viewdup(view_bytes(mount->inside_path, (size_t)(slash - mount->inside_path)));
    }
    return 0;
}

/* ---- the list of files ---------------------------------------------------------------------- */

static void items_clear(struct docker_copy *c)
{
    for (size_t i = 0; i < c->item_count; i++) {
        free(c->items[i].name);
        free(c->items[i].path);
    }
    free(c->items);
    c->items = NULL;
    c->item_count = c->item_room = c->item_next = 0;
    c->bytes = 0;
}

static int item_add(struct docker_copy *c, const char *name, const char *path,
                    const struct stat *st, struct err *err)
{
    bool is_dir = S_ISDIR(st->st_mode);
    uint64_t size = is_dir ? 0 : (uint64_t)st->st_size;
    if (c->item_count == FILES_MAX || size > BYTES_MAX - c->bytes) {
        return err_set(err, ERR_TOO_BIG,
                       "%s: more than %d files or %llu GiB cannot be copied into a container for "
                       "each installation; offer them by a package index",
                       c->mounts[c->next].host_path, FILES_MAX,
                       (unsigned long long)(BYTES_MAX >> 30));
    }
    if (c->item_count == c->item_room) {
        size_t room = c->item_room > 0 ? c->item_room * 2 : 16;
        struct item *more = alloc_array(room, sizeof(*more));
        if (c->item_count > 0) {
            memcpy(more, c->items, c->item_count * sizeof(*more));
        }
        free(c->items);
        c->items = more;
        c->item_room = room;
    }
    c->items[c->item_count++] = (struct item){
        .name = alloc_strdup(name), .path = alloc_strdup(path), .is_dir = is_dir, .size = size};
    c->bytes += size;
    return 0;
}

static int list_dir(struct docker_copy *c, const char *prefix, const char *path, int depth,
                    struct err *err);

static int list_entry(struct docker_copy *c, const char *name, const char *path, int depth,
                      struct err *err)
{
    struct stat own, st;
    if (lstat(path, &own) < 0 || stat(path, &st) < 0) {
        return 0; /* a dangling link, or removed just now: left out */
    }
    if (S_ISREG(st.st_mode)) {
        return item_add(c, name, path, &st, err);
    }
    if (!S_ISDIR(own.st_mode) || depth == DEPTH_MAX) {
        return 0;
    }
    int rc = item_add(c, name, path, &own, err);
    return rc < 0 ? rc : list_dir(c, name, path, depth + 1, err);
}

static int list_dir(struct docker_copy *c, const char *prefix, const char *path, int depth,
                    struct err *err)
{
    DIR *dir = opendir(path);
    int rc = 0;
    if (dir == NULL) {
        return err_sys(err, ERR_CONFIG, errno, "%s", path);
    }
    for (const struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        CLEANUP_FREE char *name =
            alloc_printf("%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", e->d_name);
        CLEANUP_FREE char *full = alloc_printf("%s/%s", path, e->d_name);
        rc = list_entry(c, name, full, depth, err);
    }
    closedir(dir);
    return rc;
}

static int list_mount(struct docker_copy *c, const struct backend_mount *mount, struct err *err)
{
    struct stat st;
    if (stat(mount->host_path, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "%s", mount->host_path);
    }
    return S_ISDIR(st.st_mode)
               ? list_dir(c, "", mount->host_path, 0, err)
               : item_add(c, strrchr(mount->inside_path, '/') + 1, mount->host_path, &st, err);
}

/* ---- the archive ---------------------------------------------------------------------------- */

static void close_file(struct docker_copy *c)
{
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

static int begin_item(struct docker_copy *c, const struct item *item, struct err *err)
{
    struct stat st;
    int rc = docker_tar_entry(c->tar, item->name, item->is_dir, item->size, err);
    if (rc < 0 || item->is_dir) {
        return rc;
    }
    c->fd = open(item->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0 || fstat(c->fd, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "%s", item->path);
    }
    c->left = item->size;
    return S_ISREG(st.st_mode) ? 0 : err_set(err, ERR_CONFIG, "%s is no file", item->path);
}

static int add_piece(struct docker_copy *c, struct err *err)
{
    char piece[PIECE];
    const char *path = c->items[c->item_next - 1].path;
    if (c->left == 0) {
        close_file(c);
        return 0;
    }
    ssize_t n = read(c->fd, piece, c->left < sizeof(piece) ? (size_t)c->left : sizeof(piece));
    if (n < 0) {
        return errno == EINTR ? 0 : err_sys(err, ERR_IO, errno, "%s", path);
    }
    if (n == 0) {
        return err_set(err, ERR_IO, "%s became shorter while it was copied", path);
    }
    c->left -= (uint64_t)n;
    return docker_tar_content(c->tar, view_bytes(piece, (size_t)n), err);
}

/* Appends the next part of the archive to c->out. */
static int advance(struct docker_copy *c, struct err *err)
{
    if (c->fd >= 0) {
        return add_piece(c, err);
    }
    if (c->item_next < c->item_count) {
        return begin_item(c, &c->items[c->item_next++], err);
    }
    c->ended = true;
    return docker_tar_finish(c->tar, err);
}

static int on_copy_fill(void *arg, char *out, size_t cap)
{
    struct docker_copy *c = arg;
    while (c->out.len == 0 && !c->ended) {
        int rc = advance(c, &c->err);
        if (rc < 0) {
            return rc;
        }
    }
    size_t n = c->out.len < cap ? c->out.len : cap;
    if (n > 0) {
        memcpy(out, c->out.data, n);
        buf_consume(&c->out, n);
    }
    return (int)n;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void archive_end(struct docker_copy *c)
{
    close_file(c);
    docker_tar_close(c->tar);
    c->tar = NULL;
    items_clear(c);
    buf_reset(&c->out, 0);
}

void docker_copy_cancel(struct docker_copy *c)
{
    if (c == NULL) {
        return;
    }
    if (c->call != NULL) {
        docker_api_cancel(c->call);
    }
    archive_end(c);
    buf_finish(&c->out);
    free(c->container);
    free(c);
}

static void finish_copy(struct docker_copy *c)
{
    docker_copy_fn done = c->done;
    void *arg = c->arg;
    struct err err = c->err;
    docker_copy_cancel(c);
    done(arg, -err.code, err.code != 0 ? &err : NULL);
}

static void copy_next(struct docker_copy *c);

static void on_part_copied(void *arg, int rc, const struct docker_reply *reply,
                           const struct err *err)
{
    struct docker_copy *c = arg;
    (void)reply;
    c->call = NULL;
    archive_end(c);
    if (rc < 0) {
        if (c->err.code == 0) { /* else our error comes first, which caused the engine's */
            c->err = *err;
        }
        err_ignore(
            err_wrap(&c->err, "cannot copy %s into the container", c->mounts[c->next].host_path));
        finish_copy(c);
    } else if (++c->next < c->count) {
        copy_next(c);
    } else {
        finish_copy(c);
    }
}

/* Reports a failure before the first request, a loop turn later, as all others. */
static void on_copy_unreadable(void *arg, int rc, const struct docker_reply *reply,
                               const struct err *err)
{
    struct docker_copy *c = arg;
    (void)rc, (void)reply, (void)err;
    c->call = NULL;
    finish_copy(c);
}

static void copy_next(struct docker_copy *c)
{
    const struct backend_mount *mount = &c->mounts[c->next];
    CLEANUP_FREE char *target = NULL;
    struct docker_request request = {.method = "GET", .path = "/_ping"};
    c->ended = false;
    if (docker_copy_target(mount, &target, &c->err) < 0 || list_mount(c, mount, &c->err) < 0 ||
        docker_tar_open(&c->out, &c->tar, &c->err) < 0) {
        archive_end(c);
        c->call = docker_api_call(c->api, &request, on_copy_unreadable, c);
        return;
    }
    CLEANUP_FREE char *escaped = http_escape(target);
    CLEANUP_FREE char *path = alloc_printf("/containers/%s/archive?path=%s&noOverwriteDirNonDir=1",
                                           c->container, escaped);
    request = (struct docker_request){
        .method = "PUT",
        .path = path,
        .fill = on_copy_fill,
        .content_type = "application/x-tar",
        .silence_ms = SILENCE_MS,
    };
    c->call = docker_api_call(c->api, &request, on_part_copied, c);
}

struct docker_copy *docker_copy_start(struct docker_api *api, const char *container,
                                      const struct backend_mount *mounts, size_t count,
                                      docker_copy_fn done, void *arg)
{
    struct docker_copy *c = alloc_one(struct docker_copy);
    c->api = api;
    c->container = alloc_strdup(container);
    c->mounts = mounts;
    c->count = count;
    c->fd = -1;
    c->done = done;
    c->arg = arg;
    buf_init(&c->out, OUT_MAX);
    copy_next(c);
    return c;
}
