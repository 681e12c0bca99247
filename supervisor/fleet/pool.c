/*
 * An entry of the pool is a whole sandbox, with its container, agent, worker and live Python, whose
 * owner is nobody and which has run nothing. All entries are alike: the configured limits and
 * image, no network, no environment of a client's. A client that asks for the same, but perhaps
 * for other memory and CPU where these can be changed, is given one (sandbox/claim.c).
 *
 * It is filled one at a time and only while no client's sandbox is being created, so that a client
 * never waits for what is made in advance; and not just after one was given out. It begins when a
 * call has needed a sandbox: starting a server touches nothing. After a failure it waits, longer
 * each time, and only the first of a row of failures is a warning: a pool that cannot be filled
 * costs nobody anything but time.
 *
 * Of several servers of one engine each keeps its own number, so that what is usual needs nobody
 * else. One that has none left takes one of another, if it knows of any: that server makes another
 * one then, as after any other claim.
 *
 * Entries count against the limits of the server only as long as nobody else wants the room: they
 * are never in a client's way, and closed first.
 */
#include "supervisor/fleet/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/room.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/base/pool_option.h"
#include "supervisor/fleet/engine/engine.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/preload.h"
#include "supervisor/fleet/sandbox/fronts.h"
#include "supervisor/metrics/metrics.h"

#define PAUSE_MS     100  /* after a client got a sandbox, for its first code */
#define RETRY_MS     1000 /* after the first failure; doubled after each */
#define RETRY_MAX_MS 300000
#define OFFERS_MAX   32

struct pool {
    struct fleet *fleet;
    struct sandbox_setup setup;
    struct pool_option option;
    struct preload preload;
    bool begun;
    bool fixed;        /* limits of sandboxes turned out not to be changeable here */
    unsigned failures; /* in a row */
    uint64_t hits, misses;
    struct {
        char ids[OFFERS_MAX][FLEET_ID_SIZE]; /* of other servers, which may be gone by now */
        size_t count;
        uint64_t generation; /* of all of them */
    } offers;
    struct deferred_task task;
    uv_timer_t rest; /* nothing is made before it fires */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* The arg of an entry's opening, until it is claimed. */
struct pool_entry {
    struct pool *pool;
    struct sandbox *sandbox;
};

static const struct config *config_of(const struct pool *p)
{
    return p->setup.host->config;
}

/* ---- filling --------------------------------------------------------------------------------- */

static void on_rested(uv_timer_t *timer)
{
    pool_look(timer->data);
}

static void rest(struct pool *p, uint64_t ms)
{
    uv_timer_start(&p->rest, on_rested, ms, 0);
    uv_unref((uv_handle_t *)&p->rest); /* it does not keep the loop alive */
}

/* A client has got a sandbox, and is going to use it now. */
static void pause_filling(struct pool *p)
{
    if (!uv_is_active((uv_handle_t *)&p->rest)) {
        rest(p, PAUSE_MS);
    }
}

static void fail_entry(struct pool *p, const char *what, const struct err *err)
{
    uint64_t delay_ms = RETRY_MAX_MS;
    if (p->failures < 9) {
        delay_ms = (uint64_t)RETRY_MS << p->failures;
    }
    log_line(p->failures == 0 ? LOG_WARN : LOG_DEBUG,
             "pool: %s: %s; sandboxes are made when they are needed, and the pool tries again in "
             "%" PRIu64 " s",
             what, err->text, delay_ms / 1000);
    p->failures++;
    rest(p, delay_ms);
}

static void on_offers_told(void *arg, struct view_list sandboxes, uint64_t generation)
{
    struct pool *p = arg;
    p->offers.count = 0;
    p->offers.generation = generation;
    for (size_t i = 0; i < sandboxes.count && p->offers.count < OFFERS_MAX; i++) {
        CLEANUP_FREE char *id = alloc_viewdup(sandboxes.items[i]);
        if (instance_is_sandbox_id(id) && strlen(id) < FLEET_ID_SIZE) {
            snprintf(p->offers.ids[p->offers.count++], FLEET_ID_SIZE, "%s", id);
        }
    }
    log_debug("pool: other servers offer %zu", p->offers.count);
}

static void on_entry_kept(void *arg)
{
    struct pool_entry *e = arg;
    struct pool *p = e->pool;
    fronts_hear_offers(p->fleet->fronts, &e->sandbox->spec, on_offers_told, p);
    if (p->failures > 0) {
        log_info("pool: filled again");
    }
    p->failures = 0;
    pool_look(p);
}

static void on_preload_told(void *arg, size_t module, const char *why)
{
    const struct pool_entry *e = arg;
    preload_tell(&e->pool->preload, module, why);
}

/* A module may take so much that all of the sandbox ends. */
static void blame_preload(struct pool *p, const struct sandbox *s)
{
    size_t module;
    if (sandbox_is_preloading(s, &module)) {
        preload_tell(&p->preload, module, "the sandbox has ended while it was imported");
    }
}

/* It could not be made, or has ended, or was closed. */
static void on_entry_ended(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                           const char *hint)
{
    struct pool_entry *e = arg;
    struct pool *p = e->pool;
    const struct sandbox *s = e->sandbox;
    (void)rc, (void)info, (void)hint;
    if (s->evicted || sandbox_life_left_ms(s) == 0) {
        pool_look(p); /* as it should be */
    } else if (!p->fleet->host.stopping) {
        blame_preload(p, s);
        fail_entry(p,
                   s->pooled.sm.state == POOLED_KEPT
                       ? "a sandbox that was made in advance has ended"
                       : "no sandbox can be made in advance",
                   err);
    }
    free(e);
}

static void make_entry(struct pool *p)
{
    struct err err = ERR_INIT;
    struct pool_entry *e = alloc_one(struct pool_entry);
    const char *image = p->option.image;
    const struct fleet_spec spec = {
        .image = image,
        .image_is_reference = image != config_of(p)->image &&
                              config_names_references(config_of(p)) && !image_is_path(image),
    };
    e->pool = p;
    if (sandbox_create(&p->setup, "", &spec, on_entry_ended, e, &e->sandbox, &err) < 0) {
        free(e);
        fail_entry(p, "no sandbox can be made in advance", &err);
        return;
    }
    const struct sandbox_preload preload = {.modules = &p->preload.option,
                                            .left_out = preload_left_out(&p->preload),
                                            .told = on_preload_told};
    sandbox_hold_back(e->sandbox, &preload, on_entry_kept);
    TAILQ_INSERT_TAIL(&p->fleet->sandboxes, e->sandbox, node);
}

static bool entry_is_open(const struct sandbox *s)
{
    return sandbox_state(s) < SANDBOX_CLOSING;
}

static uint64_t count_entries(const struct pool *p, unsigned states)
{
    const struct sandbox *s;
    uint64_t count = 0;
    TAILQ_FOREACH(s, &p->fleet->sandboxes, node)
    {
        count += entry_is_open(s) && (SM_BIT(s->pooled.sm.state) & states) != 0;
    }
    return count;
}

/* Whether a sandbox is being created, by a client or for the pool. */
static bool is_something_made(const struct pool *p)
{
    const struct sandbox *s;
    TAILQ_FOREACH(s, &p->fleet->sandboxes, node)
    {
        if (sandbox_state(s) == SANDBOX_CREATING && s->pooled.sm.state != POOLED_KEPT) {
            return true;
        }
    }
    return false;
}

static void on_pool_turn(void *arg)
{
    struct pool *p = arg;
    if (p->fleet->host.stopping || uv_is_active((uv_handle_t *)&p->rest) || is_something_made(p) ||
        count_entries(p, SM_BIT(POOLED_KEPT)) >= p->option.count ||
        !fleet_has_room(p->fleet, config_of(p)->memory_mb)) {
        return;
    }
    make_entry(p);
}

void pool_look(struct pool *p)
{
    if (p->begun && !p->fleet->host.stopping) {
        deferred_post(&p->setup.host->deferred, &p->task, on_pool_turn, p);
    }
}

void pool_begin(struct pool *p)
{
    p->begun = p->option.count > 0;
    if (p->begun) {
        pause_filling(p);
    }
}

/* ---- giving ---------------------------------------------------------------------------------- */

static bool has_image(const struct pool *p, const char *backend, const struct fleet_spec *spec)
{
    const struct backend_row *row = backend_row_find(backend);
    const char *image = spec->image != NULL ? spec->image : config_of(p)->image;
    return strcmp(image, p->option.image) == 0 &&
           (!spec->image_is_reference || row->images == BACKEND_IMAGES_REFERENCES);
}

/* File systems have a size from the beginning, and processes their limit. What was imported needs
 * memory that it has already. */
static bool has_limits(const struct pool *p, const struct sandbox *s, const struct fleet_spec *spec)
{
    struct msg_open want = {.attach = false};
    const struct msg_open *has = &s->spec;
    sandbox_take_limits(config_of(p), spec, &want);
    bool same = want.memory_bytes == has->memory_bytes && want.cpu_milli == has->cpu_milli;
    bool fits =
        want.memory_bytes >= has->memory_bytes || want.memory_bytes >= sandbox_memory_least(s);
    return fits && want.pids == has->pids && want.files == has->files &&
           want.disk_bytes == has->disk_bytes &&
           room_other(want.memory_bytes, want.disk_bytes) ==
               room_other(has->memory_bytes, has->disk_bytes) &&
           (same || (backend_row_find(s->backend)->changes_limits && !p->fixed));
}

/* What it can reach, and what its processes see. */
static bool has_surroundings(const struct fleet_spec *spec)
{
    return spec->installs_for == NULL && !spec->network && !spec->app_dir && spec->env.count == 0 &&
           spec->mounts.count == 0 && spec->shares.count == 0;
}

static struct sandbox *find_entry(const struct pool *p, const struct fleet_spec *spec)
{
    struct sandbox *s;
    TAILQ_FOREACH(s, &p->fleet->sandboxes, node)
    {
        if (s->pooled.sm.state == POOLED_KEPT && entry_is_open(s) &&
            !worker_link_is_ending(s->link) && has_surroundings(spec) &&
            has_image(p, s->backend, spec) && has_limits(p, s, spec)) {
            return s;
        }
    }
    return NULL;
}

static void count_miss(struct pool *p)
{
    p->misses++;
    metrics_count(METRIC_POOL_CLAIMS, METRIC_CLAIM_MISS);
}

/* Whether it is what the pool makes, to the last limit: what others offer is compared with that. */
static bool is_usual(const struct pool *p, const struct fleet_spec *spec)
{
    const struct fleet_spec none = {.name = NULL};
    struct msg_open want = {.attach = false}, usual = {.attach = false};
    sandbox_take_limits(config_of(p), spec, &want);
    sandbox_take_limits(config_of(p), &none, &usual);
    return has_surroundings(spec) && has_image(p, engine_backend(p->setup.engine), spec) &&
           want.memory_bytes == usual.memory_bytes && want.cpu_milli == usual.cpu_milli &&
           want.pids == usual.pids && want.disk_bytes == usual.disk_bytes;
}

static bool pool_has(const struct pool *p, const char *id)
{
    const struct sandbox *s;
    TAILQ_FOREACH(s, &p->fleet->sandboxes, node)
    {
        if (strcmp(s->id, id) == 0) {
            return true;
        }
    }
    return false;
}

/* One of another server. Each begins elsewhere in its list, so that not all want the same one. */
static struct sandbox *take_offer(struct pool *p, const char *owner, const struct fleet_spec *spec,
                                  fleet_info_fn opened, void *arg)
{
    while (p->offers.count > 0 && is_usual(p, spec)) {
        char id[FLEET_ID_SIZE];
        size_t at = clock_us() % p->offers.count;
        memcpy(id, p->offers.ids[at], sizeof(id));
        memmove(p->offers.ids[at], p->offers.ids[--p->offers.count], sizeof(id));
        if (!pool_has(p, id)) {
            struct sandbox *s =
                sandbox_seek(&p->setup, id, p->offers.generation, owner, spec, opened, arg);
            TAILQ_INSERT_TAIL(&p->fleet->sandboxes, s, node);
            return s;
        }
    }
    return NULL;
}

struct sandbox *pool_take(struct pool *p, const char *owner, const struct fleet_spec *spec,
                          fleet_info_fn opened, void *arg)
{
    if (p->option.count == 0 || spec->installs_for != NULL) {
        return NULL;
    }
    struct sandbox *s = find_entry(p, spec);
    if (s == NULL) {
        count_miss(p);
        return take_offer(p, owner, spec, opened, arg);
    }
    struct pool_entry *e = s->opening.arg;
    sandbox_claim(s, owner, spec, opened, arg);
    free(e);
    pause_filling(p);
    return s;
}

void pool_taken(struct pool *p, const struct sandbox *s, int rc, const struct err *err)
{
    if (s->pooled.elsewhere) {
        if (sandbox_claim_is_lost(s)) {
            log_info("pool: what another server has made in advance is not to be had, another one "
                     "is made: %s sandbox=%s",
                     err->text, s->id);
        }
    } else if (rc == 0) {
        p->hits++;
        metrics_count(METRIC_POOL_CLAIMS, METRIC_CLAIM_HIT);
    } else if (sandbox_claim_is_lost(s)) {
        count_miss(p);
        bool fixed = rc == -ERR_CONFIG;
        log_line(fixed && p->fixed ? LOG_DEBUG : LOG_WARN,
                 "pool: a sandbox that was made in advance cannot be given, another one is made: "
                 "%s%s sandbox=%s",
                 err->text, fixed ? "; from now on only those that ask for its limits get one" : "",
                 s->id);
        p->fixed = p->fixed || fixed;
    }
}

void pool_give_way(struct pool *p)
{
    struct sandbox *s;
    TAILQ_FOREACH(s, &p->fleet->sandboxes, node)
    {
        if (fleet_has_room(p->fleet, 0)) {
            return;
        }
        if (sandbox_is_entry(s) && entry_is_open(s)) {
            s->evicted = true;
            sandbox_close(s, "it was made in advance, and a client needed its place", NULL, NULL);
        }
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

struct fleet_pool pool_figures(const struct pool *p)
{
    return (struct fleet_pool){
        .size = p->option.count,
        .ready = count_entries(p, SM_BIT(POOLED_KEPT)),
        .hits = p->hits,
        .misses = p->misses,
        .preload = p->preload.modules,
        .preload_count = p->preload.option.count,
    };
}

struct pool *pool_create(struct fleet *f, const struct sandbox_setup *setup)
{
    struct pool *p = alloc_one(struct pool);
    p->fleet = f;
    p->setup = *setup;
    p->option = pool_option_of(setup->host->config);
    preload_init(&p->preload, setup->host->config);
    uv_timer_init(setup->host->loop, &p->rest);
    p->rest.data = p;
    return p;
}

void pool_stop(struct pool *p)
{
    deferred_cancel(&p->setup.host->deferred, &p->task);
    uv_timer_stop(&p->rest);
}

static void on_rest_closed(uv_handle_t *handle)
{
    struct pool *p = handle->data;
    void (*closed)(void *arg) = p->closed;
    void *arg = p->closed_arg;
    free(p);
    closed(arg);
}

void pool_destroy(struct pool *p, void (*closed)(void *arg), void *arg)
{
    p->closed = closed;
    p->closed_arg = arg;
    uv_close((uv_handle_t *)&p->rest, on_rest_closed);
}
