/*
 * A program of the user's that fetches a token for a cluster, as kubeconfigs of cloud providers
 * name one (client.authentication.k8s.io).
 *
 * Thread: the loop thread. Nothing blocks. The callback never runs inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_PLUGIN_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/task.h"

#define KUBE_PLUGIN_TEXT_MAX (64u << 10) /* of what it prints */

struct kube_plugin_run;

/* `token` is valid during the callback; NULL if rc is -ERR_CONFIG, and then err says what the
 * program said or did. `expires_ms` is by the wall clock; UINT64_MAX: not known. */
typedef void (*kube_plugin_fn)(void *arg, int rc, const char *token, uint64_t expires_ms,
                               const struct err *err);

/* Runs the program of the cluster, which must have one and outlive the run. */
struct kube_plugin_run *kube_plugin_start(struct tasks *tasks, const struct kube_cluster *cluster,
                                          kube_plugin_fn done, void *arg);

/* The text that the program gets in KUBERNETES_EXEC_INFO. To be freed. */
char *kube_plugin_info(const struct kube_cluster *cluster);

/* Reads what such a program prints: an ExecCredential of that version, with a token. *ret_token is
 * to be freed. -ERR_CONFIG. */
int kube_plugin_read(struct view text, const char *version, char **ret_token,
                     uint64_t *ret_expires_ms, struct err *err) WARN_UNUSED;

#endif
