/*
 * One task: a request whose answer is kept instead of sent. Its states, and how each of the two
 * revisions that have tasks writes it down. Ownership, bounds and time to live: task_registry.h.
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
#define TASK_POLL_MS       1000  /* what clients are advised to wait between two questions */
#define TASK_MESSAGE_BYTES 1024  /* of a status message */
#define TASK_OVERTIME_MS   60000 /* kept after its end at least */

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
    uint64_t seq; /* rises among the tasks of an owner */
    char id[TASK_ID_CHARS + 1];
    bool modern; /* as the extension has it; otherwise as 2025-11-25 does */
    struct sm sm;
    char *message;                        /* or NULL */
    uint64_t created_ms, ttl_ms, over_ms; /* monotonic; `over_ms` once it is over */
    char created_at[CLOCK_ISO_SIZE], updated_at[CLOCK_ISO_SIZE];
    struct input_round round;
    char *result;                /* JSON text, once completed or failed with a result */
    cJSON *error;                /* {code, message, data?}, once failed with an error */
    struct mcp_request *request; /* which works for it; NULL when that has ended */
    struct mcp_request *waiters; /* tasks/result of 2025-11-25, linked by their data */
};

/* As of now; the registry fills in the rest. */
void task_init(struct mcp_task *t, bool modern, uint64_t ttl_ms, uint64_t now_ms);
void task_finish(struct mcp_task *t);

bool task_is_over(const struct mcp_task *t);

/* When it is to be looked at next: its questions are late, or it has been kept long enough.
 * UINT64_MAX: not as things are. */
uint64_t task_due(const struct mcp_task *t);

/* False if that cannot be from the state it is in; final states are final. What they are given is
 * taken either way. */
bool task_end_with_result(struct mcp_task *t, char *json, bool is_error, uint64_t now_ms);
bool task_end_with_error(struct mcp_task *t, cJSON *error, uint64_t now_ms);
bool task_cancel(struct mcp_task *t, uint64_t now_ms);

/* Asks: takes the requests. False if it is over, or was asked too often. */
bool task_ask(struct mcp_task *t, cJSON *requests, uint64_t now_ms);
/* What is asked for is there: it works again. Returns the answers by the handler's keys. */
cJSON *task_resume(struct mcp_task *t);

/* Any bytes; NULL: none. Cut where it is too long. */
void task_set_message(struct mcp_task *t, const char *message);

/* As its revision shows it; `detailed`: with result, error or questions (the extension only). */
cJSON *task_json(const struct mcp_task *t, bool detailed);

/* {taskId}, which messages of 2025-11-25 carry that belong to a task. */
cJSON *task_related(const struct mcp_task *t);

#endif
