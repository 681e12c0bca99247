/*
 * A sandbox has its own network namespace, which has only loopback. For network access it gets an
 * interface whose other end is slirp4netns: a TCP/IP stack in a process that opens ordinary sockets
 * on this host. So code in the sandbox reaches what a program of this user could reach, nothing on
 * the host listens for it, and no privilege, bridge or firewall rule is needed.
 * --disable-host-loopback blocks servers on this host's loopback; the name server, which often is
 * one, is reached through an address that the helper forwards.
 *
 * The helper must outlive the worker, since a killed worker is replaced while the sandbox goes on.
 * So it runs in its own session, writes messages to a pipe of which it holds both ends (a pipe to
 * the worker would end it with the worker, a file could grow), and exits when the sandbox's first
 * process ends (oci_net_tether). One that does not exit is found by its record.
 *
 * User code cannot reach it: it has another pid namespace and shares no socket or descriptor.
 * Because it handles packets of user code, it enters an empty root without capabilities and
 * installs a seccomp filter before the first packet. Where we run as root it is the root of the
 * sandbox's user namespace, who is nobody on this host ("cloister-agent within"). What it buffers
 * and computes is driven by user code, so it counts for the sandbox: once it is ready, and has
 * opened the device, which the sandbox may not, it goes into the sandbox's control groups
 * (create.c).
 */
#include "worker/backend/oci/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/kernel/waited.h"
#include "common/log.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/record.h"

#define PROGRAM   "slirp4netns"
#define TUN       "/dev/net/tun"
#define READY_MS  10000 /* 10 ms are usual; of the helper's own time (waited.h) */
#define LOOK_MS   250   /* between two looks whether it waits for the machine */
#define ROUTES    "/proc/net/ipv6_route"
#define RESOLVERS "/etc/resolv.conf"
#define WORDS_MAX 4096

/* Numbers of the descriptors in the helper. */
enum { FD_TETHER = 3, FD_READY, FD_WORDS, FD_COUNT };

struct oci_net {
    struct task task;
    uv_process_t process;
    uv_timer_t deadline;
    uv_pipe_t ready;
    int words; /* what it says */
    char *path, *dir;
    bool running, answered, cancelled;
    struct waited waited;
    uint64_t began_ms, most_ms;
    char chunk[8];
    unsigned handles;
    oci_net_fn fn;
    void *arg;
};

int oci_net_find(char **ret_path, char hint[BACKEND_HINT_MAX], struct err *err)
{
    CLEANUP_FREE char *path = NULL;
    if (oci_runtime_find(PROGRAM, &path, err) < 0) {
        snprintf(hint, BACKEND_HINT_MAX, "install %s (apt install %s, dnf install %s)", PROGRAM,
                 PROGRAM, PROGRAM);
        return err_set(err, ERR_NETWORK, "sandboxes cannot have network here: %s is not installed",
                       PROGRAM);
    }
    CLEANUP_FD int tun = open(TUN, O_RDWR | O_CLOEXEC);
    if (tun < 0) {
        snprintf(hint, BACKEND_HINT_MAX,
                 "%s needs the device: modprobe tun, and chmod 0666 " TUN
                 " if this user may not open it",
                 PROGRAM);
        return err_sys(err, ERR_NETWORK, errno, "sandboxes cannot have network here: " TUN);
    }
    *ret_path = STEAL_PTR(path);
    return 0;
}

int oci_net_tether(int ret_ends[2], struct err *err)
{
    return pipe2(ret_ends, O_CLOEXEC) < 0 ? err_sys(err, ERR_IO, errno, "no pipe") : 0;
}

/* True if this host has an IPv6 route; otherwise programs inside would try IPv6 first. */
static bool has_ipv6(void)
{
    CLEANUP_BUF struct buf b;
    struct err err;
    buf_init(&b, 1u << 20);
    if (file_read(ROUTES, &b, &err) < 0 || buf_cstr(&b) == NULL) {
        return false;
    }
    for (const char *line = buf_cstr(&b); line != NULL && *line != '\0';) {
        char to[40], dev[32];
        unsigned len;
        if (sscanf(line, "%39s %x %*s %*s %*s %*s %*s %*s %*s %31s", to, &len, dev) == 3 &&
            len == 0 && strcmp(dev, "lo") != 0) {
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

/* The helper has one address for IPv4 name servers and one for IPv6, and forwards to the first such
 * server of this host. Without such a server each lookup would wait for that address, so it is left
 * out. */
const char *oci_net_resolv_conf(void)
{
    CLEANUP_BUF struct buf b;
    struct err err;
    bool has_v4 = false, has_v6 = false;
    buf_init(&b, 1u << 20);
    const char *line = file_read(RESOLVERS, &b, &err) == 0 ? buf_cstr(&b) : NULL;
    while (line != NULL && *line != '\0') {
        char address[64];
        if (sscanf(line, "nameserver%*[ \t]%63s", address) == 1) {
            bool v6 = strchr(address, ':') != NULL;
            has_v6 |= v6;
            has_v4 |= !v6;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return has_v6 && !has_v4 && has_ipv6() ? "nameserver fd00::3\n" : "nameserver 10.0.2.3\n";
}

/* ---- the end of it -------------------------------------------------------------------------- */

static void on_net_handle_closed(uv_handle_t *handle)
{
    struct oci_net *n = handle->data;
    if (--n->handles == 0) {
        if (n->words >= 0) {
            close(n->words);
        }
        task_leave(&n->task);
        free(n->path);
        free(n->dir);
        free(n);
    }
}

static void close_one(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) {
        uv_close(handle, on_net_handle_closed);
    }
}

static void close_waiting(struct oci_net *n)
{
    close_one((uv_handle_t *)&n->deadline);
    close_one((uv_handle_t *)&n->ready);
    if (n->words >= 0) {
        close(n->words);
        n->words = -1;
    }
}

static void drop_net_task(struct task *task)
{
    struct oci_net *n = (struct oci_net *)task;
    if (!n->answered && n->running) {
        uv_process_kill(&n->process, SIGKILL); /* no callback: its network is not needed any more */
    }
    n->answered = true;
    close_waiting(n);
    close_one((uv_handle_t *)&n->process);
}

/* ---- the beginning -------------------------------------------------------------------------- */

/* The words of the helper, without the last line that only says that there are others. */
static struct view reasons_of(const char *text, size_t len)
{
    static const char last[] = "\nchild failed(";
    const char *at = memmem(text, len, last, sizeof(last) - 1);
    return view_bytes(text, at != NULL ? (size_t)(at - text) : len);
}

static void add_words(struct oci_net *n, struct err *err)
{
    char text[WORDS_MAX], words[OCI_WORDS_MAX];
    ssize_t len = n->words >= 0 ? read(n->words, text, sizeof(text)) : 0;
    if (len > 0) {
        const struct err kept = *err;
        oci_runtime_words(reasons_of(text, (size_t)len), words);
        if (words[0] != '\0') {
            err_ignore(err_set(err, (enum err_code)kept.code, "%s: %s", kept.text, words));
        }
    }
}

static void fail_net(struct oci_net *n, enum err_code code, const char *why)
{
    struct err err = ERR_INIT;
    err_ignore(
        err_set(&err, code, "cannot connect the sandbox to the network: %s %s", n->path, why));
    add_words(n, &err);
    n->answered = true;
    if (n->running) {
        uv_process_kill(&n->process, SIGKILL);
    }
    close_waiting(n);
    if (!n->running) {
        close_one((uv_handle_t *)&n->process);
    }
    n->fn(n->arg, -err.code, &err, "see `cloister doctor` for what this host lacks");
}

static void on_exit_of_helper(uv_process_t *process, int64_t status, int sig)
{
    struct oci_net *n = process->data;
    n->running = false;
    if (!n->answered) {
        fail_net(n, n->cancelled ? ERR_SHUTTING_DOWN : ERR_ENGINE,
                 n->cancelled ? "was not needed any more" : "ended at once");
        return;
    }
    log_debug("network of a sandbox is over: %s status=%d signal=%d", n->path, (int)status, sig);
    close_one((uv_handle_t *)process);
}

static void on_net_deadline(uv_timer_t *timer)
{
    struct oci_net *n = timer->data;
    if (n->answered) {
        return;
    }
    if (!n->running) {
        fail_net(n, ERR_ENGINE, "could not be started");
        return;
    }
    uint64_t now_ms = uv_now(timer->loop);
    if (waited_look(&n->waited, now_ms, LOOK_MS) >= READY_MS) {
        fail_net(n, ERR_TIMEOUT, "did not come up in time");
    } else if (now_ms - n->began_ms >= n->most_ms) {
        fail_net(n, ERR_TIMEOUT, "did not come up in time: this machine is too busy");
    } else {
        uv_timer_start(timer, on_net_deadline, LOOK_MS, 0);
    }
}

static void on_net_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    (void)suggested;
    struct oci_net *n = handle->data;
    *ret_buf = uv_buf_init(n->chunk, sizeof(n->chunk));
}

static void on_ready(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct oci_net *n = stream->data;
    if (count > 0 && buf->base[0] == '1' && !n->answered) {
        n->answered = true;
        close_waiting(n);
        n->fn(n->arg, 0, NULL, "");
    } else if (count < 0) {
        uv_read_stop(stream); /* on_exit_of_helper() reports the end */
    }
}

/* Both ends are non-blocking, because the pipe is not read after the network is up. */
static int words_pipe(int ret_ends[2])
{
    return pipe2(ret_ends, O_CLOEXEC | O_NONBLOCK);
}

static int spawn_net(struct oci_net *n, const struct oci_net_options *options)
{
    char target[16];
    snprintf(target, sizeof(target), "%d", (int)options->pid);
    const char *const within[] = {options->agent_path, "within", "--pid", target, "--"};
    const char *const command[] = {n->path,
                                   "--configure",
                                   "--mtu=65520",
                                   "--exit-fd=3",
                                   "--ready-fd=4",
                                   "--disable-host-loopback",
                                   "--enable-sandbox",
                                   "--enable-seccomp"};
    const char *argv[24];
    size_t argc = 0;
    for (size_t i = 0; options->agent_path != NULL && i < sizeof(within) / sizeof(within[0]); i++) {
        argv[argc++] = within[i];
    }
    for (size_t i = 0; i < sizeof(command) / sizeof(command[0]); i++) {
        argv[argc++] = command[i];
    }
    if (has_ipv6()) {
        argv[argc++] = "--enable-ipv6";
    }
    argv[argc++] = target;
    argv[argc++] = "tap0";
    argv[argc] = NULL;

    int words[2];
    if (words_pipe(words) < 0) {
        return -errno;
    }
    uv_stdio_container_t stdio[FD_COUNT] = {{.flags = UV_IGNORE}};
    stdio[1] = stdio[2] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = words[1]};
    stdio[FD_TETHER] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = options->tether};
    stdio[FD_READY] = (uv_stdio_container_t){.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
                                             .data.stream = (uv_stream_t *)&n->ready};
    stdio[FD_WORDS] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = words[0]};

    char path_env[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *env[] = {path_env, NULL};
    uv_process_options_t po = {
        .exit_cb = on_exit_of_helper,
        .file = argv[0],
        .args = (char **)(uintptr_t)argv, /* not written to; the type is older than const */
        .env = env,
        .cwd = "/",
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = FD_COUNT,
        .stdio = stdio,
    };
    int rc = uv_spawn(n->task.tasks->loop, &n->process, &po);
    close(words[1]);
    n->words = words[0];
    return rc;
}

static int write_down(struct oci_net *n, struct err *err)
{
    struct oci_record *r = alloc_one(struct oci_record);
    CLEANUP_FREE char *path = alloc_printf("%s/" OCI_NET_RECORD, n->dir);
    r->pid = n->process.pid;
    snprintf(r->runtime, sizeof(r->runtime), "%s", n->path);
    /* no record if it has ended already; its exit is reported */
    int rc = oci_process_start(r->pid, &r->start) ? oci_record_write(path, r, err) : 0;
    free(r);
    return rc;
}

struct oci_net *oci_net_start(struct tasks *tasks, const struct oci_net_options *options,
                              oci_net_fn fn, void *arg)
{
    struct oci_net *n = alloc_one(struct oci_net);
    struct err err;
    n->path = alloc_strdup(options->path);
    n->dir = alloc_strdup(options->dir);
    n->fn = fn;
    n->arg = arg;
    n->words = -1;
    task_enter(tasks, &n->task, drop_net_task);
    uv_timer_init(tasks->loop, &n->deadline);
    uv_pipe_init(tasks->loop, &n->ready, 0);
    n->deadline.data = n;
    n->ready.data = n;
    n->handles = 3;
    int rc = spawn_net(n, options);
    n->process.data = n;
    close(options->tether);
    n->running = rc == 0;
    if (rc != 0) {
        log_debug("cannot start %s: %s", n->path, uv_strerror(rc));
    } else {
        uv_read_start((uv_stream_t *)&n->ready, on_net_alloc, on_ready);
        if (write_down(n, &err) < 0) {
            log_debug("network: %s", err.text);
            uv_process_kill(&n->process, SIGKILL); /* a sweep could not find it */
        }
    }
    uv_update_time(tasks->loop); /* starting a process takes long on a busy machine */
    n->began_ms = uv_now(tasks->loop);
    n->most_ms = options->most_ms;
    waited_begin(&n->waited, "", rc == 0 ? n->process.pid : 0, true, n->began_ms);
    uv_timer_start(&n->deadline, on_net_deadline, rc == 0 ? LOOK_MS : 0, 0);
    return n;
}

pid_t oci_net_pid(const struct oci_net *n)
{
    return n->running ? n->process.pid : 0;
}

bool oci_net_is_for_all(void)
{
    struct stat st;
    return stat(TUN, &st) == 0 && (st.st_mode & 0006) == 0006;
}

void oci_net_cancel(struct oci_net *n)
{
    n->cancelled = true;
    if (n->running) {
        uv_process_kill(&n->process, SIGKILL);
    }
}

void oci_net_note(const char *dir, const struct oci_mode *mode, const struct oci_cgroup_host *host,
                  const char *container, struct oci_notes *notes)
{
    CLEANUP_FREE char *path = alloc_printf("%s/" OCI_NET_RECORD, dir);
    CLEANUP_FREE struct oci_record *r = alloc_one(struct oci_record);
    CLEANUP_FREE struct oci_cgroup_dirs *dirs = alloc_one(struct oci_cgroup_dirs);
    struct err err;
    if (mode->cgroups == OCI_CGROUPS_NONE || oci_record_read(path, r, &err) < 0 ||
        oci_process_gone(r->pid, r->start)) {
        return;
    }
    if (!oci_cgroup_find("", host, r->pid, container, dirs) ||
        (mode->memory && dirs->memory[0] == '\0')) {
        oci_notes_add(notes, "network: what " PROGRAM
                             " uses of memory and CPU is not counted, because it cannot "
                             "be moved into the sandbox's control group");
    }
}

int oci_net_kill(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/" OCI_NET_RECORD, dir);
    struct oci_record *r = alloc_one(struct oci_record);
    struct err err;
    int fd = oci_record_read(path, r, &err) == 0 ? oci_process_open(r->pid, r->start) : -1;
    if (fd >= 0) {
        oci_process_kill(fd);
    }
    free(r);
    return fd;
}
