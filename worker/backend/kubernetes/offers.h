/*
 * Pods that other servers have made for nobody, and that any server may claim: which there are.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_OFFERS_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_OFFERS_H

#include "worker/backend/backend.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/task.h"

struct kube_offers;

/* Those that are like this (claim.h), of servers other than `own`. Freed by kube_offers_free() when
 * the tasks are closed. */
struct kube_offers *kube_offers_create(struct tasks *tasks, struct kube_api *api, const char *like,
                                       const char *own);
void kube_offers_free(struct kube_offers *o); /* NULL is fine */

/* One at a time: calls back as soon as they are others than it was last told, at the latest after
 * wait_ms; never inside this call. */
void kube_offers_ask(struct kube_offers *o, uint64_t wait_ms, backend_offers_fn done, void *arg);

#endif
