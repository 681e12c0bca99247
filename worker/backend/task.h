/*
 * The tasks of one backend object on the loop, so that closing the object can drop all of them and
 * knows when the last handle is closed.
 *
 * Thread: the loop's. Nothing blocks. Callbacks never run inside the call that takes them, and
 * never after tasks_close().
 */
#ifndef CLOISTER_WORKER_BACKEND_TASK_H
#define CLOISTER_WORKER_BACKEND_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct task;

struct tasks {
    uv_loop_t *loop;
    struct task *first;
    void (*empty)(void *arg); /* set while closing */
    void *arg;
};

/* Base of anything that holds handles: first member of its struct. */
struct task {
    struct tasks *tasks;
    struct task *prev, *next;
    void (*drop)(struct task *task); /* no callbacks any more; closes the handles */
};

void tasks_init(struct tasks *tasks, uv_loop_t *loop);

/* Drops all tasks; `empty` is called from the loop when their handles are closed. */
void tasks_close(struct tasks *tasks, void (*empty)(void *arg), void *arg);

void task_enter(struct tasks *tasks, struct task *task, void (*drop)(struct task *task));

/* Removes a task from its list after its last handle is closed; the caller frees its memory
 * next. */
void task_leave(struct task *task);

/* Calls fn once, after delay_ms on the loop. */
typedef void (*task_later_fn)(void *arg);
void task_later(struct tasks *tasks, uint64_t delay_ms, task_later_fn fn, void *arg);

/* Waits until a process is gone or the deadline passes. Takes pid_fd over. */
typedef void (*task_wait_fn)(void *arg, bool gone);
void task_wait(struct tasks *tasks, int pid_fd, uint64_t deadline_ms, task_wait_fn fn, void *arg);

#endif
