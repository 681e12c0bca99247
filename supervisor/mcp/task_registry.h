/*
 * All tasks of a server: their owners, limits and time to live.
 *
 * A task belongs to a principal's name and to the era (legacy or modern) in which it was created;
 * for others it does not exist. It is kept for its time to live, and for at least a minute after
 * its end, so that a client that polls can fetch the result. If there is no room, the oldest ended
 * task is evicted; a running task never is.
 *
 * `now_ms` is monotonic. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_TASK_REGISTRY_H
#define CLOISTER_SUPERVISOR_MCP_TASK_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/mcp/task.h"

#define TASKS_KEPT      256         /* of one principal, including running ones */
#define TASKS_TOTAL     4096        /* of all principals */
#define TASKS_BYTES     (64u << 20) /* stored results of all tasks */
#define TASKS_PAGE      50          /* tasks in one answer of tasks/list */
#define TASK_TTL_MS     3600000     /* if the client sets none */
#define TASK_TTL_MAX_MS 86400000

/* The tasks of one principal. Freed with its last task. */
struct task_owner {
    struct task_owner *next;
    char *name;
    struct mcp_task *first, *last; /* oldest first */
    size_t count;
    size_t bytes; /* of stored results */
    uint64_t seq;
};

struct task_registry {
    struct task_owner *owners;
    size_t count, bytes;
};

void task_registry_init(struct task_registry *reg);
/* Frees all tasks; none may be running. */
void task_registry_finish(struct task_registry *reg);

/* Creates a working task. NULL if there is no room or no randomness. */
struct mcp_task *task_registry_add(struct task_registry *reg, const char *owner, bool modern,
                                   uint64_t ttl_ms, uint64_t now_ms);

/* NULL if this owner has no such task. */
struct mcp_task *task_registry_find(const struct task_registry *reg, const char *owner, bool modern,
                                    const char *id);

/* Counts the stored bytes of a task that has just ended, and makes room for them. */
void task_registry_keep(struct task_registry *reg, struct mcp_task *t);

/* Drops the tasks whose time is over. */
void task_registry_expire(struct task_registry *reg, uint64_t now_ms);

/* Returns a task whose questions were not answered in time, or NULL. */
struct mcp_task *task_registry_late(const struct task_registry *reg, uint64_t now_ms);

/* When the next task becomes late or expires; UINT64_MAX: none can. */
uint64_t task_registry_due(const struct task_registry *reg);

/* One page of an owner's tasks, oldest first. `cursor` NULL: the first page. The caller frees
 * *ret_next, which is NULL after the last page. False: the cursor is invalid. */
bool task_registry_list(const struct task_registry *reg, const char *owner, bool modern,
                        const char *cursor, cJSON **ret_items, char **ret_next);

#endif
