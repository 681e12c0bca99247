/*
 * An instance is alive exactly as long as a process holds the flock on its `lock` file. The kernel
 * releases locks when their holder dies, however it dies, so a free lock means a dead instance,
 * without pids or clocks. A sweep takes the lock before it touches anything, and so becomes the
 * owner.
 *
 * A sweep can remove the lock file between our open() and flock(). So after locking we check
 * whether the path still leads to the file that we hold; if not, we start again.
 *
 * A server on stdio leaves nothing that another server could use, so it makes its own instance with
 * a name that is never reused. If root makes the sandboxes, the root user inside a sandbox has
 * another uid outside, and must be able to reach its files under shared/. So the directories above
 * are searchable (0711) then, but not listable. XDG_RUNTIME_DIR of root is not searchable, so root
 * always uses /run/cloister.
 *
 * The lock's first line is a magic word, so that a sweep never mistakes an unrelated file called
 * `lock` for ours, whatever --runtime-dir says. Its last line says whether the instance has a name
 * with which a next server may come back. It is read without the lock, since holding the lock even
 * for a moment would turn that server away.
 */
#include "supervisor/fleet/host/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/fleet.h"

#define LOCK_MAGIC    "cloister-instance 1\n"
#define LOCK_NAMED    "named\n"
#define OPEN_ATTEMPTS 10

/* Length of "/<sandbox id>/w<generation>.sock" after .../sandboxes, with some room for
 * generations. */
#define SOCKET_ROOM 36

char *instance_top(const struct config *config)
{
    if (config->runtime_dir != NULL && config->runtime_dir[0] != '\0') {
        return alloc_strdup(config->runtime_dir);
    }
    if (geteuid() == 0) {
        return alloc_strdup("/run/cloister");
    }
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    if (xdg != NULL && xdg[0] == '/') {
        return alloc_printf("%s/cloister", xdg);
    }
    return alloc_printf("/tmp/cloister-%u", (unsigned)geteuid());
}

/* Makes a private directory. An existing one must belong to us, and others must not be able to
 * write it. */
static int make_private(const char *path, mode_t mode, struct err *err)
{
    int rc = dir_make(path, mode, err);
    if (rc < 0) {
        return err_wrap(err, "runtime directory");
    }
    struct stat st;
    if (lstat(path, &st) < 0) {
        return err_sys(err, ERR_IO, errno, "runtime directory %s", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_CONFIG, "runtime directory %s is not a directory", path);
    }
    if (st.st_uid != geteuid()) {
        return err_set(err, ERR_CONFIG, "runtime directory %s belongs to another user (uid %u)",
                       path, (unsigned)st.st_uid);
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return err_set(err, ERR_CONFIG, "runtime directory %s can be written to by other users",
                       path);
    }
    /* The umask may have removed permissions that sandboxes need. Other permissions are kept, since
     * a person may have made the directory and named it in the configuration. */
    if ((st.st_mode & mode) != mode && chmod(path, (st.st_mode & 0777) | mode) < 0) {
        return err_sys(err, ERR_IO, errno, "runtime directory %s", path);
    }
    return 0;
}

static bool still_there(int fd, const char *path)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* Returns the locked descriptor, -ERR_BUSY if another process has the lock, -ERR_GONE if the
 * directory vanished meanwhile (try again), or another error. */
static int take_instance_lock(const char *dir, bool own, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/lock", dir);
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_GONE : ERR_IO, errno, "%s", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return err_sys(err, errno == EWOULDBLOCK ? ERR_BUSY : ERR_IO, errno, "%s", path);
    }
    if (!still_there(fd, path)) {
        return err_set(err, ERR_GONE, "%s was removed", path);
    }
    CLEANUP_FREE char *text =
        alloc_printf(LOCK_MAGIC "pid %d\n%s", (int)getpid(), own ? "" : LOCK_NAMED);
    /* The text overwrites that of an earlier server before it is truncated, which needs no space.
     * On a full disk an incomplete lock would belong to no instance, and its sandboxes would never
     * be swept. */
    int rc = fd_write_all(fd, text, strlen(text), err);
    if (rc == 0 && ftruncate(fd, (off_t)strlen(text)) < 0) {
        rc = err_sys(err, ERR_IO, errno, "truncate");
    }
    if (rc < 0 && own) {
        unlink(path);
    }
    return rc < 0 ? err_wrap(err, "%s", path) : steal_fd(&fd);
}

static int try_open(struct instance *i, mode_t mode, struct err *err)
{
    if (i->own) {
        char random[9];
        int rc = random_id(random, sizeof(random) - 1, err);
        if (rc < 0) {
            return rc;
        }
        free(i->name);
        i->name = alloc_printf("stdio-%d-%s", (int)getpid(), random);
    }
    free(i->dir);
    i->dir = alloc_printf("%s/%s", i->top, i->name);
    int rc = make_private(i->dir, mode, err);
    if (rc < 0) {
        return rc;
    }
    rc = take_instance_lock(i->dir, i->own, err);
    if (rc < 0) {
        if (i->own) {
            rmdir(i->dir); /* no sweep would find it, since it has no lock */
        }
        return rc;
    }
    i->lock_fd = rc;
    return 0;
}

static int make_inner(const struct instance *i, struct err *err)
{
    int rc = make_private(i->sandboxes, 0700, err);
    if (rc == 0) {
        rc = make_private(i->shared, geteuid() == 0 ? 0755 : 0700, err);
    }
    return rc;
}

static int open_instance(struct instance *i, struct err *err)
{
    mode_t mode = geteuid() == 0 ? 0711 : 0700;
    int rc = make_private(i->top, mode, err);
    if (rc < 0) {
        return rc;
    }
    for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
        rc = try_open(i, mode, err);
        /* A sweep may inspect our new directory before we have its lock. */
        bool again = rc == -ERR_GONE || (rc == -ERR_BUSY && i->own);
        if (!again) {
            break;
        }
    }
    if (rc == -ERR_BUSY) {
        return err_set(err, ERR_CONFIG, "instance \"%s\" is in use by another server", i->name);
    }
    if (rc < 0) {
        return rc;
    }
    i->sandboxes = alloc_printf("%s/sandboxes", i->dir);
    size_t socket_max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (strlen(i->sandboxes) + SOCKET_ROOM > socket_max) {
        return err_set(err, ERR_CONFIG,
                       "runtime directory %s is too deep: sockets in it would have "
                       "paths of more than %zu bytes",
                       i->top, socket_max);
    }
    i->shared = alloc_printf("%s/shared", i->dir);
    return make_inner(i, err);
}

static void free_instance(struct instance *i)
{
    if (i->lock_fd >= 0) {
        close(i->lock_fd);
    }
    free(i->top);
    free(i->name);
    free(i->dir);
    free(i->sandboxes);
    free(i->shared);
    free(i);
}

int instance_open(const struct config *config, struct instance **ret, struct err *err)
{
    struct instance *i = alloc_one(struct instance);
    i->lock_fd = -1;
    i->top = instance_top(config);
    i->own = config->instance == NULL || config->instance[0] == '\0';
    if (!i->own) {
        i->name = alloc_strdup(config->instance);
        if (strchr(i->name, '/') != NULL || i->name[0] == '.') {
            int rc = err_set(err, ERR_CONFIG, "\"%s\" is no name for an instance", i->name);
            free_instance(i);
            return rc;
        }
    }
    int rc = open_instance(i, err);
    if (rc < 0) {
        if (i->own && i->lock_fd >= 0) {
            err_ignore(dir_remove(i->dir, NULL)); /* what stays is swept by the next server */
        }
        free_instance(i);
        return rc;
    }
    *ret = i;
    return 0;
}

static int restore(struct instance *i, struct err *err)
{
    mode_t mode = geteuid() == 0 ? 0711 : 0700;
    int rc = make_private(i->top, mode, err);
    if (rc == 0) {
        rc = make_private(i->dir, mode, err);
    }
    CLEANUP_FREE char *lock = alloc_printf("%s/lock", i->dir);
    if (rc == 0 && !still_there(i->lock_fd, lock)) {
        rc = take_instance_lock(i->dir, i->own, err);
        if (rc < 0) {
            return rc;
        }
        close(i->lock_fd);
        i->lock_fd = rc;
    }
    return rc < 0 ? rc : make_inner(i, err);
}

int instance_restore(struct instance *i, const char *sandbox, struct err *err)
{
    bool shared = access(i->shared, F_OK) == 0 || errno != ENOENT;
    if (shared && (mkdir(sandbox, 0700) == 0 || errno == EEXIST)) {
        return 0;
    }
    if (!shared || errno == ENOENT) {
        int rc = restore(i, err);
        if (rc < 0) {
            return err_wrap(err, "directory %s was removed", i->dir);
        }
        log_warn("instance: its directory was removed and has been made again dir=%s", i->dir);
        if (mkdir(sandbox, 0700) == 0 || errno == EEXIST) {
            return 0;
        }
    }
    return err_sys(err, ERR_IO, errno, "%s", sandbox);
}

void instance_close(struct instance *i)
{
    if (i == NULL) {
        return;
    }
    /* rmdir() fails if a sandbox is left; then a sweep will find all of it. */
    if (i->own && rmdir(i->sandboxes) == 0) {
        err_ignore(dir_remove(i->dir, NULL)); /* the next server sweeps what is left */
    }
    free_instance(i);
}

static bool is_instance(int fd, bool *ret_named)
{
    char text[sizeof(LOCK_MAGIC) + 32 + sizeof(LOCK_NAMED)] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    size_t magic_len = strlen(LOCK_MAGIC);
    if (n < (ssize_t)magic_len || strncmp(text, LOCK_MAGIC, magic_len) != 0) {
        return false;
    }
    *ret_named = strstr(text + magic_len, "\n" LOCK_NAMED) != NULL;
    return true;
}

static int open_lock(const char *path)
{
    CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        return -1;
    }
    return steal_fd(&fd);
}

bool instance_look(const char *dir, bool *ret_named)
{
    CLEANUP_FREE char *path = alloc_printf("%s/lock", dir);
    CLEANUP_FD int fd = open_lock(path);
    return fd >= 0 && is_instance(fd, ret_named);
}

int instance_claim(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/lock", dir);
    CLEANUP_FD int fd = open_lock(path);
    bool named;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !still_there(fd, path) ||
        !is_instance(fd, &named)) {
        return -1;
    }
    return steal_fd(&fd);
}

bool instance_holds(const char *dir, int fd)
{
    CLEANUP_FREE char *path = alloc_printf("%s/lock", dir);
    return still_there(fd, path);
}

bool instance_exists(const struct config *config)
{
    bool has_name = config->instance != NULL && config->instance[0] != '\0';
    CLEANUP_FREE char *top = instance_top(config);
    CLEANUP_FREE char *path = alloc_printf("%s/%s", top, has_name ? config->instance : "");
    struct stat st;
    return has_name && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool instance_is_installer_id(const char *name)
{
    return name[0] == INSTANCE_INSTALLER_MARK;
}

bool instance_is_sandbox_id(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
    return len > 0 && len < FLEET_ID_SIZE && name[len] == '\0';
}
