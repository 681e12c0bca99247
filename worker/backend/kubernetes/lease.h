/*
 * The Lease by which a server says that it lives, or that it has ended: its body, and how that of
 * another one is read.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_LEASE_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_LEASE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/kubernetes/api.h"

/* Of the server of this id; "" for the collection. To be freed. */
char *kube_lease_path(const struct kube_api *api, const char *id);

/* The change that renews the Lease of a server, or with `is_new` all of a new one. To be freed. */
char *kube_lease_renew(const char *id, uint64_t lease_ms, bool is_new);

/* The change that gives it up, which holds only for the resourceVersion that was seen. To be freed.
 */
char *kube_lease_give_up(const char *version);

bool kube_lease_is_given_up(const cJSON *lease);

/* How long it lasts; one that does not say it well lasts long. */
uint64_t kube_lease_time_ms(const cJSON *lease);

#endif
