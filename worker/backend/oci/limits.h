/*
 * The limits of a container's namespaces, which a program on this host sets when the container runs
 * and no code in it yet (`cloister-agent limit`).
 *
 * Thread: the loop's. Nothing blocks; small files are written and read.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_LIMITS_H
#define CLOISTER_WORKER_BACKEND_OCI_LIMITS_H

#include "worker/backend/oci/box.h"
#include "worker/backend/oci/exec.h"

/* Starts the program; `pid` is the container's first process. Its result is for oci_limits_keep().
 */
struct oci_exec *oci_limits_start(struct tasks *tasks, const struct backend_spec *spec,
                                  const struct oci_mode *mode, const struct oci_host *host,
                                  pid_t pid, oci_exec_fn fn, void *arg);

/* Limits the buffers of sockets, where they are not counted as memory of the cgroup of this first
 * process. What is missing is written down. */
int oci_limits_sockets(const struct oci_box *box, const struct backend_spec *spec,
                       const struct oci_mode *mode, const struct oci_host *host, pid_t pid,
                       struct err *err) WARN_UNUSED;

/* Writes down what could not be set (oci_box_add_note()). */
int oci_limits_keep(const struct oci_box *box, const struct oci_exec_result *result,
                    struct err *err) WARN_UNUSED;

#endif
