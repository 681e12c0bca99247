/*
 * The control plane: making, finding, waking and removing sandboxes.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_API_H
#define CLOISTER_WORKER_BACKEND_E2B_API_H

#include "worker/backend/backend.h"
#include "worker/backend/e2b/host.h"
#include "worker/backend/e2b/service.h"

#define E2B_HOST_HASH_SIZE 17

int e2b_api_open(struct tasks *tasks, const struct e2b_service *service, struct e2b_host **ret,
                 struct err *err) WARN_UNUSED;

/* Makes a sandbox of this spec that lives for `ttl_s` seconds. Not to be repeated without looking
 * for it first. */
struct e2b_call *e2b_api_make(struct e2b_host *api, const struct backend_spec *spec, uint64_t ttl_s,
                              e2b_reply_fn done, void *arg);

/* Lists sandboxes, also paused ones, whose metadata has this pair of plain words. `page` as an
 * answer named it, empty for the first. */
struct e2b_call *e2b_api_list(struct e2b_host *api, const char *name, const char *value,
                              struct view page, e2b_reply_fn done, void *arg);

struct e2b_call *e2b_api_get(struct e2b_host *api, const char *id, uint64_t total_ms,
                             e2b_reply_fn done, void *arg);
struct e2b_call *e2b_api_remove(struct e2b_host *api, const char *id, e2b_reply_fn done, void *arg);

/* It ends in ttl_s seconds from now, unless this is called again. */
struct e2b_call *e2b_api_keep(struct e2b_host *api, const char *id, uint64_t ttl_s,
                              e2b_reply_fn done, void *arg);

/* Resumes one that was paused. */
struct e2b_call *e2b_api_wake(struct e2b_host *api, const char *id, uint64_t ttl_s,
                              e2b_reply_fn done, void *arg);

/* Whose host a sandbox is, as E2B_META_HOST has it; "" if this host has no identity. */
void e2b_api_this_host(char ret[E2B_HOST_HASH_SIZE]);

#endif
