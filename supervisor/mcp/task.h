/*
 * One task: a request whose answer is stored instead of sent. This file has its states and its form
 * in the two revisions that have tasks. Ownership, limits and time to live: task_registry.h.
 *
 *     working <-> input_required          (both may become failed or cancelled)
 *        |
 *        v
 *     completed | failed | cancelled      (final)
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_TASK_H
#define CLOISTER_SUPERVISOR_MCP_TASK_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/sm.h"
#include "supervisor/mcp/input_round.h"

#define TASK_ID_CHARS      26    /* 130 random bits */
#define TASK_POLL_MS       1000  /* poll interval that clients are told */
#define TASK_MESSAGE_BYTES 1024  /* of a status message */
#define TASK_OVERTIME_MS   60000 /* a task is kept for at least this long after its end */

enum task_state {
    TASK_WORKING,
    TASK_INPUT,
    TASK_COMPLETED,
    TASK_FAILED,
    TASK_CANCELLED,
    TASK_STATE_COUNT,
};

struct mcp_request;
struct task_owner;

struct mcp_task {
    struct mcp_task *prev, *next; /* of the same owner, oldest first */
    struct task_owner *owner;
    uint64_t seq; /* rises with each task of an owner */
    char id[TASK_ID_CHARS + 1];
    bool modern; /* true: the extension's form; false: that of 2025-11-25 */
    struct sm sm;
    char *message;                        /* or NULL */
    uint64_t created_ms, ttl_ms, over_ms; /* monotonic; over_ms: when it ended */
    char created_at[CLOCK_ISO_SIZE], updated_at[CLOCK_ISO_SIZE];
    struct input_round round;
    char *result;                /* JSON text, once completed or failed with a result */
    cJSON *error;                /* {code, message, data?}, once failed with an error */
    struct mcp_request *request; /* the request that works for it; NULL: ended */
    struct mcp_request *waiters; /* tasks/result requests of 2025-11-25 */
};

/* Starts as working; the registry fills in the rest. */
void task_init(struct mcp_task *t, bool modern, uint64_t ttl_ms, uint64_t now_ms);
void task_finish(struct mcp_task *t);

bool task_is_over(const struct mcp_task *t);

/* When the task must be checked next: its questions are late, or it has been kept for long enough.
 * UINT64_MAX: no check is due in this state. */
uint64_t task_due(const struct mcp_task *t);

/* End the task. False if its state does not allow that; final states are final. Both take ownership
 * of the values in any case. */
bool task_end_with_result(struct mcp_task *t, char *json, bool is_error, uint64_t now_ms);
bool task_end_with_error(struct mcp_task *t, cJSON *error, uint64_t now_ms);
bool task_cancel(struct mcp_task *t, uint64_t now_ms);

/* Asks the client; takes ownership of the requests. False if the task is over, or has asked too
 * often. */
bool task_ask(struct mcp_task *t, cJSON *requests, uint64_t now_ms);
/* The questions are answered: the task is working again. Returns the answers by the handler's
 * keys. */
cJSON *task_resume(struct mcp_task *t);

/* Any bytes, cut if too long; NULL: none. */
void task_set_message(struct mcp_task *t, const char *message);

/* The task in the form of its revision; `detailed`: with result, error or questions (the extension
 * only). */
cJSON *task_json(const struct mcp_task *t, bool detailed);

/* {taskId}, which messages of 2025-11-25 about a task carry. */
cJSON *task_related(const struct mcp_task *t);

#endif
