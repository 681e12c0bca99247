/*
 * The root is a skeleton, and in it the directories of the host or an image. A bind mount would
 * show their inodes, which all sandboxes and the host have in common: a lock taken on one is met on
 * all, so that code without network could tell what it knows to code that has it, and a watch sees
 * what others read. So where the kernel can (reach->views), skeleton and directories are shown
 * through overlays that nobody can write: inodes of its own for each sandbox, one page cache for
 * all. What an overlay cannot show stays a bind mount, and root->bound names it.
 *
 * What overlays show has names of its own (layers.c). Single files cannot be shown so: they are
 * copied into the skeleton.
 *
 * The skeleton is the runtime's root directory. The sandbox's root, a uid that owns nothing here,
 * must be able to enter it: its mode is 0755, and the caller makes sure of its parents
 * (shared_dir). It is built under a temporary name and renamed, so two workers may build the same
 * one at once, and a killed worker leaves no incomplete skeleton under the final name.
 *
 * In a user namespace the kernel refuses to bind a directory without the mounts below it, because
 * that could uncover what they hide. Such a directory is bound with them. Read-only applies to the
 * top mount only, so each mount below is bound read-only over itself again.
 */
#include "worker/backend/oci/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "worker/backend/oci/etc.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/oci/layers.h"
#include "worker/backend/oci/layout.h"
#include "worker/backend/oci/net.h"

#define FORMAT        "cloister skeleton 7" /* part of the hash: change it with the layout */
#define MOUNTS_MAX    256                   /* below one bound directory */
#define MOUNTINFO_MAX (4u << 20)
#define AGENT_MAX     (256u << 20)

/* Below root->dir, too, where runtimes find them before and behind the overlay (layers.c). */
#define RESOLV_CONF ".cloister/resolv.conf"
#define EMPTY_FILE  ".cloister/empty" /* covers files that are mounted below a share */

static void add_bind(struct oci_root *root, const char *source, const char *target, bool deep)
{
    if (root->bind_count == root->bind_cap) {
        size_t cap = root->bind_cap == 0 ? 16 : root->bind_cap * 2;
        struct oci_bind *grown = alloc_array(cap, sizeof(*grown));
        if (root->bind_count > 0) {
            memcpy(grown, root->binds, root->bind_count * sizeof(*grown));
        }
        free(root->binds);
        root->binds = grown;
        root->bind_cap = cap;
    }
    struct statvfs fs;
    root->binds[root->bind_count++] =
        (struct oci_bind){.source = alloc_strdup(source),
                          .target = alloc_strdup(target),
                          .deep = deep,
                          .noexec = statvfs(source, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0};
}

/* mountinfo writes blanks and backslashes as \ooo. In place. */
static void unescape(char *text)
{
    char *out = text;
    for (const char *p = text; *p != '\0';) {
        if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
            p[3] >= '0' && p[3] <= '7') {
            *out++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
            p += 4;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
}

/* The next mount point below `source` that mountinfo names from *line on. False: no more. */
static bool next_mount_below(const char **line, const char *source, char point[PATH_MAX])
{
    size_t len = strlen(source);
    while (*line != NULL && **line != '\0') {
        bool found = sscanf(*line, "%*s %*s %*s %*s %4095s", point) == 1;
        const char *end = strchr(*line, '\n');
        *line = end != NULL ? end + 1 : NULL;
        if (found) {
            unescape(point);
            if (strncmp(point, source, len) == 0 && point[len] == '/') {
                return true;
            }
        }
    }
    return false;
}

static void note_bound(struct oci_root *root, const char *what, const char *why)
{
    char *before = root->bound;
    root->bound = alloc_printf("%sprivate files: locks and watches on %.100s reach other sandboxes "
                               "and this host: %s\n",
                               before != NULL ? before : "", what, why);
    free(before);
}

/* Shows source, an entry of the layout, at target by an overlay. False if that cannot be. */
static bool add_overlay(const char *mountinfo, const char *source, size_t entry, bool covered,
                        const char *target, struct oci_root *root)
{
    char point[PATH_MAX];
    if (next_mount_below(&mountinfo, source, point)) {
        note_bound(root, source, "there are mounts below it");
        return false;
    }
    add_bind(root, source, target, false);
    root->binds[root->bind_count - 1].lower = oci_layers_of_entry(entry, covered);
    return true;
}

static bool is_overlay(const struct oci_root *root, const char *target)
{
    for (size_t i = 0; i < root->bind_count; i++) {
        if (root->binds[i].lower != NULL && strcmp(root->binds[i].target, target) == 0) {
            return true;
        }
    }
    return false;
}

/* Binds source at target, and every mount below source at its path. */
static int bind_tree(const char *mountinfo, const char *source, const char *target,
                     struct oci_root *root, struct err *err)
{
    size_t top = root->bind_count;
    add_bind(root, source, target, false);
    size_t len = strlen(source), found = 0;
    char point[PATH_MAX];
    while (next_mount_below(&mountinfo, source, point)) {
        if (++found > MOUNTS_MAX) {
            return err_set(err, ERR_IMAGE, "more than %d mounts below %s", MOUNTS_MAX, source);
        }
        CLEANUP_FREE char *inside = alloc_printf("%s%s", target, point + len);
        add_bind(root, point, inside, true);
        root->binds[top].deep = true;
    }
    return 0;
}

/* Makes the mount point of BACKEND_APP, unless the image has such a directory; the image's is used
 * in sandboxes that mount none. */
static int put_app(const struct oci_layout *l, int fd, struct err *err)
{
    return oci_layout_has(l, &BACKEND_APP[1]) ? 0 : oci_put_dir(fd, &BACKEND_APP[1], 0755, err);
}

/* A file at the top of an image: its content, or a place to mount it on. */
static int put_top_file(const struct oci_layout *l, const struct oci_entry *e, bool views, int fd,
                        struct err *err)
{
    if (!views || e->uncopied != NULL) {
        return oci_put_file(fd, e->name, "", 0, 0644, err);
    }
    CLEANUP_BUF struct buf content;
    int rc = oci_layout_read(l, e, &content, err);
    return rc < 0 ? rc : oci_put_file(fd, e->name, content.data, content.len, e->access, err);
}

/* The agent's file: itself, or a place to mount it on. */
static int put_agent(const char *agent, bool views, int fd, struct err *err)
{
    CLEANUP_BUF struct buf content;
    buf_init(&content, AGENT_MAX);
    int rc = views ? file_read(agent, &content, err) : 0;
    return rc < 0 ? rc : oci_put_file(fd, &OCI_ROOT_AGENT[1], content.data, content.len, 0755, err);
}

static int fill_skeleton(const char *fs_root, const struct oci_layout *l, const char *agent,
                         const struct oci_root_reach *reach, int fd, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && oci_layout_dirs[i].name != NULL; i++) {
        rc = oci_put_dir(fd, oci_layout_dirs[i].name, oci_layout_dirs[i].mode, err);
    }
    rc = rc < 0 ? rc : put_app(l, fd, err);
    rc = rc < 0 ? rc : put_agent(agent, reach->views, fd, err);
    for (size_t i = 0; rc == 0 && i < l->count; i++) {
        const struct oci_entry *e = &l->entries[i];
        if (S_ISDIR(e->type)) {
            rc = oci_put_dir(fd, e->name, 0755, err);
        } else if (S_ISLNK(e->type)) {
            rc = oci_put_link(fd, e->name, e->link, err);
        } else if (S_ISREG(e->type)) {
            rc = put_top_file(l, e, reach->views, fd, err);
        }
    }
    if (rc == 0 && l->host) {
        rc = oci_put_dir(fd, "root", 0700, err);
        rc = rc < 0 ? rc : oci_put_dir(fd, "opt", 0755, err);
        rc = rc < 0 ? rc : oci_put_dir(fd, "srv", 0755, err);
        rc = rc < 0 ? rc : oci_put_dir(fd, "var", 0755, err);
        rc = rc < 0 ? rc : oci_put_dir(fd, "var/cache", 0755, err);
        rc = rc < 0 ? rc : oci_put_dir(fd, "var/lib", 0755, err);
        rc = rc < 0 ? rc : oci_put_dir(fd, "var/log", 0755, err);
        rc = rc < 0 ? rc : oci_put_link(fd, "var/run", "/run", err);
        rc = rc < 0 ? rc : oci_put_link(fd, "var/tmp", "/tmp", err);
    }
    const char *resolvers = oci_net_resolv_conf();
    rc = rc < 0 ? rc : oci_put_file(fd, EMPTY_FILE, "", 0, 0444, err);
    rc = rc < 0 ? rc : oci_put_file(fd, RESOLV_CONF, resolvers, strlen(resolvers), 0644, err);
    bool own_etc = l->host || !oci_layout_has(l, "etc");
    const char *etc = own_etc ? "etc" : OCI_IMAGE_ETC;
    rc = rc < 0 ? rc : oci_put_dir(fd, etc, 0755, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FD int etc_fd = openat(fd, etc, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (etc_fd < 0) {
        return err_sys(err, ERR_IO, errno, "cannot open %s", etc);
    }
    /* empty without network; with network another file is mounted over it, or this one has it */
    const char *own = reach->views && reach->network ? resolvers : "";
    rc = oci_put_file(etc_fd, "resolv.conf", own, strlen(own), 0644, err);
    if (rc < 0 || l->host) {
        return rc < 0 ? rc : oci_etc_for_host(fs_root, etc_fd, err);
    }
    CLEANUP_FREE char *image_etc = alloc_printf("%s/etc", l->top);
    return oci_etc_for_image(image_etc, etc_fd, err);
}

/* ---- what is mounted besides ---------------------------------------------------------------- */

static bool is_entry_path(const struct oci_layout *l, const char *path, size_t first_len)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strlen(l->entries[i].name) == first_len &&
            strncmp(l->entries[i].name, path, first_len) == 0) {
            return true;
        }
    }
    return false;
}

/* True for paths in fresh writable mounts, in which the runtime makes mount points. */
static bool is_fresh(const char *path)
{
    static const char *const tops[] = {"home/user/", "run/", "tmp/", "workspace/"};
    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
        if (strncmp(path, tops[i], strlen(tops[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Makes a mount point with its parents: an empty directory or file, like the source. Symlinks are
 * not followed, because they would lead out of the skeleton. */
static int put_mount_point(const struct oci_layout *l, int root_fd, const struct backend_mount *m,
                           struct err *err)
{
    const char *path = m->inside_path + strspn(m->inside_path, "/");
    struct stat st;
    if (stat(m->host_path, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "cannot show %.256s in a sandbox", m->host_path);
    }
    if (is_fresh(path)) {
        return 0;
    }
    if (is_entry_path(l, path, strcspn(path, "/"))) {
        CLEANUP_FREE char *inside = alloc_printf("%s/%s", l->top, path);
        return access(inside, F_OK) == 0
                   ? 0
                   : err_set(err, ERR_INVALID, "the image has no %.256s to mount on",
                             m->inside_path);
    }
    CLEANUP_FD int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
    while (at >= 0) {
        char name[NAME_MAX + 1];
        size_t len = strcspn(path, "/");
        if (len == 0 || len > NAME_MAX) {
            errno = ENAMETOOLONG;
            break;
        }
        memcpy(name, path, len);
        name[len] = '\0';
        path += len + strspn(path + len, "/");
        if (*path == '\0' && !S_ISDIR(st.st_mode)) {
            return oci_put_file(at, name, "", 0, 0644, err);
        }
        /* regardless of the umask, since the root of the sandbox's user namespace must be able to
         * enter */
        bool made = mkdirat(at, name, 0755) == 0;
        if (made ? fchmodat(at, name, 0755, 0) < 0 : errno != EEXIST) {
            break;
        }
        if (*path == '\0') {
            return 0;
        }
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
    }
    return err_sys(err, errno == ENOSPC ? ERR_NO_SPACE : ERR_INVALID, errno,
                   "%.256s cannot be a place to mount on", m->inside_path);
}

static int put_share_point(const struct oci_layout *l, int root_fd,
                           const struct backend_share *share, struct err *err)
{
    CLEANUP_FREE char *inside = alloc_printf(BACKEND_SHARES "/%s", share->name);
    const struct backend_mount m = {.host_path = share->host_path, .inside_path = inside};
    return put_mount_point(l, root_fd, &m, err);
}

/* Binds resolv.conf. An image has it as a file or, with some service managers, as a link into /run,
 * which is empty and writable here. */
static int bind_resolv_conf(const struct oci_layout *l, struct oci_root *root,
                            char hint[BACKEND_HINT_MAX], struct err *err)
{
    CLEANUP_FREE char *ours = alloc_printf("%s/" RESOLV_CONF, root->dir);
    bool skeletons = l->host || !oci_layout_has(l, "etc");
    if (root->lower != NULL && (skeletons || is_overlay(root, "/etc"))) {
        return 0; /* there is one in the skeleton */
    }
    if (skeletons) {
        add_bind(root, ours, "/etc/resolv.conf", false);
        return 0;
    }
    CLEANUP_FREE char *theirs = alloc_printf("%s/etc/resolv.conf", l->top);
    char link[PATH_MAX] = "";
    struct stat st;
    int rc = lstat(theirs, &st);
    if (rc == 0 && S_ISREG(st.st_mode)) {
        add_bind(root, ours, "/etc/resolv.conf", false);
        return 0;
    }
    if (rc == 0 && S_ISLNK(st.st_mode) && readlink(theirs, link, sizeof(link) - 1) > 0) {
        const char *target = strncmp(link, "../", 3) == 0 ? link + 2 : link;
        if (strncmp(target, "/run/", 5) == 0 && strstr(target, "..") == NULL) {
            add_bind(root, ours, target, false);
            return 0;
        }
    }
    snprintf(hint, BACKEND_HINT_MAX, "make an empty file etc/resolv.conf in the image");
    return err_set(err, ERR_IMAGE,
                   "image %.256s has no /etc/resolv.conf, so names could not be looked up in a "
                   "sandbox with network",
                   l->top);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Whether it lies below another mount point that lies below `source`. */
static bool is_covered(char *const *points, size_t count, const char *point)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(points[i]);
        if (strncmp(points[i], point, len) == 0 && point[len] == '/') {
            return true;
        }
    }
    return false;
}

/* Mount points below a share are not followed: each is covered. In a user namespace the directory
 * cannot be bound without them, see above. */
static int cover_mounts(const char *mountinfo, const char *source, const char *target,
                        struct oci_root *root, struct err *err)
{
    char *points[MOUNTS_MAX];
    char point[PATH_MAX];
    size_t count = 0, len = strlen(source), top = root->bind_count - 1;
    while (count < MOUNTS_MAX && next_mount_below(&mountinfo, source, point)) {
        points[count++] = alloc_strdup(point);
    }
    for (size_t i = 0; i < count; i++) {
        struct stat st;
        if (is_covered(points, count, points[i])) {
            continue;
        }
        CLEANUP_FREE char *inside = alloc_printf("%s%s", target, points[i] + len);
        CLEANUP_FREE char *empty = alloc_printf("%s/" EMPTY_FILE, root->dir);
        bool file = lstat(points[i], &st) == 0 && !S_ISDIR(st.st_mode);
        add_bind(root, file ? empty : points[i], inside, false);
        root->binds[root->bind_count - 1].cover = !file;
        root->binds[top].deep = true;
    }
    for (size_t i = 0; i < count; i++) {
        free(points[i]);
    }
    return count < MOUNTS_MAX
               ? 0
               : err_set(err, ERR_CONFIG, "more than %d mounts below %s", MOUNTS_MAX, source);
}

static int add_shares(const char *mountinfo, const struct oci_root_reach *reach,
                      struct oci_root *root, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < reach->share_count; i++) {
        const struct backend_share *share = &reach->shares[i];
        CLEANUP_FREE char *target = alloc_printf(BACKEND_SHARES "/%s", share->name);
        add_bind(root, share->host_path, target, false);
        struct oci_bind *b = &root->binds[root->bind_count - 1];
        b->writable = share->writable;
        b->alone = true;
        if (reach->share_base == NULL) {
            rc = cover_mounts(mountinfo, share->host_path, target, root, err);
        } else {
            free(b->source);
            b->source = alloc_printf("%s/%s", reach->share_base, share->name);
        }
    }
    return rc;
}

static int add_reach(const struct oci_layout *l, const struct oci_root_reach *reach,
                     struct oci_root *root, char hint[BACKEND_HINT_MAX], struct err *err)
{
    if (reach->packages != NULL) {
        add_bind(root, reach->packages, BACKEND_PACKAGES, false);
        root->binds[root->bind_count - 1].writable = reach->packages_write;
    }
    for (size_t i = 0; i < reach->mount_count; i++) {
        CLEANUP_FREE char *source = realpath(reach->mounts[i].host_path, NULL);
        if (source == NULL) {
            return err_sys(err, ERR_CONFIG, errno, "cannot show %.256s in a sandbox",
                           reach->mounts[i].host_path);
        }
        add_bind(root, source, reach->mounts[i].inside_path, false);
    }
    return reach->network ? bind_resolv_conf(l, root, hint, err) : 0;
}

/* Fills the directory of a root: the skeleton, and names of what is shown over it. */
static int fill_root(const char *fs_root, const struct oci_layout *l, const char *agent,
                     const struct oci_root_reach *reach, int dir_fd, struct err *err)
{
    int rc = oci_put_dir(dir_fd, OCI_LAYERS_SKELETON, 0755, err);
    CLEANUP_FD int fd = -1;
    if (rc == 0) {
        fd = openat(dir_fd, OCI_LAYERS_SKELETON, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = fd < 0 ? err_sys(err, ERR_IO, errno, "cannot open " OCI_LAYERS_SKELETON)
                    : fill_skeleton(fs_root, l, agent, reach, fd, err);
    }
    for (size_t i = 0; rc == 0 && i < reach->mount_count; i++) {
        rc = put_mount_point(l, fd, &reach->mounts[i], err);
    }
    for (size_t i = 0; rc == 0 && i < reach->share_count; i++) {
        rc = put_share_point(l, fd, &reach->shares[i], err);
    }
    return rc == 0 && reach->views ? oci_layers_put(dir_fd, l, err) : rc;
}

/* Builds it under a temporary name and moves it into place. */
static int build_root(const char *fs_root, const char *shared_dir, const struct oci_layout *l,
                      const char *agent, const struct oci_root_reach *reach, const char *path,
                      struct err *err)
{
    char unique[9];
    int rc = random_id(unique, sizeof(unique) - 1, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *tmp = alloc_printf("%s/.root-%s", shared_dir, unique);
    rc = oci_put_dir(AT_FDCWD, tmp, 0755, err);
    CLEANUP_FD int fd = -1;
    if (rc == 0) {
        fd = open(tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = fd < 0 ? err_sys(err, ERR_IO, errno, "cannot open %s", tmp)
                    : fill_root(fs_root, l, agent, reach, fd, err);
    }
    if (rc == 0 && rename(tmp, path) < 0 && errno != EEXIST && errno != ENOTEMPTY) {
        rc = err_sys(err, ERR_IO, errno, "cannot rename %s", tmp);
    }
    /* it is gone if the rename worked; otherwise the build failed or another worker was first */
    struct err ignored;
    err_ignore(dir_remove(tmp, &ignored));
    return rc < 0 ? err_wrap(err, "cannot build a root directory in %.128s", shared_dir) : 0;
}

/* What is copied into a skeleton of views only. */
static uint64_t hash_copied(const struct oci_layout *l, const char *agent, bool network,
                            uint64_t hash)
{
    hash = oci_etc_stamp_file(agent, hash);
    hash = oci_hash(hash, &network, sizeof(network));
    for (size_t i = 0; i < l->count; i++) {
        if (S_ISREG(l->entries[i].type)) {
            CLEANUP_FREE char *path = alloc_printf("%s/%s", l->top, l->entries[i].name);
            bool copied = l->entries[i].uncopied == NULL;
            hash = oci_etc_stamp_file(path, hash);
            hash = oci_hash(hash, &copied, sizeof(copied));
        }
    }
    return hash;
}

static uint64_t hash_layout(const char *fs_root, const struct oci_layout *l, const char *agent,
                            const struct oci_root_reach *reach)
{
    uint64_t hash = oci_hash(OCI_HASH_INIT, FORMAT, sizeof(FORMAT));
    const char *resolvers = oci_net_resolv_conf();
    hash = oci_hash(hash, resolvers, strlen(resolvers) + 1);
    hash = oci_hash(hash, l->top, strlen(l->top) + 1);
    hash = reach->views ? hash_copied(l, agent, reach->network, hash) : hash;
    for (size_t i = 0; i < reach->mount_count; i++) {
        const struct backend_mount *m = &reach->mounts[i];
        struct stat st;
        mode_t type = stat(m->host_path, &st) == 0 ? st.st_mode & S_IFMT : 0;
        hash = oci_hash(hash, m->inside_path, strlen(m->inside_path) + 1);
        hash = oci_hash(hash, &type, sizeof(type));
    }
    for (size_t i = 0; i < reach->share_count; i++) {
        const char *name = reach->shares[i].name;
        hash = oci_hash(hash, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < l->count; i++) {
        const struct oci_entry *e = &l->entries[i];
        hash = oci_hash(hash, e->name, strlen(e->name) + 1);
        hash = oci_hash(hash, &e->type, sizeof(e->type));
        hash = oci_hash(hash, e->link, strlen(e->link) + 1);
    }
    if (l->host) {
        return oci_etc_stamp(fs_root, hash);
    }
    for (size_t i = 0; oci_etc_names[i] != NULL; i++) {
        CLEANUP_FREE char *path = alloc_printf("%s/etc/%s", l->top, oci_etc_names[i]);
        struct stat st;
        if (lstat(path, &st) == 0) {
            hash = oci_hash(hash, &st.st_mtim, sizeof(st.st_mtim));
        }
    }
    return hash;
}

/* Shows a directory of the root, by an overlay if that is wanted and can be. */
static int add_directory(const char *mountinfo, const char *source, size_t entry, bool covered,
                         const char *target, bool views, struct oci_root *root, struct err *err)
{
    return views && add_overlay(mountinfo, source, entry, covered, target, root)
               ? 0
               : bind_tree(mountinfo, source, target, root, err);
}

static void add_top_file(const struct oci_entry *e, const char *source, const char *target,
                         bool views, struct oci_root *root)
{
    if (!views || e->uncopied != NULL) {
        add_bind(root, source, target, false);
        if (views) {
            note_bound(root, source, e->uncopied);
        }
    }
}

static int add_binds(const char *mountinfo, const struct oci_layout *l, const char *agent_path,
                     bool views, struct oci_root *root, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < l->count; i++) {
        const struct oci_entry *e = &l->entries[i];
        CLEANUP_FREE char *source = alloc_printf("%s/%s", l->top, e->name);
        CLEANUP_FREE char *target = alloc_printf("/%s", e->name);
        if (S_ISDIR(e->type)) {
            bool covered = !l->host && strcmp(e->name, "etc") == 0;
            rc = add_directory(mountinfo, source, i, covered, target, views, root, err);
        } else if (S_ISREG(e->type)) {
            add_top_file(e, source, target, views, root);
        }
    }
    if (rc == 0 && !l->host && oci_layout_has(l, "etc") && !is_overlay(root, "/etc")) {
        for (size_t i = 0; oci_etc_names[i] != NULL; i++) {
            CLEANUP_FREE char *over = alloc_printf("%s/etc/%s", l->top, oci_etc_names[i]);
            CLEANUP_FREE char *ours =
                alloc_printf("%s/" OCI_IMAGE_ETC "/%s", root->dir, oci_etc_names[i]);
            CLEANUP_FREE char *target = alloc_printf("/etc/%s", oci_etc_names[i]);
            struct stat st;
            if (lstat(over, &st) == 0 && S_ISREG(st.st_mode)) {
                add_bind(root, ours, target, false);
            }
        }
    }
    if (!views) {
        add_bind(root, agent_path, OCI_ROOT_AGENT, false);
    }
    return rc;
}

static int read_mountinfo(const char *fs_root, struct buf *out, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/proc/self/mountinfo", fs_root);
    return file_read(path, out, err);
}

int oci_root_compose(const char *fs_root, const char *shared_dir, const char *image,
                     const char *agent_path, const struct oci_root_reach *reached,
                     struct oci_root *ret_root, char hint[BACKEND_HINT_MAX], struct err *err)
{
    static const struct oci_root_reach nothing = {.packages = NULL};
    const struct oci_root_reach *reach = reached != NULL ? reached : &nothing;
    memset(ret_root, 0, sizeof(*ret_root));
    hint[0] = '\0';
    CLEANUP_FREE char *agent = realpath(agent_path, NULL);
    if (agent == NULL || access(agent, X_OK) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "agent %.256s", agent_path);
    }
    struct oci_layout l = {0};
    int rc = image[0] == '\0' ? oci_layout_host(fs_root, &l, err)
                              : oci_layout_image(image, reach->share_count > 0, &l, hint, err);
    if (rc < 0) {
        oci_layout_finish(&l);
        return rc;
    }
    ret_root->label = alloc_strdup(l.host ? "host:/usr" : l.top);
    CLEANUP_FREE char *dir = alloc_printf(
        "%s/root-%016llx", shared_dir, (unsigned long long)hash_layout(fs_root, &l, agent, reach));
    ret_root->path = alloc_printf("%s/" OCI_LAYERS_SKELETON, dir);
    ret_root->dir = alloc_strdup(reach->views ? dir : ret_root->path);
    ret_root->lower = reach->views ? oci_layers_of_skeleton() : NULL;
    struct stat st;
    if (lstat(dir, &st) < 0) {
        rc = build_root(fs_root, shared_dir, &l, agent, reach, dir, err);
    } else if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
        rc = err_set(err, ERR_IO, "%.256s is not a directory of ours", dir);
    }
    CLEANUP_BUF struct buf mountinfo;
    buf_init(&mountinfo, MOUNTINFO_MAX);
    rc = rc < 0 ? rc : read_mountinfo(fs_root, &mountinfo, err);
    rc = rc < 0 ? rc : add_binds(buf_cstr(&mountinfo), &l, agent, reach->views, ret_root, err);
    rc = rc < 0 ? rc : add_reach(&l, reach, ret_root, hint, err);
    rc = rc < 0 ? rc : add_shares(buf_cstr(&mountinfo), reach, ret_root, err);
    oci_layout_finish(&l);
    return rc;
}

void oci_root_finish(struct oci_root *root)
{
    for (size_t i = 0; i < root->bind_count; i++) {
        free(root->binds[i].source);
        free(root->binds[i].target);
        free(root->binds[i].lower);
    }
    free(root->binds);
    free(root->path);
    free(root->dir);
    free(root->label);
    free(root->lower);
    free(root->bound);
    memset(root, 0, sizeof(*root));
}
