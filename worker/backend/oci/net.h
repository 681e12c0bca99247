/*
 * The network of a sandbox: slirp4netns, which joins the sandbox's own network namespace to what
 * this host reaches, as a process of ours that needs no privileges. It ends with the sandbox.
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

/* rc as usual; words are the helper's own, in err. */
typedef void (*oci_net_fn)(void *arg, int rc, const struct err *err, const char *hint);

/* Is there what a network takes on this host? *ret_path (free) is the program. -ERR_NETWORK with a
 * hint. */
int oci_net_find(char **ret_path, char hint[BACKEND_HINT_MAX], struct err *err) WARN_UNUSED;

/* What /etc/resolv.conf of a sandbox with network says, so that whomever this host asks is asked.
 */
const char *oci_net_resolv_conf(void);

/* A pipe without content: the helper holds the reading end, the first process of the sandbox the
 * other, so the kernel tells the one of the end of the other, whoever else has died by then. */
int oci_net_tether(int ret_ends[2], struct err *err) WARN_UNUSED;

/* Starts the helper (path from oci_net_find()) for the sandbox whose first process is `pid`, and
 * calls fn once its network is up. Takes the reading end of the tether over. The helper is written
 * down in `dir` and lives on when the tasks are closed. The handle is valid until fn is called. */
struct oci_net *oci_net_start(struct tasks *tasks, const char *path, const char *dir, pid_t pid,
                              int tether, oci_net_fn fn, void *arg);

/* Ends it now; fn follows. */
void oci_net_cancel(struct oci_net *n);

/* Descriptor of the process that `dir` tells of (the caller closes it), after it was told to end;
 * -1 if there is none. */
int oci_net_kill(const char *dir);

#endif
