/*
 * Whether a runtime works here depends on its version and build options, the kernel's
 * configuration, security modules, the service manager and the surrounding container, so it can
 * only be tried. A trial container is run, and the next mode is tried only if it fails: first one
 * whose files are shared, then weaker resource limits, then weaker user namespaces; hiding
 * processes is dropped last. Modes that the host certainly does not support are skipped.
 *
 *   for each runtime:  VERSION ──▶ TRY rung ──ok──▶ CLEAN ──▶ done
 *                                   ▲   └─failed─▶ CLEAN ─┐
 *                                   └─ by a relay, next rung ┘
 *
 * What a runtime leaves out silently shows only inside, so the agent tells it (common/relay.h). A
 * runtime that does not hand the agent's socket down, or does not know the option for that, is
 * tried once more without it: streams need a relay then. As soon as an agent has run, it is known
 * which.
 *
 * A trial that times out ends the probe without trying weaker modes: on an overloaded host that
 * would silently give up isolation which a later probe would find. Time in which the trial waited
 * for a CPU or a disk does not count (waited.h), so a busy host is not taken for one without a
 * runtime; the whole probe has a limit by the clock as well.
 */
#include "worker/backend/oci/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/relay.h"
#include "worker/backend/agent_socket.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/oci/end.h"
#include "worker/backend/oci/exec.h"
#include "worker/backend/oci/limits.h"
#include "worker/backend/oci/packages_limit.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/oci/shares.h"
#include "worker/backend/record.h"
#include "worker/backend/spec_copy.h"

#define VERSION_MS 2000
#define TRY_MS     4000  /* one container; usually 30 to 80 ms */
#define KERNEL_MS  8000  /* the same by a relay: a kernel is started, too; usually 150 ms */
#define TOTAL_MS   8000  /* of all of them; then no weaker mode is tried */
#define MOST_MS    60000 /* by the clock, whatever was waited for; the supervisor waits longer */
#define REASON_MAX 1024

struct oci_probe {
    struct tasks *tasks;
    struct spec_copy request;
    struct oci_host host;
    struct oci_box box;
    unsigned choice; /* 1-based place in the default list; 0 for the requested one */
    char *runtime;   /* path */
    char version[OCI_WORDS_MAX];
    char flaws[OCI_WORDS_MAX];
    bool crun, gvisor, flawed;
    bool relay;                       /* the socket is not handed down to this trial */
    bool relay_known;                 /* whether it has to be so with this runtime */
    bool again;                       /* the rung is tried once more */
    bool own_kernel, hidden, counted; /* as the last agent that ran told */
    struct oci_mode ladder[OCI_LADDER_MAX];
    size_t rung, rungs;
    uint64_t started_ms;
    uint64_t counted_ms;              /* of all commands, see oci_exec_result */
    char words[OCI_WORDS_MAX];        /* why the last mode failed */
    char passed_words[OCI_WORDS_MAX]; /* why it failed with the socket handed down */
    char cgroup_words[OCI_WORDS_MAX]; /* why the last mode with cgroups failed */
    char reason[REASON_MAX];
    char hint[BACKEND_HINT_MAX];
    bool installed; /* any runtime so far */
    bool usable, stop, left_behind;
    struct oci_exec *exec;
    struct oci_end *end;
    oci_probe_fn fn;
    void *arg;
};

static void try_rung(struct oci_probe *p);
static void next_runtime(struct oci_probe *p);

#define GROUP_MAKERS 3

/* Who makes the group, the preferred one first. With version 2 a service manager takes controllers
 * away from all groups beside its own units, whenever none of these needs them: a group of ours at
 * the top had its CPU limit until the next `systemctl daemon-reload`. It leaves its scopes what
 * they were made with. */
static const enum oci_cgroups *makers_of(const struct oci_host *host)
{
    static const enum oci_cgroups ours[] = {OCI_CGROUPS_FS, OCI_CGROUPS_SYSTEMD, OCI_CGROUPS_NONE};
    static const enum oci_cgroups its[] = {OCI_CGROUPS_SYSTEMD, OCI_CGROUPS_FS, OCI_CGROUPS_NONE};
    return host->systemd && host->cgroup.version == OCI_CGROUP_VERSION_2 ? its : ours;
}

size_t oci_ladder(const struct oci_host *host, struct oci_mode ret_modes[OCI_LADDER_MAX])
{
    const struct oci_cgroup_host *c = &host->cgroup;
    const enum oci_cgroups *makers = makers_of(host);
    size_t n = 0;
    for (int hide = 1; hide >= 0; hide--) {
        for (int u = OCI_USERNS_RANGE; u <= OCI_USERNS_NONE; u++) {
            if ((u == OCI_USERNS_RANGE && !oci_host_has_range(host)) ||
                (u == OCI_USERNS_SINGLE && host->root) || (u == OCI_USERNS_NONE && !host->root)) {
                continue;
            }
            for (size_t i = 0; i < GROUP_MAKERS; i++) {
                enum oci_cgroups g = makers[i];
                /* version 1 hierarchies belong to root */
                bool can_make = c->version != OCI_CGROUP_VERSION_NONE && c->parent_writable &&
                                (host->root || c->version == OCI_CGROUP_VERSION_2);
                if ((g == OCI_CGROUPS_FS && !can_make) ||
                    (g == OCI_CGROUPS_SYSTEMD && !host->systemd)) {
                    continue;
                }
                struct oci_controllers has = oci_controllers_of(c, g);
                for (int views = 1; views >= 0; views--) {
                    ret_modes[n++] = (struct oci_mode){
                        .userns = (enum oci_userns)u,
                        .cgroups = g,
                        .memory = has.memory,
                        .swap = has.swap,
                        .cpu = has.cpu,
                        .pids = has.pids,
                        .hide = hide == 1,
                        .views = views == 1,
                    };
                }
            }
        }
    }
    return n;
}

void oci_probe_free(struct oci_probe *p)
{
    if (p != NULL) {
        oci_end_free(p->end);
        spec_copy_finish(&p->request);
        oci_box_finish(&p->box);
        free(p->runtime);
        free(p);
    }
}

/* A runtime that was asked for by name is named by whoever shows the reason. */
static void add_reason(struct oci_probe *p, const char *who, const char *why)
{
    bool asked = p->request.spec.runtime != NULL && p->request.spec.runtime[0] != '\0';
    size_t used = strlen(p->reason);
    snprintf(p->reason + used, sizeof(p->reason) - used, "%s%s%s%s", used > 0 ? "; " : "",
             asked ? "" : who, asked ? "" : ": ", why);
}

static void finish_oci_probe(struct oci_probe *p)
{
    rmdir(p->box.dir);
    if (!p->usable && p->reason[0] == '\0') {
        add_reason(p, "oci", "the trial was cancelled");
    }
    struct oci_probe_result result = {
        .usable = p->usable,
        .left_behind = p->left_behind,
        /* why a stronger mode failed is not known for certain, and may be mended meanwhile; a
         * runtime may be told elsewhere to use the host's kernel from now on */
        .lasts = p->usable && p->rung == 0 && !p->own_kernel,
        .runtime = p->runtime != NULL ? p->runtime : p->request.spec.runtime,
        .version = p->version,
        .flaws = p->flaws,
        .reason = p->usable ? "" : p->reason,
        .hint = p->usable ? "" : p->hint,
    };
    struct oci_notes *notes = alloc_one(struct oci_notes);
    if (p->usable) {
        result.mode = p->ladder[p->rung];
        result.mode.choice = p->choice;
        result.mode.hide = result.mode.hide && p->hidden;
        result.mode.counted = p->counted;
        result.mode.own_kernel = p->own_kernel;
        oci_mode_unapplied(&result.mode, p->host.swap_active, p->cgroup_words, notes);
        oci_host_unapplied(&p->host, result.mode.own_kernel, notes);
        oci_packages_note(p->request.spec.packages_bytes, notes);
        oci_io_unapplied(&p->request.spec, &result.mode, &p->host, notes);
    }
    result.notes = notes;
    result.host = &p->host;
    oci_probe_fn fn = p->fn;
    void *arg = p->arg;
    fn(arg, &result);
    free(notes);
    oci_probe_free(p);
}

/* ---- one rung ------------------------------------------------------------------------------- */

static void on_cleaned(void *arg, int rc, const struct err *err)
{
    struct oci_probe *p = arg;
    p->end = NULL;
    if (rc < 0) { /* the caller sweeps it */
        CLEANUP_FREE char *why =
            alloc_printf("a trial container could not be removed: %s", err->text);
        add_reason(p, p->runtime, why);
        p->left_behind = true;
        p->usable = false;
        p->stop = true;
    }
    if (p->usable || p->stop) {
        finish_oci_probe(p);
    } else if (p->again) {
        try_rung(p);
    } else if (++p->rung < p->rungs) {
        try_rung(p);
    } else {
        next_runtime(p);
    }
}

static void clean_probe(struct oci_probe *p)
{
    struct oci_end_options options = {.box = &p->box, .runtime = p->runtime};
    p->end = oci_end_start(p->tasks, &options, on_cleaned, p);
}

/* Ends the probe for a reason that no other mode would avoid. */
static void give_up_oci_probe(struct oci_probe *p, const char *why)
{
    add_reason(p, p->runtime, why);
    p->stop = true;
    clean_probe(p);
}

/* True if the host lacks a resource at the moment. A weaker mode might work without it, and would
 * then be used for the server's whole life. */
static bool is_shortage(struct oci_probe *p, int spawn_error)
{
    static const char *const phrases[] = {
        "no space left",        "No space left",          "too many open files",
        "Too many open files",  "emporarily unavailable", "annot allocate memory",
        "create new OS thread",
    };
    if (oci_box_is_disk_full(&p->box)) { /* not every runtime reports a full disk */
        snprintf(p->words, sizeof(p->words), "no space left in %s", p->box.dir);
        snprintf(p->hint, sizeof(p->hint), "%s", OCI_HINT_SPACE);
        return true;
    }
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (strstr(p->words, phrases[i]) != NULL) {
            oci_runtime_hint(p->words, &p->host, p->hint);
            return true;
        }
    }
    return spawn_error == EAGAIN || spawn_error == ENOMEM || spawn_error == EMFILE ||
           spawn_error == ENFILE;
}

static bool is_told(struct view out, const char *line)
{
    return memmem(out.data, out.len, line, strlen(line)) != NULL;
}

/* Takes what the agent told, if one has run, and thereby whether this runtime hands descriptors
 * down. */
static void take_told(struct oci_probe *p, struct view out)
{
    struct utsname host;
    CLEANUP_FREE char *ours =
        uname(&host) == 0 ? alloc_printf(TRIAL_KERNEL, host.release, host.version) : NULL;
    if (!is_told(out, TRIAL_BEGIN)) {
        return;
    }
    p->relay = p->relay || !is_told(out, TRIAL_PASSED);
    p->relay_known = true;
    p->own_kernel = ours != NULL && !is_told(out, ours);
    p->hidden = is_told(out, TRIAL_HIDDEN);
    p->counted = is_told(out, TRIAL_COUNTED);
}

/* At least 1: with 0 a command would have no such limit. */
static uint64_t most_left_ms(const struct oci_probe *p)
{
    uint64_t passed_ms = clock_ms() - p->started_ms;
    return passed_ms < MOST_MS ? MOST_MS - passed_ms : 1;
}

static void on_tried(void *arg, const struct oci_exec_result *result)
{
    struct oci_probe *p = arg;
    p->exec = NULL;
    p->counted_ms += result->counted_ms;
    p->usable = result->exit_code == 0 && !p->stop;
    bool by_relay = p->relay;
    take_told(p, result->out);
    if (!p->usable && !p->relay_known) {
        p->relay = !by_relay;
    }
    p->again = !p->usable && p->relay && !by_relay;
    if (p->usable || p->stop) {
        clean_probe(p);
        return;
    }
    if (result->timed_out) {
        snprintf(p->hint, sizeof(p->hint), "%s", result->was_busy ? OCI_HINT_BUSY : OCI_HINT_HANGS);
        give_up_oci_probe(p, result->was_busy ? "a trial container did not end in time: this "
                                                "machine is too busy"
                                              : "a trial container did not end in time");
        return;
    }
    if (result->spawn_error != 0) {
        snprintf(p->words, sizeof(p->words), "cannot run it: %s", strerror(result->spawn_error));
    } else {
        oci_runtime_words(result->err, p->words);
        if (p->words[0] == '\0') {
            snprintf(p->words, sizeof(p->words), "a trial container ended with %s %d",
                     result->signal != 0 ? "signal" : "status",
                     result->signal != 0 ? result->signal : result->exit_code);
        }
    }
    if (is_shortage(p, result->spawn_error)) {
        give_up_oci_probe(p, p->words);
        return;
    }
    const struct oci_mode *mode = &p->ladder[p->rung];
    log_debug("probe runtime=%s userns=%d cgroups=%d hide=%d views=%d failed: %s", p->runtime,
              (int)mode->userns, (int)mode->cgroups, mode->hide, mode->views, p->words);
    if (mode->cgroups != OCI_CGROUPS_NONE) {
        memcpy(p->cgroup_words, p->words, sizeof(p->cgroup_words));
    }
    if (p->again) {
        memcpy(p->passed_words, p->words, sizeof(p->passed_words));
        clean_probe(p);
        return;
    }
    if (by_relay && strcmp(p->words, p->passed_words) == 0) {
        p->relay_known = true; /* descriptors have nothing to do with it */
    }
    if (p->rung + 1 == p->rungs) {
        add_reason(p, p->runtime, p->words);
        char hint[BACKEND_HINT_MAX];
        oci_runtime_hint(p->words, &p->host, hint);
        if (hint[0] != '\0') {
            memcpy(p->hint, hint, sizeof(p->hint));
        }
    } else if (p->counted_ms > TOTAL_MS || most_left_ms(p) == 1) {
        give_up_oci_probe(p, p->words);
        return;
    }
    clean_probe(p);
}

/* Writes a record, so that after the worker's death the sweep kills the runtime before it removes
 * its files. */
static int record_trial(const struct oci_probe *p, int pid, struct err *err)
{
    struct oci_record *r = alloc_one(struct oci_record);
    r->state = OCI_RECORD_STARTING;
    r->pid = pid;
    r->mode = oci_mode_pack(&p->ladder[p->rung]);
    snprintf(r->runtime, sizeof(r->runtime), "%s", p->runtime);
    /* no record if the trial has ended already */
    int rc = oci_process_start(pid, &r->start) ? oci_record_write(p->box.record, r, err) : 0;
    free(r);
    return rc;
}

static void try_rung(struct oci_probe *p)
{
    struct oci_mode *mode = &p->ladder[p->rung];
    mode->crun = p->crun;
    mode->gvisor = p->gvisor;
    mode->flawed = p->flawed;
    mode->relay = p->relay;
    struct oci_root root;
    struct err err;
    CLEANUP_FD int listen_fd = -1;
    int rc = oci_box_prepare(&p->box, &p->request.spec, mode, &p->host, "check", NULL, &root,
                             p->hint, &err);
    oci_root_finish(&root);
    if (rc == 0 && !mode->relay) {
        rc = agent_socket_listen(p->box.dir, &listen_fd, &err);
    }
    if (rc < 0) {
        give_up_oci_probe(p, err.text);
        return;
    }
    struct oci_args args;
    oci_args_begin(&args, p->runtime, mode, p->box.state, "run");
    if (!mode->relay) {
        oci_args_add(&args, "--preserve-fds");
        oci_args_add(&args, "1");
    }
    oci_args_add(&args, "--bundle");
    oci_args_add(&args, p->box.bundle);
    oci_args_add(&args, p->box.container);
    struct oci_shares_command command;
    oci_devices_wrap(&p->request.spec, mode, &p->host, args.items, &command);
    struct oci_exec_options options = {
        .argv = command.items,
        .pass_fds = &listen_fd,
        .pass_count = mode->relay ? 0 : 1,
        .deadline_ms = mode->relay ? KERNEL_MS : TRY_MS,
        .most_ms = most_left_ms(p),
    };
    p->exec = oci_exec_start(p->tasks, &options, on_tried, p);
    oci_shares_command_finish(&command);
    if (oci_exec_pid(p->exec) != 0 && record_trial(p, oci_exec_pid(p->exec), &err) < 0) {
        add_reason(p, p->runtime, err.text);
        oci_probe_cancel(p); /* a sweep could not find it without a record */
    }
}

/* ---- one runtime ---------------------------------------------------------------------------- */

static void on_version(void *arg, const struct oci_exec_result *result)
{
    struct oci_probe *p = arg;
    p->exec = NULL;
    struct view text = result->out;
    const char *end = text.len > 0 ? memchr(text.data, '\n', text.len) : NULL;
    if (end != NULL) {
        text.len = (size_t)(end - text.data);
    }
    oci_runtime_words(text, p->version);
    p->crun = strncmp(p->version, "crun", 4) == 0 || strncmp(p->version, "krun", 4) == 0;
    p->gvisor = strncmp(p->version, "runsc", 5) == 0;
    p->flawed = oci_runtime_flaws(p->version, p->flaws);
    p->counted_ms += result->counted_ms;
    if (p->stop) {
        clean_probe(p);
    } else if (result->was_busy) {
        snprintf(p->hint, sizeof(p->hint), "%s", OCI_HINT_BUSY);
        give_up_oci_probe(p, "it did not answer to --version: this machine is too busy");
    } else if (result->exit_code != 0) {
        char why[OCI_WORDS_MAX];
        oci_runtime_words(result->err, why);
        if (result->spawn_error != 0) {
            snprintf(why, sizeof(why), "cannot run it: %s", strerror(result->spawn_error));
        }
        add_reason(p, p->runtime, why[0] != '\0' ? why : "does not answer to --version");
        next_runtime(p);
    } else {
        try_rung(p);
    }
}

static void next_runtime(struct oci_probe *p)
{
    const char *name = p->request.spec.runtime;
    if (name[0] == '\0') {
        name = oci_runtime_choice(++p->choice);
    } else if (p->reason[0] != '\0') {
        name = NULL; /* the requested one has been tried */
    }
    if (name == NULL) {
        finish_oci_probe(p); /* the result names the runtime that was tried last */
        return;
    }
    free(p->runtime);
    p->runtime = NULL;
    p->version[0] = p->flaws[0] = '\0';
    p->cgroup_words[0] = '\0';
    p->relay = p->relay_known = p->own_kernel = p->hidden = p->counted = false;
    p->rung = 0;
    struct err err;
    if (oci_runtime_find(name, &p->runtime, &err) < 0) {
        add_reason(p, name, "not installed");
        if (!p->installed && p->hint[0] == '\0') {
            snprintf(p->hint, sizeof(p->hint), "%s", OCI_HINT_INSTALL);
        }
        next_runtime(p);
        return;
    }
    p->installed = true;
    const char *argv[] = {p->runtime, "--version", NULL};
    struct oci_exec_options options = {
        .argv = argv,
        .deadline_ms = VERSION_MS,
        .most_ms = most_left_ms(p),
    };
    p->exec = oci_exec_start(p->tasks, &options, on_version, p);
}

static void begin_oci_probe(void *arg)
{
    struct oci_probe *p = arg;
    if (p->stop) {
        finish_oci_probe(p);
        return;
    }
    p->started_ms = clock_ms();
    oci_host_read("", geteuid(), getegid(), &p->host);
    p->rungs = oci_ladder(&p->host, p->ladder);
    if (p->rungs == 0) {
        add_reason(p, "oci", "this host allows no mode that a sandbox could run in");
        finish_oci_probe(p);
        return;
    }
    struct err err;
    if (dir_make_one(p->box.dir, 0700, &err) < 0) { /* see box.c */
        add_reason(p, "oci", err.text);
        finish_oci_probe(p);
        return;
    }
    next_runtime(p);
}

void oci_probe_box(struct oci_box *ret_box, const char *dir, const char *id)
{
    CLEANUP_FREE char *trial_dir = alloc_printf("%s/probe", dir);
    CLEANUP_FREE char *trial_id = alloc_printf("%s-probe", id);
    oci_box_init(ret_box, trial_dir, trial_id);
}

struct oci_probe *oci_probe_start(struct tasks *tasks, const struct backend_spec *spec,
                                  oci_probe_fn fn, void *arg)
{
    struct oci_probe *p = alloc_one(struct oci_probe);
    p->tasks = tasks;
    p->fn = fn;
    p->arg = arg;
    struct err err;
    oci_probe_box(&p->box, spec->dir != NULL ? spec->dir : "", spec->id != NULL ? spec->id : "");
    struct backend_spec trial = *spec;
    trial.id = p->box.container + strlen("cloister-");
    trial.dir = p->box.dir;
    trial.image = ""; /* the trial is about the runtime, not the image */
    trial.network = false;
    trial.packages = "";
    trial.packages_write = false;
    trial.mount_count = 0;
    if (spec_copy_init(&p->request, &trial, &err) < 0) {
        add_reason(p, "oci", err.text);
        p->stop = true;
    }
    task_later(tasks, 0, begin_oci_probe, p);
    return p;
}

void oci_probe_cancel(struct oci_probe *p)
{
    p->stop = true;
    if (p->exec != NULL) {
        oci_exec_kill(p->exec);
    }
}
