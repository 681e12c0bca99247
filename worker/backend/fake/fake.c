/*
 * The fake backend: a real agent without a sandbox. For tests and fault injection only.
 *
 * With it, all layers above a backend run on any machine and fail on request. The agent is a plain
 * process of this user, so code runs on the host: the backend is never chosen automatically,
 * reports this as unapplied limits, and refuses `strict`.
 *
 * As in other backends, state is outside this process: the agent's socket, and a file with its pid
 * and start time, so another worker can take over the sandbox.
 *
 * Faults are ordered by the image or by --engine: "fault:" and a comma-separated list of
 *     create=fail            creation fails             create=hang     it never ends
 *     create=slow:MS         it takes that long      create=progress:N  in N steps that are told
 *     image=absent           there is no image, unless it may be pulled
 *     stream=refuse:N        the first N streams cannot be opened
 *     stream=eof:N           the first N streams end at once
 *     stream=garbage         what comes out of a stream is no message
 *     agent=silent           nobody serves the agent's socket
 *     agent=none             nobody listens at it: the sandbox is not running
 *     agent=dies:MS          the agent is killed after that time
 *     usage=oom              the backend counts one memory kill
 *     usage=coarse:N         the same for N, and it says that it cannot count
 *     usage=hang             figures never come
 *     limit=fail             the limits cannot be changed
 *     limit=hang             that never ends
 *     destroy=fail           removal fails              destroy=hang    it never ends
 *     destroy=slow:MS        it takes that long
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/str.h"
#include "worker/backend/agent_socket.h"
#include "worker/backend/backend.h"

#define UNAPPLIED "isolation: the fake backend runs code on the host"
#define PID_FILE  "agent.pid"
#define TERM_MS   1000 /* from SIGTERM to SIGKILL */
#define POLL_MS   5
#define STEP_MS   20 /* from one step to the next */
#define ENV_MAX   258
#define AGENT_FD  3

struct fake {
    struct backend base;
    uv_loop_t *loop;
    char *dir, *image, *order;
    uint64_t streams; /* opened so far */
    int listen_fd;    /* kept only for agent=silent */
    uv_process_t *process;
    struct later *first;
    size_t handles;
    void (*closed)(void *arg); /* set while closing */
    void *closed_arg;
};

/* ---- things that happen later, for no callback may run inside its call ----------------------- */

struct later {
    struct later *prev, *next;
    struct fake *fake;
    uv_timer_t timer;
    void (*run)(struct later *l);
    backend_create_fn create;
    backend_stream_fn stream;
    backend_usage_fn usage;
    backend_done_fn done;
    void *arg;
    int rc, fd;
    struct err err;
    struct backend_usage figures;
    uint64_t kill_ms; /* destroy: when SIGTERM turns into SIGKILL */
    void (*progress)(void *arg, const char *text, uint64_t done, uint64_t total);
    void *progress_arg;
    uint64_t step, step_total;
};

static void check_closed(struct fake *f)
{
    if (f->closed != NULL && f->handles == 0) {
        void (*closed)(void *arg) = f->closed;
        void *arg = f->closed_arg;
        if (f->listen_fd >= 0) {
            close(f->listen_fd);
        }
        free(f->dir);
        free(f->image);
        free(f->order);
        free(f);
        closed(arg);
    }
}

static void on_fake_later_closed(uv_handle_t *handle)
{
    struct later *l = handle->data;
    struct fake *f = l->fake;
    free(l);
    f->handles--;
    check_closed(f);
}

static void drop_fake_later(struct later *l)
{
    *(l->prev != NULL ? &l->prev->next : &l->fake->first) = l->next;
    if (l->next != NULL) {
        l->next->prev = l->prev;
    }
    uv_close((uv_handle_t *)&l->timer, on_fake_later_closed);
}

static void on_fake_later(uv_timer_t *timer)
{
    struct later *l = timer->data;
    l->run(l);
}

static struct later *later(struct fake *f, void (*run)(struct later *l), uint64_t delay_ms)
{
    struct later *l = alloc_one(struct later);
    l->fake = f;
    l->run = run;
    l->fd = -1;
    l->next = f->first;
    if (l->next != NULL) {
        l->next->prev = l;
    }
    f->first = l;
    f->handles++;
    uv_timer_init(f->loop, &l->timer);
    l->timer.data = l;
    uv_timer_start(&l->timer, on_fake_later, delay_ms, 0);
    return l;
}

/* ---- faults --------------------------------------------------------------------------------- */

static bool fault_in(const char *order, const char *name, uint64_t *ret_number)
{
    const char *at = strncmp(order, "fault:", 6) == 0 ? order + 6 : "";
    size_t len = strlen(name);
    while (*at != '\0') {
        size_t item = strcspn(at, ",");
        if (strncmp(at, name, len) == 0 && (item == len || at[len] == ':')) {
            char number[24] = "0";
            struct err err = ERR_INIT;
            if (item > len + 1 && item - len - 1 < sizeof(number)) {
                memcpy(number, at + len + 1, item - len - 1);
                number[item - len - 1] = '\0';
            }
            return ret_number == NULL || str_to_u64(number, 0, UINT32_MAX, ret_number, &err) == 0;
        }
        at += item + (at[item] == ',' ? 1 : 0);
    }
    return false;
}

/* True if `name` ("create=slow") is ordered; *ret_number is what follows its colon. */
static bool fault(const struct fake *f, const char *name, uint64_t *ret_number)
{
    return fault_in(f->image, name, ret_number) || fault_in(f->order, name, ret_number);
}

/* Faults are ordered by the image or by where the engine is said to be. */
static const char *order_of(const struct place *place)
{
    return place->kind == PLACE_NAMED ? place->address : "";
}

static void set_spec(struct fake *f, const struct backend_spec *spec)
{
    free(f->dir);
    free(f->image);
    free(f->order);
    f->dir = alloc_strdup(spec->dir);
    f->image = alloc_strdup(spec->image);
    f->order = alloc_strdup(order_of(&spec->place));
}

/* ---- the agent's process -------------------------------------------------------------------- */

/* Start time of a live process in clock ticks; 0 if it is gone or only waits to be reaped. Fails if
 * that cannot be told. */
static int start_time(int pid, uint64_t *ret, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("/proc/%d/stat", pid);
    CLEANUP_BUF struct buf text;
    buf_init(&text, 4096);
    *ret = 0;
    int rc = file_read(path, &text, err);
    if (rc < 0) {
        return rc == -ERR_FILE_NOT_FOUND || err->sys == ESRCH ? 0 : rc;
    }
    if (buf_cstr(&text) == NULL) {
        return err_set(err, ERR_NO_MEMORY, "no memory for %s", path);
    }
    /* The name in parentheses may hold anything; the 20th field after it is the start time. */
    const char *at = strrchr((const char *)text.data, ')');
    if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') {
        return 0;
    }
    for (int field = 0; field < 20 && at != NULL; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return 0;
    }
    char number[24] = "";
    snprintf(number, sizeof(number), "%.*s", (int)strcspn(at + 1, " "), at + 1);
    return str_to_u64(number, 0, UINT64_MAX, ret, err);
}

static int write_pid(const struct fake *f, int pid, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", f->dir, PID_FILE);
    uint64_t ticks = 0;
    int rc = start_time(pid, &ticks, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *text = alloc_printf("%d %" PRIu64, pid, ticks);
    return file_replace(path, text, strlen(text), 0600, err);
}

/* The agent of this directory, if it runs; 0 if not; -ERR_* if that cannot be told. */
static int find_pid(const struct fake *f, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", f->dir, PID_FILE);
    CLEANUP_BUF struct buf text;
    uint64_t pid, ticks, now;
    buf_init(&text, 64);
    int rc = file_read(path, &text, err);
    if (rc < 0) {
        return rc == -ERR_FILE_NOT_FOUND ? 0 : rc;
    }
    if (buf_cstr(&text) == NULL) {
        return err_set(err, ERR_NO_MEMORY, "no memory for %s", path);
    }
    char *space = strchr((char *)text.data, ' ');
    if (space == NULL) {
        return 0;
    }
    *space = '\0';
    if (str_to_u64((char *)text.data, 2, INT32_MAX, &pid, err) < 0 ||
        str_to_u64(space + 1, 1, UINT64_MAX, &ticks, err) < 0) {
        return 0;
    }
    rc = start_time((int)pid, &now, err);
    return rc < 0 ? rc : now == ticks ? (int)pid : 0;
}

static void on_process_closed(uv_handle_t *handle)
{
    struct fake *f = handle->data;
    free(handle);
    f->handles--;
    check_closed(f);
}

static void drop_process(struct fake *f)
{
    if (f->process != NULL) {
        uv_close((uv_handle_t *)f->process, on_process_closed);
        f->process = NULL;
    }
}

static void on_agent_exit(uv_process_t *process, int64_t status, int signal_number)
{
    drop_process(process->data);
}

static void run_kill(struct later *l)
{
    int pid = find_pid(l->fake, &l->err);
    if (pid > 0) {
        uv_kill(pid, SIGKILL);
    }
    drop_fake_later(l);
}

static int start_agent(struct fake *f, const struct backend_spec *spec, int listen_fd,
                       struct err *err)
{
    CLEANUP_FREE char *workspace = alloc_printf("%s/workspace", f->dir);
    CLEANUP_FREE char *home = alloc_printf("%s/home", f->dir);
    CLEANUP_FREE char *grace = alloc_printf("%" PRIu64, spec->grace_ms);
    CLEANUP_FREE char *uid = alloc_printf("%u", (unsigned)geteuid());
    CLEANUP_FREE char *gid = alloc_printf("%u", (unsigned)getegid());
    CLEANUP_FREE char *files = alloc_printf("%" PRIu64, spec->limits.files);
    const char *args[] = {
        spec->agent_path, "serve", "--fd", "3", "--sandbox", spec->id, "--grace-ms", grace, "--uid",
        uid, "--gid", gid,
        /* not the requested limits, because rlimits count for the whole user of this host */
        "--nproc", "0", "--nofile", files, "--data-bytes", "0", "--workspace", workspace, "--home",
        home, "--single-uid",
        /* without a sandbox the next worker cannot be told from user code */
        "--any-peer", NULL};
    const char *env[ENV_MAX];
    size_t env_count = 0;
    env[env_count++] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    for (size_t i = 0; i < spec->env.count && env_count + 1 < ENV_MAX; i++) {
        env[env_count++] = spec->env.items[i].data; /* NUL-terminated copies */
    }
    env[env_count] = NULL;

    int rc = dir_make(workspace, 0700, err);
    if (rc == 0) {
        rc = dir_make(home, 0700, err);
    }
    if (rc < 0) {
        return rc;
    }
    uv_stdio_container_t stdio[AGENT_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = listen_fd},
    };
    uv_process_options_t options = {
        .exit_cb = on_agent_exit,
        .file = spec->agent_path,
        .args = (char **)args,
        .env = (char **)env,
        .cwd = workspace,
        .flags = UV_PROCESS_DETACHED, /* it outlives this worker */
        .stdio_count = AGENT_FD + 1,
        .stdio = stdio,
    };
    f->process = alloc_one(uv_process_t);
    f->process->data = f;
    f->handles++;
    int stderr_flags = fcntl(STDERR_FILENO, F_GETFL);
    rc = uv_spawn(f->loop, f->process, &options);
    /* libuv makes stderr blocking for the agent, and with that for this process, which must not
     * block */
    (void)fcntl(STDERR_FILENO, F_SETFL, stderr_flags);
    if (rc < 0) {
        drop_process(f);
        return err_set(err, ERR_ENGINE, "cannot start %s: %s", spec->agent_path, uv_strerror(rc));
    }
    uv_unref((uv_handle_t *)f->process);
    return write_pid(f, f->process->pid, err);
}

/* ---- the vtable ------------------------------------------------------------------------------ */

static struct fake *fake_of(struct backend *b)
{
    return (struct fake *)b;
}

static struct backend *fake_open(uv_loop_t *loop)
{
    struct fake *f = alloc_one(struct fake);
    f->base.ops = &backend_fake;
    f->loop = loop;
    f->listen_fd = -1;
    f->dir = alloc_strdup("");
    f->image = alloc_strdup("");
    f->order = alloc_strdup("");
    return &f->base;
}

static void run_created(struct later *l)
{
    struct backend_info info = {.runtime = "fake", .image = l->fake->image};
    CLEANUP_FREE char *workspace = alloc_printf("%s/workspace", l->fake->dir);
    info.workspace = workspace;
    info.unapplied[info.unapplied_count++] = UNAPPLIED;
    drop_fake_later(l); /* its memory stays until the next turn; the callback may close us */
    l->create(l->arg, l->rc, l->rc == 0 ? &info : NULL, &l->err, "");
}

static int create_now(struct fake *f, const struct backend_spec *spec, struct err *err)
{
    CLEANUP_FD int listen_fd = -1;
    uint64_t delay_ms = 0;
    if (spec->strict) {
        return err_set(err, ERR_ENGINE, "strict limits were asked for, and " UNAPPLIED);
    }
    if (fault(f, "create=fail", NULL)) {
        return err_set(err, ERR_ENGINE, "creation was ordered to fail");
    }
    if (fault(f, "image=absent", NULL) && !spec->pull) {
        return err_set(err, ERR_IMAGE, "there is no image, and it may not be pulled");
    }
    if (fault(f, "agent=none", NULL)) {
        return 0;
    }
    int rc = agent_socket_listen(f->dir, &listen_fd, err);
    if (rc < 0) {
        return rc;
    }
    if (fault(f, "agent=silent", NULL)) {
        f->listen_fd = steal_fd(&listen_fd);
        return 0;
    }
    rc = start_agent(f, spec, listen_fd, err);
    if (rc == 0 && fault(f, "agent=dies", &delay_ms)) {
        later(f, run_kill, delay_ms);
    }
    return rc;
}

static void run_step(struct later *l)
{
    if (l->step == l->step_total) {
        l->run = run_created;
        run_created(l);
        return;
    }
    l->step++;
    CLEANUP_FREE char *text = alloc_printf("layer %" PRIu64, l->step);
    l->progress(l->progress_arg, text, l->step * 1000, l->step_total * 1000);
    uv_timer_start(&l->timer, on_fake_later, STEP_MS, 0);
}

static void fake_create(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                        void *arg)
{
    struct fake *f = fake_of(b);
    uint64_t delay_ms = 0;
    struct err err = ERR_INIT;
    set_spec(f, spec);
    if (fault(f, "create=hang", NULL)) {
        return;
    }
    fault(f, "create=slow", &delay_ms);
    int rc = create_now(f, spec, &err);
    struct later *l = later(f, run_created, delay_ms);
    l->create = done;
    l->arg = arg;
    l->rc = rc;
    l->err = err;
    if (spec->progress != NULL && fault(f, "create=progress", &l->step_total)) {
        l->run = run_step;
        l->progress = spec->progress;
        l->progress_arg = spec->progress_arg;
    }
}

static void fake_attach(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                        void *arg)
{
    struct fake *f = fake_of(b);
    set_spec(f, spec);
    struct later *l = later(f, run_created, 0);
    l->create = done;
    l->arg = arg;
    int pid = find_pid(f, &l->err);
    if (pid < 0) {
        l->rc = pid;
    } else if (pid == 0) {
        l->rc = err_set(&l->err, ERR_GONE, "the agent's process does not run any more");
    }
}

struct probe_later {
    backend_probe_fn done;
    void *arg;
    struct place place;
};

static void free_fake_probe(struct probe_later *p)
{
    place_finish(&p->place);
    free(p);
}

static void run_probed(struct later *l)
{
    struct probe_later *p = l->arg;
    struct backend_probe probe = {.usable = true, .runtime = "fake", .version = "", .reason = ""};
    probe.place = p->place;
    probe.tried[probe.tried_count++] =
        (struct backend_tried){"the place that was given", p->place, "it is a fake"};
    probe.unapplied[probe.unapplied_count++] = UNAPPLIED;
    drop_fake_later(l);
    p->done(p->arg, &probe);
    free_fake_probe(p);
}

static void fake_probe(struct backend *b, const struct backend_spec *spec, backend_probe_fn done,
                       void *arg)
{
    struct probe_later *p = alloc_one(struct probe_later);
    p->done = done;
    p->arg = arg;
    p->place = place_copy(&spec->place);
    later(fake_of(b), run_probed, 0)->arg = p;
}

static void run_stream(struct later *l)
{
    drop_fake_later(l);
    l->stream(l->arg, l->rc, l->fd, &l->err);
}

/* Makes a stream whose peer has sent `text` and hung up. */
static int dead_stream(const char *text, int *ret_fd, struct err *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot make a socket pair");
    }
    int rc = fd_write_all(fds[1], text, strlen(text), err);
    close(fds[1]);
    if (rc < 0) {
        close(fds[0]);
        return rc;
    }
    *ret_fd = fds[0];
    return 0;
}

static void fake_stream(struct backend *b, backend_stream_fn done, void *arg)
{
    struct fake *f = fake_of(b);
    uint64_t count = 0;
    uint64_t number = f->streams++;
    struct later *l = later(f, run_stream, 0);
    l->stream = done;
    l->arg = arg;
    if (fault(f, "stream=refuse", &count) && number < count) {
        l->rc = err_set(&l->err, ERR_IO, "the stream was ordered to be refused");
    } else if (fault(f, "stream=eof", &count) && number < count) {
        l->rc = dead_stream("", &l->fd, &l->err);
    } else if (fault(f, "stream=garbage", NULL)) {
        l->rc = dead_stream("HTTP/1.1 400 Bad Request\r\n\r\n", &l->fd, &l->err);
    } else {
        l->rc = agent_socket_connect(f->dir, &l->fd, &l->err);
    }
}

static void run_usage(struct later *l)
{
    drop_fake_later(l);
    l->usage(l->arg, l->rc, &l->figures, &l->err);
}

static void fake_usage(struct backend *b, backend_usage_fn done, void *arg)
{
    struct fake *f = fake_of(b);
    if (fault(f, "usage=hang", NULL)) {
        return;
    }
    struct later *l = later(f, run_usage, 0);
    l->usage = done;
    l->arg = arg;
    l->figures.oom_kills = fault(f, "usage=oom", NULL) ? 1 : 0;
    l->figures.oom_kills_coarse = fault(f, "usage=coarse", &l->figures.oom_kills);
    l->figures.pids = find_pid(f, &l->err) > 0 ? 1 : 0;
}

static void run_limit(struct later *l)
{
    backend_done_fn done = l->done;
    void *arg = l->arg;
    int rc = l->rc;
    struct err err = l->err;
    drop_fake_later(l);
    done(arg, rc, rc < 0 ? &err : NULL, "");
}

/* It has no limits, so any will do. */
static void fake_limit(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                       void *arg)
{
    struct fake *f = fake_of(b);
    (void)spec;
    if (fault(f, "limit=hang", NULL)) {
        return;
    }
    struct later *l = later(f, run_limit, 0);
    l->done = done;
    l->arg = arg;
    if (fault(f, "limit=fail", NULL)) {
        l->rc = err_set(&l->err, ERR_CONFIG, "limits cannot be changed, as ordered");
    }
}

static void run_destroy(struct later *l)
{
    struct fake *f = l->fake;
    int pid = find_pid(f, &l->err);
    uint64_t now = clock_ms();
    if (pid < 0) {
        l->rc = pid; /* it may run, so its files stay */
    }
    if (pid > 0) {
        if (l->kill_ms == 0) {
            l->kill_ms = now + TERM_MS;
            uv_kill(pid, SIGTERM); /* the agent ends what it started, then itself */
        } else if (now >= l->kill_ms) {
            uv_kill(pid, SIGKILL);
        }
        uv_timer_start(&l->timer, on_fake_later, POLL_MS, 0);
        return;
    }
    static const char *const made[] = {"workspace", "home", AGENT_SOCKET_NAME, PID_FILE};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]) && l->rc == 0; i++) {
        CLEANUP_FREE char *path = alloc_printf("%s/%s", f->dir, made[i]);
        l->rc = dir_remove(path, &l->err);
    }
    if (l->rc == 0 && fault(f, "destroy=fail", NULL)) {
        l->rc = err_set(&l->err, ERR_ENGINE, "removal was ordered to fail");
    }
    drop_fake_later(l);
    l->done(l->arg, l->rc, &l->err, "");
}

static void fake_destroy(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                         void *arg)
{
    struct fake *f = fake_of(b);
    uint64_t delay_ms = 0;
    set_spec(f, spec);
    if (f->listen_fd >= 0) {
        close(steal_fd(&f->listen_fd));
    }
    if (fault(f, "destroy=hang", NULL)) {
        return;
    }
    fault(f, "destroy=slow", &delay_ms);
    struct later *l = later(f, run_destroy, delay_ms);
    l->done = done;
    l->arg = arg;
}

static void fake_close(struct backend *b, void (*closed)(void *arg), void *arg)
{
    struct fake *f = fake_of(b);
    f->closed = closed;
    f->closed_arg = arg;
    while (f->first != NULL) {
        struct later *l = f->first;
        if (l->run == run_probed) {
            free_fake_probe(l->arg);
        } else if (l->run == run_stream && l->fd >= 0) {
            close(l->fd);
        }
        drop_fake_later(l);
    }
    drop_process(f);
    later(f, drop_fake_later, 0); /* makes a handle whose close callback reports the end */
}

const struct backend_ops backend_fake = {
    .name = "fake",
    .open = fake_open,
    .probe = fake_probe,
    .create = fake_create,
    .attach = fake_attach,
    .stream = fake_stream,
    .usage = fake_usage,
    .limit = fake_limit,
    .destroy = fake_destroy,
    .close = fake_close,
};
