/*
 * Some limits belong to namespaces, and nothing in a sandbox may set them. What the processes of a
 * user namespace take (inotify) also counts for whoever has made the namespace, which is one user
 * for all sandboxes; and System V's shared memory would outlive the processes that used it. A
 * worker has threads, so it cannot enter a user namespace; this program does it, while the
 * container runs and no code in it yet.
 *
 * Who may write: the limits of a user namespace are for whoever has privileges in it, as its maker
 * has who enters it. Those of an IPC namespace were for root of the host, and are since Linux 6.9
 * for root of that namespace. So what was refused is tried once more as that.
 */
#include "worker/agent/process/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "proto/exit_codes.h"
#include "worker/agent/process/namespace.h"

#define LIMITS_MAX 12
#define PATH_TEXT  128

struct limit_row {
    const char *name; /* ends at `:` */
    int name_len;
    char path[PATH_TEXT];
    const char *value;
    bool done;
    int sys; /* why not */
};

struct limiting {
    uint64_t pid;
    bool user;
    struct limit_row rows[LIMITS_MAX];
    size_t count;
};

static void try_limit(struct limit_row *row)
{
    CLEANUP_FD int fd = open(row->path, O_WRONLY | O_CLOEXEC);
    row->done = fd >= 0 ? write(fd, row->value, strlen(row->value)) >= 0 : errno == ENOENT;
    row->sys = row->done ? 0 : errno;
}

static void try_limits(struct limiting *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (!all->rows[i].done) {
            try_limit(&all->rows[i]);
        }
    }
}

/* A namespace must not be our own: the limits of the host are not to be touched if the process has
 * ended and its number is somebody else's. */
static int open_foreign(const struct limiting *all, const char *kind, int *ret_fd, struct err *err)
{
    bool own = false;
    int rc = namespace_open(all->pid, kind, ret_fd, &own, err);
    return rc == 0 && own ? err_set(err, ERR_INVALID, "/proc/%llu/ns/%s is the host's own",
                                    (unsigned long long)all->pid, kind)
                          : rc;
}

static int apply_all(struct limiting *all, struct err *err)
{
    CLEANUP_FD int ipc = -1;
    CLEANUP_FD int user = -1;
    int rc = open_foreign(all, "ipc", &ipc, err);
    rc = rc == 0 && all->user ? open_foreign(all, "user", &user, err) : rc;
    if (rc < 0) {
        return rc;
    }
    bool inside = setns(ipc, CLONE_NEWIPC) == 0; /* an ordinary user first needs privileges */
    if (inside && !all->user) {
        try_limits(all);
        return 0;
    }
    if (inside) {
        for (size_t i = 0; i < all->count; i++) {
            if (strstr(all->rows[i].path, "/sys/user/") == NULL) { /* else it were the host's */
                try_limit(&all->rows[i]);
            }
        }
    }
    rc = namespace_enter_user(user, true, err);
    if (rc == 0 && !inside && setns(ipc, CLONE_NEWIPC) < 0) {
        rc = err_sys(err, ERR_DENIED, errno, "enter the sandbox's IPC namespace");
    }
    if (rc == 0) {
        try_limits(all);
    }
    return rc;
}

static void tell_limits(const struct limiting *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct limit_row *row = &all->rows[i];
        bool told = row->done;
        for (size_t j = 0; j < i && !told; j++) {
            told = !all->rows[j].done && all->rows[j].name_len == row->name_len &&
                   memcmp(all->rows[j].name, row->name, (size_t)row->name_len) == 0;
        }
        if (!told) {
            dprintf(STDOUT_FILENO, "%.*s: this host does not let %s be written: %s\n",
                    row->name_len, row->name, row->path, strerror(row->sys));
        }
    }
}

static int take_limit(struct limiting *all, const char *word, struct err *err)
{
    const char *colon = strchr(word, ':');
    const char *equals = colon != NULL ? strchr(colon, '=') : NULL;
    struct limit_row *row = &all->rows[all->count];
    if (all->count == LIMITS_MAX || equals == NULL || strstr(word, "..") != NULL ||
        snprintf(row->path, sizeof(row->path), "/proc/sys/%.*s", (int)(equals - colon - 1),
                 colon + 1) >= (int)sizeof(row->path)) {
        return err_set(err, ERR_INVALID, "limit: at most %d, each NAME:PATH=VALUE, not \"%.200s\"",
                       LIMITS_MAX, word);
    }
    row->name = word;
    row->name_len = (int)(colon - word);
    row->value = equals + 1;
    all->count++;
    return 0;
}

static int parse_limits(int argc, char **argv, struct limiting *all, struct err *err)
{
    int rc = 0;
    for (int i = 0; i < argc && rc == 0; i++) {
        if (strcmp(argv[i], "--user") == 0) {
            all->user = true;
        } else if (strcmp(argv[i], "--pid") == 0 && i + 1 < argc) {
            rc = str_to_u64(argv[++i], 1, INT32_MAX, &all->pid, err);
        } else {
            rc = take_limit(all, argv[i], err);
        }
    }
    return rc == 0 && all->pid == 0 ? err_set(err, ERR_INVALID, "limit: --pid is needed") : rc;
}

int limits_run(int argc, char **argv, struct err *err)
{
    struct limiting all = {.pid = 0};
    if (parse_limits(argc, argv, &all, err) < 0) {
        return EXIT_CODE_USAGE;
    }
    if (apply_all(&all, err) < 0) {
        return EXIT_CODE_SETUP;
    }
    tell_limits(&all);
    return EXIT_CODE_OK;
}
