/*
 *   (PROBE) ──▶ LAUNCH ──▶ runtime "run -d" ──ok──▶ RECORD ──▶ LIMITS ──▶ (NETWORK) ──▶ RECORD
 *                 ▲                │
 *                 │                ├─failed─▶ END ──▶ error
 *                 └───── END ◀─────┘ once, if the kernel takes no overlay of an image
 *
 * Usually this runs one command of the runtime; everything else is small files. The agent's socket
 * is made here and inherited, so the sandbox has no path to it, and a stream can be opened before
 * the agent is ready. Our copy is closed as soon as the runtime has the socket: from then on a
 * refused connection means that the agent is gone. A runtime that passes no descriptors on gets an
 * end of the first stream as stdin and stdout in its place (relay.c).
 *
 * Three records are written. Before the first, in front of the command, the container cannot exist;
 * if the worker dies then, the sweep finds "a runtime at work". After the second, behind the
 * command, the container is a known process, but unfinished: nobody attaches to it, since its
 * limits or its network may be missing. After the third the next worker can attach to it.
 */
#include "worker/backend/oci/create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/ending.h"
#include "common/log.h"
#include "worker/backend/agent_socket.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/oci/end.h"
#include "worker/backend/oci/exec.h"
#include "worker/backend/oci/limits.h"
#include "worker/backend/oci/net.h"
#include "worker/backend/oci/packages.h"
#include "worker/backend/oci/packages_limit.h"
#include "worker/backend/oci/probe.h"
#include "worker/backend/oci/relay.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/oci/shares.h"
#include "worker/backend/share.h"
#include "worker/backend/spec_copy.h"

#define RUN_MS 20000 /* usually 30 ms; a host that swaps may take seconds */

/* When these steps are over, by the clock since the creation began, whatever is waited for. The
 * server gives up after 60 s. */
#define LAUNCHED_MS  40000
#define LIMITED_MS   48000
#define CONNECTED_MS 58000

struct oci_create {
    struct tasks *tasks;
    struct spec_copy request;
    struct oci_mode mode;
    struct oci_host host;
    struct oci_box box;
    struct oci_root root;
    struct oci_notes notes;
    char *runtime; /* path */
    char *helper;  /* for a network: its program */
    int agent_fd;  /* what the agent gets: its socket, or its end of the first stream */
    int stream_fd; /* our end of that stream; -1: there is none yet */
    int tether[2]; /* for a network */
    bool cancelled;
    struct oci_probe *probe;
    struct oci_exec *exec;
    struct oci_net *net;
    pid_t net_pid; /* the process that it started */
    struct oci_end *end;
    struct err err;
    char hint[BACKEND_HINT_MAX];
    struct oci_record record;
    oci_create_fn fn;
    void *arg;
    uint64_t began_ms;
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void oci_create_free(struct oci_create *c)
{
    if (c != NULL) {
        oci_probe_free(c->probe);
        oci_end_free(c->end);
        spec_copy_finish(&c->request);
        oci_box_finish(&c->box);
        oci_root_finish(&c->root);
        free(c->runtime);
        free(c->helper);
        close_fd(&c->agent_fd);
        close_fd(&c->stream_fd);
        close_fd(&c->tether[0]);
        close_fd(&c->tether[1]);
        free(c);
    }
}

static void finish_oci_create(struct oci_create *c, int rc)
{
    struct backend_info info = {
        .runtime = c->record.runtime,
        .image = c->record.image,
    };
    info.unapplied_count = oci_notes_list(&c->notes, info.unapplied);
    int stream = rc == 0 ? c->stream_fd : -1;
    c->stream_fd = rc == 0 ? -1 : c->stream_fd;
    c->fn(c->arg, rc, rc == 0 ? &c->record : NULL, stream, rc == 0 ? &info : NULL,
          rc == 0 ? NULL : &c->err, rc == 0 ? "" : c->hint);
    oci_create_free(c);
}

static void on_create_undone(void *arg, int rc, const struct err *err)
{
    struct oci_create *c = arg;
    c->end = NULL;
    if (rc < 0) {
        log_debug("clean-up after a failed creation: %s", err->text);
    }
    finish_oci_create(c, -c->err.code);
}

/* Removes what was made so far, then reports c->err. */
static void fail_oci_create(struct oci_create *c)
{
    close_fd(&c->agent_fd);
    struct oci_end_options options = {
        .box = &c->box,
        .runtime = c->runtime != NULL ? c->runtime : "",
        .spec = &c->request.spec,
    };
    c->end = oci_end_start(c->tasks, &options, on_create_undone, c);
}

static int record(struct oci_create *c, int pid, enum oci_record_state state)
{
    struct oci_record *r = &c->record;
    r->state = state;
    r->pid = pid;
    r->mode = oci_mode_pack(&c->mode);
    if (!oci_process_start(pid, &r->start)) {
        return err_set(&c->err, ERR_ENGINE, "the agent ended as soon as it was started");
    }
    return oci_record_write(c->box.record, r, &c->err);
}

/* Notes the first process, for a server that ends and kills all of its sandboxes at once. */
static void note_oci_first(struct oci_create *c)
{
    struct ending_first first = {.pid = c->record.pid, .start_time = c->record.start};
    struct oci_cgroup_dirs dirs;
    struct err err = ERR_INIT;
    if (oci_cgroup_find("", &c->host.cgroup, first.pid, c->box.container, &dirs)) {
        const char *group = dirs.pids[0] != '\0'     ? dirs.pids
                            : dirs.memory[0] != '\0' ? dirs.memory
                                                     : dirs.cpu;
        snprintf(first.group, sizeof(first.group), "%s", group);
    }
    if (ending_note_first(c->box.dir, &first, &err) < 0) {
        log_debug("a server that ends cannot kill it at once: %s", err.text);
    }
}

/* With --strict nothing may be left out. */
static int refuse_notes(struct oci_create *c)
{
    if (!c->request.spec.strict || c->notes.count == 0) {
        return 0;
    }
    const char *list[BACKEND_UNAPPLIED_MAX];
    char names[BACKEND_NAMES_MAX];
    backend_unapplied_names(list, oci_notes_list(&c->notes, list), names);
    snprintf(c->hint, sizeof(c->hint), BACKEND_HINT_STRICT);
    return err_set(&c->err, ERR_ENGINE, "--strict: this host cannot apply %s", names);
}

/* The runtime has reported that the container is started. */
static int settle_oci_create(struct oci_create *c)
{
    int pid;
    int rc = oci_box_read_pid(&c->box, &pid, &c->err);
    rc = rc < 0 ? rc : record(c, pid, OCI_RECORD_UNFINISHED);
    if (rc == 0) {
        note_oci_first(c);
        rc = oci_limits_sockets(&c->box, &c->request.spec, &c->mode, &c->host, pid, &c->err);
        rc =
            rc < 0 ? rc : oci_io_limit(&c->box, &c->request.spec, &c->mode, &c->host, pid, &c->err);
    }
    return rc;
}

/* Only now a later worker may go on with it. */
static void complete_oci_create(struct oci_create *c)
{
    c->record.state = OCI_RECORD_RUNNING;
    if (oci_record_write(c->box.record, &c->record, &c->err) < 0) {
        fail_oci_create(c);
    } else {
        finish_oci_create(c, 0);
    }
}

/* What the helper uses counts for the sandbox. */
static int limit_helper(struct oci_create *c)
{
    struct err why = ERR_INIT;
    if (c->mode.cgroups != OCI_CGROUPS_NONE &&
        oci_cgroup_join("", &c->host.cgroup, c->record.pid, c->box.container, c->net_pid, &why) <
            0) {
        log_warn("sandbox %s: its network helper is not limited: %s", c->request.spec.id, why.text);
    }
    oci_net_note(c->box.dir, &c->mode, &c->host.cgroup, c->box.container, &c->notes);
    return refuse_notes(c);
}

static void on_network(void *arg, int rc, const struct err *err, const char *hint)
{
    struct oci_create *c = arg;
    c->net = NULL;
    if (rc == 0 && !c->cancelled && limit_helper(c) < 0) {
        fail_oci_create(c);
        return;
    }
    if (rc < 0 || c->cancelled) {
        if (rc < 0) {
            c->err = *err;
            snprintf(c->hint, sizeof(c->hint), "%s", hint);
        }
        if (c->cancelled) {
            err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        }
        fail_oci_create(c);
        return;
    }
    complete_oci_create(c);
}

/* At least 1: with 0 a command would have no such limit. */
static uint64_t time_left_ms(const struct oci_create *c, uint64_t end_ms)
{
    uint64_t passed_ms = clock_ms() - c->began_ms;
    return passed_ms < end_ms ? end_ms - passed_ms : 1;
}

/* The container runs, but it gets no stream, and so no code, before its limits are set and its
 * network is ready. */
static void connect_network(struct oci_create *c)
{
    if (!c->request.spec.network) {
        complete_oci_create(c);
        return;
    }
    struct oci_net_options options = {
        .path = c->helper,
        .dir = c->box.dir,
        .agent_path = c->host.root && oci_net_is_for_all() ? c->request.spec.agent_path : NULL,
        .pid = c->record.pid,
        .tether = c->tether[0],
        .most_ms = time_left_ms(c, CONNECTED_MS),
    };
    c->net = oci_net_start(c->tasks, &options, on_network, c);
    c->net_pid = oci_net_pid(c->net);
    c->tether[0] = -1;
}

/* What had to be left out is known only now. `result` is what came of setting the limits of the
 * namespaces; NULL: there was none to set. */
static int settle_limits(struct oci_create *c, const struct oci_exec_result *result)
{
    if (c->cancelled) {
        return err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created");
    }
    int rc = result != NULL ? oci_limits_keep(&c->box, result, &c->err) : 0;
    if (rc == 0) {
        oci_box_notes(&c->box, &c->notes);
        rc = refuse_notes(c);
    }
    return rc;
}

static void settle_and_connect(struct oci_create *c, const struct oci_exec_result *result)
{
    if (settle_limits(c, result) == 0) {
        connect_network(c);
    } else {
        fail_oci_create(c);
    }
}

static void on_limited(void *arg, const struct oci_exec_result *result)
{
    struct oci_create *c = arg;
    c->exec = NULL;
    settle_and_connect(c, result);
}

/* A kernel of the sandbox's own shares no namespace with anybody. */
static void limit_namespaces(struct oci_create *c)
{
    if (c->mode.own_kernel) {
        settle_and_connect(c, NULL);
    } else {
        c->exec = oci_limits_start(c->tasks, &c->request.spec, &c->mode, &c->host, c->record.pid,
                                   time_left_ms(c, LIMITED_MS), on_limited, c);
    }
}

static void try_launch(struct oci_create *c);

static void on_unviewed(void *arg, int rc, const struct err *err)
{
    struct oci_create *c = arg;
    c->end = NULL;
    if (rc < 0) {
        c->err = *err;
        finish_oci_create(c, -c->err.code);
    } else {
        try_launch(c);
    }
}

/* The trial had the host's /usr. An image may lie where the kernel takes no overlay of it: then
 * this sandbox goes without. */
static void launch_without_views(struct oci_create *c, const char *words)
{
    log_warn("no overlay of image %s, so its files are shared: %s", c->root.label, words);
    c->mode.views = false;
    oci_mode_note_views(&c->notes);
    oci_root_finish(&c->root);
    free(c->helper);
    c->helper = NULL;
    close_fd(&c->tether[0]);
    struct oci_end_options options = {.box = &c->box, .runtime = c->runtime};
    c->end = oci_end_start(c->tasks, &options, on_unviewed, c);
}

static void on_run(void *arg, const struct oci_exec_result *result)
{
    struct oci_create *c = arg;
    c->exec = NULL;
    char words[OCI_WORDS_MAX];
    oci_runtime_words(result->err, words);
    if (c->cancelled) {
        err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
    } else if (result->spawn_error != 0) {
        err_ignore(err_sys(&c->err, ERR_ENGINE, result->spawn_error, "cannot run %s", c->runtime));
    } else if (result->timed_out) {
        err_ignore(err_set(&c->err, ERR_TIMEOUT, "%s did not start the container in %d s",
                           c->runtime, (result->was_busy ? LAUNCHED_MS : RUN_MS) / 1000));
        snprintf(c->hint, sizeof(c->hint), "%s", result->was_busy ? OCI_HINT_BUSY : "");
    } else if (result->exit_code != 0 && c->root.lower != NULL &&
               strstr(words, "overlay") != NULL) {
        launch_without_views(c, words);
        return;
    } else if (result->exit_code != 0 && oci_shares_words(words) != NULL) {
        err_ignore(err_set(&c->err, ERR_CONFIG, "%s", oci_shares_words(words)));
        snprintf(c->hint, sizeof(c->hint), SHARE_HINT);
    } else if (result->exit_code != 0) {
        err_ignore(err_set(&c->err, ERR_ENGINE, "%s cannot start the container: %s", c->runtime,
                           words[0] != '\0' ? words : "it does not say why"));
        oci_runtime_hint(words, &c->host, c->hint);
        if (oci_box_is_disk_full(&c->box)) { /* not every runtime reports a full disk */
            err_ignore(err_wrap(&c->err, "no space left in %s", c->box.dir));
            snprintf(c->hint, sizeof(c->hint), "%s", OCI_HINT_SPACE);
        }
    } else if (settle_oci_create(c) == 0) {
        limit_namespaces(c);
        return;
    } else if (words[0] != '\0') {
        err_ignore(err_wrap(&c->err, "%s", words));
    }
    fail_oci_create(c);
}

/* Writes all files that the runtime needs. */
static int prepare(struct oci_create *c)
{
    const struct backend_spec *spec = &c->request.spec;
    struct err *err = &c->err;
    CLEANUP_FREE char *packages = NULL;
    int rc = oci_shares_check(spec, c->hint, err);
    if (rc == 0 && spec->packages[0] != '\0') {
        rc = oci_packages_prepare(spec, &c->mode, &c->host, "", &packages, err);
        if (rc == -ERR_CONFIG) {
            snprintf(c->hint, sizeof(c->hint), OCI_PACKAGES_HINT);
        }
        if (rc == 0 && strcmp(spec->packages, spec->id) == 0) {
            oci_packages_tidy(c->tasks, "", spec->agent_path);
        }
    }
    if (rc == 0 && spec->network && c->mode.relay) {
        snprintf(c->hint, sizeof(c->hint), OCI_RELAY_NETWORK_HINT);
        rc = err_set(err, ERR_CONFIG, OCI_RELAY_NO_NETWORK);
    }
    if (rc == 0 && spec->network) {
        rc = oci_net_find(&c->helper, c->hint, err);
        rc = rc < 0 ? rc : oci_net_tether(c->tether, err);
    }
    return rc < 0 ? rc
                  : oci_box_prepare(&c->box, spec, &c->mode, &c->host, "serve", packages, &c->root,
                                    c->hint, err);
}

static int launch(struct oci_create *c)
{
    struct err *err = &c->err;
    const struct backend_spec *spec = &c->request.spec;
    const char *name = spec->runtime;
    if (name[0] == '\0' && c->mode.choice != 0 && oci_runtime_choice(c->mode.choice) != NULL) {
        name = oci_runtime_choice(c->mode.choice);
    }
    if (c->runtime == NULL) {
        int rc = oci_runtime_find(name, &c->runtime, err);
        if (rc < 0) {
            snprintf(c->hint, sizeof(c->hint), "%s", OCI_HINT_INSTALL);
            return rc;
        }
    }
    if (refuse_notes(c) < 0) {
        return -c->err.code;
    }
    c->mode = oci_packages_mode(spec, &c->mode, &c->host);
    c->mode = oci_shares_mode(spec, &c->mode, &c->host);
    int rc = prepare(c);
    if (rc == 0) {
        rc = c->mode.relay ? oci_relay_pair(&c->stream_fd, &c->agent_fd, err)
                           : agent_socket_listen(c->box.dir, &c->agent_fd, err);
    }
    if (rc < 0) {
        return rc;
    }
    snprintf(c->record.runtime, sizeof(c->record.runtime), "%s", c->runtime);
    snprintf(c->record.image, sizeof(c->record.image), "%s", c->root.label);

    struct oci_args args;
    oci_args_begin(&args, c->runtime, &c->mode, c->box.state, "run");
    oci_args_add(&args, "--detach");
    if (!c->mode.relay) {
        oci_args_add(&args, "--preserve-fds");
        oci_args_add(&args, spec->network ? "2" : "1");
    }
    oci_args_add(&args, "--pid-file");
    oci_args_add(&args, c->box.pid_file);
    oci_args_add(&args, "--bundle");
    oci_args_add(&args, c->box.bundle);
    oci_args_add(&args, c->box.container);
    struct oci_shares_command command;
    rc = oci_shares_wrap(spec, &c->mode, &c->host, &c->box, args.items, &command, err);
    if (rc < 0) {
        return rc;
    }
    const int passed[] = {c->agent_fd, c->tether[1]};
    struct oci_exec_options options = {
        .argv = command.items,
        .pass_fds = passed,
        .pass_count = c->mode.relay   ? 0
                      : spec->network ? 2
                                      : 1,
        .stdio_fd = c->mode.relay ? c->agent_fd : 0,
        .deadline_ms = RUN_MS,
        .most_ms = time_left_ms(c, LAUNCHED_MS),
        .linger = true,
    };
    c->exec = oci_exec_start(c->tasks, &options, on_run, c);
    oci_shares_command_finish(&command);
    close_fd(&c->agent_fd);
    close_fd(&c->tether[1]);
    if (oci_exec_pid(c->exec) != 0 && record(c, oci_exec_pid(c->exec), OCI_RECORD_STARTING) < 0) {
        oci_exec_kill(c->exec); /* a sweep could not find it without a record */
    }
    return 0;
}

static void try_launch(struct oci_create *c)
{
    if (c->cancelled) {
        err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        finish_oci_create(c, -c->err.code);
    } else if (launch(c) < 0) {
        fail_oci_create(c);
    }
}

static void on_runtime_probed(void *arg, const struct oci_probe_result *result)
{
    struct oci_create *c = arg;
    c->probe = NULL;
    if (!result->usable) {
        snprintf(c->hint, sizeof(c->hint), "%s", result->hint);
        finish_oci_create(c, err_set(&c->err, c->cancelled ? ERR_SHUTTING_DOWN : ERR_ENGINE,
                                     "no usable OCI runtime: %.400s", result->reason));
        return;
    }
    c->mode = result->mode;
    c->notes = *result->notes;
    c->runtime = alloc_strdup(result->runtime);
    try_launch(c);
}

static void begin_oci_create(void *arg)
{
    struct oci_create *c = arg;
    c->began_ms = clock_ms();
    if (c->err.code != 0) {
        finish_oci_create(c, -c->err.code);
        return;
    }
    oci_host_read("", geteuid(), getegid(), &c->host);
    if (oci_mode_unpack(c->request.spec.mode, &c->mode)) {
        oci_mode_unapplied(&c->mode, c->host.swap_active, "", &c->notes);
        oci_host_unapplied(&c->host, c->mode.own_kernel, &c->notes);
        oci_packages_note(c->request.spec.packages_bytes, &c->notes);
        oci_io_unapplied(&c->request.spec, &c->mode, &c->host, &c->notes);
        try_launch(c);
    } else {
        c->probe = oci_probe_start(c->tasks, &c->request.spec, on_runtime_probed, c);
    }
}

struct oci_create *oci_create_start(struct tasks *tasks, const struct backend_spec *spec,
                                    oci_create_fn fn, void *arg)
{
    struct oci_create *c = alloc_one(struct oci_create);
    c->tasks = tasks;
    c->agent_fd = c->stream_fd = -1;
    c->tether[0] = c->tether[1] = -1;
    c->fn = fn;
    c->arg = arg;
    oci_box_init(&c->box, spec->dir != NULL ? spec->dir : "", spec->id != NULL ? spec->id : "");
    err_ignore(spec_copy_init(&c->request, spec, &c->err));
    task_later(tasks, 0, begin_oci_create, c);
    return c;
}

void oci_create_cancel(struct oci_create *c)
{
    c->cancelled = true;
    if (c->probe != NULL) {
        oci_probe_cancel(c->probe);
    }
    if (c->exec != NULL) {
        oci_exec_kill(c->exec);
    }
    if (c->net != NULL) {
        oci_net_cancel(c->net);
    }
}
