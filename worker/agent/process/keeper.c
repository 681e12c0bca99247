/*
 * agent --fork--> keeper --fork, drop, exec--> interpreter --> whatever user code starts
 *
 * The keeper is a subreaper, so double forks and new sessions of user code stay below it. It runs
 * as the sandbox's root, so user code can neither signal nor trace it. When the interpreter ends,
 * the keeper kills everything that is left below it before it reports the end, so a new interpreter
 * never meets processes of the old one. It waits for SIGCHLD and orders only. The end of the
 * command pipe means that the agent is gone, and is an order to kill.
 *
 * What the program asks by its filter the keeper answers (netlink.c). It gets the filter's listener
 * from the program over a pair of sockets.
 *
 * The keeper reaps the interpreter, so only the keeper knows that the pid is not reused. That is
 * why the keeper sends the interrupts, too.
 */
#include "worker/agent/process/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/agent/process/interrupt.h"
#include "worker/agent/process/killtree.h"
#include "worker/agent/process/netlink.h"

#define MARK_FIRST 0x60000000u /* groups above this, one for each pid, belong to nothing */
#define FD_PARK    80 /* above all numbers that programs get; RLIMIT_NOFILE may be as low as 128 */

/* Written to the pipes in one write each, as they are: both ends are the same binary. */
struct order {
    enum { ORDER_INTERRUPT = 1, ORDER_WAKE, ORDER_SWEEP, ORDER_KILL } what;
    struct procs_moment since;
};

struct progress {
    enum {
        PROGRESS_STARTED = 1,
        PROGRESS_FAILED,
        PROGRESS_INTERRUPTED,
        PROGRESS_SWEPT,
        PROGRESS_ENDED
    } what;
    bool all;            /* the sweep has killed all; or the interrupt was sent */
    bool leaves_orphans; /* of STARTED */
    pid_t pid;
    int wait_status;
    int sys;
    int code;
    char step[512];
    uint64_t cpu_us;
    uint64_t max_rss_kb;
};

struct keeping {
    const struct keeper_job *job;
    int command_fd, status_fd, signal_fd;
    int asks_fd; /* where the listener comes from; -1: it has come, or there is none */
    struct netlink netlink;
    pid_t main_pid;
    bool main_ended;
    int wait_status;
    struct interrupt interrupt;
};

static void send_progress(int fd, const struct progress *p)
{
    /* a write of this size is atomic; if the pipe is broken, the agent is gone */
    err_ignore(fd_write_all(fd, p, sizeof(*p), NULL));
}

/* ---- in the interpreter-to-be ---------------------------------------------------------------- */

__attribute__((noreturn)) static void fail(int status_fd, int sys, int code, const char *step)
{
    struct progress p = {.what = PROGRESS_FAILED, .sys = sys != 0 ? sys : EINVAL, .code = code};
    snprintf(p.step, sizeof(p.step), "%s", step);
    send_progress(status_fd, &p);
    _exit(127);
}

__attribute__((noreturn)) static void give_up(int status_fd, int sys, const char *step)
{
    fail(status_fd, sys, sys == EAGAIN ? ERR_BUSY : ERR_INTERNAL, step);
}

static int compare_int(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;
    return (x > y) - (x < y);
}

/* First moves every source above all targets, so that no target overwrites a source. Returns the
 * new number of the status pipe, and changes *asks_fd. */
static int arrange_fds(const struct keeper_job *job, int status_fd, int *asks_fd)
{
    int parked[KEEPER_FDS_MAX];
    int keep[KEEPER_FDS_MAX + 2];
    int status = fcntl(status_fd, F_DUPFD_CLOEXEC, FD_PARK);
    if (status < 0) {
        give_up(status_fd, errno, "arrange descriptors");
    }
    if (*asks_fd >= 0) {
        *asks_fd = fcntl(*asks_fd, F_DUPFD_CLOEXEC, FD_PARK);
        if (*asks_fd < 0) {
            give_up(status, errno, "arrange descriptors");
        }
    }
    for (size_t i = 0; i < job->fd_count; i++) {
        parked[i] = fcntl(job->fds[i].from, F_DUPFD_CLOEXEC, FD_PARK);
        if (parked[i] < 0) {
            give_up(status, errno, "arrange descriptors");
        }
    }
    for (size_t i = 0; i < job->fd_count; i++) {
        if (dup2(parked[i], job->fds[i].to) < 0) {
            give_up(status, errno, "arrange descriptors");
        }
        keep[i] = job->fds[i].to;
    }
    keep[job->fd_count] = status;
    keep[job->fd_count + 1] = *asks_fd;
    qsort(keep, job->fd_count + 2, sizeof(keep[0]), compare_int);
    spawn_close_all_but(keep, job->fd_count + 2);
    return status;
}

/* Becomes the user, and lets the keeper answer what the filter asks. */
static int become_user(const struct keeper_job *job, int asks_fd, struct err *err)
{
    struct spawn_config spawn = *job->spawn;
    int listener = -1;
    spawn.ret_listener = asks_fd >= 0 ? &listener : NULL;
    int rc = spawn_become_user(&spawn, job->hold_interrupt ? SIGINT : 0, err);
    if (rc == 0 && listener >= 0) {
        rc = netlink_hand_over(asks_fd, listener, err);
    }
    fd_close(&listener);
    fd_close(&asks_fd);
    return rc;
}

__attribute__((noreturn)) static void become_program(const struct keeper_job *job, int status_fd,
                                                     int asks_fd)
{
    struct err err = ERR_INIT;
    int status = arrange_fds(job, status_fd, &asks_fd);
    setsid();
    if (job->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) {
        give_up(status, errno, "take the terminal");
    }
    if (become_user(job, asks_fd, &err) < 0) {
        give_up(status, err.sys, err.text);
    }
    /* the program must die with its keeper; set after the change of user, which clears it */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
        give_up(status, errno, "bind to the keeper");
    }
    if (job->become != NULL) {
        int rc = job->become(job->become_arg, &err);
        fail(status, err.sys, -rc, err.text);
    }
    if (chdir(job->cwd) < 0 && chdir("/") < 0) {
        give_up(status, errno, "enter the workspace");
    }
    execve(job->path, job->argv, job->envp);
    give_up(status, errno, "run the program");
}

/* ---- in the keeper --------------------------------------------------------------------------- */

static void on_reaped(void *arg, pid_t pid, int wait_status)
{
    struct keeping *k = arg;
    if (pid == k->main_pid) {
        k->main_ended = true;
        k->wait_status = wait_status;
    }
}

static void reap_kept(struct keeping *k)
{
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            return;
        }
        on_reaped(k, pid, status);
    }
}

static uint64_t microseconds(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

__attribute__((noreturn)) static void end_all(struct keeping *k)
{
    bool none = killtree_descendants(k->job->spawn, k->job->last_resort, on_reaped, k);
    struct rusage used;
    memset(&used, 0, sizeof(used));
    (void)getrusage(RUSAGE_CHILDREN, &used);
    struct progress p = {
        .what = PROGRESS_ENDED,
        .wait_status = none ? k->wait_status : SIGKILL,
        .cpu_us = microseconds(used.ru_utime) + microseconds(used.ru_stime),
        .max_rss_kb = (uint64_t)used.ru_maxrss,
    };
    send_progress(k->status_fd, &p);
    _exit(0);
}

static void obey_one(struct keeping *k, const struct order *order)
{
    struct progress done = {.what = PROGRESS_INTERRUPTED};
    switch (order->what) {
    case ORDER_KILL:
        end_all(k);
    case ORDER_WAKE:
        (void)kill(k->main_pid, KEEPER_WAKE_SIGNAL);
        return;
    case ORDER_SWEEP:
        done.what = PROGRESS_SWEPT;
        done.all = killtree_since(k->job->spawn->mark, k->main_pid, &order->since, on_reaped, k);
        break;
    case ORDER_INTERRUPT:
        done.all = interrupt_run(&k->interrupt, k->main_pid, &order->since, k->job->interrupt_by);
        break;
    }
    send_progress(k->status_fd, &done);
}

static void obey(struct keeping *k)
{
    struct order order;
    ssize_t n = read(k->command_fd, &order, sizeof(order));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n != (ssize_t)sizeof(order)) {
        end_all(k);
    }
    obey_one(k, &order);
}

__attribute__((noreturn)) static void keep(struct keeping *k)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = k->signal_fd, .events = POLLIN},
                               {.fd = k->command_fd, .events = POLLIN},
                               {.fd = k->asks_fd, .events = POLLIN},
                               {.fd = netlink_poll_fd(&k->netlink), .events = POLLIN}};
        if (poll(fds, sizeof(fds) / sizeof(fds[0]), netlink_wait_ms(&k->netlink)) < 0) {
            continue;
        }
        if (fds[0].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(k->signal_fd, &info, sizeof(info));
            reap_kept(k);
        }
        if (k->main_ended) {
            end_all(k);
        }
        if (fds[1].revents != 0) {
            obey(k);
        }
        if (fds[2].revents != 0) {
            netlink_take(&k->netlink, k->asks_fd, k->job->spawn->netlink_others);
            fd_close(&k->asks_fd);
        }
        netlink_handle(&k->netlink, fds[3].revents);
    }
}

/* The pair by which the listener comes; -1 where there will be none. */
static void open_asks(const struct spawn_config *spawn, int status_fd, int ret_ends[2])
{
    ret_ends[0] = ret_ends[1] = -1;
    if (spawn->filter && netlink_is_bounded() &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_ends) < 0) {
        give_up(status_fd, errno, "make a pair of sockets");
    }
}

/* Older releases of gVisor let only pid 1 be a subreaper. There a group marks what descends from
 * this keeper. */
static bool claim_orphans(struct spawn_config *spawn)
{
    if (errno != EINVAL || spawn->single_uid) {
        return false;
    }
    spawn->mark = MARK_FIRST + (gid_t)getpid();
    return true;
}

__attribute__((noreturn)) static void become_keeper(const struct keeper_job *given, int command_fd,
                                                    int status_fd)
{
    struct spawn_config spawn = *given->spawn;
    struct keeper_job own = *given;
    const struct keeper_job *job = &own;
    own.spawn = &spawn;
    struct keeping k = {.job = job,
                        .command_fd = command_fd,
                        .status_fd = status_fd,
                        .netlink = {.listener_fd = -1}};
    int asks[2];
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigset_t blocked = child;
    sigaddset(&blocked, SIGINT); /* inherited by the program */
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 && !claim_orphans(&spawn)) {
        give_up(status_fd, errno, "become a subreaper");
    }
    k.interrupt.mark = spawn.mark;
    open_asks(&spawn, status_fd, asks);
    k.asks_fd = asks[0];
    k.main_pid = fork();
    if (k.main_pid < 0) {
        give_up(status_fd, errno, "fork");
    }
    if (k.main_pid == 0) {
        become_program(job, status_fd, asks[1]);
    }
    k.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int keep_fds[] = {STDERR_FILENO, command_fd, status_fd, k.signal_fd, k.asks_fd};
    qsort(keep_fds, 5, sizeof(keep_fds[0]), compare_int);
    spawn_close_all_but(keep_fds, 5);
    if (k.signal_fd < 0) {
        end_all(&k);
    }
    struct progress p = {
        .what = PROGRESS_STARTED, .pid = k.main_pid, .leaves_orphans = spawn.mark != 0};
    send_progress(status_fd, &p);
    keep(&k);
}

/* ---- in the agent ---------------------------------------------------------------------------- */

void keeper_init(struct keeper *k)
{
    *k = (struct keeper){.command_fd = -1, .status_fd = -1};
}

int keeper_start(struct keeper *k, const struct keeper_job *job, struct err *err)
{
    int command[2] = {-1, -1};
    int status[2] = {-1, -1};
    if (pipe2(command, O_CLOEXEC) < 0 || pipe2(status, O_CLOEXEC) < 0) {
        int rc = err_sys(err, ERR_IO, errno, "cannot make a pipe");
        if (command[0] >= 0) {
            close(command[0]);
            close(command[1]);
        }
        return rc;
    }
    keeper_init(k);
    k->command_fd = command[1];
    k->status_fd = status[0];
    int rc = fd_set_nonblock(status[0], err);
    if (rc == 0) {
        rc = fd_set_nonblock(command[1], err);
    }
    if (rc == 0) {
        k->pid = fork();
        if (k->pid == 0) {
            become_keeper(job, command[0], status[1]);
        }
        if (k->pid < 0) {
            k->pid = 0;
            rc = err_sys(err, errno == EAGAIN ? ERR_BUSY : ERR_IO, errno, "cannot start a process");
        }
    }
    close(command[0]);
    close(status[1]);
    if (rc < 0) {
        keeper_finish(k);
    }
    return rc;
}

static bool give(const struct keeper *k, const struct order *order)
{
    return k->command_fd >= 0 &&
           write(k->command_fd, order, sizeof(*order)) == (ssize_t)sizeof(*order);
}

void keeper_interrupt(struct keeper *k, const struct procs_moment *since)
{
    const struct order order = {.what = ORDER_INTERRUPT, .since = *since};
    if (give(k, &order)) {
        k->owed++;
    }
}

void keeper_sweep(struct keeper *k, const struct procs_moment *since)
{
    const struct order order = {.what = ORDER_SWEEP, .since = *since};
    k->sweep = give(k, &order) ? KEEPER_SWEEP_ORDERED : KEEPER_SWEEP_FAILED;
}

void keeper_wake(const struct keeper *k)
{
    (void)give(k, &(const struct order){.what = ORDER_WAKE});
}

void keeper_kill(const struct keeper *k)
{
    /* if the keeper has ended, its status pipe tells */
    (void)give(k, &(const struct order){.what = ORDER_KILL});
}

void keeper_read(struct keeper *k)
{
    for (;;) {
        struct progress p;
        ssize_t got = read(k->status_fd, &p, sizeof(p));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got != (ssize_t)sizeof(p)) {
            if (!k->ended) {
                k->ended = true;
                k->wait_status = SIGKILL;
            }
            return;
        }
        if (p.what == PROGRESS_STARTED) {
            k->main_pid = p.pid;
            k->leaves_orphans = p.leaves_orphans;
        } else if (p.what == PROGRESS_INTERRUPTED) {
            k->owed -= k->owed > 0;
            k->too_early = !p.all;
        } else if (p.what == PROGRESS_SWEPT) {
            k->sweep = p.all ? KEEPER_SWEEP_DONE : KEEPER_SWEEP_FAILED;
        } else if (p.what == PROGRESS_FAILED) {
            k->exec_errno = p.sys;
            k->exec_code = p.code;
            p.step[sizeof(p.step) - 1] = '\0';
            memcpy(k->exec_step, p.step, sizeof(k->exec_step));
        } else {
            k->ended = true;
            k->wait_status = p.wait_status;
            k->cpu_us = p.cpu_us;
            k->max_rss_kb = p.max_rss_kb;
        }
    }
}

void keeper_finish(struct keeper *k)
{
    if (k->command_fd >= 0) {
        close(k->command_fd);
    }
    if (k->status_fd >= 0) {
        close(k->status_fd);
    }
    keeper_init(k);
}
