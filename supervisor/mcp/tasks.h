/*
 * Requests as tasks: the methods tasks/…, and what input.c needs of tasks. How calls become tasks
 * and end is in request.h and internal.h. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_TASKS_H
#define CLOISTER_SUPERVISOR_MCP_TASKS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

struct mcp_request;
struct mcp_server;
struct mcp_task;
struct task_registry;

/* ---- tasks_methods.c ---- */

/* For the extension, after the client has been found to know it. */
void mcp_tasks_get(struct mcp_request *r);
void mcp_tasks_result(struct mcp_request *r); /* 2025-11-25 */
void mcp_tasks_list(struct mcp_request *r);   /* 2025-11-25 */
void mcp_tasks_update(struct mcp_request *r); /* the extension */
void mcp_tasks_cancel(struct mcp_request *r);

/* A request that waits for this task's result and whose client reads; NULL if there is none. */
struct mcp_request *mcp_task_listener(const struct mcp_task *t);

/* Answers all waiting requests, because the task is over. */
void mcp_task_answer_waiters(struct mcp_task *t);

/* ---- tasks.c ---- */

struct task_registry *mcp_task_registry(const struct mcp_request *r);

/* Notifies subscribers that the task of this request has changed. */
void mcp_task_changed(struct mcp_request *r);

/* Adds the task to the params of a message, as 2025-11-25 wants it. */
void mcp_task_relate(const struct mcp_task *t, cJSON *params);

/* Returns a task of the extension that belongs to this principal, or NULL. */
struct mcp_task *mcp_task_find(const struct mcp_server *s, const char *owner, const char *id);

/* Ends tasks whose questions were not answered in time, and drops expired ones. A timer does the
 * same when something is due. */
void mcp_tasks_look(struct mcp_server *s, uint64_t now_ms);

#endif
