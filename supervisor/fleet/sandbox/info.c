/*
 * Descriptions of a sandbox for clients. A snapshot borrows everything from the sandbox and is
 * valid for one callback. Usage figures are requested from the worker each time and not cached; if
 * the worker cannot answer soon, the snapshot has no figures.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define STATUS_MS 2000

static void free_list(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

static void take_list(struct text_list *list, const struct view_list *from)
{
    free_list(list);
    list->items = alloc_array(from->count + 1, sizeof(list->items[0]));
    for (size_t i = 0; i < from->count; i++) {
        list->items[i] = alloc_viewdup(from->items[i]);
    }
    list->count = from->count;
}

static void take_text(char **text, struct view from)
{
    free(*text);
    *text = alloc_viewdup(from);
}

void sandbox_take_opened(struct sandbox *s, const struct msg_opened *opened)
{
    take_text(&s->image, opened->image);
    take_text(&s->workspace, opened->workspace);
    take_list(&s->languages, &opened->languages);
    take_list(&s->unapplied, &opened->unapplied);
    /* Backend and runtime stay what we requested, as the record has them. */
}

struct fleet_info sandbox_info(const struct sandbox *s)
{
    uint64_t wall_ms = clock_wall_ms();
    enum sandbox_state state = sandbox_state(s);
    struct fleet_info info = {
        .id = s->id,
        .owner = s->owner,
        .name = s->name,
        .backend = s->backend != NULL ? s->backend : "",
        .runtime = s->runtime != NULL ? s->runtime : "",
        .image = s->image,
        .state = sm_name(&s->sm),
        .reason = state == SANDBOX_FAILED ? s->reason : "",
        .workspace = s->workspace,
        .shares = s->spec.shares,
        .network = s->spec.network == NET_FULL ? "full" : "none",
        .languages = (const char *const *)s->languages.items,
        .language_count = s->languages.count,
        .unapplied = (const char *const *)s->unapplied.items,
        .unapplied_count = s->unapplied.count,
        .memory_mb = s->spec.memory_bytes >> 20,
        .pids = s->spec.pids,
        .disk_mb = s->spec.disk_bytes >> 20,
        .files = s->spec.files,
        .timeout_ms = s->timeout_ms,
        .ttl_ms = s->clock.ttl_ms,
        .cpus = (double)s->spec.cpu_milli / 1000.0,
        .created_wall_ms = s->clock.created_wall_ms,
        .expires_wall_ms = wall_ms + sandbox_time_left_ms(s),
        .lifetime_ms = s->clock.lifetime_ms,
        .ends_wall_ms = wall_ms + sandbox_life_left_ms(s),
        .worker_pid = s->link != NULL ? worker_link_pid(s->link) : 0,
        .worker_restarts = s->generation > 0 ? s->generation - 1 : 0,
        .executions = s->executions,
    };
    return info;
}

struct status_wait {
    TAILQ_ENTRY(status_wait) node; /* of the waiting requests during a takeover */
    struct sandbox *sandbox;       /* outlives its link, and so this request */
    uint64_t since_ms;
    fleet_info_fn done;
    void *arg;
};

static void on_status_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                               const char *hint)
{
    struct status_wait *wait = arg;
    (void)err, (void)hint;
    struct fleet_info info = sandbox_info(wait->sandbox);
    if (rc == 0) {
        info.has_usage = true;
        info.memory_bytes = reply->status_ok.memory_bytes;
        info.cpu_us = reply->status_ok.cpu_us;
        info.processes = reply->status_ok.pids;
        info.disk_bytes = reply->status_ok.disk_bytes;
    }
    wait->done(wait->arg, 0, &info, NULL, "");
    free(wait);
}

static void ask_status(struct status_wait *wait)
{
    struct sandbox *s = wait->sandbox;
    struct msg m = {.type = MSG_STATUS};
    m.status.usage = true;
    if (sandbox_state(s) != SANDBOX_READY ||
        worker_link_ask(s->link, &m, STATUS_MS, on_status_answered, wait, NULL) < 0) {
        on_status_answered(wait, -ERR_IO, NULL, NULL, "");
    }
}

void sandbox_status(struct sandbox *s, fleet_info_fn done, void *arg)
{
    struct status_wait *wait = alloc_one(struct status_wait);
    wait->sandbox = s;
    wait->since_ms = uv_now(s->host->loop);
    wait->done = done;
    wait->arg = arg;
    if (s->adoption.run != NULL) {
        TAILQ_INSERT_TAIL(&s->adoption.waiters, wait, node);
    } else {
        ask_status(wait);
    }
}

static void on_past_known(void *arg)
{
    struct sandbox *s = arg;
    struct status_wait *wait;
    while ((wait = TAILQ_FIRST(&s->adoption.waiters)) != NULL) {
        TAILQ_REMOVE(&s->adoption.waiters, wait, node);
        ask_status(wait);
    }
}

void sandbox_status_check(struct sandbox *s)
{
    uint64_t now_ms = uv_now(s->host->loop);
    struct status_wait *first = TAILQ_FIRST(&s->adoption.waiters);
    if (first != NULL && now_ms - first->since_ms >= fleet_host_patience_ms(s->host)) {
        sandbox_status_known(s);
    }
}

void sandbox_status_known(struct sandbox *s)
{
    if (!TAILQ_EMPTY(&s->adoption.waiters)) {
        deferred_post(&s->host->deferred, &s->adoption.task, on_past_known, s);
    }
}

void sandbox_status_flush(struct sandbox *s)
{
    deferred_cancel(&s->host->deferred, &s->adoption.task);
    on_past_known(s);
}

void sandbox_free(struct sandbox *s)
{
    free_list(&s->languages);
    free_list(&s->unapplied);
    for (size_t i = 0; i < s->spec.env.count; i++) {
        free((char *)(uintptr_t)s->asked.env[i].data);
    }
    free(s->asked.env);
    for (size_t i = 0; i < s->spec.mounts.count; i++) {
        free((char *)(uintptr_t)s->asked.mounts[i].data);
    }
    free(s->asked.mounts);
    alloc_listfree(&s->spec.shares);
    alloc_listfree(&s->spec.door);
    free((char *)(uintptr_t)s->spec.door_proxy.data);
    free((char *)(uintptr_t)s->spec.door_proxy_auth.data);
    free((char *)(uintptr_t)s->spec.io_device.data);
    free((char *)(uintptr_t)s->spec.packages.data);
    free((char *)(uintptr_t)s->spec.image.data);
    free(s->owner);
    free(s->name);
    free(s->session);
    free(s->dir);
    free(s->reason);
    free(s->backend);
    alloc_listfree(&s->spec.place);
    free(s->runtime);
    free(s->image);
    free(s->workspace);
    free(s);
}
