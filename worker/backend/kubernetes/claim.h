/*
 * Who gets a pod that was made for nobody: its own server, or another one. Both sides.
 *
 * Thread: the loop thread. Nothing blocks but reading the agent.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_CLAIM_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_CLAIM_H

#include <cjson/cJSON.h>

#include "common/view.h"
#include "worker/backend/backend.h"
#include "worker/backend/kubernetes/api.h"

/* What a pod of this spec is like, with the agent that is installed here; to be freed. */
int kube_claim_like(const struct backend_spec *spec, char **ret, struct err *err) WARN_UNUSED;

/* ---- its own server ---- */

struct kube_keep;

/* Of one sandbox, whose pod this is; `spec` must stay valid. */
struct kube_keep *kube_keep_create(struct kube_api *api, const struct backend_spec *spec,
                                   const char *pod, const char *own);
void kube_keep_free(struct kube_keep *k); /* NULL is fine; only after the api's tasks are closed */

/* Leaves the record there. An empty one offers the pod to other servers. The next one takes that
 * back, which fails if another server has it by now: the reply is the pod then, as that server has
 * made it, with a rc of 0. One at a time; no callback follows if this fails. */
int kube_keep_put(struct kube_keep *k, struct view record, uint64_t call_ms, kube_reply_fn done,
                  void *arg, struct err *err) WARN_UNUSED;

/* The pod has been seen like this: spares a request that would fail. */
void kube_keep_saw(struct kube_keep *k, const cJSON *pod);

/* ---- another server ---- */

struct kube_claim;

/* Makes the pod of spec->id ours, if it is offered and like this spec: -ERR_BUSY if it is not, or
 * somebody was quicker. The reply is the pod as it is then. `spec` must stay valid. */
struct kube_claim *kube_claim_start(struct kube_api *api, const struct backend_spec *spec,
                                    const char *pod, const char *own, kube_reply_fn done,
                                    void *arg);
void kube_claim_free(struct kube_claim *c); /* as kube_keep_free() */

#endif
