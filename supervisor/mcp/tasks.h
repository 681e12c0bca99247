/*
 * Requests as tasks: what the methods tasks/… answer, and what input.c needs of tasks. How calls
 * become tasks and end is in request.h and internal.h. Thread: the loop thread. Nothing blocks.
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

/* A modern client has been found to know the extension. */
void mcp_tasks_get(struct mcp_request *r);
void mcp_tasks_result(struct mcp_request *r); /* 2025-11-25 */
void mcp_tasks_list(struct mcp_request *r);   /* 2025-11-25 */
void mcp_tasks_update(struct mcp_request *r); /* the extension */
void mcp_tasks_cancel(struct mcp_request *r);

/* Somebody who waits for the result of this task and reads; NULL if there is nobody. */
struct mcp_request *mcp_task_listener(const struct mcp_task *t);

/* It is over: answers all who wait. */
void mcp_task_answer_waiters(struct mcp_task *t);

/* ---- tasks.c ---- */

struct task_registry *mcp_task_registry(const struct mcp_request *r);

/* The task that this request works for has changed: whoever wants to hear of it is told. */
void mcp_task_changed(struct mcp_request *r);

/* Params of a message that belongs to a task of 2025-11-25 say so. */
void mcp_task_relate(const struct mcp_task *t, cJSON *params);

/* A task of the extension, as this principal may see it; NULL if there is none. */
struct mcp_task *mcp_task_find(const struct mcp_server *s, const char *owner, const char *id);

/* Ends the tasks whose questions have not been answered in time, and drops what has been kept long
 * enough. The loop does so when something is due. */
void mcp_tasks_look(struct mcp_server *s, uint64_t now_ms);

#endif
