/*
 * Memory and CPU are what a control group limits, so they can be changed while the container runs.
 * All else that follows from the memory is set when it is created: sizes of file systems, which are
 * the caller's concern; limits of System V's shared memory and of sockets, which are set again by
 * the program that set them first (limits.c).
 *
 * Without a group of our own there is nothing to write to: systemd keeps the limits of its scopes
 * itself, and would write its own over ours; and without a memory controller an rlimit stands in,
 * which the interpreter that runs has already.
 */
#include "worker/backend/oci/change.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "worker/backend/oci/exec.h"
#include "worker/backend/oci/limits.h"
#include "worker/backend/record.h"
#include "worker/backend/spec_copy.h"

#define LIMITS_MOST_MS 30000 /* with what is waited for */

struct oci_change {
    struct tasks *tasks;
    struct oci_box box;
    struct spec_copy request;
    struct backend_limits from;
    oci_change_fn fn;
    void *arg;
    struct oci_host host;
    struct oci_mode mode;
};

void oci_change_free(struct oci_change *c)
{
    if (c != NULL) {
        oci_box_finish(&c->box);
        spec_copy_finish(&c->request);
        free(c);
    }
}

static void end_change(struct oci_change *c, int rc, const struct err *err)
{
    oci_change_fn fn = c->fn;
    void *arg = c->arg;
    struct err kept = rc < 0 ? *err : (struct err)ERR_INIT;
    oci_change_free(c);
    fn(arg, rc, rc < 0 ? &kept : NULL);
}

static void on_namespaces_limited(void *arg, const struct oci_exec_result *result)
{
    struct oci_change *c = arg;
    struct err err = ERR_INIT;
    int rc = oci_limits_keep(&c->box, result, &err);
    end_change(c, rc, &err);
}

/* The container's process, and how it was made. */
static int find_record(struct oci_change *c, struct oci_record *record, struct err *err)
{
    struct err why = ERR_INIT;
    if (oci_record_read(c->box.record, record, &why) < 0 || record->state != OCI_RECORD_RUNNING ||
        oci_process_gone(record->pid, record->start)) {
        return err_set(err, ERR_GONE, "the sandbox has ended");
    }
    return oci_mode_unpack(record->mode, &c->mode)
               ? 0
               : err_set(err, ERR_CONFIG, "it is not known how this container is limited");
}

static int check_mode(const struct oci_change *c, bool memory, struct err *err)
{
    if (c->mode.cgroups == OCI_CGROUPS_SYSTEMD) {
        return err_set(err, ERR_CONFIG, "systemd keeps the limits of this container");
    }
    if (memory && c->mode.own_kernel) {
        return err_set(err, ERR_CONFIG,
                       "the kernel of this container goes by what it had at its start");
    }
    if (memory && !c->mode.memory) {
        return err_set(err, ERR_CONFIG, "no control group limits the memory of this container");
    }
    return 0;
}

static int change_groups(struct oci_change *c, bool memory, pid_t pid, struct err *err)
{
    const struct backend_limits *to = &c->request.spec.limits;
    const struct oci_cgroup_change change = {
        .memory = memory,
        .swap = c->mode.swap,
        .memory_from = c->from.memory_bytes,
        .memory_bytes = to->memory_bytes,
        .cpu = c->mode.cpu && to->cpu_milli != c->from.cpu_milli,
        .cpu_milli = to->cpu_milli,
    };
    int rc = change.memory || change.cpu
                 ? oci_cgroup_change("", &c->host.cgroup, pid, c->box.container, &change, err)
                 : 0;
    return rc == 0 && memory
               ? oci_limits_sockets(&c->box, &c->request.spec, &c->mode, &c->host, pid, err)
               : rc;
}

static void on_change(void *arg)
{
    struct oci_change *c = arg;
    struct err err = ERR_INIT;
    struct oci_record *record = alloc_one(struct oci_record);
    bool memory = c->request.spec.limits.memory_bytes != c->from.memory_bytes;
    int rc = find_record(c, record, &err);
    pid_t pid = record->pid;
    free(record);
    rc = rc < 0 ? rc : check_mode(c, memory, &err);
    if (rc == 0) {
        oci_host_read("", geteuid(), getegid(), &c->host);
        rc = change_groups(c, memory, pid, &err);
    }
    if (rc < 0 || !memory) {
        end_change(c, rc, &err);
        return;
    }
    (void)oci_limits_start(c->tasks, &c->request.spec, &c->mode, &c->host, pid, LIMITS_MOST_MS,
                           on_namespaces_limited, c);
}

struct oci_change *oci_change_start(struct tasks *tasks, const struct oci_change_options *options,
                                    oci_change_fn fn, void *arg)
{
    struct oci_change *c = alloc_one(struct oci_change);
    struct err err;
    c->tasks = tasks;
    c->from = *options->from;
    c->fn = fn;
    c->arg = arg;
    oci_box_copy(&c->box, options->box);
    err_ignore(spec_copy_init(&c->request, options->spec, &err)); /* it was valid at creation */
    task_later(tasks, 0, on_change, c);
    return c;
}
