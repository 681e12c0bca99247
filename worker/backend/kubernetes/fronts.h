/*
 * The rounds of a server among others of one namespace: its lease, theirs, and the pods of those
 * that are gone.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_FRONTS_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_FRONTS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/backend.h"
#include "worker/backend/kubernetes/api.h"

#define KUBE_GENERATIONS 1000000 /* workers that a sandbox may have at one server */

struct kube_fronts;

/* `spec` names the directories of this server; -ERR_CONFIG if it has no id. Freed by
 * kube_fronts_free() when the tasks are closed. */
int kube_fronts_create(struct tasks *tasks, struct kube_api *api, const struct backend_spec *spec,
                       struct kube_fronts **ret, struct err *err) WARN_UNUSED;
void kube_fronts_free(struct kube_fronts *f);

/* One at a time. It begins after wait_ms, or as soon as another server gives its lease up. `done`
 * is called once, later. */
void kube_fronts_round(struct kube_fronts *f, uint64_t lease_ms, uint64_t wait_ms,
                       backend_front_fn done, void *arg);

/* Gives our lease up, after the round that runs; one that waits is ended. The last call. */
void kube_fronts_leave(struct kube_fronts *f, backend_done_fn left, void *arg);

/* The change that makes a pod ours, to be freed; NULL if it is no pod of a sandbox. `dir` has the
 * directories of our sandboxes. */
char *kube_fronts_claim(const cJSON *pod, const char *own, const char *dir,
                        uint64_t *ret_generation);

#endif
