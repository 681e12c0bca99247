/*
 * Nobody else ends a sandbox whose server and worker are gone: a process in it cannot. So it gets
 * little time, and its worker asks for more while it lives. A third of the time is left for the
 * failures of a service, the death of a worker and the start of the next one, and for the grace
 * period of a dead server.
 *
 * A sandbox that is gone, or is paused, cannot be kept alive. So the lease rests when the service
 * says so, until a stream to the sandbox opens, or it is found (seek.c).
 */
#include "worker/backend/e2b/lease.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/log.h"
#include "worker/backend/e2b/api.h"

#define TTL_MIN_S 300
#define TTL_MAX_S 3600 /* no plan of the service allows less */
#define PARTS     3
#define AGAIN_MS  10000 /* after a failure */

struct e2b_lease {
    struct e2b_host *api;
    char *id;
    uint64_t ttl_s;
    bool resting; /* nothing is under way */
};

uint64_t e2b_lease_ttl(uint64_t grace_ms)
{
    uint64_t wanted = TTL_MIN_S + grace_ms / 1000 * 2;
    return wanted < TTL_MAX_S ? wanted : TTL_MAX_S;
}

static void extend_lease(void *arg);

static void on_extended(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_lease *l = arg;
    (void)reply;
    if (rc == -ERR_GONE) {
        log_debug("sandbox %s is not kept alive any more: %s", l->id, err->text);
        l->resting = true;
        return;
    }
    if (rc < 0) {
        log_debug("the life of sandbox %s was not extended: %s", l->id, err->text);
    }
    task_later(e2b_host_tasks(l->api), rc < 0 ? AGAIN_MS : l->ttl_s * 1000 / PARTS, extend_lease,
               l);
}

static void extend_lease(void *arg)
{
    struct e2b_lease *l = arg;
    e2b_api_keep(l->api, l->id, l->ttl_s, on_extended, l);
}

struct e2b_lease *e2b_lease_start(struct e2b_host *api, const char *id, uint64_t ttl_s)
{
    struct e2b_lease *l = alloc_one(struct e2b_lease);
    l->api = api;
    l->id = alloc_strdup(id);
    l->ttl_s = ttl_s;
    extend_lease(l);
    return l;
}

void e2b_lease_go_on(struct e2b_lease *l)
{
    if (l != NULL && l->resting) {
        l->resting = false;
        extend_lease(l);
    }
}

void e2b_lease_free(struct e2b_lease *l)
{
    if (l != NULL) {
        free(l->id);
        free(l);
    }
}
