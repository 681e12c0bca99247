/*
 * Removing a sandbox takes a process, some descriptors, an engine that answers and a writable disk,
 * and the lack of one of them may have ended the sandbox. Such a shortage passes. Nobody waits for
 * a removal, so retries are far apart (backoff) and few at a time.
 *
 * The list is bounded, since each sandbox that is given up adds an entry; beyond the limit,
 * directories stay for the next server.
 */
#include "supervisor/fleet/state/removals.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/disk.h"
#include "supervisor/fleet/workers/oneshot.h"

#define AT_ONCE        2
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS  30000

struct removal {
    TAILQ_ENTRY(removal) node;
    struct removals *all;
    char *id;
    char *dir;
    bool swept; /* only the directory is left */
    char *backend, *runtime;
    struct view_list place;
    uint64_t generation;
    uint64_t due_ms;
    uint64_t pause_ms;
    bool running;
};

struct removals {
    struct fleet_host *host;
    TAILQ_HEAD(, removal) entries;
    size_t count;
    size_t running;
    uv_timer_t timer;
};

static void plan_removals(struct removals *all);

static void free_removal(struct removal *l)
{
    TAILQ_REMOVE(&l->all->entries, l, node);
    l->all->count--;
    free(l->id);
    free(l->dir);
    free(l->backend);
    alloc_listfree(&l->place);
    free(l->runtime);
    free(l);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_removal_timer_closed(uv_handle_t *handle)
{
    struct removals *all = handle->data;
    struct fleet_host *host = all->host;
    free(all);
    fleet_host_release(host);
}

static void close_if_done(struct removals *all)
{
    if (all->running > 0 || all->host->removals != all) {
        return;
    }
    all->host->removals = NULL;
    while (!TAILQ_EMPTY(&all->entries)) {
        struct removal *l = TAILQ_FIRST(&all->entries);
        log_error("left for the next server to remove dir=%s", l->dir);
        free_removal(l);
    }
    uv_close((uv_handle_t *)&all->timer, on_removal_timer_closed);
}

/* ---- one attempt ---- */

static void end_attempt(struct removal *l, bool removed)
{
    struct removals *all = l->all;
    all->running--;
    l->running = false;
    l->due_ms = uv_now(all->host->loop) + l->pause_ms;
    l->pause_ms = l->pause_ms * 2 < RETRY_LAST_MS ? l->pause_ms * 2 : RETRY_LAST_MS;
    if (removed) {
        free_removal(l);
    } else if (all->host->stopping) {
        l->due_ms = UINT64_MAX; /* this was the last attempt */
    }
    plan_removals(all);
}

static void on_removal_removed(void *arg, int rc, const struct err *err)
{
    struct removal *l = arg;
    if (rc < 0) {
        log_warn("removal: directory stays for now: %s sandbox=%s", err->text, l->id);
    }
    end_attempt(l, rc == 0);
}

static void on_removal_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                             const char *hint)
{
    struct removal *l = arg;
    (void)reply, (void)hint;
    if (rc < 0) {
        log_warn("removal: stays for now: %s sandbox=%s", err->text, l->id);
        end_attempt(l, false);
        return;
    }
    log_info("removal: done sandbox=%s", l->id);
    l->swept = true;
    disk_remove(l->all->host, l->dir, on_removal_removed, l);
}

static void attempt(struct removal *l)
{
    struct fleet_host *host = l->all->host;
    l->running = true;
    l->all->running++;
    if (l->swept) {
        disk_remove(host, l->dir, on_removal_removed, l);
        return;
    }
    struct worker_args args = {
        .sandbox = l->id,
        .dir = l->dir,
        .shared_dir = host->instance->shared,
        .generation = l->generation++,
    };
    const struct oneshot_target target = {l->backend, l->place, l->runtime};
    struct err err = ERR_INIT;
    int rc = instance_restore(host->instance, l->dir, &err);
    if (rc == 0) {
        rc = worker_oneshot_start(host, &args, MSG_SWEEP, &target, on_removal_swept, l, &err);
    }
    if (rc < 0) {
        log_warn("removal: stays for now: %s sandbox=%s", err.text, l->id);
        end_attempt(l, false);
    }
}

/* Starts the timer for the next attempt. Attempts start from the timer only, so none starts inside
 * another one's end. */
static void on_removal_timer(uv_timer_t *timer)
{
    struct removals *all = timer->data;
    struct removal *l;
    uint64_t now_ms = uv_now(timer->loop);
    TAILQ_FOREACH(l, &all->entries, node)
    {
        if (!l->running && l->due_ms <= now_ms && all->running < AT_ONCE && !all->host->forcing) {
            attempt(l);
            break; /* the list may have changed; plan_removals() handles the rest */
        }
    }
    plan_removals(all);
}

static void plan_removals(struct removals *all)
{
    const struct removal *l;
    uint64_t first_ms = UINT64_MAX;
    uint64_t now_ms = uv_now(all->host->loop);
    TAILQ_FOREACH(l, &all->entries, node)
    {
        first_ms = !l->running && l->due_ms < first_ms ? l->due_ms : first_ms;
    }
    uv_timer_stop(&all->timer);
    bool over = all->host->forcing || first_ms == UINT64_MAX;
    if (!over && all->running < AT_ONCE) {
        uv_timer_start(&all->timer, on_removal_timer, first_ms > now_ms ? first_ms - now_ms : 0, 0);
    } else if (over && all->host->stopping) {
        close_if_done(all);
    }
}

/* ---- entries ---- */

static struct removals *open_list(struct fleet_host *host)
{
    struct removals *all = alloc_one(struct removals);
    all->host = host;
    TAILQ_INIT(&all->entries);
    uv_timer_init(host->loop, &all->timer);
    all->timer.data = all;
    fleet_host_hold(host);
    return all;
}

void removals_add(struct fleet_host *host, const char *id, const char *dir,
                  const struct oneshot_target *target, uint64_t generation, uint64_t delay_ms)
{
    if (host->removals == NULL) {
        host->removals = open_list(host);
    }
    struct removals *all = host->removals;
    if (all->count >= INSTANCE_SANDBOXES_MAX || host->forcing) {
        log_error("left for the next server to remove dir=%s", dir);
        plan_removals(all);
        return;
    }
    struct removal *l = alloc_one(struct removal);
    l->all = all;
    l->id = alloc_strdup(id);
    l->dir = alloc_strdup(dir);
    l->swept = target == NULL;
    if (target != NULL) {
        l->backend = alloc_strdup(target->backend);
        l->place = alloc_listdup(target->place);
        l->runtime = alloc_strdup(target->runtime);
    }
    l->generation = generation;
    l->pause_ms = RETRY_FIRST_MS;
    l->due_ms = uv_now(host->loop) + (host->stopping ? 0 : delay_ms);
    TAILQ_INSERT_TAIL(&all->entries, l, node);
    all->count++;
    plan_removals(all);
}

void removals_stop(struct fleet_host *host)
{
    struct removals *all = host->removals;
    if (all == NULL) {
        return;
    }
    struct removal *l;
    TAILQ_FOREACH(l, &all->entries, node)
    {
        l->due_ms = uv_now(host->loop);
    }
    plan_removals(all);
}
