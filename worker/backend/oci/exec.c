/*
 * A runtime's command is short-lived, but the container that it starts inherits its stderr and
 * keeps it open. So a command ends with its exit, not with the end of a stream; its output is in
 * the pipe by then and is read at once.
 *
 * Only the last bytes of each stream are kept, because a failing runtime says why at the end, and
 * its output must not use up memory. The command has its own session, so that Ctrl-C at a terminal
 * cannot interrupt a clean-up, and a small environment.
 *
 * A command that is to be judged by how long it takes has a deadline in time of its own: on a busy
 * machine it may wait for a CPU for most of the time. So it is looked at from time to time.
 */
#include "worker/backend/oci/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/kernel/waited.h"
#include "common/log.h"

#define DRAIN_MAX  (256u << 10) /* bytes still taken from a pipe at exit */
#define LINGER_MAX (64u << 10)  /* bytes of a container's stderr that are logged */
#define PASSED_FD  3
#define LOOK_MS    250 /* between two looks whether a command waits; most end before the first */
#define STREAMS    2

#define SYSTEM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct tail {
    char text[OCI_EXEC_TEXT_MAX];
    size_t len;
};

struct stream {
    uv_pipe_t pipe;
    struct tail tail;
    bool open;
};

struct oci_exec {
    struct task task;
    uv_process_t process;
    uv_timer_t deadline;
    struct stream streams[STREAMS]; /* stdout, stderr */
    bool running;                   /* the process has not exited yet */
    bool dropped;                   /* dropped: no callback */
    bool lingering;
    bool linger_wanted;
    int handles; /* not closed yet */
    int spawn_error;
    bool timed_out, was_busy;
    uint64_t deadline_ms, most_ms, began_ms;
    struct waited waited; /* with most_ms only */
    size_t lingered;
    oci_exec_fn fn;
    void *arg;
    char chunk[4096];
};

static void tail_add(struct tail *t, const char *data, size_t len)
{
    if (len >= sizeof(t->text)) {
        data += len - sizeof(t->text);
        len = sizeof(t->text);
    }
    size_t room = sizeof(t->text) - t->len;
    if (len > room) {
        size_t forget = len - room;
        memmove(t->text, t->text + forget, t->len - forget);
        t->len -= forget;
    }
    memcpy(t->text + t->len, data, len);
    t->len += len;
}

static void on_exec_handle_closed(uv_handle_t *handle)
{
    struct oci_exec *x = handle->data;
    if (--x->handles == 0) {
        task_leave(&x->task);
        free(x);
    }
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) {
        uv_close(handle, on_exec_handle_closed);
    }
}

static void close_stream(struct stream *s)
{
    if (s->open) {
        s->open = false;
        close_handle((uv_handle_t *)&s->pipe);
    }
}

static void close_all(struct oci_exec *x)
{
    close_handle((uv_handle_t *)&x->deadline);
    for (int i = 0; i < STREAMS; i++) {
        close_stream(&x->streams[i]);
    }
    /* A process that still runs keeps its handle until libuv has reaped it. */
    if (!x->running) {
        close_handle((uv_handle_t *)&x->process);
    }
}

static void exec_drop(struct task *task)
{
    struct oci_exec *x = (struct oci_exec *)task;
    x->dropped = true;
    if (x->running) {
        uv_process_kill(&x->process, SIGKILL);
    }
    close_all(x);
}

/* Reads what the pipe holds at the exit. The descriptor is non-blocking. */
static void drain(struct stream *s)
{
    uv_os_fd_t fd;
    if (!s->open || uv_fileno((uv_handle_t *)&s->pipe, &fd) != 0) {
        return;
    }
    char chunk[4096];
    for (size_t total = 0; total < DRAIN_MAX;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return;
        }
        tail_add(&s->tail, chunk, (size_t)n);
        total += (size_t)n;
    }
}

/* Nothing can be seen of a command that has ended, which is rarely long ago. */
static uint64_t count_time(struct oci_exec *x)
{
    if (x->running) {
        return waited_look(&x->waited, uv_now(x->deadline.loop), LOOK_MS);
    }
    uint64_t rest_ms = uv_now(x->deadline.loop) - x->waited.looked_ms;
    return x->waited.counted_ms + (rest_ms < LOOK_MS ? rest_ms : LOOK_MS);
}

static void finish_exec(struct oci_exec *x, int exit_code, int sig)
{
    if (x->dropped) {
        close_all(x);
        return;
    }
    for (int i = 0; i < STREAMS; i++) {
        drain(&x->streams[i]);
    }
    struct oci_exec_result result = {
        .exit_code = exit_code,
        .signal = sig,
        .timed_out = x->timed_out,
        .was_busy = x->was_busy,
        .counted_ms = x->most_ms > 0 ? count_time(x) : 0,
        .spawn_error = x->spawn_error,
        .out = view_bytes(x->streams[0].tail.text, x->streams[0].tail.len),
        .err = view_bytes(x->streams[1].tail.text, x->streams[1].tail.len),
    };
    oci_exec_fn fn = x->fn;
    void *arg = x->arg;
    x->dropped = true;
    x->lingering = x->linger_wanted && exit_code == 0 && x->streams[1].open;
    if (x->lingering) {
        close_handle((uv_handle_t *)&x->deadline);
        close_stream(&x->streams[0]);
        close_handle((uv_handle_t *)&x->process);
    }
    fn(arg, &result);
    if (!x->lingering) {
        close_all(x);
    }
}

static void on_command_exit(uv_process_t *process, int64_t status, int sig)
{
    struct oci_exec *x = process->data;
    x->running = false;
    finish_exec(x, sig != 0 ? -1 : (int)status, sig);
}

static void on_exec_deadline(uv_timer_t *timer)
{
    struct oci_exec *x = timer->data;
    if (x->spawn_error != 0) {
        finish_exec(x, -1, 0);
    } else if (x->running) {
        uint64_t passed_ms = uv_now(timer->loop) - x->began_ms;
        bool late = x->most_ms == 0 || count_time(x) >= x->deadline_ms;
        if (!late && passed_ms < x->most_ms) {
            uv_timer_start(timer, on_exec_deadline, LOOK_MS, 0);
            return;
        }
        x->timed_out = true;
        x->was_busy = !late;
        uv_process_kill(&x->process, SIGKILL);
    }
}

static void on_exec_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    (void)suggested;
    struct oci_exec *x = handle->data;
    *ret_buf = uv_buf_init(x->chunk, sizeof(x->chunk));
}

static void on_exec_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct oci_exec *x = stream->data;
    struct stream *s =
        (uv_stream_t *)&x->streams[0].pipe == stream ? &x->streams[0] : &x->streams[1];
    if (n > 0 && !x->lingering) {
        tail_add(&s->tail, buf->base, (size_t)n);
    } else if (n > 0 && x->lingered + (size_t)n <= LINGER_MAX) {
        x->lingered += (size_t)n;
        log_debug("agent says: %.*s", (int)n, buf->base);
    } else if (n != 0) {
        close_stream(s);
    }
}

/* A command gets only these variables of the worker, by which a runtime finds its helpers, the
 * user's service manager and temporary files. */
static char **make_env(void)
{
    static const char *const kept[] = {"HOME", "USER", "XDG_RUNTIME_DIR",
                                       "DBUS_SESSION_BUS_ADDRESS", "TMPDIR"};
    size_t count = sizeof(kept) / sizeof(kept[0]);
    char **env = alloc_array(count + 2, sizeof(*env));
    const char *path = getenv("PATH");
    size_t n = 0;
    env[n++] = alloc_printf("PATH=%s%s" SYSTEM_PATH, path != NULL ? path : "",
                            path != NULL && path[0] != '\0' ? ":" : "");
    for (size_t i = 0; i < count; i++) {
        const char *value = getenv(kept[i]);
        if (value != NULL) {
            env[n++] = alloc_printf("%s=%s", kept[i], value);
        }
    }
    return env;
}

static void free_env(char **env)
{
    for (size_t i = 0; env[i] != NULL; i++) {
        free(env[i]);
    }
    free(env);
}

static int spawn_runtime(struct oci_exec *x, const struct oci_exec_options *options)
{
    uv_stdio_container_t stdio[PASSED_FD + OCI_EXEC_FDS_MAX] = {{.flags = UV_IGNORE}};
    for (int i = 0; i < STREAMS; i++) {
        stdio[1 + i].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
        stdio[1 + i].data.stream = (uv_stream_t *)&x->streams[i].pipe;
    }
    for (int i = 0; options->stdio_fd > 0 && i < STDERR_FILENO; i++) {
        stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = options->stdio_fd};
    }
    for (size_t i = 0; i < options->pass_count; i++) {
        stdio[PASSED_FD + i].flags = UV_INHERIT_FD;
        stdio[PASSED_FD + i].data.fd = options->pass_fds[i];
    }

    char **env = make_env();
    uv_process_options_t po = {
        .exit_cb = on_command_exit,
        .file = options->argv[0],
        .args =
            (char **)(uintptr_t)options->argv, /* not written to; the type is older than const */
        .env = env,
        .cwd = "/",
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = PASSED_FD + (int)options->pass_count,
        .stdio = stdio,
    };
    /* with our umask user code could not enter directories that a runtime makes for mount points */
    mode_t before = umask(022);
    int rc = uv_spawn(x->task.tasks->loop, &x->process, &po);
    umask(before);
    free_env(env);
    return rc;
}

struct oci_exec *oci_exec_start(struct tasks *tasks, const struct oci_exec_options *options,
                                oci_exec_fn fn, void *arg)
{
    struct oci_exec *x = alloc_one(struct oci_exec);
    x->fn = fn;
    x->arg = arg;
    x->linger_wanted = options->linger;
    x->deadline_ms = options->deadline_ms;
    x->most_ms = options->most_ms;
    task_enter(tasks, &x->task, exec_drop);
    uv_timer_init(tasks->loop, &x->deadline);
    x->deadline.data = x;
    for (int i = 0; i < STREAMS; i++) {
        uv_pipe_init(tasks->loop, &x->streams[i].pipe, 0);
        x->streams[i].pipe.data = x;
        x->streams[i].open = true;
    }
    x->process.data = x;
    x->handles = 1 + STREAMS + 1;

    int rc = spawn_runtime(x, options);
    x->process.data = x;
    if (rc != 0) {
        /* reported from the loop; the handle must be closed even so */
        x->spawn_error = -rc;
        uv_timer_start(&x->deadline, on_exec_deadline, 0, 0);
        return x;
    }
    x->running = true;
    uint64_t first_ms = options->deadline_ms;
    if (x->most_ms > 0) {
        uv_update_time(tasks->loop); /* starting a process takes long on a busy machine */
        x->began_ms = uv_now(tasks->loop);
        waited_begin(&x->waited, "", uv_process_get_pid(&x->process), true, x->began_ms);
        first_ms = first_ms < LOOK_MS ? first_ms : LOOK_MS;
    }
    uv_timer_start(&x->deadline, on_exec_deadline, first_ms, 0);
    for (int i = 0; i < STREAMS; i++) {
        uv_read_start((uv_stream_t *)&x->streams[i].pipe, on_exec_alloc, on_exec_read);
    }
    return x;
}

int oci_exec_pid(const struct oci_exec *x)
{
    return x->running ? uv_process_get_pid(&x->process) : 0;
}

void oci_exec_kill(struct oci_exec *x)
{
    if (x->running) {
        uv_process_kill(&x->process, SIGKILL);
    }
}
