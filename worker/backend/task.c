/*
 * A libuv handle's memory must outlive its close callback, which runs a loop turn later. A backend
 * object has a changing set of handles (timers, pipes, processes) for several calls at once, so
 * each set is a task in one list. Closing the object drops all tasks and waits until the list is
 * empty; no other code needs to count handles.
 */
#include "worker/backend/task.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"

void tasks_init(struct tasks *tasks, uv_loop_t *loop)
{
    *tasks = (struct tasks){.loop = loop};
}

void task_enter(struct tasks *tasks, struct task *task, void (*drop)(struct task *task))
{
    task->tasks = tasks;
    task->drop = drop;
    task->prev = NULL;
    task->next = tasks->first;
    if (tasks->first != NULL) {
        tasks->first->prev = task;
    }
    tasks->first = task;
}

void task_leave(struct task *task)
{
    struct tasks *tasks = task->tasks;
    if (task->prev != NULL) {
        task->prev->next = task->next;
    } else {
        tasks->first = task->next;
    }
    if (task->next != NULL) {
        task->next->prev = task->prev;
    }
    if (tasks->first == NULL && tasks->empty != NULL) {
        tasks->empty(tasks->arg);
    }
}

static void on_nothing(void *arg)
{
    (void)arg;
}

void tasks_close(struct tasks *tasks, void (*empty)(void *arg), void *arg)
{
    /* if there is no task, one is made for the callback */
    task_later(tasks, 0, on_nothing, NULL);
    tasks->empty = empty;
    tasks->arg = arg;
    /* drop() only starts closing, so the list does not change meanwhile */
    for (struct task *t = tasks->first, *next; t != NULL; t = next) {
        next = t->next;
        t->drop(t);
    }
}

/* ---- one timer ------------------------------------------------------------------------------ */

struct later {
    struct task task;
    uv_timer_t timer;
    task_later_fn fn;
    void *arg;
};

static void on_task_later_closed(uv_handle_t *handle)
{
    struct later *l = handle->data;
    task_leave(&l->task);
    free(l);
}

static void drop_later_task(struct task *task)
{
    struct later *l = (struct later *)task;
    l->fn = NULL;
    if (!uv_is_closing((uv_handle_t *)&l->timer)) {
        uv_close((uv_handle_t *)&l->timer, on_task_later_closed);
    }
}

static void on_task_later(uv_timer_t *timer)
{
    struct later *l = timer->data;
    task_later_fn fn = l->fn;
    void *arg = l->arg;
    drop_later_task(&l->task);
    fn(arg);
}

void task_later(struct tasks *tasks, uint64_t delay_ms, task_later_fn fn, void *arg)
{
    struct later *l = alloc_one(struct later);
    l->fn = fn;
    l->arg = arg;
    uv_timer_init(tasks->loop, &l->timer);
    l->timer.data = l;
    task_enter(tasks, &l->task, drop_later_task);
    uv_timer_start(&l->timer, on_task_later, delay_ms, 0);
}

/* ---- the end of a process ------------------------------------------------------------------- */

struct wait {
    struct task task;
    uv_poll_t poll;
    uv_timer_t timer;
    int pid_fd;
    int open; /* handles not closed yet */
    task_wait_fn fn;
    void *arg;
};

static void on_wait_closed(uv_handle_t *handle)
{
    struct wait *w = handle->data;
    if (--w->open == 0) {
        close(w->pid_fd);
        task_leave(&w->task);
        free(w);
    }
}

static void wait_drop(struct task *task)
{
    struct wait *w = (struct wait *)task;
    w->fn = NULL;
    if (!uv_is_closing((uv_handle_t *)&w->timer)) {
        uv_close((uv_handle_t *)&w->timer, on_wait_closed);
        if (w->open == 2) {
            uv_close((uv_handle_t *)&w->poll, on_wait_closed);
        }
    }
}

static void wait_end(struct wait *w, bool gone)
{
    task_wait_fn fn = w->fn;
    void *arg = w->arg;
    if (fn != NULL) {
        wait_drop(&w->task);
        fn(arg, gone);
    }
}

static void on_gone(uv_poll_t *poll, int status, int events)
{
    (void)events;
    wait_end(poll->data, status == 0);
}

static void on_wait_deadline(uv_timer_t *timer)
{
    wait_end(timer->data, false);
}

void task_wait(struct tasks *tasks, int pid_fd, uint64_t deadline_ms, task_wait_fn fn, void *arg)
{
    struct wait *w = alloc_one(struct wait);
    w->pid_fd = pid_fd;
    w->fn = fn;
    w->arg = arg;
    uv_timer_init(tasks->loop, &w->timer);
    w->timer.data = w;
    w->open = 1;
    task_enter(tasks, &w->task, wait_drop);
    /* if the descriptor cannot be polled, the deadline checks it */
    if (uv_poll_init(tasks->loop, &w->poll, pid_fd) == 0) {
        w->poll.data = w;
        w->open = 2;
        uv_poll_start(&w->poll, UV_READABLE, on_gone);
    }
    uv_timer_start(&w->timer, on_wait_deadline, deadline_ms, 0);
}
