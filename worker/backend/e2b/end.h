/*
 * Removing a sandbox, and those that dead servers left.
 *
 * Thread: the loop thread. Nothing blocks but looks at small files of this host. Callbacks never
 * run inside the call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_END_H
#define CLOISTER_WORKER_BACKEND_E2B_END_H

#include "common/err.h"
#include "worker/backend/e2b/host.h"

struct e2b_end;

/* rc < 0: the first thing that failed. */
typedef void (*e2b_end_fn)(void *arg, int rc, const struct err *err);

/* Removes whatever there is of this sandbox. An absent one is a success. The object is gone at the
 * callback. */
struct e2b_end *e2b_end_start(struct e2b_host *api, const char *sandbox, e2b_end_fn done,
                              void *arg);

/* Removes what dead servers of this host left, some of it if there is much. Fails only if the
 * service cannot be asked. */
struct e2b_end *e2b_end_sweep(struct e2b_host *api, e2b_end_fn done, void *arg);

/* No callback follows. NULL is fine. Only after the tasks are closed. */
void e2b_end_free(struct e2b_end *e);

#endif
