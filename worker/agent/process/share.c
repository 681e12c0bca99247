/*
 * A worker is a process with threads, and a mount that it made in the host's namespace would stay
 * if it died. So this program does it, between the worker and the runtime: its mount namespace ends
 * with the runtime, and the container has copies of the mounts by then. Nothing on the host changes
 * and nothing is to be cleaned up.
 *
 * A directory is opened without following a symbolic link, and from then on meant by its
 * descriptor. A clone of its mount is made that is attached nowhere yet; it gets its flags and its
 * mapping of ids before anybody can reach it. The mapping is that of a user namespace, so a child
 * makes one and waits until it has been opened here.
 *
 * Whether the kernel and the file system can map ids is found out by trying.
 */
#include "worker/agent/process/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "proto/exit_codes.h"
#include "proto/limits.h"

/* From linux/fs.h, linux/openat2.h, sys/mount.h and newer kernels; the numbers are part of the
 * kernel's interface. Headers of libc and kernel cannot be used together. */
#define SHARE_MS_REC     16384ul
#define SHARE_MS_PRIVATE (1ul << 18)
#define SHARE_MS_SLAVE   (1ul << 19)
#define SHARE_MS_NOSUID  2ul
#define SHARE_MS_NODEV   4ul
#define SHARE_MS_NOEXEC  8ul
#define NO_SYMLINKS      (0x04 | 0x02) /* RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS */
#define EMPTY_PATH       0x1000        /* AT_EMPTY_PATH */
#define MAP_IDS          0x00100000    /* MOUNT_ATTR_IDMAP */

struct open_how_text {
    uint64_t flags, mode, resolve;
};

struct mount_attr_text {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

struct share {
    const char *name; /* ends at `=` */
    int name_len;
    const char *path;
    bool writable;
    int tree; /* its mount, attached nowhere at first; -1 before that */
};

struct sharing {
    const char *at, *notes;
    uint64_t uid, gid;
    struct share shares[LIMIT_SHARES];
    size_t count;
    char **command;
};

static int share_failed(const struct share *s, const char *what, struct err *err)
{
    return err_sys(err, ERR_CONFIG, errno, "share %.*s: %s %.256s", s->name_len, s->name, what,
                   s->path);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static bool write_map(pid_t pid, const char *kind, unsigned on_disk, uint64_t seen)
{
    char path[64], line[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, kind);
    int len = snprintf(line, sizeof(line), "%u %llu 1\n", on_disk, (unsigned long long)seen);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, line, (size_t)len) == len;
}

/* The child of open_mapping(): has a user namespace until `hold` is closed. */
static void keep_namespace(int ready, int hold)
{
    char byte = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
    if (write(ready, &byte, 1) == 1) {
        while (read(hold, &byte, 1) < 0 && errno == EINTR) {
        }
    }
    _exit(0);
}

static int take_namespace(pid_t pid, int ready, const struct stat *st, const struct sharing *all)
{
    char byte = 'n', path[64];
    if (read(ready, &byte, 1) != 1 || byte != 'y') {
        errno = EPERM;
        return -1;
    }
    if (!write_map(pid, "uid_map", st->st_uid, all->uid) ||
        !write_map(pid, "gid_map", st->st_gid, all->gid)) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A user namespace in which the owner on disk is the user of the sandbox; -1 with errno. */
static int open_mapping(const struct stat *st, const struct sharing *all)
{
    int up[2], down[2];
    if (pipe2(up, O_CLOEXEC) < 0) {
        return -1;
    }
    if (pipe2(down, O_CLOEXEC) < 0) {
        close(up[0]);
        close(up[1]);
        return -1;
    }
    int fd = -1, sys = 0;
    pid_t pid = fork();
    if (pid == 0) {
        close(down[1]);
        keep_namespace(up[1], down[0]);
    }
    close(up[1]);
    close(down[0]);
    if (pid > 0) {
        fd = take_namespace(pid, up[0], st, all);
    }
    sys = errno;
    close(up[0]);
    close(down[1]);
    if (pid > 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    errno = sys;
    return fd;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static int set_attributes(int tree, bool writable, int userns)
{
    struct mount_attr_text attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY) |
                    (userns >= 0 ? MAP_IDS : 0),
        .propagation = SHARE_MS_PRIVATE,
        .userns_fd = userns >= 0 ? (uint64_t)userns : 0,
    };
    return (int)syscall(SYS_mount_setattr, tree, "", EMPTY_PATH, &attr, sizeof(attr));
}

static int note_unmapped(const struct sharing *all, const struct share *s, int sys, struct err *err)
{
    CLEANUP_FD int fd = open(all->notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd,
                          "share %.*s: code reads only what everybody may read there; its ids "
                          "cannot be mapped: %s\n",
                          s->name_len, s->name, strerror(sys)) < 0) {
        return err_sys(err, ERR_IO, errno, "%.256s", all->notes);
    }
    return 0;
}

static int map_share(const struct sharing *all, const struct share *s, const struct stat *st,
                     struct err *err)
{
    if (st->st_uid == all->uid && st->st_gid == all->gid) {
        return set_attributes(s->tree, s->writable, -1) < 0 ? share_failed(s, "flags of", err) : 0;
    }
    CLEANUP_FD int userns = open_mapping(st, all);
    if (userns >= 0 && set_attributes(s->tree, s->writable, userns) == 0) {
        return 0;
    }
    if (s->writable) {
        return share_failed(s,
                            "it cannot be writable, since the ids of its files cannot be mapped "
                            "(mount_setattr) in",
                            err);
    }
    int sys = errno;
    return set_attributes(s->tree, false, -1) < 0 ? share_failed(s, "flags of", err)
                                                  : note_unmapped(all, s, sys, err);
}

/* Makes the mount, which is attached nowhere yet. */
static int clone_share(const struct sharing *all, struct share *s, struct err *err)
{
    const struct open_how_text how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                      .resolve = NO_SYMLINKS};
    CLEANUP_FD int dir = (int)syscall(SYS_openat2, AT_FDCWD, s->path, &how, sizeof(how));
    struct stat st;
    if (dir < 0 || fstat(dir, &st) < 0) {
        return share_failed(s, errno == ELOOP ? "a symbolic link is in" : "cannot open", err);
    }
    s->tree =
        (int)syscall(SYS_open_tree, dir, "", EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (s->tree < 0) {
        return share_failed(s, "cannot mount", err);
    }
    return map_share(all, s, &st, err);
}

static int attach_share(const struct sharing *all, const struct share *s, struct err *err)
{
    char point[4096];
    int len = snprintf(point, sizeof(point), "%s/%.*s", all->at, s->name_len, s->name);
    if (len < 0 || (size_t)len >= sizeof(point)) {
        errno = ENAMETOOLONG;
        return share_failed(s, "no place for", err);
    }
    if (mkdir(point, 0755) < 0 ||
        syscall(SYS_move_mount, s->tree, "", AT_FDCWD, point, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return share_failed(s, "cannot attach", err);
    }
    return 0;
}

static int attach_all(struct sharing *all, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        rc = clone_share(all, &all->shares[i], err);
    }
    if (rc < 0) {
        return rc;
    }
    /* what the host mounts or unmounts later is followed, nothing goes back */
    if (unshare(CLONE_NEWNS) < 0 ||
        syscall(SYS_mount, NULL, "/", NULL, SHARE_MS_REC | SHARE_MS_SLAVE, NULL) < 0 ||
        syscall(SYS_mount, "shares", all->at, "tmpfs",
                SHARE_MS_NOSUID | SHARE_MS_NODEV | SHARE_MS_NOEXEC,
                "mode=0755,size=65536,nr_inodes=64") < 0) {
        return err_sys(err, ERR_CONFIG, errno, "shares cannot be mounted on %.256s", all->at);
    }
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        rc = attach_share(all, &all->shares[i], err);
    }
    return rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int take_share(struct sharing *all, const char *value, bool writable, struct err *err)
{
    const char *equals = strchr(value, '=');
    if (all->count == LIMIT_SHARES || equals == NULL || equals == value || equals[1] != '/') {
        return err_set(err, ERR_INVALID, "share: at most %d, each NAME=/path, not \"%.200s\"",
                       LIMIT_SHARES, value);
    }
    all->shares[all->count++] = (struct share){.name = value,
                                               .name_len = (int)(equals - value),
                                               .path = equals + 1,
                                               .writable = writable,
                                               .tree = -1};
    return 0;
}

static int take_word(struct sharing *all, const char *name, const char *value, struct err *err)
{
    if (strcmp(name, "--at") == 0) {
        all->at = value;
    } else if (strcmp(name, "--notes") == 0) {
        all->notes = value;
    } else if (strcmp(name, "--uid") == 0) {
        return str_to_u64(value, 0, UINT32_MAX - 1u, &all->uid, err);
    } else if (strcmp(name, "--gid") == 0) {
        return str_to_u64(value, 0, UINT32_MAX - 1u, &all->gid, err);
    } else if (strcmp(name, "--ro") == 0 || strcmp(name, "--rw") == 0) {
        return take_share(all, value, name[3] == 'w', err);
    } else {
        return err_set(err, ERR_INVALID, "share: %.64s: no such option", name);
    }
    return 0;
}

static int parse_sharing(int argc, char **argv, struct sharing *all, struct err *err)
{
    int i = 0;
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
        int rc = take_word(all, argv[i], argv[i + 1], err);
        if (rc < 0) {
            return rc;
        }
    }
    if (i + 1 >= argc || all->at == NULL || all->notes == NULL) {
        return err_set(err, ERR_INVALID, "share: --at, --notes and -- with a command are needed");
    }
    all->command = &argv[i + 1];
    return 0;
}

int share_run(int argc, char **argv, struct err *err)
{
    struct sharing all = {.at = NULL};
    if (parse_sharing(argc, argv, &all, err) < 0) {
        return EXIT_CODE_USAGE;
    }
    if (attach_all(&all, err) < 0) {
        return EXIT_CODE_SETUP;
    }
    execv(all.command[0], all.command);
    err_sys(err, ERR_CONFIG, errno, "%.256s", all.command[0]);
    return EXIT_CODE_SETUP;
}
