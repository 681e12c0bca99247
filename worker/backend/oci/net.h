/*
 * The network of a sandbox: slirp4netns, an unprivileged process that connects the sandbox's
 * network namespace to what this host reaches. It exits with the sandbox.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_NET_H
#define CLOISTER_WORKER_BACKEND_OCI_NET_H

#include <sys/types.h>

#include "common/err.h"
#include "worker/backend/backend.h"
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

/* Starts the helper (path from oci_net_find()) for the sandbox whose first process is `pid`, and
 * calls fn once its network is up. Takes the reading end of the tether over. The helper is written
 * down in `dir` and lives on when the tasks are closed. The handle is valid until fn is called. */
struct oci_net *oci_net_start(struct tasks *tasks, const char *path, const char *dir, pid_t pid,
                              int tether, oci_net_fn fn, void *arg);

/* Kills the helper; fn follows. */
void oci_net_cancel(struct oci_net *n);

/* Kills the helper that `dir` records. Returns its pidfd, which the caller closes; -1 if there is
 * none. */
int oci_net_kill(const char *dir);

#endif
