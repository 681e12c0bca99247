/*
 * Calls that are tasks. A client of 2025-11-25 asks for a task with the call; for a client that
 * knows the extension, the handler decides. The client gets the task instead of the answer, and the
 * request goes on without a sink. Its answer is stored here as text.
 *
 * A task and its request need each other until the request ends. The state of the task may be final
 * earlier (it was cancelled): then the handler's answer is dropped, and the task stays as long as
 * its request.
 */
#include "supervisor/mcp/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/mcp/input.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/task.h"
#include "supervisor/mcp/task_registry.h"
#include "supervisor/mcp/wire/due_timer.h"

#define RELATED MCP_META "related-task"

struct mcp_tasks {
    struct mcp_server *server;
    struct task_registry registry;
    struct due_timer timer; /* the next late question or expiring result */
};

/* ---- tasks of all sessions ------------------------------------------------------------------- */

void mcp_tasks_look(struct mcp_server *s, uint64_t now_ms)
{
    struct mcp_tasks *tasks = s->tasks;
    struct mcp_task *late = NULL;
    while ((late = task_registry_late(&tasks->registry, now_ms)) != NULL) {
        mcp_input_give_up(late->request, "The client did not answer a question within 10 minutes");
    }
    task_registry_expire(&tasks->registry, now_ms);
    due_timer_set(&tasks->timer, task_registry_due(&tasks->registry));
}

static void on_task_due(void *arg, uint64_t now_ms)
{
    const struct mcp_tasks *tasks = arg;
    mcp_tasks_look(tasks->server, now_ms);
}

void mcp_tasks_open(struct mcp_server *s)
{
    struct mcp_tasks *tasks = alloc_one(struct mcp_tasks);
    tasks->server = s;
    task_registry_init(&tasks->registry);
    due_timer_init(&tasks->timer, s->loop, on_task_due, tasks);
    mcp_server_hold(s);
    s->tasks = tasks;
}

static void on_task_closed(uv_handle_t *handle)
{
    struct mcp_tasks *tasks = handle->data;
    struct mcp_server *s = tasks->server;
    free(tasks);
    mcp_server_release(s);
}

void mcp_tasks_close(struct mcp_server *s)
{
    struct mcp_tasks *tasks = STEAL_PTR(s->tasks);
    task_registry_finish(&tasks->registry);
    due_timer_close(&tasks->timer, on_task_closed);
}

struct task_registry *mcp_task_registry(const struct mcp_request *r)
{
    return &r->session->server->tasks->registry;
}

struct mcp_task *mcp_task_find(const struct mcp_server *s, const char *owner, const char *id)
{
    return task_registry_find(&s->tasks->registry, owner, true, id);
}

/* ---- notifications --------------------------------------------------------------------------- */

static void tell_task_status(struct mcp_request *r, const struct mcp_task *t)
{
    if (t->modern) {
        mcp_subscriptions_task(r->session->server, t->owner->name, t->id);
    } else if (!r->session->ended && r->session->ready) {
        mcp_session_send(r->session,
                         jsonrpc_notification("notifications/tasks/status", task_json(t, false)));
    }
}

void mcp_task_changed(struct mcp_request *r)
{
    due_timer_by(&r->session->server->tasks->timer, task_due(r->task));
    tell_task_status(r, r->task);
}

void mcp_task_relate(const struct mcp_task *t, cJSON *params)
{
    if (t->modern) {
        return;
    }
    cJSON *meta = cJSON_GetObjectItemCaseSensitive(params, "_meta");
    if (!cJSON_IsObject(meta)) {
        cJSON_DeleteItemFromObjectCaseSensitive(params, "_meta");
        meta = cJSON_AddObjectToObject(params, "_meta");
    }
    cJSON_DeleteItemFromObjectCaseSensitive(meta, RELATED);
    cJSON_AddItemToObjectCS(meta, RELATED, task_related(t));
}

/* ---- begin ----------------------------------------------------------------------------------- */

static struct mcp_task *make_task(struct mcp_request *r, bool modern, uint64_t ttl_ms,
                                  const char *message)
{
    struct mcp_tasks *tasks = r->session->server->tasks;
    struct mcp_task *t = task_registry_add(&tasks->registry, r->session->principal->name, modern,
                                           ttl_ms, clock_ms());
    if (t == NULL) {
        return NULL;
    }
    if (message != NULL) {
        task_set_message(t, message);
    }
    t->request = r;
    r->task = t;
    log_debug("task begun for method=%s owner=%s", r->method_name, t->owner->name);
    return t;
}

/* Reads params.task of a client of 2025-11-25. */
static bool begin_legacy(struct mcp_request *r, const cJSON *wanted)
{
    const cJSON *ttl = json_get(wanted, "ttl");
    uint64_t ttl_ms = TASK_TTL_MS;
    if (r->tool->tasks == MCP_TASK_NEVER) {
        return mcp_fail(r, JSONRPC_METHOD_NOT_FOUND,
                        "Method not found: this tool cannot be called as a task (its "
                        "execution.taskSupport is \"forbidden\"); call it without \"task\"");
    }
    if (!cJSON_IsObject(wanted) || (ttl != NULL && (!json_is_int(ttl) || ttl->valuedouble < 0))) {
        return mcp_bad_params(r, "\"task\" must be an object, whose \"ttl\", if there is one, "
                                 "is a number of milliseconds");
    }
    if (ttl != NULL) {
        ttl_ms = ttl->valuedouble < TASK_TTL_MAX_MS ? (uint64_t)ttl->valuedouble : TASK_TTL_MAX_MS;
    }
    struct mcp_task *t = make_task(r, false, ttl_ms, NULL);
    if (t == NULL) {
        return mcp_fail(r, JSONRPC_INTERNAL,
                        "Busy: too many tasks are running; try again when some have ended, or call "
                        "the tool without \"task\"");
    }
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "task", task_json(t, false));
    mcp_answer_early(r, result);
    return true;
}

bool mcp_task_begin(struct mcp_request *r)
{
    bool offered = (r->session->server->app->offers & MCP_OFFER_TASKS) != 0;
    const cJSON *wanted =
        r->revision == REVISION_2025_11_25 ? json_get_given(r->params, "task") : NULL;
    if (!offered || r->task != NULL) {
        return true; /* it already is a task, and runs again with its input */
    }
    if (wanted != NULL) {
        return begin_legacy(r, wanted);
    }
    if (r->tool->tasks != MCP_TASK_REQUIRED) {
        return true;
    }
    if (r->revision == REVISION_2025_11_25) {
        return mcp_fail(r, JSONRPC_METHOD_NOT_FOUND,
                        "Method not found: this tool can only be called as a task (its "
                        "execution.taskSupport is \"required\"); call it with \"task\":{}");
    }
    if (!mcp_client_can(r, MCP_EXTENSION_TASKS) || !revision_is_modern(r->revision)) {
        mcp_answer_needs(r, MCP_EXTENSION_TASKS);
        return false;
    }
    return true;
}

bool mcp_may_become_task(const struct mcp_request *r)
{
    return revision_is_modern(r->revision) && r->tool != NULL && r->task == NULL && !r->cancelled &&
           r->tool->tasks != MCP_TASK_NEVER &&
           (r->session->server->app->offers & MCP_OFFER_TASKS) != 0 &&
           mcp_client_can(r, MCP_EXTENSION_TASKS);
}

void mcp_become_task(struct mcp_request *r, const char *status_message)
{
    struct mcp_task *t =
        mcp_may_become_task(r) ? make_task(r, true, TASK_TTL_MS, status_message) : NULL;
    if (t == NULL) {
        return; /* the client waits for the answer, as for any call */
    }
    cJSON *result = task_json(t, false);
    cJSON_AddItemToObjectCS(result, "resultType", cJSON_CreateStringReference("task"));
    mcp_seal(r->session->server, r->revision, result);
    mcp_answer_early(r, result);
}

bool mcp_is_task(const struct mcp_request *r)
{
    return r->task != NULL;
}

void mcp_task_status(struct mcp_request *r, const char *status_message)
{
    if (r->task != NULL && !task_is_over(r->task)) {
        task_set_message(r->task, status_message);
        if (r->task->modern) { /* marks wait for slow readers, and only the latest state is sent */
            tell_task_status(r, r->task);
        }
    }
}

/* ---- end ------------------------------------------------------------------------------------- */

/* The handler is done: from now on the task only keeps the result. */
static void leave_task(struct mcp_request *r)
{
    struct mcp_task *t = r->task;
    t->request = NULL;
    due_timer_by(&r->session->server->tasks->timer, task_due(t));
}

static void settle_task(struct mcp_request *r, struct mcp_task *t)
{
    task_registry_keep(mcp_task_registry(r), t);
    tell_task_status(r, t);
    mcp_task_answer_waiters(t);
}

static cJSON *error_json(int code, const char *message, cJSON *owned_data)
{
    cJSON *error = alloc_check(cJSON_CreateObject());
    cJSON_AddItemToObjectCS(error, "code", cJSON_CreateNumber(code));
    cJSON_AddItemToObjectCS(error, "message", cJSON_CreateString(message));
    if (owned_data != NULL) {
        cJSON_AddItemToObjectCS(error, "data", owned_data);
    }
    return error;
}

void mcp_task_error(struct mcp_request *r, int code, const char *message, cJSON *owned_data)
{
    struct mcp_task *t = r->task;
    bool ends = task_end_with_error(t, error_json(code, message, owned_data), clock_ms());
    leave_task(r);
    if (ends) {
        settle_task(r, t);
    }
}

void mcp_task_result(struct mcp_request *r, cJSON *owned_shaped_result)
{
    struct mcp_task *t = r->task;
    bool is_error = cJSON_IsTrue(json_get(owned_shaped_result, "isError"));
    mcp_task_relate(t, owned_shaped_result);
    char *json = cJSON_PrintUnformatted(owned_shaped_result);
    cJSON_Delete(owned_shaped_result);
    if (json == NULL) {
        mcp_task_error(r, JSONRPC_INTERNAL, "There is no memory for the result", NULL);
        return;
    }
    bool ends = task_end_with_result(t, json, is_error, clock_ms());
    leave_task(r);
    if (ends) {
        settle_task(r, t);
    }
}

void mcp_task_drop(struct mcp_request *r)
{
    r->task->request = NULL;
}
