/*
 * What the state of a pod means for its sandbox, in the words of scheduler and kubelet.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_STATE_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_STATE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"

enum kube_state_kind {
    KUBE_STATE_WAITING,  /* it may come to life, or its node does not answer */
    KUBE_STATE_HOMELESS, /* no node has room for it now */
    KUBE_STATE_HOPELESS, /* it will not come to life: `err` says why */
    KUBE_STATE_RUNNING,
    KUBE_STATE_ENDED, /* it does not run any more, or is being removed: `err` says why */
};

struct kube_state {
    enum kube_state_kind kind;
    bool was_oom;    /* its container was killed for memory */
    char words[200]; /* what is waited for; "" if nothing is known */
    struct err err;  /* ERR_IMAGE, ERR_ENGINE, ERR_GONE */
};

/* Text of the cluster, or NULL, on one line and cut where `ret` ends: at a character. */
void kube_words(const char *text, char *ret, size_t size);

/* `pod` is an answer of the API server. -ERR_PROTOCOL if it is no pod. */
int kube_state_read(const cJSON *pod, struct kube_state *ret, struct err *err) WARN_UNUSED;

/* Whether nothing of it runs any more, as its node says. */
bool kube_state_is_over(const cJSON *pod);

/* The pod's uid; NULL if there is none. Borrowed. */
const char *kube_state_uid(const cJSON *pod);

/* Whether its label says that it is the pod of this sandbox. */
bool kube_state_is_of(const cJSON *pod, const char *sandbox);

#endif
