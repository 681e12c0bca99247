/*
 * An idle handle runs once per turn of the loop, and keeps the loop from sleeping while it is
 * active; the first task starts it, and it stops after the last. A task that is posted by a running
 * task waits for the next turn, so a task that posts itself cannot starve the sockets.
 */
#include "supervisor/fleet/host/deferred.h"

#include <assert.h>

/* If the task is the last one of this turn, the one before it becomes the last. */
static void take_out(struct deferred *d, struct deferred_task *task)
{
    if (task == d->last) {
        d->last = TAILQ_PREV(task, deferred_tasks, node);
    }
    TAILQ_REMOVE(&d->tasks, task, node);
    task->queued = false;
}

static void on_idle(uv_idle_t *handle)
{
    struct deferred *d = handle->data;
    d->last = TAILQ_LAST(&d->tasks, deferred_tasks);
    while (d->last != NULL) {
        struct deferred_task *task = TAILQ_FIRST(&d->tasks);
        take_out(d, task);
        task->fn(task->arg);
    }
    if (TAILQ_EMPTY(&d->tasks)) {
        uv_idle_stop(&d->idle);
    }
}

void deferred_init(struct deferred *d, uv_loop_t *loop)
{
    uv_idle_init(loop, &d->idle);
    d->idle.data = d;
    TAILQ_INIT(&d->tasks);
    d->last = NULL;
}

void deferred_post(struct deferred *d, struct deferred_task *task, deferred_fn fn, void *arg)
{
    if (task->queued) {
        return;
    }
    task->fn = fn;
    task->arg = arg;
    task->queued = true;
    TAILQ_INSERT_TAIL(&d->tasks, task, node);
    uv_idle_start(&d->idle, on_idle);
}

void deferred_cancel(struct deferred *d, struct deferred_task *task)
{
    if (task->queued) {
        take_out(d, task);
    }
}

static void on_deferred_timer_closed(uv_handle_t *handle)
{
    struct deferred *d = handle->data;
    d->closed(d->closed_arg);
}

void deferred_close(struct deferred *d, void (*closed)(void *arg), void *arg)
{
    assert(TAILQ_EMPTY(&d->tasks));
    d->closed = closed;
    d->closed_arg = arg;
    uv_close((uv_handle_t *)&d->idle, on_deferred_timer_closed);
}
