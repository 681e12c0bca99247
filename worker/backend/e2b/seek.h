/*
 * Finding a sandbox that exists, and waking it if it is paused.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_SEEK_H
#define CLOISTER_WORKER_BACKEND_E2B_SEEK_H

#include "common/err.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/e2b/host.h"

struct e2b_seek;

/* The box is borrowed, NULL if rc < 0; `paused` says that it was. -ERR_GONE only if the service
 * says that there is no such sandbox; the text begins with BACKEND_ENDED then. The object is gone.
 */
typedef void (*e2b_seek_fn)(void *arg, int rc, const struct e2b_box *box, const struct err *err);

/* By the id of a sandbox of ours. */
struct e2b_seek *e2b_seek_sandbox(struct e2b_host *api, const char *sandbox, uint64_t ttl_s,
                                  e2b_seek_fn done, void *arg);

/* By the service's own id. */
struct e2b_seek *e2b_seek_box(struct e2b_host *api, const char *id, uint64_t ttl_s,
                              e2b_seek_fn done, void *arg);

/* No callback follows. NULL is fine. Only after the tasks are closed. */
void e2b_seek_free(struct e2b_seek *s);

#endif
