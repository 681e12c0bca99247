/*
 * All sandboxes stop at the same time, within 4.5 s: workers get 3 s to close them, then they are
 * killed and sandboxes are swept; at 4 s everything is killed; at 4.5 s we leave. A sandbox that is
 * left keeps its directory but not the lock, so the next server sweeps it. contrib/HACKING.md has a
 * table for sandboxes that are just being created. A server of a named instance may leave its
 * sandboxes to the next one instead; the lock is released last, so two servers never share an
 * instance. One of several servers of an engine says to the others that it has ended, when no
 * sandbox is left here.
 *
 * A server with its own instance has a sweeper (sweeper.h), so it need not force anything: after
 * 3.5 s, before clients kill us, the sweeper takes over the rest. If many sandboxes end with the
 * server, all that runs in them is killed first (firsts.h), and workers close the rest in turns. A
 * few close as quickly in order, and their calls are answered with how they ended.
 */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/fleet/engine/engine.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/host/runs.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/pool.h"
#include "supervisor/fleet/sandbox/adoption.h"
#include "supervisor/fleet/sandbox/fronts.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "supervisor/fleet/state/firsts.h"
#include "supervisor/fleet/state/removals.h"
#include "supervisor/fleet/state/sweep.h"
#include "supervisor/fleet/state/sweeper.h"
#include "supervisor/fleet/state/urgency.h"

#define FORCE_MS 4000 /* from the start of the shutdown to SIGKILL for all */
#define LEAVE_MS 4500 /* … until we stop waiting */
#define HAND_MS  3500 /* … until the sweeper takes over */
#define MANY     32   /* number of sandboxes */
#define AT_ONCE  16   /* that close at the same time, if there are many */

/* Whether the sandbox may be left to the next server. Nobody could name one whose creation was not
 * answered, nor an installer. */
static bool may_stay(const struct sandbox *s)
{
    enum sandbox_state state = sandbox_state(s);
    return (state == SANDBOX_READY || state == SANDBOX_RECOVERING) && s->opening.done == NULL &&
           !sandbox_is_installer(s);
}

static void on_host_closed(struct fleet *f)
{
    if (--f->closing > 0) {
        return;
    }
    void (*stopped)(void *arg) = f->stopped;
    f->stopped = NULL;
    stopped(f->stopped_arg);
}

static void on_stop_timer_closed(uv_handle_t *handle)
{
    on_host_closed(handle->data);
}

static void on_part_closed(void *arg)
{
    on_host_closed(arg);
}

void fleet_maybe_leave_others(struct fleet *f)
{
    if (f->host.stopping && TAILQ_EMPTY(&f->sandboxes)) {
        fronts_end(STEAL_PTR(f->fronts));
    }
}

static void leave(struct fleet *f)
{
    struct fleet_host *host = &f->host;
    f->left = true;
    if (host->lifeline_write >= 0) {
        close(host->lifeline_write);
        close(host->lifeline_read);
    }
    engine_destroy(f->engine);
    f->engine = NULL;
    adopt_destroy(f->adopt);
    f->adopt = NULL;
    sweep_destroy(f->sweep);
    f->sweep = NULL;
    CLEANUP_FREE char *dir = host->instance != NULL ? alloc_strdup(host->instance->dir) : NULL;
    instance_close(host->instance);
    host->instance = NULL;
    bool stays = dir != NULL && access(dir, F_OK) == 0;
    journal_quiet(&host->journal, &host->deferred);
    f->closing = sweeper_close(host, stays, on_part_closed, f) ? 5 : 4;
    uv_close((uv_handle_t *)&f->stop_timer, on_stop_timer_closed);
    pool_destroy(f->pool, on_part_closed, f);
    f->pool = NULL;
    deferred_close(&host->deferred, on_part_closed, f);
    host->runs->close(host, on_part_closed, f);
}

static void on_part_stopped(void *arg)
{
    struct fleet *f = arg;
    if (f->host.held == 0 && !f->left) {
        leave(f);
    }
}

void fleet_maybe_stopped(struct fleet *f)
{
    if (f->stopped != NULL && !f->left) {
        deferred_post(&f->host.deferred, &f->stopped_task, on_part_stopped, f);
    }
}

/* The process is about to exit, although callbacks still refer to us. */
static void give_up_fleet(struct fleet *f)
{
    deferred_cancel(&f->host.deferred, &f->stopped_task);
    void (*stopped)(void *arg) = f->stopped;
    f->stopped = NULL;
    stopped(f->stopped_arg);
}

bool fleet_gave_up(const struct fleet *f)
{
    return f->stopped == NULL && !f->left && f->host.stopping;
}

static void on_leave_time(uv_timer_t *timer)
{
    struct fleet *f = timer->data;
    log_error("shutdown: %zu things are left behind; the next server removes them", f->host.held);
    give_up_fleet(f);
}

static void on_force_time(uv_timer_t *timer)
{
    struct fleet *f = timer->data;
    log_warn("shutdown: out of time, killing the workers that are left");
    f->host.forcing = true;
    worker_link_kill_all(&f->host, "shutdown ran out of time");
    uv_timer_start(timer, on_leave_time, LEAVE_MS - FORCE_MS, 0);
}

static void on_hand_time(uv_timer_t *timer)
{
    struct fleet *f = timer->data;
    if (!sweeper_lives(&f->host)) {
        uv_timer_start(timer, on_force_time, FORCE_MS - HAND_MS, 0);
        return;
    }
    log_info("shutdown: %zu things are not done; the sweeper goes on with them", f->host.held);
    give_up_fleet(f);
}

static bool has_many(const struct fleet *f)
{
    const struct sandbox *s;
    size_t count = 0;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        count++;
    }
    return count > MANY;
}

void fleet_shutdown(struct fleet *f, enum fleet_end end, void (*done)(void *arg), void *arg)
{
    assert(!f->host.stopping);
    f->host.stopping = true;
    f->stopped = done;
    f->stopped_arg = arg;
    if (sweeper_lives(&f->host) && has_many(f)) {
        struct urgency before;
        urgency_raise(&before);
        size_t count = firsts_kill(f->host.instance->dir);
        urgency_restore(&before);
        log_info("shutdown: %zu sandboxes killed", count);
        turns_init(&f->turns, &f->host.deferred, AT_ONCE);
        f->host.turns = &f->turns;
    }
    pool_stop(f->pool);
    bool leave = end == FLEET_END_LEAVE && f->host.instance != NULL && !f->host.instance->own;
    struct sandbox *s;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (leave && may_stay(s)) {
            sandbox_leave(s);
        } else {
            sandbox_close(s, "the server is shutting down", NULL, NULL);
        }
    }
    fronts_stop(f->fronts);
    fleet_maybe_leave_others(f);
    worker_link_stop_expendable(&f->host);
    sweep_stop(f->sweep);
    removals_stop(&f->host);
    if (sweeper_lives(&f->host)) {
        uv_timer_start(&f->stop_timer, on_hand_time, HAND_MS, 0);
    } else {
        uv_timer_start(&f->stop_timer, on_force_time, FORCE_MS, 0);
    }
    if (f->host.held == 0) {
        fleet_maybe_stopped(f);
    }
}

void fleet_destroy(struct fleet *f)
{
    if (f == NULL || !f->left) {
        return; /* callbacks still refer to us, and the process is about to exit */
    }
    journal_finish(&f->host.journal);
    free(f->host.worker_path);
    free(f->host.agent_path);
    free(f);
}
