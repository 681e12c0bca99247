/*
 * `cp` of directories, file by file.
 *
 * Into a sandbox we walk our own directory; the directories there come with the first file in them.
 * Out of one we have a list from the server, and its names are whatever the code inside has made
 * them. So each is checked: none is absolute, empty, . or .., and each directory on the way is
 * opened from the one above it, never through a link. Nothing is written but below the directory
 * that was named here.
 *
 * Links, special files, on the way in empty directories, and on the way out those that the code
 * inside may not list, are left out. Each is named, and the status says that not all was copied;
 * the rest is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "common/str.h"
#include "supervisor/commands/internal.h"

#define FILES_MAX  10000 /* as the server's lists */
#define DEPTH_MAX  64
#define DIR_MODE   0755
#define MODE_BITS  0777
#define PART_CHARS 10 /* of the name of a file that is not whole yet */
#define PART_TRIES 5
#define MODE_LIST  0500 /* what the owner of a directory needs to list what is in it */

struct tree {
    const struct server *server;
    const char *sandbox; /* its path in the API */
    size_t files, left_out;
};

static void leave_out(struct tree *t, const char *path, const char *why)
{
    CLEANUP_FREE char *shown = text_for_terminal(path);
    fprintf(stderr, "cloister: %s is left out: %s\n", shown, why);
    t->left_out++;
}

/* What is said at the end if nothing worse has happened. */
static int end_tree(const struct tree *t, int rc, struct err *err)
{
    if (rc == 0 && t->left_out > 0) {
        return err_set(err, ERR_INVALID, "%zu files copied, %zu left out", t->files, t->left_out);
    }
    return rc;
}

static int count_file(struct tree *t, struct err *err)
{
    return ++t->files > FILES_MAX
               ? err_set(err, ERR_TOO_BIG, "more than %d files; copy an archive of them", FILES_MAX)
               : 0;
}

/* ---- in ------------------------------------------------------------------------------------- */

static int send_directory(struct tree *t, int owned_fd, const char *from, const char *inside,
                          unsigned depth, struct err *err);

static int send_file(struct tree *t, int owned_fd, const char *from, const char *inside,
                     unsigned mode, struct err *err)
{
    FILE *in = fdopen(owned_fd, "r");
    if (in == NULL) {
        close(owned_fd);
        return err_sys(err, ERR_IO, errno, "%s", from);
    }
    int rc = count_file(t, err);
    if (rc == 0) {
        rc = copy_send(t->server, t->sandbox, inside, mode & MODE_BITS, in, err);
    }
    fclose(in);
    return rc;
}

static int send_entry(struct tree *t, int dir, const char *name, const char *from,
                      const char *inside, unsigned depth, struct err *err)
{
    struct stat st;
    CLEANUP_FREE char *path = alloc_printf("%s/%s", from, name);
    CLEANUP_FREE char *to = alloc_printf("%s/%s", inside, name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(err, ERR_IO, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        leave_out(t, path, S_ISLNK(st.st_mode) ? "it is a link" : "it is no file");
        return 0;
    }
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", path);
    }
    return S_ISDIR(st.st_mode) ? send_directory(t, fd, path, to, depth + 1, err)
                               : send_file(t, fd, path, to, st.st_mode, err);
}

/* *ret is NULL behind the last one. Only errno tells that end from an error. */
static int next_in_directory(DIR *dir, const char *from, struct dirent **ret, struct err *err)
{
    errno = 0;
    *ret = readdir(dir);
    return *ret == NULL && errno != 0 ? err_sys(err, ERR_IO, errno, "%s", from) : 0;
}

static int send_directory(struct tree *t, int owned_fd, const char *from, const char *inside,
                          unsigned depth, struct err *err)
{
    struct dirent *entry;
    bool empty = true;
    int rc = 0;
    DIR *dir = fdopendir(owned_fd);
    if (dir == NULL) {
        close(owned_fd);
        return err_sys(err, ERR_IO, errno, "%s", from);
    }
    if (depth > DEPTH_MAX) {
        rc = err_set(err, ERR_TOO_BIG, "%s: more than %d directories deep", from, DEPTH_MAX);
    }
    while (rc == 0 && (rc = next_in_directory(dir, from, &entry, err)) == 0 && entry != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            empty = false;
            rc = send_entry(t, dirfd(dir), entry->d_name, from, inside, depth, err);
        }
    }
    closedir(dir);
    if (rc == 0 && empty) {
        leave_out(t, from, "it is empty");
    }
    return rc;
}

int copy_tree_in(const struct server *server, const char *sandbox, const char *from,
                 const char *inside, struct err *err)
{
    struct tree t = {.server = server, .sandbox = sandbox};
    int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", from);
    }
    return end_tree(&t, send_directory(&t, fd, from, inside, 0, err), err);
}

/* ---- out ------------------------------------------------------------------------------------ */

/* Whether a path of the list stays below where it begins. */
static bool is_path_below(const char *path)
{
    unsigned depth = 0;
    while (true) {
        size_t len = strcspn(path, "/");
        bool is_dots = path[0] == '.' && (len == 1 || (len == 2 && path[1] == '.'));
        if (len == 0 || is_dots || ++depth > DEPTH_MAX) {
            return false;
        }
        if (path[len] == '\0') {
            return true;
        }
        path += len + 1;
    }
}

/* Opens the directory of a path below `top`, and makes those that are missing. *ret_name is the
 * last part. */
static int open_parent(int top, const char *path, const char **ret_name, struct err *err)
{
    CLEANUP_FD int at = fcntl(top, F_DUPFD_CLOEXEC, 0);
    const char *slash;
    while (at >= 0 && (slash = strchr(path, '/')) != NULL) {
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(path, (size_t)(slash - path)));
        if (mkdirat(at, name, DIR_MODE) < 0 && errno != EEXIST) {
            return err_sys(err, ERR_IO, errno, "%s", name);
        }
        int below = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) {
            return err_sys(err, ERR_IO, errno, "%s", name);
        }
        fd_close(&at);
        at = below;
        path = slash + 1;
    }
    *ret_name = path;
    return at < 0 ? err_sys(err, ERR_IO, errno, "%s", path) : steal_fd(&at);
}

/* Opens a new file of a name that nobody has. *ret_name is the caller's, also after an error. */
static int open_part(int dir, unsigned mode, FILE **ret, char **ret_name, struct err *err)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    char random[PART_CHARS + 1];
    int fd = -1;
    for (int i = 0; fd < 0 && i < PART_TRIES && (i == 0 || errno == EEXIST); i++) {
        int rc = random_id(random, PART_CHARS, err);
        if (rc < 0) {
            return rc;
        }
        free(*ret_name);
        *ret_name = alloc_printf(".cloister-%s.part", random);
        fd = openat(dir, *ret_name, flags, mode);
    }
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", *ret_name);
    }
    *ret = fdopen(fd, "w");
    if (*ret == NULL) {
        int rc = err_sys(err, ERR_IO, errno, "%s", *ret_name);
        close(fd);
        (void)unlinkat(dir, *ret_name, 0);
        return rc;
    }
    return 0;
}

/* It has its name when it is whole. */
static int fetch_into(const struct tree *t, int dir, const char *name, const char *inside,
                      unsigned mode, struct err *err)
{
    CLEANUP_FREE char *part = NULL;
    FILE *out = NULL;
    int rc = open_part(dir, mode & MODE_BITS, &out, &part, err);
    if (rc < 0) {
        return rc;
    }
    rc = copy_fetch(t->server, t->sandbox, inside, out, err);
    if (fclose(out) != 0 && rc == 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", name);
    }
    if (rc == 0 && renameat(dir, part, dir, name) < 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", name);
    }
    if (rc < 0) {
        (void)unlinkat(dir, part, 0);
    }
    return rc;
}

/* Whether a directory of the list may have more in it than is listed. What is in it would come
 * right behind it. */
static bool is_unlisted(const cJSON *directory, const char *path, unsigned mode)
{
    const char *next = member_text(directory->next, "path");
    size_t len = strlen(path);
    bool is_below = strncmp(next, path, len) == 0 && next[len] == '/';
    return (mode & MODE_LIST) != MODE_LIST && !is_below;
}

static int fetch_entry(struct tree *t, int top, const char *base, const cJSON *entry,
                       struct err *err)
{
    const char *path = member_text(entry, "path"), *type = member_text(entry, "type");
    unsigned mode = (unsigned)member_number(entry, "mode");
    const char *name = NULL;
    bool is_dir = strcmp(type, "directory") == 0;
    CLEANUP_FREE char *inside = alloc_printf("%s/%s", base, path);
    if (!is_path_below(path)) {
        return err_set(err, ERR_PATH, "%.200s in the list of files leads elsewhere", path);
    }
    if (!is_dir && strcmp(type, "file") != 0) {
        leave_out(t, inside, strcmp(type, "symlink") == 0 ? "it is a link" : "it is no file");
        return 0;
    }
    if (is_dir && is_unlisted(entry, path, mode)) {
        leave_out(t, inside, "it cannot be read");
        return 0;
    }
    CLEANUP_FD int dir = open_parent(top, path, &name, err);
    if (dir < 0) {
        return dir;
    }
    if (is_dir) {
        return mkdirat(dir, name, DIR_MODE) < 0 && errno != EEXIST
                   ? err_sys(err, ERR_IO, errno, "%s", name)
                   : 0;
    }
    int rc = count_file(t, err);
    return rc < 0 ? rc : fetch_into(t, dir, name, inside, mode, err);
}

int copy_tree_out(const struct server *server, const char *sandbox, const char *inside,
                  const cJSON *listing, const char *to, struct err *err)
{
    struct tree t = {.server = server, .sandbox = sandbox};
    const cJSON *entry;
    int rc = 0;
    if (cJSON_IsTrue(json_get(listing, "truncated"))) {
        return err_set(err, ERR_TOO_BIG,
                       "there is more in %s than can be listed (%d entries); "
                       "copy an archive of it",
                       inside, FILES_MAX);
    }
    if (mkdir(to, DIR_MODE) < 0 && errno != EEXIST) {
        return err_sys(err, ERR_IO, errno, "%s", to);
    }
    CLEANUP_FD int top = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) {
        return err_sys(err, ERR_IO, errno, "%s", to);
    }
    if (member_number(listing, "unnamed") > 0) {
        CLEANUP_FREE char *which = alloc_printf("%s: what has a name that is no UTF-8", inside);
        leave_out(&t, which, "it cannot be asked for");
    }
    cJSON_ArrayForEach(entry, json_get(listing, "entries"))
    {
        rc = rc == 0 ? fetch_entry(&t, top, inside, entry, err) : rc;
    }
    return end_tree(&t, rc, err);
}
