/*
 * The network of a sandbox: slirp4netns, an unprivileged process that connects the sandbox's
 * network namespace to what this host reaches. It exits with the sandbox.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_NET_H
#define CLOISTER_WORKER_BACKEND_OCI_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host/cgroup.h"
#include "worker/backend/task.h"

#define OCI_NET_RECORD "oci.net" /* in the sandbox's directory: the process */

struct oci_net;

/* rc is 0 or -ERR_*; err quotes the helper. */
typedef void (*oci_net_fn)(void *arg, int rc, const struct err *err, const char *hint);

/* Checks that this host can give sandboxes network. *ret_path is the program (the caller frees it).
 * -ERR_NETWORK with a hint. */
int oci_net_find(char **ret_path, char hint[BACKEND_HINT_MAX], struct err *err) WARN_UNUSED;

/* The /etc/resolv.conf of a sandbox with network, by which it uses this host's name servers.
 * Constant.
 */
const char *oci_net_resolv_conf(void);

/* Makes a pipe that carries no data: the helper holds the reading end and the first process of the
 * sandbox the other, so the kernel tells the helper when that process ends. The caller owns both
 * ends. */
int oci_net_tether(int ret_ends[2], struct err *err) WARN_UNUSED;

struct oci_net_options {
    const char *path;       /* of the helper, from oci_net_find() */
    const char *dir;        /* of the sandbox, where the helper is written down */
    const char *agent_path; /* the agent's program, which makes the helper nobody on this host;
                               NULL: the helper is as whom we run */
    pid_t pid;              /* first process of the sandbox */
    int tether;             /* the reading end, which is taken over */
    uint64_t most_ms;       /* limit by the clock, however long it waits for a CPU or a disk */
};

/* Starts the helper and calls fn once its network is up. It lives on when the tasks are closed. The
 * handle is valid until fn is called. */
struct oci_net *oci_net_start(struct tasks *tasks, const struct oci_net_options *options,
                              oci_net_fn fn, void *arg);

/* The helper's process; 0 if it could not be started. */
pid_t oci_net_pid(const struct oci_net *n);

/* Adds a note if what the helper of this sandbox uses does not count for it although the sandbox
 * has limits. */
void oci_net_note(const char *dir, const struct oci_mode *mode, const struct oci_cgroup_host *host,
                  const char *container, struct oci_notes *notes);

/* Whether a process without rights on this host could be the helper: the device is open to all. */
bool oci_net_is_for_all(void);

/* Kills the helper; fn follows. */
void oci_net_cancel(struct oci_net *n);

/* Kills the helper that `dir` records. Returns its pidfd, which the caller closes; -1 if there is
 * none. */
int oci_net_kill(const char *dir);

#endif
