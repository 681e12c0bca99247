/*
 * The five states of a task have two forms. 2025-11-25 wraps a task when it is created, keeps
 * result and questions out of it, and counts a tool's own failure as a failed task. The extension
 * is flat, has result, error and open questions in the task, and counts only protocol errors as
 * failures.
 */
#include "supervisor/mcp/task.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"

static const struct sm_state states[TASK_STATE_COUNT] = {
    [TASK_WORKING] = {"working", SM_BIT(TASK_INPUT) | SM_BIT(TASK_COMPLETED) | SM_BIT(TASK_FAILED) |
                                     SM_BIT(TASK_CANCELLED)},
    [TASK_INPUT] = {"input_required",
                    SM_BIT(TASK_WORKING) | SM_BIT(TASK_FAILED) | SM_BIT(TASK_CANCELLED)},
    [TASK_COMPLETED] = {"completed", 0},
    [TASK_FAILED] = {"failed", 0},
    [TASK_CANCELLED] = {"cancelled", 0},
};

static bool has_open_questions(const void *owner)
{
    const struct mcp_task *t = owner;
    return t->round.open != NULL;
}

static bool has_no_outcome(const void *owner)
{
    const struct mcp_task *t = owner;
    return t->result == NULL && t->error == NULL;
}

static const struct sm_invariant task_invariants[] = {
    {"who waits for input has asked for some", SM_BIT(TASK_INPUT), has_open_questions},
    {"there is no outcome before the end, nor two", SM_EVERY, has_no_outcome},
};

static const struct sm_guard task_guard = {"task", task_invariants,
                                           sizeof(task_invariants) / sizeof(task_invariants[0])};

static void touch(struct mcp_task *t)
{
    clock_iso(clock_wall_ms(), t->updated_at, sizeof(t->updated_at));
}

void task_init(struct mcp_task *t, bool modern, uint64_t ttl_ms, uint64_t now_ms)
{
    memset(t, 0, sizeof(*t));
    sm_init(&t->sm, states, TASK_STATE_COUNT, TASK_WORKING);
    sm_watch(&t->sm, &task_guard, t);
    t->modern = modern;
    t->ttl_ms = ttl_ms;
    t->created_ms = now_ms;
    touch(t);
    memcpy(t->created_at, t->updated_at, sizeof(t->created_at));
}

void task_finish(struct mcp_task *t)
{
    input_round_finish(&t->round);
    free(t->message);
    free(t->result);
    cJSON_Delete(t->error);
}

bool task_is_over(const struct mcp_task *t)
{
    return t->sm.table[t->sm.state].next == 0;
}

uint64_t task_due(const struct mcp_task *t)
{
    if (t->sm.state == TASK_INPUT) {
        return t->round.deadline_ms;
    }
    if (!task_is_over(t) || t->request != NULL) {
        return UINT64_MAX; /* the handler must act first */
    }
    uint64_t by_ttl = t->created_ms + t->ttl_ms;
    uint64_t by_end = t->over_ms + TASK_OVERTIME_MS;
    return by_ttl > by_end ? by_ttl : by_end;
}

/* ---- transitions ----------------------------------------------------------------------------- */

static bool end_task(struct mcp_task *t, enum task_state state, uint64_t now_ms)
{
    if (!sm_may(&t->sm, state)) {
        return false;
    }
    sm_move(&t->sm, state);
    t->over_ms = now_ms;
    input_round_finish(&t->round); /* its open questions are dropped */
    touch(t);
    return true;
}

bool task_end_with_result(struct mcp_task *t, char *json, bool is_error, uint64_t now_ms)
{
    if (!end_task(t, is_error && !t->modern ? TASK_FAILED : TASK_COMPLETED, now_ms)) {
        free(json);
        return false;
    }
    t->result = json;
    return true;
}

bool task_end_with_error(struct mcp_task *t, cJSON *error, uint64_t now_ms)
{
    if (!end_task(t, TASK_FAILED, now_ms)) {
        cJSON_Delete(error);
        return false;
    }
    t->error = error;
    return true;
}

bool task_cancel(struct mcp_task *t, uint64_t now_ms)
{
    return end_task(t, TASK_CANCELLED, now_ms);
}

bool task_ask(struct mcp_task *t, cJSON *requests, uint64_t now_ms)
{
    if (!sm_may(&t->sm, TASK_INPUT)) {
        cJSON_Delete(requests);
        return false;
    }
    if (!input_round_begin(&t->round, requests, now_ms)) {
        return false;
    }
    sm_move(&t->sm, TASK_INPUT);
    touch(t);
    return true;
}

cJSON *task_resume(struct mcp_task *t)
{
    sm_move(&t->sm, TASK_WORKING);
    touch(t);
    return input_round_take(&t->round);
}

void task_set_message(struct mcp_task *t, const char *message)
{
    free(t->message);
    t->message = NULL;
    if (message != NULL) {
        CLEANUP_BUF struct buf text;
        struct err err = ERR_INIT;
        size_t len = strnlen(message, TASK_MESSAGE_BYTES);
        buf_init(&text, 3 * TASK_MESSAGE_BYTES + 1); /* each byte may become U+FFFD */
        if (len == TASK_MESSAGE_BYTES) {
            size_t whole = utf8_valid_prefix(message, len);
            len = len - whole < 4 ? whole : len; /* not inside a character */
        }
        if (utf8_add_lossy(&text, message, len, &err) == 0 && buf_cstr(&text) != NULL) {
            t->message = (char *)STEAL_PTR(text.data);
        }
    }
    touch(t);
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void add_member_text(cJSON *object, const char *key, const char *text)
{
    cJSON_AddItemToObjectCS(object, key, cJSON_CreateString(text));
}

cJSON *task_json(const struct mcp_task *t, bool detailed)
{
    cJSON *json = alloc_check(cJSON_CreateObject());
    add_member_text(json, "taskId", t->id);
    add_member_text(json, "status", sm_name(&t->sm));
    if (t->message != NULL) {
        add_member_text(json, "statusMessage", t->message);
    }
    add_member_text(json, "createdAt", t->created_at);
    add_member_text(json, "lastUpdatedAt", t->updated_at);
    cJSON_AddItemToObjectCS(json, t->modern ? "ttlMs" : "ttl",
                            cJSON_CreateNumber((double)t->ttl_ms));
    cJSON_AddItemToObjectCS(json, t->modern ? "pollIntervalMs" : "pollInterval",
                            cJSON_CreateNumber(TASK_POLL_MS));
    if (detailed && t->modern) {
        if (t->result != NULL) {
            cJSON_AddItemToObjectCS(json, "result", cJSON_CreateRaw(t->result));
        } else if (t->error != NULL) {
            cJSON_AddItemToObjectCS(json, "error", cJSON_Duplicate(t->error, true));
        } else if (t->sm.state == TASK_INPUT) {
            cJSON_AddItemToObjectCS(json, "inputRequests", cJSON_Duplicate(t->round.open, true));
        }
    }
    return json;
}

cJSON *task_related(const struct mcp_task *t)
{
    cJSON *json = alloc_check(cJSON_CreateObject());
    add_member_text(json, "taskId", t->id);
    return json;
}
