/*
 *   KILL ──▶ NETWORK ──▶ DELETE ──▶ FORCE ──▶ CGROUPS ──▶ (TRIM) ──▶ PACKAGES ──▶ FILES ──▶ done
 *                          └────────────────────▲ (nothing but files is left)
 *
 * Runtimes can kill and delete in one step, but they poll for the end of the process every 100 ms.
 * The record names the first process of the sandbox, so it is killed here by pidfd. The kernel ends
 * everything in its pid namespace before the pidfd reports, and deleting a stopped container is
 * quick. After that runc only has files and control groups that we know by name, and starting runc
 * costs more than all other steps, so it is not started. Only if the record is missing or did not
 * help, the runtime is told to force the deletion.
 *
 * An installer that let code of packages run is followed by a trim: only now nobody writes there.
 *
 * A record in state "starting" means that a worker died while the runtime ran. That runtime is
 * killed first, so that it does not finish the container meanwhile; its state directory and cgroups
 * are found by name.
 */
#include "worker/backend/oci/end.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "worker/backend/oci/exec.h"
#include "worker/backend/oci/net.h"
#include "worker/backend/oci/packages.h"
#include "worker/backend/oci/packages_limit.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/record.h"
#include "worker/backend/spec_copy.h"

#define TOTAL_MS      3000 /* limit of all steps; a sandbox must close within four seconds */
#define KILL_MS       1500
#define COMMAND_MS    1500
#define LEAST_MS      200 /* minimum for a step that begins late */
#define CGROUP_TRY_MS 10

struct oci_end {
    struct tasks *tasks;
    struct oci_box box;
    char *runtime;            /* as requested; replaced by the record's */
    struct spec_copy sandbox; /* the sandbox whose packages are removed; unused for a trial */
    bool has_packages;
    bool has_mode;
    struct oci_mode mode;
    struct oci_host host;
    struct oci_packages_trim *trim;
    bool stopped; /* its first process has certainly ended */
    bool force;
    uint64_t started_ms;
    struct err err; /* error of a runtime that failed to delete */
    bool failed;
    oci_end_fn fn;
    void *arg;
};

void oci_end_free(struct oci_end *e)
{
    if (e != NULL) {
        oci_box_finish(&e->box);
        oci_packages_trim_free(e->trim);
        free(e->runtime);
        if (e->has_packages) {
            spec_copy_finish(&e->sandbox);
        }
        free(e);
    }
}

static void finish_oci_end(struct oci_end *e)
{
    /* A container that could not be ended keeps its files, because the next try needs them. */
    struct err err = e->err;
    int rc = e->failed ? -err.code : oci_box_clear(&e->box, &err);
    oci_end_fn fn = e->fn;
    void *arg = e->arg;
    oci_end_free(e);
    fn(arg, rc, &err);
}

/* The timeout of a step within the time that is left. */
static uint64_t within(const struct oci_end *e, uint64_t step_ms)
{
    uint64_t used = clock_ms() - e->started_ms;
    uint64_t left = used + LEAST_MS < TOTAL_MS ? TOTAL_MS - used : LEAST_MS;
    return step_ms < left ? step_ms : left;
}

static void retire_packages(struct oci_end *e)
{
    if (e->has_packages && !e->failed && /* nobody uses them any more */
        oci_packages_retire(e->tasks, &e->sandbox.spec, "", &e->err) < 0) {
        e->failed = true;
    }
    finish_oci_end(e);
}

static void on_packages_trimmed(void *arg)
{
    struct oci_end *e = arg;
    e->trim = NULL;
    retire_packages(e);
}

static void trim_packages(struct oci_end *e)
{
    const struct backend_spec *spec = &e->sandbox.spec;
    CLEANUP_FREE char *tree = NULL;
    struct err err;
    if (e->has_packages && !e->failed && spec->packages_write && spec->packages_bytes > 0 &&
        oci_packages_find(spec, "", &tree, &err) == 0) {
        e->trim = oci_packages_trim_start(e->tasks, tree, spec->packages_bytes, spec->agent_path,
                                          on_packages_trimmed, e);
        return;
    }
    retire_packages(e);
}

static void try_cgroups(void *arg)
{
    struct oci_end *e = arg;
    bool clean = oci_cgroup_remove("", &e->host.cgroup, e->box.container);
    if (!clean && clock_ms() - e->started_ms < TOTAL_MS) {
        task_later(e->tasks, CGROUP_TRY_MS, try_cgroups, e);
        return;
    }
    if (!clean) {
        e->failed = true;
        err_ignore(err_set(&e->err, ERR_ENGINE, "cannot remove the cgroup %s", e->box.container));
    }
    trim_packages(e);
}

static void delete_container(struct oci_end *e);

static void on_network_gone(void *arg, bool gone)
{
    (void)gone; /* the kill was by pidfd, so it needs no check */
    delete_container(arg);
}

/* The helper exits with the sandbox; this kills one that hangs. It is in the container's control
 * groups, which a runtime does not delete before they are empty. */
static void end_network(struct oci_end *e)
{
    int pid_fd = oci_net_kill(e->box.dir);
    if (pid_fd < 0) {
        delete_container(e);
    } else {
        task_wait(e->tasks, pid_fd, within(e, KILL_MS), on_network_gone, e);
    }
}

static void on_deleted(void *arg, const struct oci_exec_result *result)
{
    struct oci_end *e = arg;
    if (result->exit_code != 0 && !e->force) {
        e->force = true;
        delete_container(e);
        return;
    }
    if (result->exit_code != 0) {
        char words[OCI_WORDS_MAX];
        oci_runtime_words(result->err, words);
        log_debug("runtime cannot delete container=%s: %s", e->box.container, words);
        /* without its first process the container is ended, whatever the runtime's state says */
        if (!e->stopped && oci_box_has_state(&e->box)) {
            e->failed = true;
            err_ignore(err_set(&e->err, ERR_ENGINE, "the runtime cannot delete %s: %s",
                               e->box.container, words));
        }
    }
    try_cgroups(e);
}

/* The runtime's path: the record's, the requested one, or any of the usual ones.
 */
static char *runtime_path(const struct oci_end *e)
{
    char *path = NULL;
    struct err err;
    if (e->runtime[0] != '\0' && oci_runtime_find(e->runtime, &path, &err) == 0) {
        return path;
    }
    for (unsigned n = 1; oci_runtime_choice(n) != NULL; n++) {
        if (oci_runtime_find(oci_runtime_choice(n), &path, &err) == 0) {
            return path;
        }
    }
    return NULL;
}

/* True if the runtime leaves only files: others may have processes outside, and with systemd there
 * is a unit. */
static bool leaves_only_files(const struct oci_end *e)
{
    const char *slash = strrchr(e->runtime, '/');
    return e->stopped && e->has_mode && e->mode.cgroups != OCI_CGROUPS_SYSTEMD &&
           strcmp(slash != NULL ? slash + 1 : e->runtime, "runc") == 0;
}

static void delete_container(struct oci_end *e)
{
    oci_box_unmount(&e->box);
    if (leaves_only_files(e)) {
        try_cgroups(e);
        return;
    }
    CLEANUP_FREE char *path = oci_box_has_state(&e->box) ? runtime_path(e) : NULL;
    if (path == NULL) {
        if (!e->stopped && oci_box_has_state(&e->box)) {
            e->failed = true;
            err_ignore(err_set(&e->err, ERR_ENGINE, "no OCI runtime is left to delete %s",
                               e->box.container));
        }
        try_cgroups(e);
        return;
    }
    struct oci_args args;
    oci_args_begin(&args, path, e->has_mode ? &e->mode : NULL, e->box.state, "delete");
    if (e->force || !e->stopped) {
        e->force = true;
        oci_args_add(&args, "--force");
    }
    oci_args_add(&args, e->box.container);
    struct oci_exec_options options = {
        .argv = args.items,
        .deadline_ms = within(e, COMMAND_MS),
    };
    oci_exec_start(e->tasks, &options, on_deleted, e);
}

static void on_runtime_gone(void *arg, bool gone)
{
    struct oci_end *e = arg;
    (void)gone;
    end_network(e);
}

static void on_agent_gone(void *arg, bool gone)
{
    struct oci_end *e = arg;
    e->stopped = gone;
    end_network(e);
}

static void begin_oci_end(void *arg)
{
    struct oci_end *e = arg;
    e->started_ms = clock_ms();
    oci_host_read("", geteuid(), getegid(), &e->host);

    struct oci_record *r = alloc_one(struct oci_record);
    struct err err;
    int pid_fd = -1;
    bool starting = false;
    int rc = oci_record_read(e->box.record, r, &err);
    if (rc == -ERR_IO) { /* an unreadable record: there may be a container */
        free(r);
        e->failed = true;
        e->err = err;
        finish_oci_end(e);
        return;
    }
    if (rc == 0) {
        free(e->runtime);
        e->runtime = alloc_strdup(r->runtime);
        e->has_mode = oci_mode_unpack(r->mode, &e->mode);
        starting = r->state == OCI_RECORD_STARTING;
        pid_fd = oci_process_open(r->pid, r->start);
        e->stopped = !starting && oci_process_gone(r->pid, r->start);
    }
    free(r);
    if (pid_fd < 0) {
        end_network(e);
        return;
    }
    oci_process_kill(pid_fd);
    task_wait(e->tasks, pid_fd, within(e, KILL_MS), starting ? on_runtime_gone : on_agent_gone, e);
}

struct oci_end *oci_end_start(struct tasks *tasks, const struct oci_end_options *options,
                              oci_end_fn fn, void *arg)
{
    struct oci_end *e = alloc_one(struct oci_end);
    e->tasks = tasks;
    oci_box_copy(&e->box, options->box);
    e->runtime = alloc_strdup(options->runtime);
    struct err err;
    e->has_packages =
        options->spec != NULL && spec_copy_init(&e->sandbox, options->spec, &err) == 0;
    e->fn = fn;
    e->arg = arg;
    task_later(tasks, 0, begin_oci_end, e);
    return e;
}
