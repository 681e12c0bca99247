/*
 * The agent runs as the sandbox's root with four capabilities (SETUID, SETGID, KILL, SETPCAP); user
 * code is an ordinary user with none. Only this file turns the one into the other.
 *
 * The order matters. The memory-kill score and the limits are set while /proc/self belongs to us
 * and limits can be raised. The bounding set is emptied while CAP_SETPCAP is held. The groups
 * change before the user, because the user may not change them. no_new_privs follows, so that
 * neither a set-uid program nor exec as uid 0 (the single-uid mode) restores a privilege.
 *
 * The limit on processes is set after the change of user. The kernel marks a process that becomes a
 * user with more processes than its limit allows, and refuses its next exec. So user code that uses
 * up the limit could prevent the start of the next interpreter.
 */
#include "worker/agent/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/agent/process/filter.h"

#define CAPABILITY_MAX 63 /* the loop ends at the first one that the kernel does not know */
#define SIGNALS_MAX    1024
#define LOOKS          3 /* lookups of a program in a row before the answer is "unknown" */

static int denied(struct err *err, const char *step)
{
    return err_sys(err, ERR_DENIED, errno, "%s", step);
}

/* Raises the score, so that the kernel kills user code before the agent that reports the kill. If
 * /proc is absent or read-only, only this preference is lost. */
static void volunteer_for_memory_kill(void)
{
    CLEANUP_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        err_ignore(fd_write_all(fd, "1000", 4, NULL));
    }
}

static int limit(__rlimit_resource_t what, uint64_t value, const char *step, struct err *err)
{
    struct rlimit now;
    if (getrlimit(what, &now) < 0) {
        return denied(err, step);
    }
    rlim_t wanted = (rlim_t)value;
    if (now.rlim_max != RLIM_INFINITY && wanted > now.rlim_max) {
        wanted = now.rlim_max; /* raising takes a capability that the agent does not have */
    }
    struct rlimit set = {wanted, wanted};
    return setrlimit(what, &set) < 0 ? denied(err, step) : 0;
}

/* Of what the kernel counts for a user of the host. To lower a limit takes no right on Linux, so
 * who refuses that is a kernel of the sandbox's own (gVisor), which counts for nobody else. */
static int limit_for_host(__rlimit_resource_t what, uint64_t value, const char *step,
                          struct err *err)
{
    int rc = limit(what, value, step, err);
    return rc < 0 && err->sys == EPERM ? 0 : rc;
}

static int apply_limits(const struct spawn_config *c, struct err *err)
{
    /* 1: no core file is that small, and the kernel runs no handler, which 0 does not prevent */
    int rc = limit(RLIMIT_CORE, 1, "limit core files", err);
    /* timers and signals that wait, and POSIX message queues, which could still be opened as files:
     * the kernel counts both for a user of the host as well */
    if (rc == 0) {
        rc = limit_for_host(RLIMIT_SIGPENDING, SIGNALS_MAX, "limit pending signals", err);
    }
    if (rc == 0) {
        rc = limit_for_host(RLIMIT_MSGQUEUE, 0, "limit message queues", err);
    }
    if (rc == 0 && c->nofile > 0) {
        rc = limit(RLIMIT_NOFILE, c->nofile, "limit open files", err);
    }
    if (rc == 0 && c->data_bytes > 0) {
        rc = limit(RLIMIT_DATA, c->data_bytes, "limit data memory", err);
    }
    return rc;
}

static int empty_bounding_set(bool must, struct err *err)
{
    for (unsigned long cap = 0; cap <= CAPABILITY_MAX; cap++) {
        int held = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (held < 0) {
            break;
        }
        if (held > 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && must) {
            return denied(err, "drop the capability bounding set");
        }
    }
    return 0;
}

static int become_ids(const struct spawn_config *c, struct err *err)
{
    if (setgroups(c->mark != 0 ? 1 : 0, &c->mark) < 0 && getgroups(0, NULL) != 0) {
        return denied(err, "leave all groups");
    }
    if (setresgid(c->gid, c->gid, c->gid) < 0) {
        return denied(err, "become the sandbox group");
    }
    if (setresuid(c->uid, c->uid, c->uid) < 0) {
        return denied(err, "become the sandbox user");
    }
    return 0;
}

static int drop_capabilities(struct err *err)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    memset(none, 0, sizeof(none));
    if (syscall(SYS_capset, &head, none) < 0) {
        return denied(err, "drop capabilities");
    }
    return 0;
}

int spawn_drop_privileges(const struct spawn_config *c, struct err *err)
{
    int rc = empty_bounding_set(!c->single_uid, err);
    if (rc < 0) {
        return rc;
    }
    /* kernels without ambient capabilities have none to clear */
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (!c->single_uid) {
        rc = become_ids(c, err);
    }
    if (rc == 0) {
        rc = drop_capabilities(err);
    }
    if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        rc = denied(err, "set no_new_privs");
    }
    if (rc == 0 && c->filter) {
        rc = filter_install(!c->single_uid, c->ret_listener, err);
    }
    return rc;
}

static void default_signals(int held)
{
    struct sigaction plain;
    memset(&plain, 0, sizeof(plain));
    plain.sa_handler = SIG_DFL;
    for (int sig = 1; sig < NSIG; sig++) {
        (void)sigaction(sig, &plain, NULL); /* fails for KILL, STOP and libc's own */
    }
    sigset_t blocked;
    sigemptyset(&blocked);
    if (held != 0) {
        sigaddset(&blocked, held);
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

int spawn_become_user(const struct spawn_config *c, int held, struct err *err)
{
    volunteer_for_memory_kill();
    default_signals(held);
    umask(022);
    int rc = apply_limits(c, err);
    if (rc == 0) {
        rc = spawn_drop_privileges(c, err);
    }
    if (rc == 0 && c->nproc > 0) {
        rc = limit(RLIMIT_NPROC, c->nproc, "limit processes", err);
    }
    return rc;
}

static void close_run(unsigned first, unsigned last)
{
    if (first > last) {
        return;
    }
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0) == 0) {
        return;
    }
#endif
    /* Linux before 5.9, or a seccomp profile that does not know the call */
    struct rlimit files;
    unsigned top = 65536;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < top) {
        top = (unsigned)files.rlim_cur;
    }
    for (unsigned fd = first; fd <= last && fd < top; fd++) {
        close((int)fd);
    }
}

void spawn_close_all_but(const int *keep, size_t count)
{
    unsigned next = 0;
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < 0) {
            continue;
        }
        if ((unsigned)keep[i] > next) {
            close_run(next, (unsigned)keep[i] - 1);
        }
        next = (unsigned)keep[i] + 1;
    }
    close_run(next, INT_MAX);
}

/* gVisor has no fsuid. With another effective uid the saved one still is the agent's, so user code
 * can neither signal nor trace us meanwhile. */
static void change_effective_ids(const struct spawn_config *c, bool on)
{
    if (on) {
        (void)!setegid(c->gid); /* if it fails, the file belongs to root, which the user notices */
        (void)!seteuid(c->uid);
    } else {
        (void)!seteuid(getuid());
        (void)!setegid(getgid());
    }
}

/* The fsuid decides the rights to files, so it is changed for one call. The kernel drops and
 * restores the file capabilities with it. */
static void act_as_user(const struct spawn_config *c, bool on)
{
    if (c == NULL || c->single_uid) {
        return;
    }
    setfsgid(on ? c->gid : getegid());
    setfsuid(on ? c->uid : geteuid());
    if ((uid_t)setfsuid((uid_t)-1) != (on ? c->uid : geteuid())) {
        change_effective_ids(c, on);
    }
    /* a change of ids resets the dumpable flag to fs.suid_dumpable */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int spawn_pipe(const struct spawn_config *c, int ours, int ret_fds[2], struct err *err)
{
    int fds[2];
    act_as_user(c, true);
    int rc = pipe2(fds, O_CLOEXEC);
    int sys = errno;
    act_as_user(c, false);
    if (rc < 0) {
        return err_sys(err, ERR_IO, sys, "cannot make a pipe");
    }
    rc = fd_set_nonblock(fds[ours], err);
    if (rc < 0) {
        close(fds[0]);
        close(fds[1]);
        return rc;
    }
    memcpy(ret_fds, fds, sizeof(fds));
    return 0;
}

int spawn_memory_file(const struct spawn_config *c, const char *name, int *ret_fd, struct err *err)
{
    act_as_user(c, true);
    int fd = memfd_create(name, MFD_CLOEXEC);
    int rc = fd >= 0 ? fchmod(fd, 0600) : -1;
    int sys = errno;
    act_as_user(c, false);
    if (rc < 0) {
        if (fd >= 0) {
            close(fd);
        }
        return err_sys(err, ERR_IO, sys, "cannot make a memory file");
    }
    *ret_fd = fd;
    return 0;
}

int spawn_open_as_user(const struct spawn_config *c, const char *path, int flags)
{
    act_as_user(c, true);
    int fd = open(path, flags | O_CLOEXEC);
    int sys = errno;
    act_as_user(c, false);
    errno = sys;
    return fd;
}

/* True for errors that say that no program can be run there. Others, such as a lack of descriptors
 * or memory or a failing file system, say nothing about the file. */
static bool says_not_there(int sys)
{
    return sys == ENOENT || sys == ENOTDIR || sys == EACCES || sys == ELOOP || sys == ENAMETOOLONG;
}

/* The open also checks the rights to the directories on the path. */
static enum spawn_found look_at_program(const struct spawn_config *c, const char *path)
{
    int sys = 0;
    for (unsigned i = 0; i < LOOKS; i++) {
        CLEANUP_FD int fd = spawn_open_as_user(c, path, O_PATH);
        struct stat st;
        if (fd >= 0 && fstat(fd, &st) == 0) {
            bool runs = S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0;
            return runs ? SPAWN_FOUND : SPAWN_NOT_THERE;
        }
        sys = errno;
        if (says_not_there(sys)) {
            return SPAWN_NOT_THERE;
        }
    }
    errno = sys;
    return SPAWN_UNKNOWN;
}

static enum spawn_found look_in(const struct spawn_config *c, const char *dirs, const char *name,
                                char **ret)
{
    enum spawn_found found = SPAWN_NOT_THERE;
    int sys = 0;
    for (const char *p = dirs; *p != '\0';) {
        size_t len = strcspn(p, ":");
        CLEANUP_FREE char *path = alloc_printf("%.*s/%s", (int)len, p, name);
        enum spawn_found here = len > 0 ? look_at_program(c, path) : SPAWN_NOT_THERE;
        if (here == SPAWN_FOUND) {
            *ret = STEAL_PTR(path);
            return here;
        }
        if (here == SPAWN_UNKNOWN) {
            sys = errno;
            found = here;
        }
        p += len + (p[len] == ':');
    }
    errno = sys;
    return found;
}

const char *spawn_search_path(void)
{
    const char *dirs = getenv("PATH");
    return dirs != NULL && dirs[0] != '\0' ? dirs : SPAWN_DEFAULT_PATH;
}

enum spawn_found spawn_find_program(const struct spawn_config *c, const char *name, char **ret)
{
    if (strchr(name, '/') == NULL) {
        return look_in(c, spawn_search_path(), name, ret);
    }
    enum spawn_found found = look_at_program(c, name);
    if (found == SPAWN_FOUND) {
        *ret = alloc_strdup(name);
    }
    return found;
}
