/*
 * The end of a worker. Callbacks must not outlive what they point to, so it takes five steps, in
 * the order of step.c: backend objects first, those of PROBE and SWEEP and then the sandbox's own,
 * which drops their callbacks; then what hung on them; then the link to the supervisor, which
 * flushes the last answers; then the timers. All of it together has an end in time.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/ending.h"
#include "common/log.h"
#include "worker/life.h"
#include "worker/spec.h"

#define LEAVE_MS 1500

static void leave_step(struct worker *w);

/* ---- one after the other -------------------------------------------------------------------- */

static void on_oneshot_closed(void *arg)
{
    struct oneshot *e = arg;
    struct worker *w = e->worker;
    struct oneshot **at = &w->oneshots;
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    free(e->asker);
    free(e->offers);
    free(e);
    leave_step(w);
}

void life_oneshot_done(struct oneshot *e)
{
    if (!e->closing) {
        e->closing = true;
        e->backend->ops->close(e->backend, on_oneshot_closed, e);
    }
}

static void on_backend_closed(void *arg)
{
    struct worker *w = arg;
    w->backend = NULL;
    leave_step(w);
}

static void on_operations_closed(void *arg)
{
    struct worker *w = arg;
    w->operations = NULL;
    leave_step(w);
}

static void on_door_closed(void *arg)
{
    struct worker *w = arg;
    w->door = NULL;
    leave_step(w);
}

static void on_link_closed(void *arg)
{
    struct worker *w = arg;
    w->link = NULL;
    leave_step(w);
}

static void close_parts(struct worker *w)
{
    figures_destroy(w->figures);
    if (w->operations != NULL) {
        door_destroy(w->door, on_door_closed, w);
        operations_destroy(w->operations, on_operations_closed, w);
        agent_link_destroy(w->link, on_link_closed, w);
    }
}

static void on_server_closed(void *arg)
{
    struct worker *w = arg;
    w->supervisor.server = NULL;
    supervisor_link_set(w, SUPERVISOR_ENDED);
    leave_step(w);
}

static void hang_up_on_supervisor(struct worker *w)
{
    if (!supervisor_link_is_over(w)) {
        supervisor_link_set(w, SUPERVISOR_HANGING_UP);
        ipc_server_close(w->supervisor.server, on_server_closed, w);
    }
}

static void on_life_timer_closed(uv_handle_t *handle)
{
    struct worker *w = handle->data;
    if (--w->timers_left == 0) {
        worker_ended_fn ended = w->ended;
        void *arg = w->ended_arg;
        enum exit_code code = w->exit_code;
        spec_drop(&w->spec);
        alloc_listfree(&w->runners);
        door_rules_finish(&w->rules);
        buf_finish(&w->supervisor.answer);
        buf_finish(&w->opened);
        free(w);
        ended(arg, code);
    }
}

static void close_timers(struct worker *w)
{
    w->timers_left = 2;
    progress_destroy(w->progress);
    uv_close((uv_handle_t *)&w->supervisor.orphan_timer, on_life_timer_closed);
    uv_close((uv_handle_t *)&w->step_timer, on_life_timer_closed);
}

/* Nothing is left of what the step had to close. */
static bool is_step_over(const struct worker *w)
{
    switch (w->step.state) {
    case STEP_ONESHOTS:
        return w->oneshots == NULL;
    case STEP_BACKEND:
        return w->backend == NULL;
    case STEP_PARTS:
        return w->operations == NULL && w->link == NULL && w->door == NULL;
    case STEP_SERVER:
        return w->supervisor.server == NULL;
    default:
        return false;
    }
}

static void begin_step(struct worker *w)
{
    switch (w->step.state) {
    case STEP_BACKEND:
        if (w->backend != NULL) {
            w->backend->ops->close(w->backend, on_backend_closed, w);
        }
        break;
    case STEP_PARTS:
        close_parts(w);
        break;
    case STEP_SERVER:
        hang_up_on_supervisor(w);
        break;
    case STEP_TIMERS:
        close_timers(w);
        break;
    default:
        break;
    }
}

/* Something has closed. */
static void leave_step(struct worker *w)
{
    if (w->sm.state == WORKER_LEAVING && is_step_over(w)) {
        worker_set_step(w, w->step.state + 1);
        begin_step(w);
        leave_step(w); /* there may have been nothing to close */
    }
}

/* ---- when ------------------------------------------------------------------------------------ */

static void on_leave_timeout(uv_timer_t *timer)
{
    struct worker *w = timer->data;
    log_warn("sandbox %s: not everything could be closed in time", w->setup->sandbox);
    w->ended(w->ended_arg, w->exit_code); /* the process ends now, whatever still hangs */
}

void life_leave(struct worker *w, enum exit_code code)
{
    struct err err = ERR_INIT;
    if (w->sm.state == WORKER_LEAVING) {
        return;
    }
    bool alive = w->sm.state == WORKER_OPENING || w->sm.state == WORKER_OPEN;
    life_set_state(w, WORKER_LEAVING, exit_code_text((int)code));
    worker_set_step(w, STEP_ONESHOTS);
    w->exit_code = code;
    w->supervisor.mute = w->supervisor.mute || alive;
    err_set(&err, ERR_SHUTTING_DOWN, "the worker is leaving");
    life_answer_askers(w, &w->open_askers, NULL, &err, NULL);
    life_answer_askers(w, &w->close_askers, NULL, &err, NULL);
    if (w->link != NULL) {
        agent_link_end(w->link, &err);
    }
    for (struct oneshot *e = w->oneshots, *next; e != NULL; e = next) {
        next = e->next;
        life_oneshot_done(e);
    }
    uv_timer_stop(&w->supervisor.orphan_timer);
    uv_timer_start(&w->step_timer, on_leave_timeout, LEAVE_MS, 0);
    leave_step(w);
}

/* A thousand workers that look for a supervisor which cannot come leave no processor to anybody. */
void life_hang_up(struct worker *w)
{
    bool alone = w->supervisor.died || !supervisor_link_is_up(w);
    if (alone && w->sm.state != WORKER_NEW && !supervisor_link_is_over(w) &&
        ending_has_begun(w->setup->dir)) {
        w->supervisor.mute = true;
        hang_up_on_supervisor(w);
    }
}
