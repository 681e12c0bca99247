/*
 * Other limits for a container that runs.
 *
 * Thread: the loop's. Nothing blocks; small kernel files are written and read.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_CHANGE_H
#define CLOISTER_WORKER_BACKEND_OCI_CHANGE_H

#include "worker/backend/oci/box.h"
#include "worker/backend/task.h"

struct oci_change;

typedef void (*oci_change_fn)(void *arg, int rc, const struct err *err);

/* What a container has, and what it shall have. Borrowed during the call. */
struct oci_change_options {
    const struct oci_box *box;
    const struct backend_spec *spec;   /* with the new limits */
    const struct backend_limits *from; /* those it has */
};

/* Calls fn once: -ERR_CONFIG if the limits of this container cannot be changed, and have not
 * been; any other error: it is not known which they are. The handle is valid until fn is called. */
struct oci_change *oci_change_start(struct tasks *tasks, const struct oci_change_options *options,
                                    oci_change_fn fn, void *arg);

/* Frees it without a call of fn; tasks_close() has been called. NULL is fine. */
void oci_change_free(struct oci_change *c);

#endif
