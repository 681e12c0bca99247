/*
 * Runs a command of an OCI runtime: no shell, bounded output, a deadline.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_EXEC_H
#define CLOISTER_WORKER_BACKEND_OCI_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/view.h"
#include "worker/backend/task.h"

#define OCI_EXEC_TEXT_MAX 8192 /* bytes that are kept of the end of each stream */
#define OCI_EXEC_FDS_MAX  2

struct oci_exec_options {
    const char *const *argv; /* NULL-ended; argv[0] is a path. Borrowed during the call */
    const int *pass_fds;     /* become descriptors 3 and up of the command. Borrowed */
    size_t pass_count;       /* at most OCI_EXEC_FDS_MAX */
    int stdio_fd;            /* becomes its stdin and stdout; 0: none, and its stdout is kept */
    uint64_t deadline_ms;    /* then it is killed */
    uint64_t most_ms; /* not 0: the deadline counts only time in which the command and its children
                       * waited for no CPU and no disk (waited.h), and this is the limit in any
                       * case */
    bool linger;      /* after success, log the container's stderr up to a limit */
};

struct oci_exec_result {
    int exit_code; /* -1 if it did not exit by itself */
    int signal;    /* that ended it, else 0 */
    bool timed_out;
    bool was_busy;        /* … by most_ms, so it has mostly waited for a CPU or a disk */
    uint64_t counted_ms;  /* that counted for the deadline; with most_ms only */
    int spawn_error;      /* errno if it could not even be started, else 0 */
    struct view out, err; /* borrowed during the callback */
};

typedef void (*oci_exec_fn)(void *arg, const struct oci_exec_result *result);

struct oci_exec;

/* The handle is valid until fn is called. */
struct oci_exec *oci_exec_start(struct tasks *tasks, const struct oci_exec_options *options,
                                oci_exec_fn fn, void *arg);

/* Process id, 0 if it could not be started. */
int oci_exec_pid(const struct oci_exec *x);

/* Ends the command now; fn follows. */
void oci_exec_kill(struct oci_exec *x);

#endif
