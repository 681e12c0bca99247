/*
 * A worker is a separate program with fixed descriptors: 0 and 1 are /dev/null, because ours carry
 * the client's protocol; 2 is a pipe that child_log.c reads; 3 is the lifeline, the read end of a
 * pipe whose write end only this process has, so that the kernel tells a worker of our death,
 * however we die. A session of its own protects it from a terminal's ^C and hang-up: this process
 * decides when sandboxes end, and in which order.
 *
 * libuv reaps its children by pid, so nothing in this process may call waitpid(-1).
 *
 * A worker of an earlier server is not our child, and its pid could be reused at any moment. A
 * pidfd cannot: we open it first, then compare the start time; if that matches, the descriptor
 * refers to this process for good. It becomes readable when the process ends. Releasing such a
 * worker never harms it, because a failed takeover must not end the sandbox. Releasing a child of
 * ours kills it; only worker_process_abandon() lets it live.
 */
#include "supervisor/fleet/workers/spawn.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/fleet/host/child_log.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/workers/environment.h"

struct worker_process {
    union {
        uv_process_t child; /* if pidfd < 0 */
        uv_poll_t watch;    /* of the pidfd */
        uv_handle_t handle;
    } uv;
    int pid;
    int pidfd; /* of a process that is not our child; else -1 */
    struct fleet_host *host;
    struct child_log *log;  /* of a child */
    worker_exit_fn on_exit; /* NULL: ended, or released */
    void *arg;
};

static struct worker_process *new_process(struct fleet_host *host)
{
    struct worker_process *p = alloc_one(struct worker_process);
    p->host = host;
    p->pidfd = -1;
    fleet_host_hold(host);
    return p;
}

static void on_worker_handle_closed(uv_handle_t *handle)
{
    struct worker_process *p = handle->data;
    if (p->pidfd >= 0) {
        close(p->pidfd);
    }
    fleet_host_release(p->host);
    free(p);
}

/* ---- children ---- */

static void on_process_reaped(uv_process_t *process, int64_t exit_code, int signal)
{
    struct worker_process *p = process->data;
    worker_exit_fn told = p->on_exit;
    p->on_exit = NULL;
    if (told != NULL) {
        told(p->arg, signal != 0 ? -1 : (int)exit_code, signal);
    }
    /* It was released while it was dying, so it is freed now. */
    if (told == NULL) {
        uv_close((uv_handle_t *)process, on_worker_handle_closed);
    }
}

char *worker_socket_path(const char *dir, uint64_t generation)
{
    return alloc_printf("%s/w%" PRIu64 ".sock", dir, generation);
}

static int spawn_worker(struct worker_process *p, const struct worker_args *args, int log_fd)
{
    struct fleet_host *host = p->host;
    char generation[24];
    CLEANUP_FREE char *socket = worker_socket_path(args->dir, args->generation);
    snprintf(generation, sizeof(generation), "%" PRIu64, args->generation);
    const char *argv[] = {
        "cloister-worker",
        "--socket",
        socket,
        "--sandbox",
        args->sandbox,
        "--generation",
        generation,
        "--dir",
        args->dir,
        "--shared-dir",
        args->shared_dir,
        "--agent",
        host->agent_path,
        "--log-level",
        log_level_name(log_get_level()),
        args->backend != NULL ? "--backend" : NULL,
        args->backend,
        NULL,
    };
    uv_stdio_container_t stdio[4];
    memset(stdio, 0, sizeof(stdio));
    stdio[0].flags = UV_IGNORE;
    stdio[1].flags = UV_IGNORE;
    stdio[2].flags = UV_INHERIT_FD;
    stdio[2].data.fd = log_fd;
    stdio[3].flags = UV_INHERIT_FD;
    stdio[3].data.fd = host->lifeline_read;

    CLEANUP_FREE char **env = worker_environment(args->backend);
    uv_process_options_t options;
    memset(&options, 0, sizeof(options));
    options.file = host->worker_path;
    options.env = env;
    /* uv_spawn() changes neither the array nor the texts; its type predates const. */
    options.args = (char **)(uintptr_t)argv;
    options.exit_cb = on_process_reaped;
    options.flags = UV_PROCESS_DETACHED;
    options.stdio = stdio;
    options.stdio_count = 4;
    return uv_spawn(host->loop, &p->uv.child, &options);
}

int worker_spawn(struct fleet_host *host, const struct worker_args *args, worker_exit_fn told,
                 void *arg, struct worker_process **ret, struct err *err)
{
    uv_file pipe_fds[2];
    int rc = uv_pipe(pipe_fds, UV_NONBLOCK_PIPE, 0);
    if (rc < 0) {
        return err_sys(err, ERR_ENGINE, -rc, "cannot start a worker: no pipe for its log");
    }
    CLEANUP_FD int write_end = pipe_fds[1];
    struct child_log *log;
    rc = child_log_start(host, pipe_fds[0], args->sandbox, args->generation, &log, err);
    if (rc < 0) {
        return rc;
    }
    struct worker_process *p = new_process(host);
    p->log = log;
    p->uv.handle.data = p;
    rc = spawn_worker(p, args, write_end);
    if (rc < 0) {
        child_log_stop(STEAL_PTR(p->log));
        uv_close(&p->uv.handle, on_worker_handle_closed);
        return err_sys(err, ERR_ENGINE, -rc, "cannot start a worker (%s)", host->worker_path);
    }
    p->pid = p->uv.child.pid;
    child_log_set_pid(p->log, p->pid);
    p->on_exit = told;
    p->arg = arg;
    *ret = p;
    return 0;
}

/* ---- workers of an earlier server ---- */

#ifdef SYS_pidfd_open
static int open_pidfd(int pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int signal_pidfd(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}
#else
static int open_pidfd(int pid)
{
    (void)pid;
    errno = ENOSYS;
    return -1;
}

static int signal_pidfd(int pidfd, int signal)
{
    (void)pidfd, (void)signal;
    errno = ENOSYS;
    return -1;
}
#endif

static void on_pidfd_readable(uv_poll_t *poll, int status, int events)
{
    struct worker_process *p = poll->data;
    worker_exit_fn told = p->on_exit;
    (void)status, (void)events; /* after an error there is no reason to wait longer either */
    p->on_exit = NULL;
    uv_poll_stop(poll);
    told(p->arg, -1, 0);
}

int worker_watch(struct fleet_host *host, int pid, uint64_t start_time, worker_exit_fn told,
                 void *arg, struct worker_process **ret, struct err *err)
{
    if (start_time == 0) {
        return err_set(err, ERR_IO, "cannot know worker %d again: when it started is not known",
                       pid);
    }
    CLEANUP_FD int pidfd = open_pidfd(pid);
    if (pidfd < 0 && (errno == ESRCH || errno == EINVAL)) {
        return err_set(err, ERR_GONE, "worker %d has ended", pid);
    }
    if (pidfd < 0) {
        return err_sys(err, ERR_IO, errno, "cannot watch worker %d", pid);
    }
    if (worker_process_start_time(pid) != start_time) {
        return err_set(err, ERR_GONE, "worker %d has ended, its number is another process's", pid);
    }
    struct worker_process *p = new_process(host);
    int rc = uv_poll_init(host->loop, &p->uv.watch, pidfd);
    if (rc < 0) {
        fleet_host_release(host);
        free(p);
        return err_sys(err, ERR_IO, -rc, "cannot watch worker %d", pid);
    }
    p->uv.handle.data = p;
    p->pid = pid;
    p->pidfd = steal_fd(&pidfd); /* closed with the handle */
    rc = uv_poll_start(&p->uv.watch, UV_READABLE, on_pidfd_readable);
    if (rc < 0) {
        uv_close(&p->uv.handle, on_worker_handle_closed);
        return err_sys(err, ERR_IO, -rc, "cannot watch worker %d", pid);
    }
    p->on_exit = told;
    p->arg = arg;
    *ret = p;
    return 0;
}

/* ---- interface ------------------------------------------------------------------------------- */

int worker_process_pid(const struct worker_process *p)
{
    return p->pid;
}

static void send_signal(struct worker_process *p, int signal)
{
    if (p->on_exit == NULL) {
        return;
    }
    if (p->pidfd < 0) {
        (void)uv_process_kill(&p->uv.child, signal);
    } else if (signal_pidfd(p->pidfd, signal) < 0 && errno != ESRCH) {
        log_error("cannot signal worker %d: %s", p->pid, strerror(errno));
    }
}

void worker_process_stop(struct worker_process *p)
{
    send_signal(p, SIGTERM);
}

void worker_process_kill(struct worker_process *p)
{
    send_signal(p, SIGKILL);
}

void worker_process_abandon(struct worker_process *p)
{
    if (p == NULL) {
        return;
    }
    child_log_stop(STEAL_PTR(p->log));
    p->on_exit = NULL;
    /* Closing a child's handle neither signals it nor waits for it. */
    uv_close(&p->uv.handle, on_worker_handle_closed);
}

void worker_process_release(struct worker_process *p)
{
    if (p == NULL || p->pidfd >= 0 || p->on_exit == NULL) {
        worker_process_abandon(p);
        return;
    }
    child_log_stop(STEAL_PTR(p->log));
    worker_process_kill(p);
    p->on_exit = NULL; /* its exit has closed it */
}

uint64_t worker_process_start_time(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    CLEANUP_BUF struct buf stat;
    buf_init(&stat, 4096);
    if (file_read(path, &stat, NULL) < 0) {
        return 0;
    }
    /* Field 2 is the program's name in parentheses and may contain anything, so we count from its
     * end: field 3 follows, and the start time is field 22. */
    const char *text = buf_cstr(&stat);
    const char *at = text != NULL ? strrchr(text, ')') : NULL;
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return 0;
    }
    char number[24];
    size_t len = strcspn(at + 1, " ");
    uint64_t start = 0;
    if (len < sizeof(number)) {
        memcpy(number, at + 1, len);
        number[len] = '\0';
        err_ignore(str_to_u64(number, 0, UINT64_MAX, &start, NULL)); /* 0 means unknown */
    }
    return start;
}
