/*
 * What goes on with one pod, or with all objects of a list, as it happens: a watch of the API
 * server, which is begun anew when it ends, and from which nothing is missed that matters.
 *
 * Thread: the loop thread. Nothing blocks. The callback never runs inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_WATCH_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_WATCH_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/task.h"

struct kube_watch;

/* Borrowed during the callback. */
struct kube_seen {
    const cJSON *pod; /* as it is now, or another object; NULL: nothing new is known of it */
    bool is_gone;     /* the pod does not exist any more; `pod` is what it was, if that is known */
    bool is_anew; /* the server was asked for what there is, since events may have been missed: of a
                   * list `pod` is any one, then */
    const struct err *err; /* the server cannot be asked now, but will be again; NULL: it answers */
};
typedef void (*kube_seen_fn)(void *arg, const struct kube_seen *seen);

/* For a pod that is being made, which is looked after closely, and for one that lives. */
enum kube_watch_kind { KUBE_WATCH_BRIEF, KUBE_WATCH_LASTING };

/* Goes on from what `pod`, an answer of the server, is; NULL: begins with what there is. A brief
 * one also calls back, with nothing, every KUBE_WATCH_TICK_MS. */
#define KUBE_WATCH_TICK_MS 300
struct kube_watch *kube_watch_start(struct tasks *tasks, struct kube_api *api, const char *name,
                                    enum kube_watch_kind kind, const cJSON *pod, kube_seen_fn seen,
                                    void *arg);

/* All objects of a list, which is a path with a query, for as long as they live. `what` is for the
 * log. */
struct kube_watch *kube_watch_list(struct tasks *tasks, struct kube_api *api, const char *list,
                                   const char *what, kube_seen_fn seen, void *arg);

/* No callback follows, also when it is called from inside one. NULL is fine. Not after the tasks
 * are closed, which does the same. */
void kube_watch_stop(struct kube_watch *w);

#endif
