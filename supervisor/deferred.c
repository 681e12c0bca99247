/*
 * An idle handle runs once per turn of the loop and keeps the loop from sleeping while it is
 * active; it is started by the first task and stopped when the last one has run. Tasks that are
 * posted by tasks run in the same pass only if they were posted before it began: the others wait
 * for the next turn, so a task that posts itself cannot starve the sockets.
 */
#include "supervisor/deferred.h"

#include <assert.h>

static void on_idle(uv_idle_t *handle)
{
    struct deferred *d = handle->data;
    struct deferred_task *last = TAILQ_LAST(&d->tasks, deferred_tasks);
    struct deferred_task *task;
    while ((task = TAILQ_FIRST(&d->tasks)) != NULL) {
        bool was_last = task == last;
        TAILQ_REMOVE(&d->tasks, task, node);
        task->queued = false;
        task->fn(task->arg);
        if (was_last) {
            break;
        }
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
        TAILQ_REMOVE(&d->tasks, task, node);
        task->queued = false;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct deferred *d = handle->data;
    d->closed(d->closed_arg);
}

void deferred_close(struct deferred *d, void (*closed)(void *arg), void *arg)
{
    assert(TAILQ_EMPTY(&d->tasks));
    d->closed = closed;
    d->closed_arg = arg;
    uv_close((uv_handle_t *)&d->idle, on_closed);
}
