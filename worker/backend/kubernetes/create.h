/*
 * Creating a pod, up to the first stream to its agent; and removing one, or all that dead servers
 * left.
 *
 * Thread: the loop thread. Nothing blocks but reading the agent. Callbacks never run inside the
 * call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_CREATE_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_CREATE_H

#include <stdbool.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/task.h"

struct kube_create;

/* fd is the first stream, owned by the receiver; -1 when rc < 0, and nothing is left behind then as
 * far as the API server could be reached. The object is gone at the callback. */
typedef void (*kube_create_fn)(void *arg, int rc, int fd, const struct err *err, const char *hint);

/* `spec` must stay valid until the end. */
struct kube_create *kube_create_start(struct tasks *tasks, struct kube_api *api,
                                      const struct backend_spec *spec, kube_create_fn done,
                                      void *arg);

/* Ends it early: `done` follows with -ERR_SHUTTING_DOWN when all is removed. */
void kube_create_cancel(struct kube_create *c);

/* No callback follows. NULL is fine. Only after the tasks are closed. */
void kube_create_free(struct kube_create *c);

#endif
