/*
 *   (PROBE) ──▶ LAUNCH ──▶ runtime "run -d" ──ok──▶ RECORD ──▶ done
 *                  │               └─failed─▶ END ──▶ error
 *
 * On the usual path this runs exactly one command of the runtime; everything else is small files.
 * The agent's socket is made here and inherited, so that inside the sandbox nothing leads to it and
 * a stream can be opened before the agent has come up. Our own copy is closed as soon as the
 * runtime has it: from then on a refused connection means that the agent is gone.
 *
 * Two records frame the command. Before the first the container cannot exist, between them a
 * worker's death leaves "a runtime at work" for the sweep to find, after the second the container
 * is a known process that the next worker can attach to.
 */
#include "worker/backend/oci_create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "worker/backend/agent_socket.h"
#include "worker/backend/oci_box.h"
#include "worker/backend/oci_end.h"
#include "worker/backend/oci_exec.h"
#include "worker/backend/oci_probe.h"
#include "worker/backend/oci_runtime.h"
#include "worker/backend/spec_copy.h"

#define RUN_MS 20000 /* 30 ms are usual; a host that swaps may take seconds */

struct oci_create {
    struct tasks *tasks;
    struct spec_copy request;
    struct oci_mode mode;
    struct oci_host host;
    struct oci_box box;
    struct oci_root root;
    struct oci_notes notes;
    char *runtime; /* path */
    int listen_fd;
    bool cancelled;
    struct oci_probe *probe;
    struct oci_exec *exec;
    struct oci_end *end;
    struct err err;
    char hint[BACKEND_HINT_MAX];
    struct oci_record record;
    oci_create_fn fn;
    void *arg;
};

void oci_create_free(struct oci_create *c)
{
    if (c != NULL) {
        oci_probe_free(c->probe);
        oci_end_free(c->end);
        spec_copy_finish(&c->request);
        oci_box_finish(&c->box);
        oci_root_finish(&c->root);
        free(c->runtime);
        if (c->listen_fd >= 0) {
            close(c->listen_fd);
        }
        free(c);
    }
}

static void finish(struct oci_create *c, int rc)
{
    struct backend_info info = {
        .runtime = c->record.runtime,
        .image = c->record.image,
    };
    info.unapplied_count = oci_notes_list(&c->notes, info.unapplied);
    c->fn(c->arg, rc, rc == 0 ? &c->record : NULL, rc == 0 ? &info : NULL, rc == 0 ? NULL : &c->err,
          rc == 0 ? "" : c->hint);
    oci_create_free(c);
}

static void on_ended(void *arg, int rc, const struct err *err)
{
    struct oci_create *c = arg;
    c->end = NULL;
    if (rc < 0) {
        log_debug("clean-up after a failed creation: %s", err->text);
    }
    finish(c, -c->err.code);
}

/* Removes what was made so far, then reports c->err. */
static void fail(struct oci_create *c)
{
    if (c->listen_fd >= 0) {
        close(c->listen_fd);
        c->listen_fd = -1;
    }
    c->end = oci_end_start(c->tasks, &c->box, c->runtime != NULL ? c->runtime : "", on_ended, c);
}

static int record(struct oci_create *c, int pid, bool starting)
{
    struct oci_record *r = &c->record;
    r->starting = starting;
    r->pid = pid;
    r->mode = oci_mode_pack(&c->mode);
    if (!oci_process_start(pid, &r->start)) {
        return err_set(&c->err, ERR_ENGINE, "the agent ended as soon as it was started");
    }
    return oci_record_write(c->box.record, r, &c->err);
}

/* The runtime says it started the container. */
static int settle(struct oci_create *c)
{
    int pid;
    int rc = oci_box_read_pid(&c->box, &pid, &c->err);
    return rc < 0 ? rc : record(c, pid, false);
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
                           c->runtime, RUN_MS / 1000));
    } else if (result->exit_code != 0) {
        err_ignore(err_set(&c->err, ERR_ENGINE, "%s cannot start the container: %s", c->runtime,
                           words[0] != '\0' ? words : "it does not say why"));
        oci_runtime_hint(words, &c->host, c->hint);
        if (oci_box_is_disk_full(&c->box)) { /* not every runtime says so */
            err_ignore(err_wrap(&c->err, "no space left in %s", c->box.dir));
            snprintf(c->hint, sizeof(c->hint), "%s", OCI_HINT_SPACE);
        }
    } else if (settle(c) == 0) {
        finish(c, 0);
        return;
    } else if (words[0] != '\0') {
        err_ignore(err_wrap(&c->err, "%s", words));
    }
    fail(c);
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
    if (spec->strict && c->notes.count > 0) {
        snprintf(c->hint, sizeof(c->hint),
                 "run without --strict to accept this, or see `cloister "
                 "doctor` for what the host lacks");
        return err_set(err, ERR_ENGINE, "this host cannot apply: %s%s%s", c->notes.text[0],
                       c->notes.count > 1 ? "; " : "", c->notes.count > 1 ? c->notes.text[1] : "");
    }
    int rc = oci_box_prepare(&c->box, spec, &c->mode, &c->host, "serve", &c->root, c->hint, err);
    rc = rc < 0 ? rc : agent_socket_listen(c->box.dir, &c->listen_fd, err);
    if (rc < 0) {
        return rc;
    }
    snprintf(c->record.runtime, sizeof(c->record.runtime), "%s", c->runtime);
    snprintf(c->record.image, sizeof(c->record.image), "%s", c->root.label);

    struct oci_args args;
    oci_args_begin(&args, c->runtime, &c->mode, c->box.state, "run");
    oci_args_add(&args, "--detach");
    oci_args_add(&args, "--preserve-fds");
    oci_args_add(&args, "1");
    oci_args_add(&args, "--pid-file");
    oci_args_add(&args, c->box.pid_file);
    oci_args_add(&args, "--bundle");
    oci_args_add(&args, c->box.bundle);
    oci_args_add(&args, c->box.container);
    struct oci_exec_options options = {
        .argv = args.items,
        .pass_fd = c->listen_fd,
        .deadline_ms = RUN_MS,
        .linger = true,
    };
    c->exec = oci_exec_start(c->tasks, &options, on_run, c);
    close(c->listen_fd);
    c->listen_fd = -1;
    if (oci_exec_pid(c->exec) != 0 && record(c, oci_exec_pid(c->exec), true) < 0) {
        oci_exec_kill(c->exec); /* without a record a sweep would not find it */
    }
    return 0;
}

static void try_launch(struct oci_create *c)
{
    if (c->cancelled) {
        err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        finish(c, -c->err.code);
    } else if (launch(c) < 0) {
        fail(c);
    }
}

static void on_probed(void *arg, const struct oci_probe_result *result)
{
    struct oci_create *c = arg;
    c->probe = NULL;
    if (!result->usable) {
        snprintf(c->hint, sizeof(c->hint), "%s", result->hint);
        finish(c, err_set(&c->err, c->cancelled ? ERR_SHUTTING_DOWN : ERR_ENGINE,
                          "no usable OCI runtime: %.400s", result->reason));
        return;
    }
    c->mode = result->mode;
    c->notes = *result->notes;
    c->runtime = alloc_strdup(result->runtime);
    try_launch(c);
}

static void begin(void *arg)
{
    struct oci_create *c = arg;
    if (c->err.code != 0) {
        finish(c, -c->err.code);
        return;
    }
    oci_host_read("", geteuid(), getegid(), &c->host);
    if (oci_mode_unpack(c->request.spec.mode, &c->mode)) {
        oci_mode_unapplied(&c->mode, c->host.swap_active, "", &c->notes);
        try_launch(c);
    } else {
        c->probe = oci_probe_start(c->tasks, &c->request.spec, on_probed, c);
    }
}

struct oci_create *oci_create_start(struct tasks *tasks, const struct backend_spec *spec,
                                    oci_create_fn fn, void *arg)
{
    struct oci_create *c = alloc_one(struct oci_create);
    c->tasks = tasks;
    c->listen_fd = -1;
    c->fn = fn;
    c->arg = arg;
    oci_box_init(&c->box, spec->dir != NULL ? spec->dir : "", spec->id != NULL ? spec->id : "");
    err_ignore(spec_copy_init(&c->request, spec, &c->err));
    task_later(tasks, 0, begin, c);
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
}
