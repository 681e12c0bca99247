/*
 * OCI runtimes as command line programs: finding them, their arguments, and their error messages.
 *
 * Thread: any. Looks at files only; nothing is run here (exec.h).
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_RUNTIME_H
#define CLOISTER_WORKER_BACKEND_OCI_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host/host.h"

#define OCI_WORDS_MAX 256 /* a runtime's error message, cut to one short line */

/* The n-th default runtime, from 1; NULL after the last. */
const char *oci_runtime_choice(unsigned n);

/* Absolute path of a runtime given by name (looked up in PATH and the system's directories) or by
 * path. -ERR_ENGINE if there is none. The caller owns *ret_path (free). */
int oci_runtime_find(const char *name, char **ret_path, struct err *err) WARN_UNUSED;

/* Arguments of a command; the strings are borrowed. */
#define OCI_ARGS_MAX 20
struct oci_args {
    const char *items[OCI_ARGS_MAX + 1]; /* NULL-ended */
    size_t count;
};

/* Program, global options and command, e.g. "run". `mode` may be NULL: no options by mode. */
void oci_args_begin(struct oci_args *args, const char *runtime, const struct oci_mode *mode,
                    const char *state_dir, const char *command);
void oci_args_add(struct oci_args *args, const char *item);

/* The most informative line of a runtime's stderr, without log decoration, control characters or
 * invalid UTF-8. "" if there is none. */
void oci_runtime_words(struct view text, char out[OCI_WORDS_MAX]);

/* A hint about what a person can do; "" if unknown. */
void oci_runtime_hint(const char *words, const struct oci_host *host, char out[BACKEND_HINT_MAX]);

/* What is known against the version that the first line of `--version` tells, as a sentence; "" if
 * nothing is. True if it is certain: a distribution mends without changing the number. */
bool oci_runtime_flaws(const char *version, char out[OCI_WORDS_MAX]);

/* For a host without any runtime. */
#define OCI_HINT_INSTALL                                                                           \
    "install an OCI runtime: apt install runc (or crun); or name one with --runtime"

/* For one that has no time for a trial. */
#define OCI_HINT_BUSY "try again when this machine is less busy"

/* For one on which it stands still. */
#define OCI_HINT_HANGS "see what the runtime waits for, or name another one with --runtime"

/* For a full disk. */
#define OCI_HINT_SPACE "free some disk space where the runtime directory is"

#endif
