/*
 * The `oci` backend: a sandbox is a container of an OCI runtime on this host, without any daemon.
 *
 * This file has the vtable and the order of the steps; each step has its own file:
 *   create.c  starting one             end.c       removing one
 *   probe.c   what works here          spec.c      the configuration with every limit
 *   root.c    what it sees as /        ../seccomp.c  which system calls it may make
 *   cgroup.c  limits and figures       host.c      ids and other facts
 *   net.c     a sandbox's network      packages.c  its package directory
 *   change.c  other limits for one that runs
 *   packages_limit.c  what an installer may write
 *
 * All state that matters is on disk (../record.c) or in the kernel, so an object can be opened on a
 * sandbox of another worker. The object caches it: the process, its cgroups, and the directory with
 * the agent's socket.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/agent_socket.h"
#include "worker/backend/backend.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/oci/change.h"
#include "worker/backend/oci/create.h"
#include "worker/backend/oci/end.h"
#include "worker/backend/oci/net.h"
#include "worker/backend/oci/packages.h"
#include "worker/backend/oci/packages_limit.h"
#include "worker/backend/oci/probe.h"
#include "worker/backend/oci/relay.h"
#include "worker/backend/oci/remedies.h"
#include "worker/backend/oci/shares.h"
#include "worker/backend/record.h"
#include "worker/backend/spec_copy.h"

/* The agent's queue is full only while it is stopped or starved, so connecting is retried. */
#define STREAM_TRY_MS 20
#define STREAM_TRIES  50

struct oci {
    struct backend base;
    struct tasks tasks;
    struct oci_box box; /* box of the last spec; all NULL before the first */
    bool known;         /* created or attached: */
    struct oci_cgroup_dirs dirs;
    int kills_fd;                     /* counts kills for memory; -1: nothing does */
    struct oci_record record;         /* of the container that is known */
    struct oci_mode mode;             /* how that was made */
    int first_fd;                     /* the stream of the creation, not yet asked for; -1 */
    struct backend_limits limits;     /* those it has */
    uint64_t packages_bytes;          /* as in the spec */
    struct oci_packages_watch *watch; /* of an installer that runs code of packages */
    struct err stopped;               /* why the watch has ended the sandbox; 0: it has not */

    /* Running operations, at most one of each kind. */
    struct oci_create *creating;
    backend_create_fn create_done;
    void *create_arg;
    backend_create_fn attach_done;
    void *attach_arg;
    int stream_tries;
    backend_stream_fn stream_done;
    void *stream_arg;
    backend_usage_fn usage_done;
    void *usage_arg;
    struct oci_change *changing;
    struct backend_limits change_limits;
    backend_done_fn change_done;
    void *change_arg;
    struct oci_end *ending;
    struct spec_copy end_spec;    /* set while ending */
    backend_done_fn destroy_done; /* set from the call of destroy to its end */
    void *destroy_arg;
    struct oci_probe *probing;
    backend_probe_fn probe_done;
    void *probe_arg;

    void (*closed)(void *arg); /* set while closing */
    void *closed_arg;
};

static struct oci *oci_of(struct backend *b)
{
    return (struct oci *)b;
}

static struct backend *oci_open(uv_loop_t *loop)
{
    struct oci *o = alloc_one(struct oci);
    o->base.ops = &backend_oci;
    o->kills_fd = -1;
    o->first_fd = -1;
    tasks_init(&o->tasks, loop);
    return &o->base;
}

static void name_box(struct oci *o, const struct backend_spec *spec)
{
    oci_box_finish(&o->box);
    oci_box_init(&o->box, spec->dir != NULL ? spec->dir : "", spec->id != NULL ? spec->id : "");
    o->known = false;
    fd_close(&o->first_fd);
    o->limits = spec->limits;
    o->packages_bytes = spec->packages_bytes;
    o->stopped = (struct err)ERR_INIT;
    oci_packages_watch_end(o->watch);
}

static void adopt(struct oci *o, const struct oci_record *record)
{
    pid_t pid = record->pid;
    struct oci_cgroup_host *host = alloc_one(struct oci_cgroup_host);
    oci_cgroup_detect("", geteuid(), host);
    oci_cgroup_find("", host, pid, o->box.container, &o->dirs);
    free(host);
    fd_close(&o->kills_fd);
    o->kills_fd = oci_cgroup_open_kills(&o->dirs);
    o->record = *record;
    o->mode = (struct oci_mode){0};
    (void)oci_mode_unpack(record->mode, &o->mode); /* of another build: as runtimes usually do */
    o->known = true;
}

/* ---- an installer's packages ---------------------------------------------------------------- */

static void kill_container(const struct oci *o)
{
    struct err err;
    struct oci_record *record = alloc_one(struct oci_record);
    if (oci_record_read(o->box.record, record, &err) == 0) {
        CLEANUP_FD int pid_fd = oci_process_open(record->pid, record->start);
        if (pid_fd >= 0) {
            oci_process_kill(pid_fd);
        }
    }
    free(record);
}

static void on_packages_beyond(void *arg, const struct err *why)
{
    struct oci *o = arg;
    err_ignore(err_set(&o->stopped, ERR_GONE, BACKEND_ENDED BACKEND_ROOM "%s", why->text));
    kill_container(o);
}

/* Where code of packages runs, only we can hold what it writes. The watch begins before that code
 * can. */
static void watch_packages(struct oci *o, const struct backend_spec *spec)
{
    CLEANUP_FREE char *tree = NULL;
    struct err err;
    if (o->watch == NULL && spec->packages_write && spec->packages_bytes > 0 &&
        oci_packages_find(spec, "", &tree, &err) == 0) {
        o->watch =
            oci_packages_watch_start(&o->tasks, tree, spec->packages_bytes, on_packages_beyond, o);
    }
}

/* ---- probe ---------------------------------------------------------------------------------- */

static void on_empty(void *arg)
{
    struct oci *o = arg;
    void (*closed)(void *) = o->closed;
    void *closed_arg = o->closed_arg;
    oci_box_finish(&o->box);
    spec_copy_finish(&o->end_spec);
    fd_close(&o->kills_fd);
    fd_close(&o->first_fd);
    free(o);
    closed(closed_arg);
}

static void close_tasks(struct oci *o)
{
    tasks_close(&o->tasks, on_empty, o);
    oci_create_free(o->creating);
    oci_end_free(o->ending);
    oci_change_free(o->changing);
    oci_packages_watch_free(o->watch);
    o->watch = NULL;
    o->changing = NULL;
    o->creating = NULL;
    o->ending = NULL;
}

static void on_oci_probe(void *arg, const struct oci_probe_result *result)
{
    struct oci *o = arg;
    o->probing = NULL;
    bool closing = o->closed != NULL; /* the callback may close us, too */
    CLEANUP_FREE char *helper = NULL;
    CLEANUP_FREE char *lack = NULL;
    char network_hint[BACKEND_HINT_MAX];
    struct err err;
    if (result->usable && result->mode.relay) {
        lack = alloc_strdup(OCI_RELAY_NO_NETWORK " (" OCI_RELAY_NETWORK_HINT ")");
    } else if (oci_net_find(&helper, network_hint, &err) < 0) {
        lack = alloc_printf("%s (%s)", err.text, network_hint);
    }
    struct backend_probe probe = {
        .usable = result->usable,
        .network = lack,
        .runtime = result->runtime,
        .version = result->version,
        .flaws = result->flaws,
        .reason = result->reason,
        .hint = result->hint,
        .left_behind = result->left_behind,
        .lasts = result->lasts,
        .mode = result->usable ? oci_mode_pack(&result->mode) : 0,
    };
    probe.unapplied_count = oci_notes_list(result->notes, probe.unapplied);
    for (size_t i = 0; i < probe.unapplied_count; i++) {
        probe.remedies[i] = oci_remedy(probe.unapplied[i], result->host);
    }
    o->probe_done(o->probe_arg, &probe);
    if (closing) {
        close_tasks(o);
    }
}

static void oci_probe(struct backend *b, const struct backend_spec *spec, backend_probe_fn done,
                      void *arg)
{
    struct oci *o = oci_of(b);
    o->probe_done = done;
    o->probe_arg = arg;
    o->probing = oci_probe_start(&o->tasks, spec, on_oci_probe, o);
}

/* ---- create, destroy ------------------------------------------------------------------------ */

static void on_oci_destroy(void *arg, int rc, const struct err *err)
{
    struct oci *o = arg;
    o->ending = NULL;
    backend_done_fn done = o->destroy_done;
    o->destroy_done = NULL;
    spec_copy_finish(&o->end_spec);
    done(o->destroy_arg, rc, rc == 0 ? NULL : err,
         rc == 0 ? ""
                 : "see the log of the worker; `cloister` sweeps what is left at its next start");
}

static const char *end_runtime(const struct oci *o)
{
    return o->end_spec.spec.runtime != NULL ? o->end_spec.spec.runtime : "";
}

static void end_box(struct oci *o)
{
    struct oci_end_options options = {
        .box = &o->box,
        .runtime = end_runtime(o),
        .spec = o->end_spec.spec.id != NULL ? &o->end_spec.spec : NULL,
    };
    o->ending = oci_end_start(&o->tasks, &options, on_oci_destroy, o);
}

static void on_probe_swept(void *arg, int rc, const struct err *err)
{
    struct oci *o = arg;
    o->ending = NULL;
    if (rc < 0) {
        on_oci_destroy(o, rc, err);
        return;
    }
    CLEANUP_FREE char *dir = alloc_printf("%s/probe", o->box.dir);
    rmdir(dir);
    end_box(o);
}

static void begin_oci_destroy(struct oci *o)
{
    o->known = false;
    CLEANUP_FREE char *dir = alloc_printf("%s/probe", o->box.dir);
    if (access(dir, F_OK) < 0) {
        end_box(o);
        return;
    }
    /* a worker may have died during a probe: remove its trial container first */
    struct oci_box trial;
    oci_probe_box(&trial, o->box.dir, o->box.container + strlen("cloister-"));
    struct oci_end_options options = {.box = &trial, .runtime = end_runtime(o)};
    o->ending = oci_end_start(&o->tasks, &options, on_probe_swept, o);
    oci_box_finish(&trial);
}

static void on_oci_create(void *arg, int rc, const struct oci_record *record, int stream,
                          const struct backend_info *info, const struct err *err, const char *hint)
{
    struct oci *o = arg;
    o->creating = NULL;
    /* read before the callback, which may call destroy itself */
    bool cancelled = o->destroy_done != NULL;
    if (rc == 0) {
        adopt(o, record);
        o->first_fd = stream;
    }
    o->create_done(o->create_arg, rc, info, err, hint);
    if (cancelled && o->closed == NULL) {
        begin_oci_destroy(o);
    }
}

static void oci_create(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                       void *arg)
{
    struct oci *o = oci_of(b);
    name_box(o, spec);
    watch_packages(o, spec);
    o->create_done = done;
    o->create_arg = arg;
    o->creating = oci_create_start(&o->tasks, spec, on_oci_create, o);
}

static void oci_destroy(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                        void *arg)
{
    struct oci *o = oci_of(b);
    o->destroy_done = done;
    o->destroy_arg = arg;
    struct err err;
    err_ignore(spec_copy_init(&o->end_spec, spec, &err)); /* invalid, so there is no such sandbox */
    if (o->creating != NULL) {
        oci_create_cancel(o->creating); /* on_oci_create() goes on from there */
        return;
    }
    name_box(o, spec);
    begin_oci_destroy(o);
}

/* ---- attach --------------------------------------------------------------------------------- */

static int find_container(struct oci *o, struct oci_record *record, struct err *err)
{
    struct err why;
    int rc = oci_record_read(o->box.record, record, &why);
    if (rc < 0) { /* an unreadable record says nothing about the sandbox */
        bool unread = rc == -ERR_IO || rc == -ERR_NO_MEMORY;
        return err_set(err, unread ? (enum err_code) - rc : ERR_GONE,
                       "no container is known: %.300s", why.text);
    }
    if (record->state != OCI_RECORD_RUNNING) {
        return err_set(err, ERR_GONE, "the container was never finished");
    }
    if (oci_process_gone(record->pid, record->start)) {
        return err_set(err, ERR_GONE, "the sandbox has ended");
    }
    return 0;
}

static void on_attach(void *arg)
{
    struct oci *o = arg;
    struct err err = ERR_INIT;
    struct oci_record *record = alloc_one(struct oci_record);
    struct oci_notes *notes = alloc_one(struct oci_notes);
    struct backend_info info = {.runtime = record->runtime, .image = record->image};
    struct oci_mode mode;
    int rc = find_container(o, record, &err);
    if (rc == 0) {
        adopt(o, record);
        if (oci_mode_unpack(record->mode, &mode)) {
            struct oci_host *host = alloc_one(struct oci_host);
            oci_host_read("", geteuid(), getegid(), host);
            oci_mode_unapplied(&mode, host->swap_active, "", notes);
            oci_host_unapplied(host, mode.own_kernel, notes);
            oci_packages_note(o->packages_bytes, notes);
            oci_net_note(o->box.dir, &mode, &host->cgroup, o->box.container, notes);
            free(host);
        }
        oci_box_notes(&o->box, notes);
        info.unapplied_count = oci_notes_list(notes, info.unapplied);
    }
    o->attach_done(o->attach_arg, rc, rc == 0 ? &info : NULL, rc == 0 ? NULL : &err, "");
    free(notes);
    free(record);
}

static void oci_attach(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                       void *arg)
{
    struct oci *o = oci_of(b);
    name_box(o, spec);
    watch_packages(o, spec);
    o->attach_done = done;
    o->attach_arg = arg;
    task_later(&o->tasks, 0, on_attach, o);
}

/* ---- stream, usage -------------------------------------------------------------------------- */

static void on_relay(void *arg, int rc, int fd, const struct err *err)
{
    struct oci *o = arg;
    struct err gone = ERR_INIT;
    if (rc < 0 && o->known && oci_process_gone(o->record.pid, o->record.start)) {
        rc = err_set(&gone, ERR_GONE, "the sandbox has ended");
        err = &gone;
    }
    o->stream_done(o->stream_arg, rc, fd, err);
}

/* Where the runtime passes no descriptors on. */
static void open_relay(struct oci *o)
{
    struct err err = ERR_INIT;
    if (o->first_fd >= 0) {
        oci_relay_greet(&o->tasks, steal_fd(&o->first_fd), on_relay, o);
        return;
    }
    int rc = oci_relay_exec(&o->tasks, &o->box, o->record.runtime, &o->mode, on_relay, o, &err);
    if (rc < 0) {
        on_relay(o, rc, -1, &err);
    }
}

static void on_oci_stream(void *arg)
{
    struct oci *o = arg;
    struct err err = ERR_INIT;
    int fd = -1;
    if (o->known && o->stopped.code == 0 && o->mode.relay) {
        open_relay(o);
        return;
    }
    int rc = !o->known              ? err_set(&err, ERR_GONE, "there is no sandbox")
             : o->stopped.code != 0 ? err_set(&err, ERR_GONE, "%s", o->stopped.text)
                                    : agent_socket_connect(o->box.dir, &fd, &err);
    if (rc == -ERR_BUSY && ++o->stream_tries < STREAM_TRIES) {
        task_later(&o->tasks, STREAM_TRY_MS, on_oci_stream, o);
        return;
    }
    o->stream_done(o->stream_arg, rc, fd, rc == 0 ? NULL : &err);
}

static void oci_stream(struct backend *b, backend_stream_fn done, void *arg)
{
    struct oci *o = oci_of(b);
    o->stream_done = done;
    o->stream_arg = arg;
    o->stream_tries = 0;
    task_later(&o->tasks, 0, on_oci_stream, o);
}

static void on_oci_usage(void *arg)
{
    struct oci *o = arg;
    struct err err = ERR_INIT;
    struct backend_usage usage = {0};
    int rc = 0;
    /* also for a sandbox that has just ended, since its last figures tell whether memory was the
     * reason */
    if (o->known) {
        oci_cgroup_usage(&o->dirs, &usage);
    } else {
        rc = err_set(&err, ERR_GONE, "there is no sandbox");
    }
    o->usage_done(o->usage_arg, rc, rc == 0 ? &usage : NULL, rc == 0 ? NULL : &err);
}

static void oci_usage(struct backend *b, backend_usage_fn done, void *arg)
{
    struct oci *o = oci_of(b);
    o->usage_done = done;
    o->usage_arg = arg;
    task_later(&o->tasks, 0, on_oci_usage, o);
}

static bool oci_oom_kills(struct backend *b, uint64_t *ret)
{
    const struct oci *o = oci_of(b);
    if (o->known) {
        *ret = oci_cgroup_kills(o->kills_fd);
    }
    return o->known;
}

/* ---- limits --------------------------------------------------------------------------------- */

static void on_oci_changed(void *arg, int rc, const struct err *err)
{
    struct oci *o = arg;
    o->changing = NULL;
    if (rc == 0) {
        o->limits = o->change_limits;
    }
    o->change_done(o->change_arg, rc, err, "");
}

static void oci_limit(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                      void *arg)
{
    struct oci *o = oci_of(b);
    const struct oci_change_options options = {.box = &o->box, .spec = spec, .from = &o->limits};
    o->change_limits = spec->limits;
    o->change_done = done;
    o->change_arg = arg;
    o->changing = oci_change_start(&o->tasks, &options, on_oci_changed, o);
}

/* ---- close ---------------------------------------------------------------------------------- */

static void oci_closed_by_nobody(void *arg)
{
    (void)arg;
}

static void oci_close(struct backend *b, void (*closed)(void *arg), void *arg)
{
    struct oci *o = oci_of(b);
    o->closed = closed != NULL ? closed : oci_closed_by_nobody;
    o->closed_arg = arg;
    if (o->probing != NULL) {
        /* only this object knows of the trial, so it is ended first; on_oci_probe() follows */
        oci_probe_cancel(o->probing);
    } else {
        close_tasks(o);
    }
}

const struct backend_ops backend_oci = {
    .name = "oci",
    .open = oci_open,
    .probe = oci_probe,
    .create = oci_create,
    .attach = oci_attach,
    .stream = oci_stream,
    .usage = oci_usage,
    .oom_kills = oci_oom_kills,
    .limit = oci_limit,
    .destroy = oci_destroy,
    .close = oci_close,
};
