/*
 * What a backend's probe has found, as the message PROBED.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_PROBED_H
#define CLOISTER_WORKER_PROBED_H

#include "proto/msg.h"
#include "worker/backend/backend.h"

struct probed {
    struct msg m; /* without its seq */
    struct view unapplied[BACKEND_UNAPPLIED_MAX], remedies[BACKEND_UNAPPLIED_MAX];
    struct view_list place; /* owned, as are the items of `tried` */
    struct view tried[BACKEND_TRIED_MAX];
};

/* Borrows the texts of `probe`. A place that cannot be sent makes it unusable, with the reason. */
void probed_init(struct probed *p, const struct backend_probe *probe);
void probed_finish(struct probed *p);

#endif
