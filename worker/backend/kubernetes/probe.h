/*
 * Whether a cluster can be used: it answers, and we have every right that sandboxes need.
 *
 * Thread: the loop thread. Nothing blocks but reading configuration and keys. Callbacks never run
 * inside the call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_PROBE_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_PROBE_H

#include <stddef.h>

#include "worker/backend/backend.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/task.h"

struct kube_probe;

/* Borrowed during the call. */
typedef void (*kube_probe_fn)(void *arg, const struct backend_probe *probe);

/* Asks the cluster behind `api`, and sweeps what dead servers left. `api` may be NULL: then `why`
 * says why there is none. The object is gone at the callback. */
struct kube_probe *kube_probe_start(struct tasks *tasks, struct kube_api *api,
                                    const struct err *why, const char *runtime, kube_probe_fn done,
                                    void *arg);

/* No callback follows. NULL is fine. Only after the tasks are closed. */
void kube_probe_free(struct kube_probe *p);

/* What getenv() says; for kube_cluster_find(). */
const char *kube_probe_getenv(void *arg, const char *name);

/* The number at the beginning of a minor version such as "20" or "34+"; 0 if there is none. */
unsigned kube_probe_minor(const char *text);

/* One right that is asked about. */
struct kube_right {
    const char *verb, *resource, *subresource; /* subresource "": none */
    unsigned minor;                            /* needed since this version */
    const char *group;                         /* of the API; NULL: the first one */
    bool is_for_several; /* servers that take over from each other; one alone does without */
};
const struct kube_right *kube_probe_rights(size_t *ret_count);

#endif
