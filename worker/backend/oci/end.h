/*
 * Ends a container in any state: running, half made, stopped, or gone with files left behind.
 *
 * Thread: the loop's. Nothing blocks. Takes about three seconds at the very most.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_END_H
#define CLOISTER_WORKER_BACKEND_OCI_END_H

#include "common/err.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/task.h"

struct oci_end;

typedef void (*oci_end_fn)(void *arg, int rc, const struct err *err);

/* Ends the container of the box and removes its network, cgroups and files, and the packages of the
 * sandbox `spec` (borrowed during the call; NULL for a trial, which has none). `runtime` (name or
 * path,
 * "" for any) is used if the box has no record that names one. fn is called once; the object is
 * gone then. */
struct oci_end_options {
    const struct oci_box *box;
    const char *runtime;
    const struct backend_spec *spec;
};
struct oci_end *oci_end_start(struct tasks *tasks, const struct oci_end_options *options,
                              oci_end_fn fn, void *arg);

/* For an owner that closes before fn was called, after tasks_close(). NULL is fine. */
void oci_end_free(struct oci_end *e);

#endif
