/*
 * Removing the pod of a sandbox, and pods that dead servers left.
 *
 * Thread: the loop thread. Nothing blocks but looks at small files of this host. Callbacks never
 * run inside the call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_END_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_END_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/task.h"

struct kube_end;

typedef void (*kube_end_fn)(void *arg, int rc, const struct err *err);

/* Removes the pod if it is that sandbox's and not another server's than `front` (NULL: we are
 * alone), and waits until it is gone. An absent one is a success. The object is gone at the
 * callback. */
struct kube_end *kube_end_start(struct tasks *tasks, struct kube_api *api, const char *sandbox,
                                const char *pod, const char *front, kube_end_fn done, void *arg);

/* No callback follows. NULL is fine. Only after the tasks are closed. */
void kube_end_free(struct kube_end *e);

/* Whether a sweep removes this pod: its server is provably dead, and it does not run. */
bool kube_end_is_left(const cJSON *pod);

struct kube_sweep;

/* Removes them, some of them if there are many; failures are logged only. */
struct kube_sweep *kube_sweep_start(struct kube_api *api, void (*done)(void *arg), void *arg);
void kube_sweep_free(struct kube_sweep *s);

#endif
