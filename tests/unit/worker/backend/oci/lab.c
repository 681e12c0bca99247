/*
 * Calls run the loop until they are answered; a call without an answer within half a minute fails
 * its test instead of blocking the suite.
 */
#include "tests/unit/worker/backend/oci/lab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fd.h"

#define PATIENCE_MS 30000

static void fail(const char *what)
{
    fprintf(stderr, "lab: %s\n", what);
    abort();
}

void lab_init(struct lab *lab, const char *name, const char *agent)
{
    memset(lab, 0, sizeof(*lab));
    lab->fd = -1;
    uv_loop_init(&lab->loop);
    uv_timer_init(&lab->loop, &lab->guard);
    lab->guard.data = lab;
    const char *tmp = getenv("TMPDIR");
    snprintf(lab->top, 512, "%s/cloister-oci-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(lab->top) == NULL || chmod(lab->top, 0711) < 0) {
        fail("cannot make a directory");
    }
    snprintf(lab->shared, sizeof(lab->shared), "%.512s/shared", lab->top);
    snprintf(lab->dir, sizeof(lab->dir), "%.512s/box", lab->top);
    if (mkdir(lab->shared, 0711) < 0 || mkdir(lab->dir, 0700) < 0) {
        fail("cannot make a directory");
    }
    snprintf(lab->id, sizeof(lab->id), "t%s%d", name, (int)getpid());
    lab->spec = (struct backend_spec){
        .id = lab->id,
        .dir = lab->dir,
        .shared_dir = lab->shared,
        .agent_path = agent,
        .runtime = "",
        .image = "",
        .limits = {.memory_bytes = 64u << 20,
                   .cpu_milli = 1000,
                   .pids = 24,
                   .disk_bytes = 4u << 20,
                   .files = 256},
        .grace_ms = 10000,
    };
    lab->backend = backend_oci.open(&lab->loop);
}

static void on_guard(uv_timer_t *timer)
{
    struct lab *lab = timer->data;
    lab->expired = true;
}

bool lab_run_until(struct lab *lab, const bool *flag, uint64_t deadline_ms)
{
    lab->expired = false;
    uv_timer_start(&lab->guard, on_guard, deadline_ms, 0);
    while (!*flag && !lab->expired) {
        uv_run(&lab->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&lab->guard);
    return *flag;
}

static void begin(struct lab *lab)
{
    lab->answered = false;
    lab->rc = -1;
    memset(&lab->err, 0, sizeof(lab->err));
    lab->hint[0] = '\0';
}

static void await(struct lab *lab, const char *what)
{
    if (lab->answered) {
        fail("a callback ran inside its call");
    }
    if (!lab_run_until(lab, &lab->answered, PATIENCE_MS)) {
        fail(what);
    }
}

static void keep_unapplied(struct lab *lab, const char *const *list, size_t count)
{
    lab->unapplied_count = count;
    for (size_t i = 0; i < count; i++) {
        snprintf(lab->unapplied[i], sizeof(lab->unapplied[i]), "%s", list[i]);
    }
}

static void answer(struct lab *lab, int rc, const struct err *err, const char *hint)
{
    if (lab->answered) {
        fail("a callback ran twice");
    }
    lab->answered = true;
    lab->rc = rc;
    if (err != NULL) {
        lab->err = *err;
    }
    snprintf(lab->hint, sizeof(lab->hint), "%s", hint != NULL ? hint : "");
}

static void on_info(void *arg, int rc, const struct backend_info *info, const struct err *err,
                    const char *hint)
{
    struct lab *lab = arg;
    answer(lab, rc, err, hint);
    if (rc == 0) {
        snprintf(lab->runtime, sizeof(lab->runtime), "%s", info->runtime);
        snprintf(lab->image, sizeof(lab->image), "%s", info->image);
        keep_unapplied(lab, info->unapplied, info->unapplied_count);
    }
}

static void on_probe(void *arg, const struct backend_probe *probe)
{
    struct lab *lab = arg;
    answer(lab, 0, NULL, NULL);
    lab->usable = probe->usable;
    lab->left_behind = probe->left_behind;
    lab->mode = probe->mode;
    snprintf(lab->runtime, sizeof(lab->runtime), "%s", probe->runtime);
    snprintf(lab->version, sizeof(lab->version), "%s", probe->version);
    snprintf(lab->reason, sizeof(lab->reason), "%s", probe->reason);
    snprintf(lab->hint, sizeof(lab->hint), "%s", probe->hint != NULL ? probe->hint : "");
    keep_unapplied(lab, probe->unapplied, probe->unapplied_count);
}

static void on_stream(void *arg, int rc, int fd, const struct err *err)
{
    struct lab *lab = arg;
    answer(lab, rc, err, NULL);
    lab->fd = fd;
}

static void on_usage(void *arg, int rc, const struct backend_usage *usage, const struct err *err)
{
    struct lab *lab = arg;
    answer(lab, rc, err, NULL);
    if (rc == 0) {
        lab->usage = *usage;
    }
}

static void on_done(void *arg, int rc, const struct err *err, const char *hint)
{
    answer(arg, rc, err, hint);
}

static void on_create_cut(void *arg, int rc, const struct backend_info *info, const struct err *err,
                          const char *hint)
{
    struct lab *lab = arg;
    (void)info;
    (void)err;
    (void)hint;
    if (lab->create_answered) {
        fail("a callback ran twice");
    }
    lab->create_answered = true;
    lab->create_rc = rc;
}

/* Starts a creation and runs the loop until its runtime has begun. */
static void create_until_begun(struct lab *lab)
{
    char path[PATH_MAX + 32];
    struct stat st;
    snprintf(path, sizeof(path), "%s/runtime/begun", lab->dir);
    lab->create_answered = false;
    backend_oci.create(lab->backend, &lab->spec, on_create_cut, lab);
    for (int i = 0; stat(path, &st) < 0; i++) {
        static const bool never = false;
        if (i == 3000 || lab->create_answered) {
            fail("the runtime was not started");
        }
        lab_run_until(lab, &never, 10);
    }
}

void lab_begin_create(struct lab *lab)
{
    static const bool never = false;
    lab->create_answered = false;
    backend_oci.create(lab->backend, &lab->spec, on_create_cut, lab);
    lab_run_until(lab, &never, 5);
}

int lab_destroy_while_creating(struct lab *lab)
{
    create_until_begun(lab);
    begin(lab);
    backend_oci.destroy(lab->backend, &lab->spec, on_done, lab);
    await(lab, "destroy did not answer");
    if (!lab->create_answered) {
        fail("create was not answered");
    }
    return lab->rc;
}

static void on_created_to_end(void *arg, int rc, const struct backend_info *info,
                              const struct err *err, const char *hint)
{
    struct lab *lab = arg;
    on_create_cut(lab, rc, info, err, hint);
    backend_oci.destroy(lab->backend, &lab->spec, on_done, lab);
}

int lab_destroy_when_created(struct lab *lab)
{
    static const bool never = false;
    begin(lab);
    lab->create_answered = false;
    backend_oci.create(lab->backend, &lab->spec, on_created_to_end, lab);
    await(lab, "destroy did not answer");
    lab_run_until(lab, &never, 100); /* a second end would call the callback again */
    return lab->rc;
}

void lab_orphan_creation(struct lab *lab)
{
    pid_t pid = fork();
    if (pid == 0) {
        uv_loop_fork(&lab->loop);
        create_until_begun(lab);
        _exit(0);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fail("the worker to be orphaned failed");
    }
}

void lab_probe(struct lab *lab)
{
    begin(lab);
    backend_oci.probe(lab->backend, &lab->spec, on_probe, lab);
    await(lab, "probe did not answer");
}

int lab_create(struct lab *lab)
{
    begin(lab);
    backend_oci.create(lab->backend, &lab->spec, on_info, lab);
    await(lab, "create did not answer");
    return lab->rc;
}

int lab_attach(struct lab *lab)
{
    begin(lab);
    backend_oci.attach(lab->backend, &lab->spec, on_info, lab);
    await(lab, "attach did not answer");
    return lab->rc;
}

int lab_stream(struct lab *lab)
{
    begin(lab);
    backend_oci.stream(lab->backend, on_stream, lab);
    await(lab, "stream did not answer");
    return lab->rc;
}

int lab_usage(struct lab *lab)
{
    begin(lab);
    backend_oci.usage(lab->backend, on_usage, lab);
    await(lab, "usage did not answer");
    return lab->rc;
}

int lab_limit(struct lab *lab)
{
    begin(lab);
    backend_oci.limit(lab->backend, &lab->spec, on_done, lab);
    await(lab, "limit did not answer");
    return lab->rc;
}

int lab_destroy(struct lab *lab)
{
    begin(lab);
    backend_oci.destroy(lab->backend, &lab->spec, on_done, lab);
    await(lab, "destroy did not answer");
    return lab->rc;
}

static void on_closed(void *arg)
{
    struct lab *lab = arg;
    lab->closed = true;
}

static void close_backend(struct lab *lab)
{
    lab->closed = false;
    backend_oci.close(lab->backend, on_closed, lab);
    if (lab->closed) {
        fail("closed inside the call");
    }
    if (!lab_run_until(lab, &lab->closed, PATIENCE_MS)) {
        fail("close did not answer");
    }
}

void lab_restart(struct lab *lab)
{
    close_backend(lab);
    lab->backend = backend_oci.open(&lab->loop);
}

void lab_finish(struct lab *lab)
{
    close_backend(lab);
    uv_close((uv_handle_t *)&lab->guard, NULL);
    uv_run(&lab->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&lab->loop) != 0) {
        fail("a handle was left on the loop");
    }
    struct err err;
    if (dir_remove(lab->top, &err) < 0) {
        fail(err.text);
    }
}

char *lab_say(struct lab *lab, const char *line)
{
    struct err err;
    if (lab_stream(lab) < 0) {
        fail(lab->err.text);
    }
    struct buf b;
    buf_init(&b, 1u << 20);
    if (fd_write_all(lab->fd, line, strlen(line), &err) < 0 ||
        fd_write_all(lab->fd, "\n", 1, &err) < 0) {
        fail(err.text);
    }
    for (;;) {
        char chunk[4096];
        struct pollfd p = {.fd = lab->fd, .events = POLLIN};
        if (poll(&p, 1, PATIENCE_MS) <= 0) {
            fail("the stand-in does not answer");
        }
        ssize_t n = read(lab->fd, chunk, sizeof(chunk));
        if (n <= 0) {
            break;
        }
        if (buf_add(&b, chunk, (size_t)n, &err) < 0) {
            break;
        }
    }
    close(lab->fd);
    char *text = strdup(buf_cstr(&b));
    buf_finish(&b);
    return text;
}

int lab_count_processes(const char *text)
{
    int count = 0;
    DIR *d = opendir("/proc");
    struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char path[300];
        struct buf b;
        struct err err;
        buf_init(&b, 1u << 20);
        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && file_read(path, &b, &err) == 0 &&
            b.len > 0 && memmem(b.data, b.len, text, strlen(text)) != NULL) {
            count++;
        }
        buf_finish(&b);
    }
    if (d != NULL) {
        closedir(d);
    }
    return count;
}

static int count_named(const char *dir, const char *text, int depth)
{
    int count = 0;
    DIR *d = opendir(dir);
    struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.' || entry->d_type != DT_DIR) {
            continue;
        }
        count += strstr(entry->d_name, text) != NULL ? 1 : 0;
        if (depth > 0) {
            snprintf(path, sizeof(path), "%.2048s/%s", dir, entry->d_name);
            count += count_named(path, text, depth - 1);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return count;
}

int lab_count_cgroups(const char *text)
{
    return count_named("/sys/fs/cgroup", text, 3);
}

int lab_count_entries(const char *path)
{
    int count = 0;
    DIR *d = opendir(path);
    struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    if (d != NULL) {
        closedir(d);
    }
    return count;
}
