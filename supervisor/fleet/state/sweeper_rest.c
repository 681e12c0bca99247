/*
 * Removes one sandbox of a dead server:
 *
 *   its worker   which knows it best, is asked to end it (SIGTERM) and waited for
 *   a sweep      by another worker, unless that one has noted that nothing but files is left
 *   its files    the directory is removed
 *
 * A worker that does not end in time is killed, and its sandbox swept. The workers of sandboxes in
 * which firsts.c could kill nothing are asked at once, before their turn: the code in them must end
 * now, which is more urgent than removing files.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/ending.h"
#include "common/log.h"
#include "proto/limits.h"
#include "proto/place.h"
#include "supervisor/fleet/state/disk.h"
#include "supervisor/fleet/state/record.h"
#include "supervisor/fleet/state/sweeper_internal.h"
#include "supervisor/fleet/workers/oneshot.h"
#include "supervisor/fleet/workers/spawn.h"

#define LATE_MS (TIME_CLOSE_MS + 2000) /* for a worker to close its sandbox */
#define REAP_MS 2000                   /* from SIGKILL to the end of a worker */
/* higher than any generation, and than that of another server's sweep */
#define SWEEP_GENERATION 1100000000

void rest_free(struct rest *r)
{
    free(r->id);
    free(r->dir);
    free(r->backend);
    alloc_listfree(&r->place);
    free(r->runtime);
    free(r);
}

static void end_rest(struct rest *r, bool removed)
{
    r->done = true;
    turns_give(&r->p->turns, &r->turn);
    sweeper_rest_done(r, removed);
}

static void on_rest_dir_removed(void *arg, int rc, const struct err *err)
{
    struct rest *r = arg;
    if (rc < 0) {
        log_warn("directory stays for now: %s sandbox=%s", err->text, r->id);
    }
    end_rest(r, rc == 0);
}

static void on_rest_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                          const char *hint)
{
    struct rest *r = arg;
    (void)reply;
    if (rc < 0) {
        log_warn("sandbox stays for now: %s %s sandbox=%s", err->text, hint, r->id);
        end_rest(r, false);
        return;
    }
    disk_remove(&r->p->host, r->dir, on_rest_dir_removed, r);
}

static void find_place(struct rest *r)
{
    struct record record;
    struct err err = ERR_INIT;
    if (r->backend != NULL) {
        return;
    }
    if (record_load(r->dir, &record, &err) == 0) {
        r->backend = alloc_viewdup(record.open.open.backend);
        r->place = alloc_listdup(record.open.open.place);
        r->runtime = alloc_viewdup(record.open.open.runtime);
        record_finish(&record);
    } else {
        log_debug("%s sandbox=%s", err.text, r->id);
        r->backend = alloc_strdup(r->p->backend);
        r->place = place_configured(r->p->backend, r->p->engine);
        r->runtime = alloc_strdup("");
    }
}

/* Removes the directory when no worker uses the sandbox any more. */
static void remove_rest(struct rest *r)
{
    struct sweeper_process *p = r->p;
    if (ending_is_destroyed(r->dir)) {
        disk_remove(&p->host, r->dir, on_rest_dir_removed, r);
        return;
    }
    find_place(r);
    struct worker_args args = {
        .sandbox = r->id,
        .dir = r->dir,
        .shared_dir = p->shared,
        .generation = SWEEP_GENERATION + p->round,
    };
    const struct oneshot_target target = {r->backend, r->place, r->runtime};
    struct err err = ERR_INIT;
    if (worker_oneshot_start(&p->host, &args, MSG_SWEEP, &target, on_rest_swept, r, &err) < 0) {
        log_warn("sandbox stays for now: %s sandbox=%s", err.text, r->id);
        end_rest(r, false);
    }
}

static void let_rest_go(struct rest *r)
{
    worker_process_abandon(r->worker);
    r->worker = NULL;
    remove_rest(r);
}

static void on_worker_gone(void *arg, int exit_code, int signal)
{
    (void)exit_code, (void)signal; /* it is not our child, so its status is unknown */
    let_rest_go(arg);
}

void rest_check(struct rest *r, uint64_t now_ms)
{
    if (r->worker == NULL || now_ms < r->due_ms) {
        return;
    }
    if (!r->killed) {
        log_warn("worker does not end, killed pid=%d sandbox=%s", worker_process_pid(r->worker),
                 r->id);
        r->killed = true;
        r->due_ms = now_ms + REAP_MS;
        worker_process_kill(r->worker);
    } else {
        log_error("worker does not die, left to the kernel sandbox=%s", r->id);
        let_rest_go(r);
    }
}

static void begin_rest(void *arg)
{
    struct rest *r = arg;
    struct fleet_host *host = &r->p->host;
    struct record_worker worker;
    struct err err = ERR_INIT;
    if (record_load_worker(r->dir, &worker, NULL) == 0 && worker.alive &&
        worker_watch(host, worker.pid, worker.start_time, on_worker_gone, r, &r->worker, &err) ==
            0) {
        r->due_ms = uv_now(host->loop) + LATE_MS;
        worker_process_stop(r->worker);
        return;
    }
    remove_rest(r);
}

void rest_begin(struct sweeper_process *p, const char *id, const char *dir)
{
    struct rest *r = alloc_one(struct rest);
    struct ending_first first;
    r->p = p;
    r->id = alloc_strdup(id);
    r->dir = alloc_strdup(dir);
    TAILQ_INSERT_TAIL(&p->rests, r, node);
    p->pending++;
    if (!ending_read_first(dir, &first) && !ending_is_destroyed(dir)) {
        (void)record_stop_worker(dir);
    }
    turns_take(&p->turns, &r->turn, begin_rest, r);
}
