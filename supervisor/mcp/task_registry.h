/*
 * All tasks of a server: who owns them, how many and how much is kept, and until when.
 *
 * A task belongs to the name of a principal and to the flavour (legacy or modern) that it was made
 * in; for anybody else it does not exist. It is kept for its time to live, and if it
 * took longer than that, a little beyond its end, so that whoever polls can take the result. When
 * there is no room the oldest task goes that is over; a task that is not over is never dropped.
 *
 * `now_ms` is monotonic. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_TASK_REGISTRY_H
#define CLOISTER_SUPERVISOR_MCP_TASK_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/mcp/task.h"

#define TASKS_KEPT      256         /* of one principal, running ones too */
#define TASKS_TOTAL     4096        /* of all principals */
#define TASKS_BYTES     (64u << 20) /* kept results of all */
#define TASKS_PAGE      50          /* in one answer of tasks/list */
#define TASK_TTL_MS     3600000     /* if the client does not say */
#define TASK_TTL_MAX_MS 86400000

/* Of one principal. Gone with its last task. */
struct task_owner {
    struct task_owner *next;
    char *name;
    struct mcp_task *first, *last; /* oldest first */
    size_t count;
    size_t bytes; /* of kept results */
    uint64_t seq;
};

struct task_registry {
    struct task_owner *owners;
    size_t count, bytes;
};

void task_registry_init(struct task_registry *reg);
/* Drops all tasks; none of them may be running. */
void task_registry_finish(struct task_registry *reg);

/* A new task, working. NULL if there is no room or no randomness. */
struct mcp_task *task_registry_add(struct task_registry *reg, const char *owner, bool modern,
                                   uint64_t ttl_ms, uint64_t now_ms);

/* NULL if this owner has no such task. */
struct mcp_task *task_registry_find(const struct task_registry *reg, const char *owner, bool modern,
                                    const char *id);

/* Counts the bytes of what the task, which has just ended, keeps; makes room for them. */
void task_registry_keep(struct task_registry *reg, struct mcp_task *t);

/* Drops what has been kept long enough. */
void task_registry_expire(struct task_registry *reg, uint64_t now_ms);

/* A task whose questions nobody answered in time, or NULL. */
struct mcp_task *task_registry_late(const struct task_registry *reg, uint64_t now_ms);

/* When the next task is late, or has been kept long enough; UINT64_MAX: none as things are. */
uint64_t task_registry_due(const struct task_registry *reg);

/* One page of the tasks of an owner, oldest first. `cursor` NULL: the first. *ret_next, to be
 * freed, is NULL after the last page. False: that is no cursor of ours. */
bool task_registry_list(const struct task_registry *reg, const char *owner, bool modern,
                        const char *cursor, cJSON **ret_items, char **ret_next);

#endif
