/*
 * Each wait for an execution has one final callback: when the execution has ended, or with its
 * state when the time is up.
 *
 * One timer serves all waits. It is set for the first of them, and left alone if that ends early,
 * as it nearly always does; when it fires, it finds nothing due. The timer does not keep the loop
 * alive; running calls do. Followers of output use it as well.
 *
 * While sandboxes of an earlier server are being taken over, an unknown execution may still be
 * found. A wait for it gets no answer before that is known or its time is up; then the answer is
 * that it is unknown. A client that is told "no such execution" would run its code again.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/calls/call.h"
#include "supervisor/calls/executions_internal.h"
#include "supervisor/calls/output_progress.h"
#include "supervisor/fleet/host/host.h"

#define HINT_EXPECTED                                                                              \
    "ask for it again when that sandbox answers: its engine may be busy or stopped; do not run "   \
    "the code again before that"
#define CONFIRM_MS      100  /* interval of checks whether the agent has it */
#define CONFIRM_MOST_MS 1000 /* from its start; then the answer says that this is unknown */

/* ---- final callbacks ------------------------------------------------------------------------- */

static void stop_following(struct fleet_await *w);

/* Takes it off all lists; the caller must call its `done`. */
static void take_await_off(struct fleet_await *w)
{
    deferred_cancel(&w->registry->host->deferred, &w->task);
    stop_following(w);
    if (w->is_timed) {
        TAILQ_REMOVE(&w->registry->timed, w, timed);
    }
    if (w->execution != NULL) {
        TAILQ_REMOVE(&w->execution->awaits, w, node);
    }
}

static void tell_await(struct fleet_await *w, int rc, const struct fleet_outcome *outcome,
                       const struct err *err, const char *hint)
{
    struct fleet_host *host = w->registry->host;
    take_await_off(w);
    w->done(w->arg, rc, outcome, err, hint);
    free(w);
    fleet_host_release(host);
}

static void tell_present(struct fleet_await *w)
{
    const struct execution *e = w->execution;
    if (e->call == NULL && e->rc < 0) {
        tell_await(w, e->rc, NULL, e->err, e->hint);
    } else {
        struct fleet_outcome outcome = execution_look(e);
        tell_await(w, 0, &outcome, NULL, "");
    }
}

static void tell_expected(struct fleet_await *w)
{
    struct err err = ERR_INIT;
    if (w->registry->host->stopping) { /* the next server may find it */
        err_set(&err, ERR_SHUTTING_DOWN, "the server is shutting down");
    } else {
        err_set(&err, ERR_ENGINE,
                "whether there is such an execution is not known yet: a sandbox that an earlier "
                "server left does not answer, and is not known to have ended");
    }
    tell_await(w, -(int)err.code, NULL, &err, HINT_EXPECTED);
}

static void on_await_tell(void *arg)
{
    struct fleet_await *w = arg;
    struct execution *e = w->execution;
    if (e == NULL) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_EXECUTION_NOT_FOUND, "no such execution");
        tell_await(w, -ERR_EXECUTION_NOT_FOUND, NULL, &err, "");
        return;
    }
    e->pins++;
    if (e->expected) {
        tell_expected(w);
    } else {
        tell_present(w);
    }
    execution_unpin(e);
}

void execution_tell_all(struct execution *e)
{
    /* Waits that begin inside a callback get a callback of their own. */
    struct fleet_await *last = TAILQ_LAST(&e->awaits, execution_awaits);
    struct fleet_await *w;
    bool more = last != NULL;
    e->pins++;
    while (more && (w = TAILQ_FIRST(&e->awaits)) != NULL) {
        more = w != last;
        tell_present(w);
    }
    execution_unpin(e);
}

/* ---- followers ------------------------------------------------------------------------------- */

static void set_timer(struct executions *x, uint64_t due_ms);

static void on_await_progress(void *arg)
{
    struct fleet_await *w = arg;
    uint64_t now_ms = uv_now(w->registry->host->loop);
    struct fleet_outcome so_far = execution_look(w->execution);
    output_progress_tell(w->progress, &so_far, now_ms);
    if (output_progress_any(w->progress)) { /* it was not wanted now */
        set_timer(w->registry, w->progress->next_ms);
    }
}

/* Reports new output as soon as the interval allows. */
static void report_await_progress(struct fleet_await *w)
{
    struct executions *x = w->registry;
    if (!output_progress_any(w->progress)) {
        return;
    }
    if (w->progress->next_ms <= uv_now(x->host->loop)) {
        deferred_post(&x->host->deferred, &w->progress_task, on_await_progress, w);
    } else {
        set_timer(x, w->progress->next_ms);
    }
}

/* It has written: the wait ends unless it writes again. */
static void expect_quiet(struct fleet_await *w)
{
    uint64_t due_ms = uv_now(w->registry->host->loop) + w->quiet_ms;
    w->due_ms = due_ms < w->last_ms ? due_ms : w->last_ms;
    set_timer(w->registry, w->due_ms);
}

static void on_more(void *arg, struct view out, struct view err)
{
    struct execution *e = arg;
    struct fleet_await *w;
    TAILQ_FOREACH(w, &e->awaits, node)
    {
        if (w->progress != NULL) {
            output_progress_add(w->progress, out, err);
            report_await_progress(w);
        }
        if (w->quiet_ms != 0) {
            expect_quiet(w);
        }
    }
}

void execution_follow_call(struct execution *e)
{
    bool followed = false;
    const struct fleet_await *w;
    TAILQ_FOREACH(w, &e->awaits, node)
    {
        followed = followed || w->progress != NULL || w->quiet_ms != 0;
    }
    if (e->call != NULL) {
        call_follow(e->call, followed ? on_more : NULL);
    }
}

void executions_await_output(struct fleet_await *w, uint64_t every_ms, fleet_output_fn output)
{
    if (w->execution != NULL && w->progress == NULL) {
        w->progress = output_progress_create(every_ms, output, w->arg);
        TAILQ_INSERT_TAIL(&w->registry->followers, w, follower);
        execution_follow_call(w->execution);
    }
}

static void stop_following(struct fleet_await *w)
{
    if (w->progress != NULL) {
        deferred_cancel(&w->registry->host->deferred, &w->progress_task);
        TAILQ_REMOVE(&w->registry->followers, w, follower);
        free(STEAL_PTR(w->progress));
        execution_follow_call(w->execution);
    }
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void on_await_time(uv_timer_t *timer);

/* Makes the timer fire at due_ms or earlier. */
static void set_timer(struct executions *x, uint64_t due_ms)
{
    uint64_t now_ms = uv_now(x->host->loop);
    if (x->timer_due_ms != 0 && x->timer_due_ms <= due_ms) {
        return;
    }
    x->timer_due_ms = due_ms;
    uv_timer_start(&x->timer, on_await_time, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* "running" promises that the execution will be found again, by the next server if need be. Until
 * its START has arrived that is not certain, so we wait for a moment. */
static bool must_be_confirmed(const struct fleet_await *w)
{
    const struct execution *e = w->execution;
    return e != NULL && e->call != NULL && !call_is_known(e->call) &&
           uv_now(w->registry->host->loop) - e->begun_ms < CONFIRM_MOST_MS;
}

static void on_await_time(uv_timer_t *timer)
{
    struct executions *x = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    uint64_t next_ms = 0;
    struct fleet_await *w;
    x->timer_due_ms = 0;
    TAILQ_FOREACH(w, &x->timed, timed)
    {
        if (w->due_ms <= now_ms && must_be_confirmed(w)) {
            w->due_ms = now_ms + CONFIRM_MS;
        }
        if (w->due_ms <= now_ms) {
            executions_await_end(w);
        } else if (next_ms == 0 || w->due_ms < next_ms) {
            next_ms = w->due_ms;
        }
    }
    if (next_ms != 0) {
        set_timer(x, next_ms);
    }
    TAILQ_FOREACH(w, &x->followers, follower)
    {
        report_await_progress(w);
    }
}

static void wait_at_most(struct fleet_await *w, uint64_t wait_ms)
{
    struct executions *x = w->registry;
    w->is_timed = true;
    w->due_ms = uv_now(x->host->loop) + wait_ms;
    TAILQ_INSERT_TAIL(&x->timed, w, timed);
    set_timer(x, w->due_ms);
}

void execution_begin_wait(struct fleet_await *w)
{
    const struct execution *e = w->execution;
    if (w->is_timed) { /* it waited for an execution that has just been found */
        w->is_timed = false;
        TAILQ_REMOVE(&w->registry->timed, w, timed);
    }
    if (e == NULL || execution_is_over(e) || (w->wait_ms == 0 && !must_be_confirmed(w))) {
        executions_await_end(w);
    } else if (w->wait_ms != FLEET_WAIT_FOR_EVER) {
        wait_at_most(w, w->wait_ms);
    }
}

struct fleet_await *executions_await(struct executions *x, const char *owner, const char *id,
                                     uint64_t wait_ms, fleet_outcome_fn done, void *arg)
{
    struct fleet_await *w = alloc_one(struct fleet_await);
    struct execution *e = executions_find_or_expect(x, owner, id);
    w->registry = x;
    w->execution = e;
    w->wait_ms = wait_ms;
    w->done = done;
    w->arg = arg;
    fleet_host_hold(x->host);
    if (e != NULL) {
        TAILQ_INSERT_TAIL(&e->awaits, w, node);
    }
    if (e == NULL || !e->expected) {
        execution_begin_wait(w);
    } else if (wait_ms != FLEET_WAIT_FOR_EVER) {
        wait_at_most(w, fleet_host_patience_ms(x->host));
    }
    return w;
}

void executions_await_quiet(struct fleet_await *w, uint64_t quiet_ms)
{
    if (w->execution == NULL || !w->is_timed) {
        return; /* it ends at once */
    }
    const struct fleet_outcome so_far = execution_look(w->execution);
    w->quiet_ms = quiet_ms;
    w->last_ms = w->due_ms;
    execution_follow_call(w->execution);
    if (so_far.out_bytes > so_far.told_out || so_far.err_bytes > so_far.told_err) {
        expect_quiet(w);
    }
}

void executions_await_end(struct fleet_await *await)
{
    deferred_post(&await->registry->host->deferred, &await->task, on_await_tell, await);
}
