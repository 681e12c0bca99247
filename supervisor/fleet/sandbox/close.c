/*
 * The end of a sandbox. Whatever it was in the middle of, these steps (drawn in states.c) lead to
 * nothing being left:
 *
 *   installers   of its packages end first
 *   its worker   is asked to CLOSE, which destroys the sandbox; one that cannot be asked, or does
 *                not answer, is killed
 *   a sweep      by another worker, if none has confirmed that nothing is left; tried twice, then
 *                left to removals.c, which has more time
 *   its record   may still be being written
 *   its files    the directory is removed
 *   done         a closed sandbox is freed; a failed one stays as a tombstone, to report why
 *
 * A client that closes a sandbox is answered after CLOSE: the sandbox is gone then, and only our
 * cleanup is left.
 *
 * A sandbox that is left to the next server takes none of these steps: we close the link and forget
 * it.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/log.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/host/runs.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "supervisor/fleet/state/disk.h"
#include "supervisor/fleet/state/removals.h"
#include "supervisor/fleet/workers/oneshot.h"
#include "supervisor/metrics/metrics.h"

#define EXIT_MS           1000 /* from the answer to CLOSE to the exit */
#define SWEEPS_MAX        2
#define RETRY_MS          1000 /* before a failed removal is retried */
#define SHUTDOWN_CLOSE_MS 3000 /* leaves time for a sweep within the time limit of the shutdown */

static void clean_files(struct sandbox *s);
static void sweep_sandbox(struct sandbox *s);

/* ---- answers --------------------------------------------------------------------------------- */

static void tell_closed(struct sandbox *s, int rc, const struct err *err, const char *hint)
{
    struct sandbox_waiter *waiter;
    while ((waiter = TAILQ_FIRST(&s->end.waiters)) != NULL) {
        TAILQ_REMOVE(&s->end.waiters, waiter, node);
        waiter->done(waiter->arg, rc, err, hint);
        free(waiter);
    }
}

void sandbox_answer_opened(struct sandbox *s, const struct err *err, const char *hint)
{
    fleet_info_fn opened = s->opening.done;
    s->opening.done = NULL;
    if (opened == NULL) {
        return;
    }
    if (err != NULL) {
        opened(s->opening.arg, -err->code, NULL, err, hint);
    } else {
        struct fleet_info info = sandbox_info(s);
        opened(s->opening.arg, 0, &info, NULL, hint);
    }
}

/* ---- done ---- */

static void on_sandbox_timer_closed(uv_handle_t *handle)
{
    struct sandbox *s = handle->data;
    if (--s->timers_open > 0) {
        return;
    }
    struct fleet_host *host = s->host;
    sandbox_free(s);
    fleet_host_release(host);
}

static void forget_sandbox(struct sandbox *s)
{
    s->on_gone(s->on_gone_arg, s);
    sandbox_installers_forget(s);
    sandbox_status_flush(s);
    sandbox_changes_flush(s);
    uv_close((uv_handle_t *)&s->clock.timer, on_sandbox_timer_closed);
    uv_close((uv_handle_t *)&s->repair.timer, on_sandbox_timer_closed);
    uv_close((uv_handle_t *)&s->opening.poll_timer, on_sandbox_timer_closed);
    uv_close((uv_handle_t *)&s->calls_check, on_sandbox_timer_closed);
}

static void end_cleanup(struct sandbox *s)
{
    if (s->end.sm.state != CLEANUP_DONE) {
        sm_move(&s->end.sm, CLEANUP_DONE);
    }
    sandbox_installer_gone(s);
    if (s->end.task.queued) {
        return; /* a failed one is being closed in this moment: on_close() calls this again */
    }
    if (sandbox_state(s) == SANDBOX_CLOSING) {
        tell_closed(s, 0, NULL, "");
        sandbox_set_state(s, SANDBOX_CLOSED, "nothing left");
        forget_sandbox(s);
    }
}

/* ---- files ---- */

static void on_directory_removed(void *arg, int rc, const struct err *err)
{
    struct sandbox *s = arg;
    if (rc < 0) {
        log_warn("sandbox: directory stays for now: %s sandbox=%s", err->text, s->id);
        removals_add(s->host, s->id, s->dir, NULL, 0, RETRY_MS);
    }
    end_cleanup(s);
}

static void clean_files(struct sandbox *s)
{
    if (s->dir == NULL) {
        end_cleanup(s);
        return;
    }
    if (s->record_saved) {
        sm_move(&s->end.sm, CLEANUP_FILES);
        disk_remove(s->host, s->dir, on_directory_removed, s);
    } else if (s->end.sm.state != CLEANUP_RECORD) {
        sm_move(&s->end.sm, CLEANUP_RECORD); /* on_record_saved() calls this again */
    }
}

/* ---- sweep ---- */

static void on_sandbox_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                             const char *hint)
{
    struct sandbox *s = arg;
    (void)reply, (void)hint;
    if (rc == 0) {
        log_info("sandbox swept sandbox=%s", s->id);
        sandbox_made_destroyed(s);
    } else {
        log_warn("sandbox: sweep failed: %s sandbox=%s", err->text, s->id);
    }
    sweep_sandbox(s);
}

static void sweep_sandbox(struct sandbox *s)
{
    if (!sandbox_may_exist(s)) {
        clean_files(s);
        return;
    }
    if (s->end.sm.state != CLEANUP_SWEEP) {
        sm_move(&s->end.sm, CLEANUP_SWEEP);
    }
    const struct oneshot_target target = {s->backend, s->spec.place, s->runtime};
    struct err err = ERR_INIT;
    while (s->end.sweeps < SWEEPS_MAX && !s->host->forcing) {
        s->end.sweeps++;
        struct worker_args args = sandbox_worker_args(s, s->generation + s->end.sweeps);
        if (instance_restore(s->host->instance, s->dir, &err) == 0 &&
            worker_oneshot_start(s->host, &args, MSG_SWEEP, &target, on_sandbox_swept, s, &err) ==
                0) {
            return;
        }
    }
    log_error("sandbox could not be removed, will be retried%s%s sandbox=%s dir=%s",
              err.code != 0 ? ": " : "", err.text, s->id, s->dir);
    removals_add(s->host, s->id, s->dir, &target, s->generation + s->end.sweeps + 1, RETRY_MS);
    end_cleanup(s);
}

/* ---- worker ---- */

static void turn_over(struct sandbox *s)
{
    if (s->host->turns != NULL) {
        turns_give(s->host->turns, &s->end.turn);
    }
}

static void on_close_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                              const char *hint)
{
    struct sandbox *s = arg;
    (void)reply, (void)hint;
    turn_over(s);
    if (rc == 0) {
        sandbox_made_destroyed(s);
        /* first, since an interrupted removal may have deleted the mark already */
        record_drop(s->dir);
        worker_link_retire(s->link, EXIT_MS);
        sandbox_installer_gone(s);
        if (sandbox_state(s) == SANDBOX_CLOSING) {
            tell_closed(s, 0, NULL, "");
        }
    } else if (err != NULL) {
        worker_link_kill(s->link, "could not close the sandbox: %s", err->text);
    } /* else it is dying: sandbox_cleanup_worker_dead() follows */
}

static void ask_close(void *arg)
{
    struct sandbox *s = arg;
    struct msg m = {.type = MSG_CLOSE};
    struct err err = ERR_INIT;
    uint64_t timeout_ms =
        s->host->stopping && s->host->turns == NULL ? SHUTDOWN_CLOSE_MS : TIME_CLOSE_MS;
    if (s->link == NULL || worker_link_is_ending(s->link)) {
        /* it died while it waited: sandbox_cleanup_worker_dead() follows, or was called */
        turn_over(s);
    } else if (!worker_link_is_ready(s->link)) {
        worker_link_kill(s->link, "is not needed any more");
    } else if (worker_link_ask(s->link, &m, timeout_ms, on_close_answered, s, &err) < 0) {
        worker_link_kill(s->link, "%s", err.text);
    }
}

static void end_worker(struct sandbox *s)
{
    struct ending_first first;
    sm_move(&s->end.sm, CLEANUP_WORKER);
    if (s->link == NULL) {
        sweep_sandbox(s);
    } else if (s->host->turns != NULL && ending_read_first(s->dir, &first)) {
        /* everything in it is dead, so closing can wait for its turn */
        turns_take(s->host->turns, &s->end.turn, ask_close, s);
    } else {
        ask_close(s);
    }
}

void sandbox_cleanup_worker_dead(struct sandbox *s)
{
    turn_over(s);
    if (s->end.sm.state == CLEANUP_WORKER) {
        sweep_sandbox(s);
    } /* else its turn has not come: sandbox_cleanup() finds no worker then */
}

/* Shortens the time of its CLOSE, which was sent before the server began to stop. */
static void hurry(struct sandbox *s)
{
    if (s->host->stopping && s->end.sm.state == CLEANUP_WORKER && s->link != NULL &&
        !worker_link_is_ending(s->link) && !s->end.turn.waits) {
        worker_link_retire(s->link, SHUTDOWN_CLOSE_MS);
    }
}

void sandbox_cleanup(struct sandbox *s)
{
    switch (s->end.sm.state) {
    case CLEANUP_NONE:
        uv_timer_stop(&s->repair.timer);
        uv_timer_stop(&s->opening.poll_timer);
        engine_forget(s->engine, &s->opening.engine_wait);
        if (s->dir != NULL && !s->host->instance->own) {
            record_mark_closing(s->dir);
        }
        sm_move(&s->end.sm, CLEANUP_INSTALLERS);
        if (!sandbox_close_installers(s)) {
            end_worker(s);
        }
        break;
    case CLEANUP_INSTALLERS:
        if (TAILQ_EMPTY(&s->installing.installers)) {
            end_worker(s);
        }
        break;
    case CLEANUP_RECORD:
        clean_files(s);
        break;
    case CLEANUP_DONE:
        end_cleanup(s);
        break;
    case CLEANUP_WORKER:
        hurry(s);
        break;
    default:
        break; /* continues by itself */
    }
}

/* ---- start of the end ------------------------------------------------------------------------ */

static void on_close(void *arg)
{
    struct sandbox *s = arg;
    struct err err = ERR_INIT;
    err_set(&err, s->host->stopping ? ERR_SHUTTING_DOWN : ERR_GONE, "the sandbox was closed: %s",
            s->reason);
    sandbox_answer_opened(s, &err, "");
    s->host->runs->cancel(s);
    sandbox_cleanup(s);
}

void sandbox_close(struct sandbox *s, const char *cause, fleet_done_fn done, void *arg)
{
    if (done != NULL) {
        struct sandbox_waiter *waiter = alloc_one(struct sandbox_waiter);
        waiter->done = done;
        waiter->arg = arg;
        TAILQ_INSERT_TAIL(&s->end.waiters, waiter, node);
    }
    if (sandbox_state(s) < SANDBOX_CLOSING) {
        free(s->reason);
        s->reason = alloc_strdup(cause);
        sandbox_set_state(s, SANDBOX_CLOSING, cause);
        uv_timer_stop(&s->clock.timer);
        deferred_post(&s->host->deferred, &s->end.task, on_close, s);
    } else {
        hurry(s);
    }
}

void sandbox_create_failed(struct sandbox *s, const struct err *err, const char *hint)
{
    if (sandbox_state(s) != SANDBOX_CREATING) {
        return;
    }
    sandbox_claim_lose(s);
    struct err kept = *err;
    CLEANUP_FREE char *kept_hint = alloc_strdup(hint);
    free(s->reason);
    s->reason = alloc_strdup(kept.text);
    sandbox_set_state(s, SANDBOX_CLOSING, kept.text);
    if (!sandbox_is_installer(s) && !sandbox_is_entry(s) && !sandbox_claim_is_lost(s)) {
        metrics_count(METRIC_SANDBOXES_OPENED, METRIC_SUCCESS_FAILED); /* a client was refused */
    }
    uv_timer_stop(&s->clock.timer);
    sandbox_answer_opened(s, &kept, kept_hint);
    s->host->runs->fail(s, &kept, kept_hint);
    sandbox_cleanup(s);
}

/* ---- leaving it to the next server ----------------------------------------------------------- */

static void on_leave(void *arg)
{
    struct sandbox *s = arg;
    s->host->runs->leave(s);
    if (s->link != NULL) {
        worker_link_abandon(STEAL_PTR(s->link));
    }
    forget_sandbox(s);
}

void sandbox_leave(struct sandbox *s)
{
    sandbox_set_state(s, SANDBOX_LEFT, "the server is shutting down");
    uv_timer_stop(&s->clock.timer);
    uv_timer_stop(&s->repair.timer);
    uv_timer_stop(&s->opening.poll_timer);
    deferred_post(&s->host->deferred, &s->end.task, on_leave, s);
}
