/*
 * Directories of this host in a sandbox of this backend: whether they are still there, and how the
 * runtime is started so that their files have the ids that code works with.
 *
 * Thread: any. Looks at the directories.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_SHARES_H
#define CLOISTER_WORKER_BACKEND_OCI_SHARES_H

#include "common/err.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/oci/host/host.h"

#define OCI_SHARES_ARGS_MAX 96
#define OCI_DEVICES_NAME    "devices" /* in the shared directory; stays empty on the host */

/* A command line that owns the texts it has made. */
struct oci_shares_command {
    const char *items[OCI_SHARES_ARGS_MAX + 1]; /* NULL-ended */
    char *texts[OCI_SHARES_ARGS_MAX];
    size_t count, text_count;
};

/* Whether the sandbox's shares can be shown. -ERR_CONFIG with a hint. */
int oci_shares_check(const struct backend_spec *spec, char hint[BACKEND_HINT_MAX],
                     struct err *err) WARN_UNUSED;

/* The mode of a sandbox with these shares, which may have to be a weaker one. */
struct oci_mode oci_shares_mode(const struct backend_spec *spec, const struct oci_mode *mode,
                                const struct oci_host *host);

/* The directory in which they are mounted while the runtime runs, made if it is missing; NULL if
 * the runtime binds the directories themselves. The caller frees it. */
int oci_shares_base(const struct backend_spec *spec, const struct oci_host *host, char **ret_base,
                    struct err *err) WARN_UNUSED;

/* Whether a sandbox of this mode has device files of its own by `cloister-agent devices`. Without a
 * user namespace the runtime makes them itself. */
bool oci_has_devices(const struct oci_mode *mode, const struct oci_host *host);

/* Turns the runtime's command line into one in which it has device files of the sandbox's own, if
 * the mode wants that and this host lets it. `argv` is borrowed as long as the result lives. */
void oci_devices_wrap(const struct backend_spec *spec, const struct oci_mode *mode,
                      const struct oci_host *host, const char *const *argv,
                      struct oci_shares_command *ret);

/* The same, and turns it into one that also mounts the shares, if that is needed. After an error
 * there is nothing to finish. */
int oci_shares_wrap(const struct backend_spec *spec, const struct oci_mode *mode,
                    const struct oci_host *host, const struct oci_box *box, const char *const *argv,
                    struct oci_shares_command *ret, struct err *err) WARN_UNUSED;
void oci_shares_command_finish(struct oci_shares_command *command);

/* The part of the runtime's words that says why a share could not be mounted; NULL if they are
 * about something else. */
const char *oci_shares_words(const char *words);

#endif
