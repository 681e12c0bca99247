/*
 * An instance is dead if its lock is free. The holder of the lock owns the directories, so the
 * sweep keeps it until the last directory is gone; two servers that start together never sweep the
 * same instance. If a server dies during a sweep, the kernel releases the lock, and the next one
 * continues.
 *
 * A named instance whose lock is free may only be between two servers. We leave it alone while one
 * of its workers lives. If none does, its sandboxes may still live for their grace, and a server
 * that comes within that time takes them over. So the instance becomes a suspect and is checked
 * again after that time. Only then do we take its lock; until then its next server finds the lock
 * free.
 *
 * Each sandbox is swept by its own one-shot worker with the backend in its record; the dead
 * server's worker is killed first, if it is provably that one. Few sweeps run at the same time,
 * since they are never urgent and sandboxes that clients wait for are.
 *
 * Installers go first, since they write what other sandboxes of their instance read. One that could
 * not be swept may still write, so those sandboxes wait for its next attempts as well; but not for
 * ever, as its engine may be gone for good.
 *
 * A busy engine may refuse a removal or be too slow for it, and another server may not come for
 * days. So a sandbox that could not be swept waits, longer each time, and is swept again while this
 * server lives and its instance stays locked. Its directory stays meanwhile, by which the next
 * server finds it.
 */
#include "supervisor/fleet/state/sweep.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/msg.h"
#include "proto/place.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/disk.h"
#include "supervisor/fleet/state/record.h"
#include "supervisor/fleet/state/removals.h"
#include "supervisor/fleet/workers/oneshot.h"

#define RETRY_MS         5000   /* from a failed sweep to the next one, twice as long each time */
#define RETRY_LAST_MS    600000 /* the longest pause: an engine may be gone for good */
#define SWEEPS_AT_ONCE   2
#define SWEEP_GENERATION 1000000000 /* higher than any generation of the sandbox */
#define SUSPECTS_MAX     100
#define INSTALLER_TRIES  3    /* after which the sandboxes of its instance do not wait for it */
#define MARGIN_MS        1000 /* added to the longest grace, after which everything has ended */

struct dead_instance {
    TAILQ_ENTRY(dead_instance) node;
    char *dir;
    int lock_fd;       /* -1: our own instance, whose directory stays */
    size_t left;       /* number of sandboxes that are not swept yet */
    size_t installers; /* those of them that the others wait for */
    bool failed;       /* the sweep of one of them failed */
};

/* Another named instance without a living worker. */
struct suspect {
    TAILQ_ENTRY(suspect) node;
    char *dir;
    uint64_t due_ms; /* when it is checked again */
};

struct remains {
    TAILQ_ENTRY(remains) node;
    struct sweep *r;
    struct dead_instance *instance;
    char id[FLEET_ID_SIZE];
    char *dir;
    char *backend, *runtime; /* where it was made; set while it is swept */
    struct view_list place;
    uint64_t due_ms;   /* when it may be swept */
    uint64_t pause_ms; /* before the next attempt, if this one fails */
    unsigned attempts;
};

struct sweep {
    struct fleet_host *host;
    const char *backend;
    TAILQ_HEAD(, dead_instance) instances;
    TAILQ_HEAD(, remains) waiting;
    TAILQ_HEAD(, suspect) suspects;
    size_t suspect_count;
    uv_timer_t *again; /* for suspects and retries; NULL: not running. Freed when it is closed */
    struct dead_instance *own; /* our own instance, if an earlier server left sandboxes in it */
    size_t found; /* with as many as one instance can have, others wait for the next server */
    size_t running;
    bool started;
};

static void start_next(struct sweep *r);
static void plan_next_look(struct sweep *r);

static void add_remains(struct sweep *r, struct dead_instance *instance, const char *id)
{
    struct remains *l = alloc_one(struct remains);
    l->r = r;
    l->instance = instance;
    memcpy(l->id, id, strlen(id) + 1); /* fits: instance_is_sandbox_id() */
    l->dir = alloc_printf("%s/sandboxes/%s", instance->dir, id);
    l->pause_ms = RETRY_MS;
    TAILQ_INSERT_TAIL(&r->waiting, l, node);
    instance->installers += instance_is_installer_id(id) ? 1 : 0;
    instance->left++;
    r->found++;
}

static void collect(struct sweep *r, struct dead_instance *instance)
{
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes", instance->dir);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && instance->left < INSTANCE_SANDBOXES_MAX &&
           (entry = readdir(dir)) != NULL) {
        if (instance_is_sandbox_id(entry->d_name)) {
            add_remains(r, instance, entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (instance->left == INSTANCE_SANDBOXES_MAX) {
        instance->failed = true; /* there may be more in it */
    }
}

static struct dead_instance *add_instance(struct sweep *r, const char *dir, int lock_fd)
{
    struct dead_instance *instance = alloc_one(struct dead_instance);
    instance->dir = alloc_strdup(dir);
    instance->lock_fd = lock_fd;
    TAILQ_INSERT_TAIL(&r->instances, instance, node);
    return instance;
}

static void free_dead_instance(struct sweep *r, struct dead_instance *instance)
{
    TAILQ_REMOVE(&r->instances, instance, node);
    if (instance == r->own) {
        r->own = NULL;
    }
    if (instance->lock_fd >= 0) {
        close(instance->lock_fd);
    }
    free(instance->dir);
    free(instance);
}

struct sweep *sweep_create(struct fleet_host *host, const char *backend)
{
    struct sweep *r = alloc_one(struct sweep);
    r->host = host;
    r->backend = backend;
    TAILQ_INIT(&r->instances);
    TAILQ_INIT(&r->waiting);
    TAILQ_INIT(&r->suspects);
    return r;
}

void sweep_add(struct sweep *r, const char *id)
{
    if (r->own == NULL) {
        r->own = add_instance(r, r->host->instance->dir, -1);
    }
    add_remains(r, r->own, id);
    if (r->started) {
        start_next(r);
    }
}

/* ---- one instance ---- */

struct removal {
    struct sweep *r;
    struct dead_instance *instance;
};

static void on_instance_removed(void *arg, int rc, const struct err *err)
{
    struct removal *removal = arg;
    if (rc < 0) {
        log_warn("sweep: directory stays: %s", err->text);
    } else {
        log_info("sweep: dead instance removed dir=%s", removal->instance->dir);
    }
    free_dead_instance(removal->r, removal->instance);
    removal->r->running--;
    start_next(removal->r);
    free(removal);
}

/* The sweep of all its sandboxes was tried. */
static void end_instance(struct sweep *r, struct dead_instance *instance)
{
    if (instance->lock_fd < 0 || instance->failed) {
        free_dead_instance(r, instance);
        return;
    }
    struct removal *removal = alloc_one(struct removal);
    removal->r = r;
    removal->instance = instance;
    r->running++;
    disk_remove(r->host, instance->dir, on_instance_removed, removal);
}

/* ---- one sandbox ---- */

static void forget_target(struct remains *l)
{
    free(STEAL_PTR(l->backend));
    free(STEAL_PTR(l->runtime));
    alloc_listfree(&l->place);
}

static void free_remains(struct remains *l)
{
    free(l->dir);
    forget_target(l);
    free(l);
}

/* Whether the other sandboxes of its instance wait for it. */
static bool holds_others(const struct remains *l)
{
    return instance_is_installer_id(l->id) && l->attempts < INSTALLER_TRIES;
}

/* Its record is read again then. */
static void sweep_later(struct remains *l)
{
    struct sweep *r = l->r;
    forget_target(l);
    l->due_ms = uv_now(r->host->loop) + l->pause_ms;
    l->pause_ms = l->pause_ms * 2 < RETRY_LAST_MS ? l->pause_ms * 2 : RETRY_LAST_MS;
    bool held = holds_others(l);
    l->attempts++;
    l->instance->installers -= held && !holds_others(l) ? 1 : 0;
    TAILQ_INSERT_TAIL(&r->waiting, l, node);
    plan_next_look(r);
}

static void end_remains(struct remains *l, bool swept)
{
    struct sweep *r = l->r;
    struct dead_instance *instance = l->instance;
    bool ours = instance->lock_fd < 0;
    r->running--;
    if (!swept && !ours && !r->host->stopping) {
        sweep_later(l);
        start_next(r);
        return;
    }
    if (!swept && ours && !r->host->stopping) {
        /* these have one more attempt when the server stops */
        const struct oneshot_target target = {l->backend, l->place, l->runtime};
        removals_add(r->host, l->id, l->dir, &target, SWEEP_GENERATION + 1, RETRY_MS);
    }
    if (!swept) {
        instance->failed = true;
    }
    instance->installers -= holds_others(l) ? 1 : 0;
    if (--instance->left == 0) {
        end_instance(r, instance);
    }
    free_remains(l);
    start_next(r);
}

static void on_remains_removed(void *arg, int rc, const struct err *err)
{
    struct remains *l = arg;
    if (rc < 0) {
        log_warn("sweep: directory stays: %s sandbox=%s", err->text, l->id);
    } else {
        log_info("sweep: left-over sandbox removed sandbox=%s", l->id);
    }
    end_remains(l, rc == 0);
}

static void on_dead_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                          const char *hint)
{
    struct remains *l = arg;
    (void)reply;
    if (rc < 0) {
        log_warn("sweep: sandbox stays for now: %s %s sandbox=%s", err->text, hint, l->id);
        end_remains(l, false);
        return;
    }
    disk_remove(l->r->host, l->dir, on_remains_removed, l);
}

static void start_sweep(struct remains *l)
{
    struct sweep *r = l->r;
    if (record_kill_worker(l->dir)) {
        log_warn("sweep: left-over worker killed sandbox=%s", l->id);
    }
    struct record record;
    struct err err = ERR_INIT;
    if (record_load(l->dir, &record, &err) == 0) {
        l->backend = alloc_viewdup(record.open.open.backend);
        l->place = alloc_listdup(record.open.open.place);
        l->runtime = alloc_viewdup(record.open.open.runtime);
        record_finish(&record);
    } else {
        log_debug("sweep: %s sandbox=%s", err.text, l->id);
        l->backend = alloc_strdup(r->backend);
        l->place = place_configured(r->backend, r->host->config->engine);
        l->runtime = alloc_strdup("");
    }
    CLEANUP_FREE char *shared = alloc_printf("%s/shared", l->instance->dir);
    struct worker_args args = {
        .sandbox = l->id,
        .dir = l->dir,
        .shared_dir = shared,
        .generation = SWEEP_GENERATION + l->attempts,
        .expendable = true,
    };
    const struct oneshot_target target = {l->backend, l->place, l->runtime};
    if (worker_oneshot_start(r->host, &args, MSG_SWEEP, &target, on_dead_swept, l, &err) < 0) {
        log_warn("sweep: sandbox stays for now: %s sandbox=%s", err.text, l->id);
        end_remains(l, false);
    }
}

static struct remains *first_due(const struct sweep *r)
{
    struct remains *l;
    uint64_t now_ms = uv_now(r->host->loop);
    TAILQ_FOREACH(l, &r->waiting, node)
    {
        if (l->due_ms <= now_ms &&
            (l->instance->installers == 0 || instance_is_installer_id(l->id))) {
            return l;
        }
    }
    return NULL;
}

static void start_next(struct sweep *r)
{
    struct remains *l;
    while (r->running < SWEEPS_AT_ONCE && !r->host->stopping && (l = first_due(r)) != NULL) {
        TAILQ_REMOVE(&r->waiting, l, node);
        r->running++;
        start_sweep(l);
    }
}

/* ---- named instances ---- */

/* Checks the sandboxes of an instance; false if one has a living worker. */
static bool look_for_life(const char *instance_dir, uint64_t *ret_grace_ms)
{
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes", instance_dir);
    DIR *dir = opendir(path);
    struct dirent *entry;
    size_t seen = 0;
    uint64_t grace_ms = 0;
    bool alive = false;
    while (dir != NULL && !alive && seen < INSTANCE_SANDBOXES_MAX &&
           (entry = readdir(dir)) != NULL) {
        if (!instance_is_sandbox_id(entry->d_name)) {
            continue;
        }
        CLEANUP_FREE char *sandbox = alloc_printf("%s/%s", path, entry->d_name);
        struct record_worker worker;
        struct record record;
        uint64_t own_ms = TIME_GRACE_MS;
        alive = record_load_worker(sandbox, &worker, NULL) == 0 && worker.alive;
        if (!alive && record_load(sandbox, &record, NULL) == 0) {
            own_ms = record.open.open.grace_ms;
            record_finish(&record);
        }
        grace_ms = own_ms > grace_ms ? own_ms : grace_ms;
        seen++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    *ret_grace_ms = grace_ms;
    return !alive;
}

/* Adds a dead instance: everything in it is swept. */
static void add_dead_instance(struct sweep *r, const char *dir, int lock_fd)
{
    log_info("sweep: dead instance found dir=%s", dir);
    struct dead_instance *instance = add_instance(r, dir, lock_fd);
    collect(r, instance);
    if (instance->left == 0) {
        end_instance(r, instance);
    }
}

static void on_again(uv_timer_t *timer);

/* What is due already needs no timer: it is started as soon as a running sweep has ended. */
static void plan_next_look(struct sweep *r)
{
    const struct suspect *s;
    const struct remains *l;
    uint64_t first_ms = UINT64_MAX;
    uint64_t now_ms = uv_now(r->host->loop);
    TAILQ_FOREACH(s, &r->suspects, node)
    {
        first_ms = s->due_ms < first_ms ? s->due_ms : first_ms;
    }
    TAILQ_FOREACH(l, &r->waiting, node)
    {
        first_ms = l->due_ms > now_ms && l->due_ms < first_ms ? l->due_ms : first_ms;
    }
    if (r->again != NULL && first_ms != UINT64_MAX) {
        uv_timer_start(r->again, on_again, first_ms > now_ms ? first_ms - now_ms : 0, 0);
    }
}

static void free_suspect(struct sweep *r, struct suspect *s)
{
    TAILQ_REMOVE(&r->suspects, s, node);
    free(s->dir);
    free(s);
}

/* The second check, under the lock. Nobody can take the instance over then, so its result stays
 * true. If the instance is not dead, the lock is released. */
static void judge_suspect(struct sweep *r, const struct suspect *s)
{
    uint64_t grace_ms;
    int lock_fd = instance_claim(s->dir);
    if (lock_fd >= 0 && look_for_life(s->dir, &grace_ms)) {
        add_dead_instance(r, s->dir, lock_fd);
    } else if (lock_fd >= 0) {
        close(lock_fd);
    }
}

static void on_again(uv_timer_t *timer)
{
    struct sweep *r = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    struct suspect *s = TAILQ_FIRST(&r->suspects);
    while (s != NULL) {
        struct suspect *next = TAILQ_NEXT(s, node);
        if (s->due_ms <= now_ms) {
            judge_suspect(r, s);
            free_suspect(r, s);
        }
        s = next;
    }
    start_next(r);
    plan_next_look(r);
}

static void on_again_closed(uv_handle_t *handle)
{
    struct fleet_host *host = handle->data;
    free(handle);
    fleet_host_release(host);
}

static void suspect(struct sweep *r, const char *dir)
{
    uint64_t grace_ms;
    if (r->suspect_count == SUSPECTS_MAX || !look_for_life(dir, &grace_ms)) {
        return;
    }
    struct suspect *s = alloc_one(struct suspect);
    s->dir = alloc_strdup(dir);
    s->due_ms = uv_now(r->host->loop) + grace_ms + MARGIN_MS;
    TAILQ_INSERT_TAIL(&r->suspects, s, node);
    r->suspect_count++;
}

/* ---- interface ------------------------------------------------------------------------------- */

static void find_dead(struct sweep *r)
{
    const struct instance *own = r->host->instance;
    DIR *dir = opendir(own->top);
    struct dirent *entry;
    while (dir != NULL && r->found < INSTANCE_SANDBOXES_MAX && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, own->name) == 0) {
            continue;
        }
        CLEANUP_FREE char *path = alloc_printf("%s/%s", own->top, entry->d_name);
        bool named;
        if (!instance_look(path, &named)) {
            continue;
        }
        if (named) {
            suspect(r, path);
            continue;
        }
        int lock_fd = instance_claim(path);
        if (lock_fd >= 0) {
            add_dead_instance(r, path, lock_fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void sweep_run(struct sweep *r)
{
    if (r->started) {
        return;
    }
    r->started = true;
    r->again = alloc_one(uv_timer_t);
    uv_timer_init(r->host->loop, r->again);
    uv_unref((uv_handle_t *)r->again); /* does not keep the loop alive */
    r->again->data = r;
    fleet_host_hold(r->host);
    find_dead(r);
    start_next(r);
    plan_next_look(r);
}

void sweep_stop(struct sweep *r)
{
    if (r != NULL && r->again != NULL) {
        r->again->data = r->host;
        uv_close((uv_handle_t *)STEAL_PTR(r->again), on_again_closed);
    }
}

void sweep_destroy(struct sweep *r)
{
    if (r == NULL) {
        return;
    }
    struct remains *l;
    while ((l = TAILQ_FIRST(&r->waiting)) != NULL) {
        TAILQ_REMOVE(&r->waiting, l, node);
        free_remains(l);
    }
    struct suspect *s;
    while ((s = TAILQ_FIRST(&r->suspects)) != NULL) {
        free_suspect(r, s);
    }
    struct dead_instance *instance;
    while ((instance = TAILQ_FIRST(&r->instances)) != NULL) {
        free_dead_instance(r, instance);
    }
    free(r);
}
