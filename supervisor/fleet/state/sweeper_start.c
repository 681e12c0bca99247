/*
 * A server that is killed can remove nothing, and a server with a thousand sandboxes is not done
 * when its client's patience ends. Both leave the rest to a process for which nobody waits. It must
 * exist before, since a killed server starts nothing. From the first sandbox on it costs a process
 * that sleeps in one read.
 *
 * When a server with a thousand sandboxes is killed, the kernel closes thousands of its
 * descriptors; each close wakes a worker, and their order depends on the kernel. So there are two
 * pipes to the sweeper, one with a low number and one with a high one.
 *
 * The sweeper holds the instance's lock together with the server, so the lock is never free between
 * the two, and no other server considers the instance dead while it is being removed. A named
 * instance has no sweeper: its sandboxes wait for its next server.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/sweeper.h"
#include "supervisor/fleet/workers/environment.h"

#define HIGH_FD 16384 /* the kernel's table for such a number takes 128 KiB */

struct sweeper {
    uv_process_t process;
    int low, high; /* our ends of the pipes, which close when we end, however we end */
    struct fleet_host *host;
    bool alive;
    void (*closed)(void *arg); /* set while closing */
    void *arg;
};

static void on_sweeper_closed(uv_handle_t *handle)
{
    struct sweeper *s = handle->data;
    void (*closed)(void *arg) = s->closed;
    void *arg = s->arg;
    close(s->low);
    close(s->high);
    free(s);
    if (closed != NULL) {
        closed(arg);
    }
}

static void on_sweeper_exit(uv_process_t *process, int64_t exit_code, int signal)
{
    struct sweeper *s = process->data;
    s->alive = false;
    if (s->closed == NULL) {
        log_warn("sweeper ended: exit code %d, signal %d; the next sandbox starts another",
                 (int)exit_code, signal);
        s->host->sweeper = NULL;
    }
    uv_close((uv_handle_t *)process, on_sweeper_closed);
}

static int spawn_sweeper(struct sweeper *s, const char *backend, const uv_file read_ends[2])
{
    struct fleet_host *host = s->host;
    const char *argv[] = {
        "cloister",
        SWEEPER_ARGUMENT,
        host->instance->dir,
        host->worker_path,
        host->agent_path,
        backend,
        host->config->engine,
        log_level_name(log_get_level()),
        NULL,
    };
    const int fds[] = {-1, -1, STDERR_FILENO, read_ends[0], read_ends[1], host->instance->lock_fd};
    uv_stdio_container_t stdio[sizeof(fds) / sizeof(fds[0])];
    memset(stdio, 0, sizeof(stdio));
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        stdio[i].flags = fds[i] < 0 ? UV_IGNORE : UV_INHERIT_FD;
        stdio[i].data.fd = fds[i];
    }
    /* all that is in the instance is of this backend, since a server has one */
    CLEANUP_FREE char **env = worker_environment(backend);
    uv_process_options_t options;
    memset(&options, 0, sizeof(options));
    options.env = env;
    options.file = host->config->sweeper;
    /* uv_spawn() changes neither the array nor the texts; its type predates const. */
    options.args = (char **)(uintptr_t)argv;
    options.exit_cb = on_sweeper_exit;
    options.flags = UV_PROCESS_DETACHED;
    options.stdio = stdio;
    options.stdio_count = (int)(sizeof(fds) / sizeof(fds[0]));
    return uv_spawn(host->loop, &s->process, &options);
}

/* Above the numbers of thousands of sandboxes, if this process may use them. */
static int move_up(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high < 0) {
        return fd;
    }
    close(fd);
    return high;
}

void sweeper_start(struct fleet_host *host, const char *backend)
{
    uv_file low[2];
    uv_file high[2];
    if (host->sweeper != NULL || host->config->sweeper == NULL || !host->instance->own) {
        return;
    }
    int rc = uv_pipe(low, 0, 0); /* both are close-on-exec */
    if (rc < 0) {
        log_warn("no sweeper: %s", uv_strerror(rc));
        return;
    }
    rc = uv_pipe(high, 0, 0);
    if (rc < 0) {
        log_warn("no sweeper: %s", uv_strerror(rc));
        close(low[0]);
        close(low[1]);
        return;
    }
    struct sweeper *s = alloc_one(struct sweeper);
    s->host = host;
    s->low = low[1];
    s->high = move_up(high[1]);
    s->process.data = s;
    const uv_file read_ends[] = {low[0], high[0]};
    rc = spawn_sweeper(s, backend, read_ends);
    close(low[0]);
    close(high[0]);
    if (rc < 0) {
        log_warn("no sweeper: %s", uv_strerror(rc));
        uv_close((uv_handle_t *)&s->process, on_sweeper_closed);
        return;
    }
    s->alive = true;
    uv_unref((uv_handle_t *)&s->process); /* does not keep the loop alive */
    host->sweeper = s;
}

bool sweeper_lives(const struct fleet_host *host)
{
    return host->sweeper != NULL && host->sweeper->alive;
}

bool sweeper_close(struct fleet_host *host, bool needed, void (*closed)(void *arg), void *arg)
{
    struct sweeper *s = host->sweeper;
    if (s == NULL) {
        return false;
    }
    host->sweeper = NULL;
    s->closed = closed;
    s->arg = arg;
    if (needed) {
        uv_close((uv_handle_t *)&s->process,
                 on_sweeper_closed); /* neither signals it nor waits for it */
    } else {
        uv_ref((uv_handle_t *)&s->process);
        (void)uv_process_kill(&s->process, SIGKILL);
    }
    return true;
}
