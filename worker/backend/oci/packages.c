/*
 * Where packages are: they may be some hundred megabytes, with many programs and libraries. On most
 * hosts the runtime directory is in memory (/run, or the user's), often with a small limit that the
 * host's services share. /run is usually mounted noexec, which a bind mount inherits, so no library
 * of a package could be loaded. A directory below /var/tmp has neither problem, but outlives a
 * reboot and is not protected by the instance's lock. So each entry names its owner, and creations
 * remove entries without one.
 *
 * Who owns them: in a user namespace code runs as one of the sandbox's ids, and a file's owner must
 * be mapped for its mode to apply. So installer and sandbox map the same ids. The sandbox cannot
 * write, because its mount is read-only. An ordinary user cannot remove files of subordinate ids;
 * see oci_packages_mode().
 */
#include "worker/backend/oci/packages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"

#define BOOT_CHARS   8   /* of the boot's id: enough to tell one from the next */
#define TIDY_MAX     256 /* entries that one creation examines */
#define TIDY_AT_ONCE 4
#define GONE         "gone-" /* of what is being removed */

#define LINK_MAX_TEXT 64 /* of /proc/self/ns/mnt */

const char *oci_packages_ids_of(const struct backend_spec *spec)
{
    return spec->packages != NULL && spec->packages[0] != '\0' ? spec->packages : spec->id;
}

struct oci_mode oci_packages_mode(const struct backend_spec *spec, const struct oci_mode *mode,
                                  const struct oci_host *host)
{
    struct oci_mode own = *mode;
    if (spec->packages_write && !host->root && own.userns == OCI_USERNS_RANGE) {
        own.userns = OCI_USERNS_SINGLE;
    }
    return own;
}

/* ---- places --------------------------------------------------------------------------------- */

static void boot_prefix(char out[BOOT_CHARS + 1])
{
    CLEANUP_BUF struct buf b;
    struct err err;
    buf_init(&b, 64);
    snprintf(out, BOOT_CHARS + 1, "noboot");
    if (file_read("/proc/sys/kernel/random/boot_id", &b, &err) == 0 && b.len > BOOT_CHARS) {
        memcpy(out, b.data, BOOT_CHARS);
        out[BOOT_CHARS] = '\0';
    }
}

static char *apart_of(const char *apart)
{
    return apart[0] != '\0' ? alloc_strdup(apart)
                            : alloc_printf("/var/tmp/cloister-%u", (unsigned)geteuid());
}

static char *path_beside(const char *shared_dir, const char *id)
{
    return alloc_printf("%s/packages-%s", shared_dir, id);
}

static char *path_apart(const char *apart, const char *id)
{
    char boot[BOOT_CHARS + 1];
    boot_prefix(boot);
    CLEANUP_FREE char *place = apart_of(apart);
    return alloc_printf("%s/%s-%s", place, boot, id);
}

/* Rates a place: 2 on disk, 1 in memory, 0 if noexec. */
static int rank(const char *dir)
{
    struct statfs fs;
    if (statfs(dir, &fs) < 0 || ((unsigned long)fs.f_flags & ST_NOEXEC) != 0) {
        return 0;
    }
    return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC ? 1 : 2;
}

static const char *name_kind(const struct stat *st)
{
    return S_ISDIR(st->st_mode) ? "directory" : S_ISLNK(st->st_mode) ? "symbolic link" : "file";
}

/* Everybody can make something of this name in /var/tmp. What is not a directory of ours, which
 * only we can write, is refused: another place, in memory or without programs, would be worse, and
 * nobody would know why. Not usable without an error means that there can be no such directory. */
static int make_apart(const char *place, const struct oci_host *host, bool *ret_usable,
                      struct err *err)
{
    mode_t mode =
        host->root ? 0711 : 0700; /* the root inside is another user and must be able to enter */
    struct stat st;
    *ret_usable = false;
    if ((mkdir(place, mode) < 0 && errno != EEXIST) || lstat(place, &st) < 0) {
        return 0;
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
        return err_set(err, ERR_CONFIG,
                       "packages belong in %s, but somebody has taken it: there is a %s of uid %u",
                       place, name_kind(&st), (unsigned)st.st_uid);
    }
    if ((st.st_mode & 0022) != 0) {
        return err_set(err, ERR_CONFIG, "packages belong in %s, but others can write there", place);
    }
    *ret_usable = (st.st_mode & mode) == mode || chmod(place, mode) == 0;
    return 0;
}

/* ---- making, finding ------------------------------------------------------------------------ */

static int report_tree(const char *path, struct err *err)
{
    int sys = errno;
    return err_sys(err, sys == ENOSPC || sys == EDQUOT ? ERR_NO_SPACE : ERR_IO, sys,
                   "cannot make the package directory %s", path);
}

/* The mount namespace in which a path is valid. */
static void own_namespace(char out[LINK_MAX_TEXT])
{
    ssize_t n = readlink("/proc/self/ns/mnt", out, LINK_MAX_TEXT - 1);
    snprintf(&out[n > 0 ? n : 0], 2, "%s", n > 0 ? "" : "?");
}

/* Records the owner of an entry that is not below the instance's directory. */
static bool put_owner(int fd, const char *dir)
{
    char here[LINK_MAX_TEXT];
    own_namespace(here);
    return (symlinkat(here, fd, "in") == 0 || errno == EEXIST) &&
           (symlinkat(dir, fd, "of") == 0 || errno == EEXIST);
}

static int fill(const char *path, bool apart, const struct backend_spec *spec, struct err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (apart && !put_owner(fd, spec->dir))) {
        return report_tree(path, err);
    }
    /* The first is what the sandbox sees as /packages; the others are its user's. */
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = {{"tree", 0755}, {"tree/python", 0777}, {"tree/node", 0777}};
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        if ((mkdirat(fd, dirs[i].name, 0700) < 0 && errno != EEXIST) ||
            fchmodat(fd, dirs[i].name, dirs[i].mode, 0) < 0) {
            return report_tree(path, err);
        }
    }
    return 0;
}

/* The root inside must be able to reach the tree. */
static int give_to_root_inside(const char *path, const struct backend_spec *spec,
                               const struct oci_mode *mode, const struct oci_host *host,
                               struct err *err)
{
    struct oci_extent uids[OCI_EXTENTS_MAX], gids[OCI_EXTENTS_MAX];
    if (!host->root || mode->userns != OCI_USERNS_RANGE) {
        return 0;
    }
    const char *ids = oci_packages_ids_of(spec);
    if (oci_host_extents(host, &host->uids, host->uid, ids, uids) == 0 ||
        oci_host_extents(host, &host->gids, host->gid, ids, gids) == 0) {
        return err_set(err, ERR_ENGINE, "too few ids can be mapped into a user namespace");
    }
    return lchown(path, uids[0].outside, gids[0].outside) < 0 ? report_tree(path, err) : 0;
}

static int choose(const struct backend_spec *spec, const struct oci_host *host, const char *apart,
                  char **ret_path, bool *ret_apart, struct err *err)
{
    int beside = rank(spec->shared_dir);
    bool usable = false;
    CLEANUP_FREE char *place = apart_of(apart);
    int rc = beside < 2 ? make_apart(place, host, &usable, err) : 0;
    if (rc == 0) {
        *ret_apart = usable && rank(place) > beside;
        *ret_path =
            *ret_apart ? path_apart(apart, spec->id) : path_beside(spec->shared_dir, spec->id);
    }
    return rc;
}

int oci_packages_find(const struct backend_spec *spec, const char *apart, char **ret_tree,
                      struct err *err)
{
    char *found[2] = {path_beside(spec->shared_dir, spec->packages),
                      path_apart(apart, spec->packages)};
    char *tree = NULL;
    for (size_t i = 0; i < 2; i++) {
        struct stat st;
        if (tree == NULL && lstat(found[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            tree = alloc_printf("%s/tree", found[i]);
        }
        free(found[i]);
    }
    if (tree == NULL) {
        return err_set(err, ERR_GONE, "sandbox %s has no packages: it has ended", spec->packages);
    }
    *ret_tree = tree;
    return 0;
}

int oci_packages_prepare(const struct backend_spec *spec, const struct oci_mode *mode,
                         const struct oci_host *host, const char *apart, char **ret_tree,
                         struct err *err)
{
    if (strcmp(spec->packages, spec->id) != 0) {
        return oci_packages_find(spec, apart, ret_tree, err);
    }
    bool is_apart = false;
    CLEANUP_FREE char *path = NULL;
    int rc = choose(spec, host, apart, &path, &is_apart, err);
    if (rc < 0) {
        return rc;
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return report_tree(path, err);
    }
    rc = fill(path, is_apart, spec, err);
    rc = rc < 0 ? rc : give_to_root_inside(path, spec, mode, host, err);
    if (rc == 0) {
        *ret_tree = alloc_printf("%s/tree", path);
    }
    return rc;
}

/* ---- removing ------------------------------------------------------------------------------- */

/* A process that removes one tree and may outlive the worker. */
struct remover {
    struct task task;
    uv_process_t process;
};

static void on_remover_closed(uv_handle_t *handle)
{
    struct remover *r = handle->data;
    task_leave(&r->task);
    free(r);
}

static void drop_tree_task(struct task *task)
{
    struct remover *r = (struct remover *)task;
    if (!uv_is_closing((uv_handle_t *)&r->process)) {
        uv_close((uv_handle_t *)&r->process, on_remover_closed);
    }
}

static void on_tree_removed(uv_process_t *process, int64_t status, int sig)
{
    log_debug("packages removed in the background: status=%d signal=%d", (int)status, sig);
    drop_tree_task(process->data);
}

static void start_remover(struct tasks *tasks, const char *agent_path, const char *path)
{
    struct remover *r = alloc_one(struct remover);
    const char *argv[] = {agent_path, "remove", "--dir", path, NULL};
    char *env[] = {NULL};
    uv_process_options_t po = {
        .exit_cb = on_tree_removed,
        .file = agent_path,
        .args = (char **)(uintptr_t)argv, /* not written to; the type is older than const */
        .env = env,
        .cwd = "/",
        .flags = UV_PROCESS_DETACHED,
    };
    task_enter(tasks, &r->task, drop_tree_task);
    int rc = uv_spawn(tasks->loop, &r->process, &po);
    r->process.data = r;
    if (rc < 0) { /* without an owner, so a later creation removes it */
        log_debug("cannot start %s: %s", agent_path, uv_strerror(rc));
        drop_tree_task(&r->task);
    }
}

int oci_packages_drop(struct tasks *tasks, const char *tree, const char *name,
                      const char *agent_path, struct err *err)
{
    CLEANUP_FREE char *aside = alloc_printf("%s/../over-XXXXXX", tree);
    if (mkdtemp(aside) == NULL) {
        return report_tree(aside, err);
    }
    CLEANUP_FREE char *fresh = alloc_printf("%s/%s", aside, name);
    CLEANUP_FREE char *there = alloc_printf("%s/%s", tree, name);
    int rc = 0;
    if (mkdir(fresh, 0700) < 0 || chmod(fresh, 0777) < 0 ||
        renameat2(AT_FDCWD, fresh, AT_FDCWD, there, RENAME_EXCHANGE) < 0) {
        rc = report_tree(there, err);
    }
    start_remover(tasks, agent_path, aside);
    return rc;
}

/* Removes a directory into which nothing was installed. True if it is gone. */
static bool remove_unused(const char *path)
{
    static const struct {
        const char *name;
        int flags;
    } parts[] = {{"tree/python", AT_REMOVEDIR},
                 {"tree/node", AT_REMOVEDIR},
                 {"tree", AT_REMOVEDIR},
                 {"of", 0},
                 {"in", 0}};
    CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (unlinkat(fd, parts[i].name, parts[i].flags) < 0 && errno != ENOENT) {
            return false;
        }
    }
    return rmdir(path) == 0;
}

/* Moves the tree into the sandbox's directory, which the supervisor removes as a whole. */
static int retire_beside(const char *path, const char *dir, struct err *err)
{
    CLEANUP_FREE char *there = alloc_printf("%s/packages", dir);
    return rename(path, there) == 0 || errno == ENOENT ? 0 : dir_remove(path, err);
}

static int retire_apart(struct tasks *tasks, const char *path, const char *apart, const char *id,
                        const char *agent_path, struct err *err)
{
    CLEANUP_FREE char *place = apart_of(apart);
    CLEANUP_FREE char *there = alloc_printf("%s/" GONE "%s", place, id);
    if (rename(path, there) == 0) {
        start_remover(tasks, agent_path, there);
        return 0;
    }
    return errno == ENOENT ? 0 : dir_remove(path, err);
}

int oci_packages_retire(struct tasks *tasks, const struct backend_spec *spec, const char *apart,
                        struct err *err)
{
    CLEANUP_FREE char *beside = path_beside(spec->shared_dir, spec->id);
    CLEANUP_FREE char *away = path_apart(apart, spec->id);
    struct err second;
    /* most sandboxes never get a package */
    int rc = remove_unused(beside) ? 0 : retire_beside(beside, spec->dir, err);
    int second_rc = remove_unused(away)
                        ? 0
                        : retire_apart(tasks, away, apart, spec->id, spec->agent_path, &second);
    if (rc == 0 && second_rc < 0) {
        *err = second;
        rc = second_rc;
    }
    return rc < 0 ? err_wrap(err, "packages") : 0;
}

static bool read_link(const char *path, char *out, size_t size)
{
    ssize_t n = readlink(path, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool is_abandoned(const char *place, const char *name)
{
    char boot[BOOT_CHARS + 1], of[PATH_MAX];
    boot_prefix(boot);
    if (strncmp(name, boot, BOOT_CHARS) != 0 || name[BOOT_CHARS] != '-') {
        return true;
    }
    char here[LINK_MAX_TEXT], in[LINK_MAX_TEXT];
    CLEANUP_FREE char *in_path = alloc_printf("%s/%s/in", place, name);
    CLEANUP_FREE char *of_path = alloc_printf("%s/%s/of", place, name);
    own_namespace(here);
    if (!read_link(in_path, in, sizeof(in)) || strcmp(in, here) != 0 ||
        !read_link(of_path, of, sizeof(of))) {
        return false; /* it is being made or removed, or belongs to another mount namespace */
    }
    struct stat st;
    return lstat(of, &st) < 0 && errno == ENOENT;
}

void oci_packages_tidy(struct tasks *tasks, const char *apart, const char *agent_path)
{
    CLEANUP_FREE char *place = apart_of(apart);
    struct stat top;
    DIR *dir = lstat(place, &top) == 0 && S_ISDIR(top.st_mode) && top.st_uid == geteuid()
                   ? opendir(place)
                   : NULL;
    struct dirent *entry;
    for (int i = 0, n = 0;
         dir != NULL && i < TIDY_MAX && n < TIDY_AT_ONCE && (entry = readdir(dir)) != NULL; i++) {
        if (entry->d_name[0] != '.' && is_abandoned(place, entry->d_name)) {
            CLEANUP_FREE char *path = alloc_printf("%s/%s", place, entry->d_name);
            start_remover(tasks, agent_path, path);
            n++;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}
