/*
 * A worker is a separate program with a fixed map of descriptors: 0 and 1 are /dev/null, because
 * ours are the client's protocol; 2 is a pipe that child_log.c reads; 3 is the lifeline, the read
 * end of a pipe whose write end only this process has, so that a worker learns of our death from
 * the kernel, however it came. A session of its own keeps a terminal's ^C and hang-up away from it:
 * when sandboxes end is decided here, in order.
 *
 * libuv reaps its own children by pid. Nothing in this process may call waitpid(-1).
 */
#include "supervisor/worker_spawn.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/child_log.h"
#include "supervisor/fleet_host.h"

struct worker_process {
    uv_process_t process;
    struct fleet_host *host;
    struct child_log *log;
    worker_exit_fn on_exit; /* NULL: released */
    void *arg;
};

static void on_closed(uv_handle_t *handle)
{
    struct worker_process *p = handle->data;
    fleet_host_release(p->host);
    free(p);
}

static void on_reaped(uv_process_t *process, int64_t exit_code, int signal)
{
    struct worker_process *p = process->data;
    worker_exit_fn told = p->on_exit;
    p->on_exit = NULL;
    if (told != NULL) {
        told(p->arg, signal != 0 ? -1 : (int)exit_code, signal);
    }
    /* Released while it was still dying: now it may go. */
    if (told == NULL) {
        uv_close((uv_handle_t *)process, on_closed);
    }
}

static int spawn(struct worker_process *p, const struct worker_args *args, int log_fd)
{
    struct fleet_host *host = p->host;
    char generation[24];
    snprintf(generation, sizeof(generation), "%" PRIu64, args->generation);
    const char *argv[] = {
        "cloister-worker",
        "--socket",
        args->socket,
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

    uv_process_options_t options;
    memset(&options, 0, sizeof(options));
    options.file = host->worker_path;
    /* uv_spawn() changes neither the array nor the texts; its type predates const. */
    options.args = (char **)(uintptr_t)argv;
    options.exit_cb = on_reaped;
    options.flags = UV_PROCESS_DETACHED;
    options.stdio = stdio;
    options.stdio_count = 4;
    return uv_spawn(host->loop, &p->process, &options);
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
    struct worker_process *p = alloc_one(struct worker_process);
    p->host = host;
    p->log = log;
    p->process.data = p;
    fleet_host_hold(host);
    rc = spawn(p, args, write_end);
    if (rc < 0) {
        child_log_stop(STEAL_PTR(p->log));
        uv_close((uv_handle_t *)&p->process, on_closed);
        return err_sys(err, ERR_ENGINE, -rc, "cannot start a worker (%s)", host->worker_path);
    }
    child_log_set_pid(p->log, p->process.pid);
    p->on_exit = told;
    p->arg = arg;
    *ret = p;
    return 0;
}

int worker_process_pid(const struct worker_process *p)
{
    return p->process.pid;
}

void worker_process_stop(struct worker_process *p)
{
    if (p->on_exit != NULL) {
        (void)uv_process_kill(&p->process, SIGTERM);
    }
}

void worker_process_kill(struct worker_process *p)
{
    if (p->on_exit != NULL) {
        (void)uv_process_kill(&p->process, SIGKILL);
    }
}

void worker_process_release(struct worker_process *p)
{
    if (p == NULL) {
        return;
    }
    child_log_stop(STEAL_PTR(p->log));
    if (p->on_exit != NULL) {
        worker_process_kill(p);
        p->on_exit = NULL; /* closed by its exit */
    } else {
        uv_close((uv_handle_t *)&p->process, on_closed);
    }
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
    /* Field 2 is the program's name in parentheses and may hold anything, so count from its end:
     * what follows starts with field 3, and the start time is field 22. */
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
        err_ignore(str_to_u64(number, 0, UINT64_MAX, &start, NULL)); /* stays 0: unknown */
    }
    return start;
}
