/*
 * The system call filter of a sandbox, as the `linux.seccomp` object of an OCI configuration.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_SECCOMP_H
#define CLOISTER_WORKER_BACKEND_SECCOMP_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* A new object owned by the caller. `tracing`: let processes trace others of
 * their own uid (debuggers); false where the agent has the same uid. */
cJSON *oci_seccomp_build(bool tracing);

/* The tables, sorted by strcmp, for tests and documentation. */
const char *const *oci_seccomp_allowed(size_t *ret_count);
const char *const *oci_seccomp_refused(size_t *ret_count);

#endif
