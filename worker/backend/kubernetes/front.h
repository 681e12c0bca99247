/*
 * Which of several servers a pod belongs to, and what they keep there for each other.
 *
 * Thread: any. Nothing blocks but reading a file of some bytes.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_FRONT_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_FRONT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

#define KUBE_LABEL_FRONT       "cloister.front"  /* the id of its server */
#define KUBE_LABEL_SPARE       "cloister.spare"  /* any server may claim it; what it is like */
#define KUBE_ANNOTATION_RECORD "cloister.record" /* base64 of what KEEP has brought */
#define KUBE_ANNOTATION_TURN   "cloister.turn"   /* how many servers have taken it over */

#define KUBE_TAKEN_BY_ANOTHER                                                                      \
    "another server of the cluster has taken it over, since this one had stopped to renew its "    \
    "lease"

/* The id of our server, from the instance's shared directory (may be NULL); NULL if it is alone. To
 * be freed. */
char *kube_front_own(const char *shared_dir);

/* Whether the pod belongs to another server than ours. One without a label belongs to whoever knows
 * its sandbox; `own` NULL: we are alone. */
bool kube_front_is_others(const cJSON *pod, const char *own);

/* What KEEP has left; false if there is nothing whole. */
bool kube_front_record(const cJSON *pod, struct buf *ret);

/* Whether KEEP has left an empty one: no client knows of the pod. */
bool kube_front_is_spare(const cJSON *pod);

/* The change of a pod that leaves it there, to be freed. `version` not NULL: it holds only
 * for the pod that has this version, and from then on others may claim the pod if `like` says what
 * it is like, and may not if that is NULL. */
int kube_front_keep(struct view record, const char *like, const char *version, char **ret_change,
                    struct err *err) WARN_UNUSED;

#endif
