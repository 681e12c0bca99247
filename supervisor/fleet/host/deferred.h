/*
 * Runs a task later, before the loop sleeps again. This keeps the promise that a callback never
 * runs inside the call that registers it.
 *
 * Thread: the loop thread only. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_DEFERRED_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_DEFERRED_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

typedef void (*deferred_fn)(void *arg);

/* Embedded in its owner; must be zeroed before its first use. */
struct deferred_task {
    TAILQ_ENTRY(deferred_task) node;
    deferred_fn fn;
    void *arg;
    bool queued;
};

struct deferred {
    uv_idle_t idle; /* active only while tasks wait, so it never keeps an idle loop awake */
    TAILQ_HEAD(deferred_tasks, deferred_task) tasks;
    struct deferred_task *last; /* while tasks run: the last one of this turn; NULL: none is left */
    void (*closed)(void *arg);
    void *closed_arg;
};

void deferred_init(struct deferred *d, uv_loop_t *loop);

/* Tasks run in the order of posting. Posting a queued task again changes nothing. A task that is
 * posted by a task runs in the loop's next turn, so that tasks which post each other do not starve
 * other events. */
void deferred_post(struct deferred *d, struct deferred_task *task, deferred_fn fn, void *arg);

/* The task will not run. Does nothing if it is not queued. */
void deferred_cancel(struct deferred *d, struct deferred_task *task);

/* No task may be queued. `closed` is called when the memory may be freed. */
void deferred_close(struct deferred *d, void (*closed)(void *arg), void *arg);

#endif
