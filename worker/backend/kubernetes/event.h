/*
 * One event of a watch: a line of JSON that says what has happened to a pod.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_EVENT_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_EVENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/view.h"

#define KUBE_EVENT_MAX_BYTES (4u << 20) /* of a line; a pod has at most 1.5 MiB */
#define KUBE_VERSION_SIZE    64         /* of the name of a moment, which is the server's choice */

enum kube_event_kind {
    KUBE_EVENT_POD,      /* it is new, or has changed: `pod` is what it is now */
    KUBE_EVENT_DELETED,  /* `pod` is what it was at its end */
    KUBE_EVENT_BOOKMARK, /* nothing has happened until `version` */
    KUBE_EVENT_EXPIRED,  /* the server has forgotten what came after the moment that was named */
    KUBE_EVENT_ERROR,    /* `err` has the server's words */
};

struct kube_event {
    enum kube_event_kind kind;
    cJSON *whole;
    const cJSON *pod;                /* NULL with BOOKMARK, EXPIRED and ERROR */
    char version[KUBE_VERSION_SIZE]; /* "" if the server has named none */
    struct err err;
};

/* -ERR_PROTOCOL if the line is no event; then there is nothing to finish. */
int kube_event_read(struct view line, struct kube_event *ret, struct err *err) WARN_UNUSED;
void kube_event_finish(struct kube_event *event);

/* The moment at which an object was as it is; "" if it says none, or a longer one than any server
 * has. */
void kube_event_version(const cJSON *object, char ret[KUBE_VERSION_SIZE]);

#endif
