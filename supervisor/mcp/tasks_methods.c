/*
 * What clients may do with tasks: get, wait for the end (2025-11-25), list, answer questions (the
 * extension), cancel. Another principal's task is answered like an unknown one.
 *
 * A waiting request refers to its task by its data, and needs nothing else of its message. An
 * answer may end sessions, and with them other waiting requests, which leave the list by
 * themselves. So the list is always read from its start.
 */
#include "supervisor/mcp/tasks.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/mcp/input.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/task.h"
#include "supervisor/mcp/task_registry.h"

#define WAITERS_MAX 16 /* waiting requests of one task */

/* ---- waiting requests ------------------------------------------------------------------------ */

struct mcp_request *mcp_task_listener(const struct mcp_task *t)
{
    struct mcp_request *w = t->waiters;
    while (w != NULL && (w->sink == NULL || w->cancelled)) {
        w = w->data;
    }
    return w;
}

static void answer_waiter(struct mcp_request *w, const struct mcp_task *t)
{
    w->on_cancel = NULL;
    if (t->result != NULL) {
        mcp_answer_as_is(w, mcp_raw(t->result));
    } else if (t->error != NULL) {
        const cJSON *data = json_get(t->error, "data");
        mcp_answer_error(w, (int)json_get(t->error, "code")->valuedouble,
                         json_get_str(t->error, "message"),
                         data != NULL ? cJSON_Duplicate(data, true) : NULL);
    } else {
        mcp_bad_params(w, "this task was cancelled, so it has no result");
    }
}

void mcp_task_answer_waiters(struct mcp_task *t)
{
    while (t->waiters != NULL) {
        struct mcp_request *w = t->waiters;
        t->waiters = w->data;
        answer_waiter(w, t);
    }
}

/* ---- methods -------------------------------------------------------------------------------- */

/* Returns the task that params.taskId names. NULL: unknown, and the request has been answered. */
static struct mcp_task *named(struct mcp_request *r)
{
    const char *id = json_get_str(r->params, "taskId");
    if (id == NULL) {
        mcp_bad_params(r, "\"taskId\" must be a string");
        return NULL;
    }
    struct mcp_task *t = task_registry_find(mcp_task_registry(r), r->session->principal->name,
                                            revision_is_modern(r->revision), id);
    if (t == NULL) {
        mcp_bad_params(r, "no such task: it never was, or it ended and its time to live is "
                          "over");
    }
    return t;
}

void mcp_tasks_get(struct mcp_request *r)
{
    const struct mcp_task *t = named(r);
    if (t != NULL) {
        mcp_answer(r, task_json(t, true));
    }
}

static void on_waiter_cancelled(struct mcp_request *w)
{
    /* the task is kept at least until the last of them is answered */
    struct mcp_task *t = w->awaits;
    struct mcp_request **all = &t->waiters;
    struct mcp_request *before = NULL;
    for (struct mcp_request *one = *all; one != w; one = one->data) {
        before = one;
    }
    if (before != NULL) {
        before->data = w->data;
    } else {
        *all = w->data;
    }
    mcp_answer_error(w, JSONRPC_INTERNAL, "Cancelled", NULL);
    if (t->sm.state == TASK_INPUT && t->request != NULL) {
        mcp_input_carry(t); /* another request may carry the questions of this one */
    }
}

void mcp_tasks_result(struct mcp_request *r)
{
    struct mcp_task *t = named(r);
    if (t == NULL) {
        return;
    }
    if (task_is_over(t)) {
        answer_waiter(r, t);
        return;
    }
    size_t waiting = 0;
    for (const struct mcp_request *w = t->waiters; w != NULL; w = w->data) {
        waiting++;
    }
    if (waiting >= WAITERS_MAX) {
        mcp_fail(r, JSONRPC_INTERNAL, "Busy: 16 requests wait for the result of this task already");
        return;
    }
    r->awaits = t;
    r->data = t->waiters;
    t->waiters = r;
    mcp_request_lighten(r);
    r->on_cancel = on_waiter_cancelled;
    if (t->sm.state == TASK_INPUT) {
        mcp_input_carry(t);
    }
}

void mcp_tasks_list(struct mcp_request *r)
{
    const cJSON *cursor = json_get_given(r->params, "cursor");
    cJSON *items = NULL;
    CLEANUP_FREE char *next = NULL;
    if ((cursor != NULL && !cJSON_IsString(cursor)) ||
        !task_registry_list(mcp_task_registry(r), r->session->principal->name, false,
                            cursor != NULL ? cursor->valuestring : NULL, &items, &next)) {
        mcp_bad_params(r, "\"cursor\" is not one that this server gave");
        return;
    }
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "tasks", items);
    if (next != NULL) {
        cJSON_AddItemToObjectCS(result, "nextCursor", cJSON_CreateString(next));
    }
    mcp_answer(r, result);
}

void mcp_tasks_update(struct mcp_request *r)
{
    struct mcp_task *t = named(r);
    if (t == NULL) {
        return;
    }
    const cJSON *responses = json_get(r->params, "inputResponses");
    if (!mcp_input_is_sound(responses)) {
        mcp_bad_params(r, "\"inputResponses\" must be an object whose members are objects, "
                          "the results of what the task asked for");
        return;
    }
    for (const cJSON *one = responses->child; one != NULL; one = one->next) {
        if (input_round_answer(&t->round, one->string, cJSON_Duplicate(one, true)) ==
            INPUT_TOO_MUCH) {
            mcp_bad_params(r, "the answers to the questions of a task are limited to 1 MiB");
            return;
        }
    }
    struct mcp_request *worker =
        t->sm.state == TASK_INPUT && input_round_is_whole(&t->round) ? t->request : NULL;
    mcp_answer(r, cJSON_CreateObject());
    if (worker != NULL) {
        mcp_input_resume(worker);
    }
}

void mcp_tasks_cancel(struct mcp_request *r)
{
    struct mcp_task *t = named(r);
    if (t == NULL) {
        return;
    }
    if (!task_cancel(t, clock_ms()) && !t->modern) {
        mcp_bad_params(r, "this task is over already, so it cannot be cancelled");
        return;
    }
    struct mcp_request *worker = t->sm.state == TASK_CANCELLED ? t->request : NULL;
    cJSON *result = t->modern ? cJSON_CreateObject() : task_json(t, false);
    if (worker != NULL && !worker->cancelled) {
        mcp_task_changed(worker);
        mcp_task_answer_waiters(t);
        mcp_request_cancel(worker); /* the handler hurries, and its answer is dropped */
    }
    mcp_answer(r, result);
}
