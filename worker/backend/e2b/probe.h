/*
 * Whether the service can be used: it answers, and takes the key.
 *
 * Thread: the loop thread. Nothing blocks but looks at small files of this host. Callbacks never
 * run inside the call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_PROBE_H
#define CLOISTER_WORKER_BACKEND_E2B_PROBE_H

#include "worker/backend/backend.h"
#include "worker/backend/e2b/host.h"
#include "worker/backend/e2b/service.h"

struct e2b_probe;

/* Borrowed during the call. */
typedef void (*e2b_probe_fn)(void *arg, const struct backend_probe *probe);

/* Asks the service, and removes what dead servers left there. `api` may be NULL: then `why` says
 * why there is none. The object is gone at the callback. */
struct e2b_probe *e2b_probe_start(struct tasks *tasks, struct e2b_host *api,
                                  const struct e2b_service *service, const struct err *why,
                                  e2b_probe_fn done, void *arg);

/* No callback follows. NULL is fine. Only after the tasks are closed. */
void e2b_probe_free(struct e2b_probe *p);

#endif
