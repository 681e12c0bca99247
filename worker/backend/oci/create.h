/*
 * Creates a container: from a spec to a running agent; on failure nothing is left.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_CREATE_H
#define CLOISTER_WORKER_BACKEND_OCI_CREATE_H

#include "worker/backend/backend.h"
#include "worker/backend/record.h"
#include "worker/backend/task.h"

struct oci_create;

/* rc 0: `record` describes the running container, and `stream` is the first one, before its
 * greeting (relay.h), owned by the receiver; -1 if streams are opened at a socket. rc < 0: nothing
 * of it is left. */
typedef void (*oci_create_fn)(void *arg, int rc, const struct oci_record *record, int stream,
                              const struct backend_info *info, const struct err *err,
                              const char *hint);

/* Probes first if spec->mode is unknown. fn is called once; the object is gone then. */
struct oci_create *oci_create_start(struct tasks *tasks, const struct backend_spec *spec,
                                    oci_create_fn fn, void *arg);

/* Aborts as soon as possible; fn follows with an error. */
void oci_create_cancel(struct oci_create *c);

/* For an owner that closes before fn was called, after tasks_close(). NULL is fine. */
void oci_create_free(struct oci_create *c);

#endif
