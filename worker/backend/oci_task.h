/*
 * What one backend object has on the loop, so that closing it can drop everything at once and tell
 * when the last handle is gone.
 *
 * Thread: the loop's. Nothing blocks. Callbacks never run inside the call that takes them, and
 * never after oci_tasks_close().
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_TASK_H
#define CLOISTER_WORKER_BACKEND_OCI_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct oci_task;

struct oci_tasks {
    uv_loop_t *loop;
    struct oci_task *first;
    void (*empty)(void *arg); /* set while closing */
    void *arg;
};

/* Base of anything that holds handles: first member of its struct. */
struct oci_task {
    struct oci_tasks *tasks;
    struct oci_task *prev, *next;
    void (*drop)(struct oci_task *task); /* no callbacks any more; closes the handles */
};

void oci_tasks_init(struct oci_tasks *tasks, uv_loop_t *loop);

/* Drops all tasks; `empty` is called from the loop when their handles are closed. */
void oci_tasks_close(struct oci_tasks *tasks, void (*empty)(void *arg), void *arg);

void oci_task_enter(struct oci_tasks *tasks, struct oci_task *task,
                    void (*drop)(struct oci_task *task));

/* After the last handle is closed; the caller frees the task's memory next. */
void oci_task_leave(struct oci_task *task);

/* Calls fn once, after delay_ms on the loop. */
typedef void (*oci_later_fn)(void *arg);
void oci_later(struct oci_tasks *tasks, uint64_t delay_ms, oci_later_fn fn, void *arg);

/* Waits until a process is gone or the deadline passes. Takes pid_fd over. */
typedef void (*oci_wait_fn)(void *arg, bool gone);
void oci_wait(struct oci_tasks *tasks, int pid_fd, uint64_t deadline_ms, oci_wait_fn fn, void *arg);

#endif
