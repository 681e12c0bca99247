/*
 * An instance is dead if its lock can be had. Whoever has the lock owns what is there, so the sweep
 * keeps it until the last directory is gone, and two servers that start together never sweep the
 * same thing. A server that dies while sweeping drops the lock, and the next one goes on.
 *
 * Each sandbox is swept by a worker of its own with the backend that its record names; the worker
 * of the dead server is killed first, if it is provably that one. A sandbox that could not be swept
 * keeps its directory: it will be tried again, and the way to find it is not lost. Sweeps run a few
 * at a time: they are never urgent, the sandboxes that people wait for are.
 */
#include "supervisor/recover.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/msg.h"
#include "supervisor/config.h"
#include "supervisor/disk.h"
#include "supervisor/fleet_host.h"
#include "supervisor/instance.h"
#include "supervisor/record.h"
#include "supervisor/worker_errand.h"

#define SWEEPS_AT_ONCE   2
#define LEFTOVERS_MAX    1000       /* sandboxes in one run; the next server finds the rest */
#define SWEEP_GENERATION 1000000000 /* newer than any life that the sandbox had */

struct dead_instance {
    TAILQ_ENTRY(dead_instance) node;
    char *dir;
    int lock_fd; /* -1: our own, whose directory stays */
    size_t left; /* sandboxes that are not swept yet */
    bool failed; /* one of them could not be */
};

struct leftover {
    TAILQ_ENTRY(leftover) node;
    struct recover *r;
    struct dead_instance *instance;
    char id[LIMIT_NAME];
    char *dir;
};

struct recover {
    struct fleet_host *host;
    const char *backend;
    TAILQ_HEAD(, dead_instance) instances;
    TAILQ_HEAD(, leftover) waiting;
    size_t found;
    size_t running;
    bool started;
};

static void start_next(struct recover *r);

static bool is_sandbox_id(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
    return len > 0 && len < LIMIT_NAME && name[len] == '\0';
}

static void collect(struct recover *r, struct dead_instance *instance)
{
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes", instance->dir);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && r->found < LEFTOVERS_MAX && (entry = readdir(dir)) != NULL) {
        if (!is_sandbox_id(entry->d_name)) {
            continue;
        }
        struct leftover *l = alloc_one(struct leftover);
        l->r = r;
        l->instance = instance;
        memcpy(l->id, entry->d_name, strlen(entry->d_name) + 1); /* fits: is_sandbox_id() */
        l->dir = alloc_printf("%s/%s", path, entry->d_name);
        TAILQ_INSERT_TAIL(&r->waiting, l, node);
        instance->left++;
        r->found++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (r->found >= LEFTOVERS_MAX) {
        instance->failed = true; /* there may be more in it */
    }
}

static struct dead_instance *add_instance(struct recover *r, const char *dir, int lock_fd)
{
    struct dead_instance *instance = alloc_one(struct dead_instance);
    instance->dir = alloc_strdup(dir);
    instance->lock_fd = lock_fd;
    TAILQ_INSERT_TAIL(&r->instances, instance, node);
    collect(r, instance);
    return instance;
}

static void free_instance(struct recover *r, struct dead_instance *instance)
{
    TAILQ_REMOVE(&r->instances, instance, node);
    if (instance->lock_fd >= 0) {
        close(instance->lock_fd);
    }
    free(instance->dir);
    free(instance);
}

struct recover *recover_create(struct fleet_host *host, const char *backend)
{
    struct recover *r = alloc_one(struct recover);
    r->host = host;
    r->backend = backend;
    TAILQ_INIT(&r->instances);
    TAILQ_INIT(&r->waiting);
    if (!host->instance->own) {
        add_instance(r, host->instance->dir, -1);
    }
    return r;
}

/* ---- one instance ---- */

struct removal {
    struct recover *r;
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
    free_instance(removal->r, removal->instance);
    removal->r->running--;
    start_next(removal->r);
    free(removal);
}

/* All of its sandboxes have been tried. */
static void end_instance(struct recover *r, struct dead_instance *instance)
{
    if (instance->lock_fd < 0 || instance->failed) {
        free_instance(r, instance);
        return;
    }
    struct removal *removal = alloc_one(struct removal);
    removal->r = r;
    removal->instance = instance;
    r->running++;
    disk_remove(r->host, instance->dir, on_instance_removed, removal);
}

/* ---- one sandbox ---- */

static void end_leftover(struct leftover *l, bool swept)
{
    struct recover *r = l->r;
    struct dead_instance *instance = l->instance;
    if (!swept) {
        instance->failed = true;
    }
    r->running--;
    if (--instance->left == 0) {
        end_instance(r, instance);
    }
    free(l->dir);
    free(l);
    start_next(r);
}

static void on_leftover_removed(void *arg, int rc, const struct err *err)
{
    struct leftover *l = arg;
    if (rc < 0) {
        log_warn("sweep: directory stays: %s sandbox=%s", err->text, l->id);
    } else {
        log_info("sweep: left-over sandbox removed sandbox=%s", l->id);
    }
    end_leftover(l, rc == 0);
}

static void on_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                     const char *hint)
{
    struct leftover *l = arg;
    (void)reply;
    if (rc < 0) {
        log_warn("sweep: sandbox stays for now: %s %s sandbox=%s", err->text, hint, l->id);
        end_leftover(l, false);
        return;
    }
    disk_remove(l->r->host, l->dir, on_leftover_removed, l);
}

static void start_sweep(struct leftover *l)
{
    struct recover *r = l->r;
    if (record_kill_worker(l->dir)) {
        log_warn("sweep: left-over worker killed sandbox=%s", l->id);
    }
    struct record_place place;
    struct err err = ERR_INIT;
    if (record_load(l->dir, &place, &err) < 0) {
        log_debug("sweep: %s sandbox=%s", err.text, l->id);
        place.backend = alloc_strdup(r->backend);
        place.engine = alloc_strdup(r->host->config->engine);
        place.runtime = alloc_strdup("");
    }
    CLEANUP_FREE char *socket = alloc_printf("%s/sweep.sock", l->dir);
    CLEANUP_FREE char *shared = alloc_printf("%s/shared", l->instance->dir);
    struct worker_args args = {
        .sandbox = l->id,
        .socket = socket,
        .dir = l->dir,
        .shared_dir = shared,
        .generation = SWEEP_GENERATION,
        .expendable = true,
    };
    struct errand_target target = {place.backend, place.engine, place.runtime};
    int rc = worker_errand_start(r->host, &args, MSG_SWEEP, &target, on_swept, l, &err);
    record_place_finish(&place);
    if (rc < 0) {
        log_warn("sweep: sandbox stays for now: %s sandbox=%s", err.text, l->id);
        end_leftover(l, false);
    }
}

static void start_next(struct recover *r)
{
    struct leftover *l;
    while (r->running < SWEEPS_AT_ONCE && !r->host->stopping &&
           (l = TAILQ_FIRST(&r->waiting)) != NULL) {
        TAILQ_REMOVE(&r->waiting, l, node);
        r->running++;
        start_sweep(l);
    }
}

/* ---- all of them ---- */

static void find_dead(struct recover *r)
{
    const struct instance *own = r->host->instance;
    DIR *dir = opendir(own->top);
    struct dirent *entry;
    while (dir != NULL && r->found < LEFTOVERS_MAX && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, own->name) == 0) {
            continue;
        }
        CLEANUP_FREE char *path = alloc_printf("%s/%s", own->top, entry->d_name);
        int lock_fd = instance_claim(path);
        if (lock_fd >= 0) {
            log_info("sweep: dead instance found dir=%s", path);
            add_instance(r, path, lock_fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void recover_run(struct recover *r)
{
    if (r->started) {
        return;
    }
    r->started = true;
    find_dead(r);
    struct dead_instance *instance = TAILQ_FIRST(&r->instances);
    while (instance != NULL) {
        struct dead_instance *next = TAILQ_NEXT(instance, node);
        if (instance->left == 0) {
            end_instance(r, instance);
        }
        instance = next;
    }
    start_next(r);
}

void recover_destroy(struct recover *r)
{
    if (r == NULL) {
        return;
    }
    struct leftover *l;
    while ((l = TAILQ_FIRST(&r->waiting)) != NULL) {
        TAILQ_REMOVE(&r->waiting, l, node);
        free(l->dir);
        free(l);
    }
    struct dead_instance *instance;
    while ((instance = TAILQ_FIRST(&r->instances)) != NULL) {
        free_instance(r, instance);
    }
    free(r);
}
