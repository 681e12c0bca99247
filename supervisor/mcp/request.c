/*
 * One request from its first byte to its end.
 *
 * Every request ends in the same order: the answer is shaped and printed, the request is freed, and
 * only then is the answer sent, so that a client that has its answer also has one request less. A
 * task stores its answer instead.
 *
 * Cancelling tells the handler to hurry, and takes the sink away. The handler still ends the
 * request, as it ends every other, without noticing that the answer goes nowhere. Until then the
 * request counts as work.
 */
#include "supervisor/mcp/request.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/internal.h"

#define COMPLETIONS_MAX 100

/* ---- batches -------------------------------------------------------------------------------- */

void mcp_batch_settle(struct mcp_batch *b)
{
    if (--b->open > 0) {
        return;
    }
    char *json = NULL;
    if (b->count > 0 && buf_add(&b->text, "]", 1, NULL) == 0 && buf_cstr(&b->text) != NULL) {
        json = (char *)STEAL_PTR(b->text.data);
    }
    struct mcp_sink *sink = b->sink;
    buf_finish(&b->text);
    free(b);
    if (sink != NULL) {
        sink->ops->answer(sink, json, MCP_STATUS_OK);
    } else {
        free(json);
    }
}

void mcp_batch_add(struct mcp_batch *b, const char *id, char *json)
{
    struct err err = ERR_INIT;
    if (b->text.len + strlen(json) > LIMIT_BATCH_TEXT) {
        free(json);
        json = jsonrpc_error(id, false, JSONRPC_INTERNAL,
                             "The answers to this batch have more than 16 MiB together; send this "
                             "request by itself",
                             NULL);
    }
    size_t len = strlen(json);
    if (buf_reserve(&b->text, 1 + len + 1, &err) < 0 ||
        buf_add(&b->text, b->count > 0 ? "," : "[", 1, &err) < 0 ||
        buf_add(&b->text, json, len, &err) < 0) {
        log_error("an answer of a batch is lost: %s", err.text);
    } else {
        b->count++;
    }
    free(json);
}

/* ---- beginning and end ---------------------------------------------------------------------- */

struct mcp_request *mcp_request_create(struct mcp_session *s, struct mcp_sink *sink,
                                       struct mcp_batch *batch, enum revision revision,
                                       struct jsonrpc_message *m, cJSON *owned_message,
                                       size_t bytes)
{
    struct mcp_request *r = alloc_one(struct mcp_request);
    r->session = s;
    r->sink = s->ended ? NULL : sink;
    r->batch = batch;
    r->revision = revision;
    r->negotiation = s->negotiation;
    r->id = STEAL_PTR(m->id);
    r->method_name = m->method;
    r->params = m->params;
    r->message = owned_message;
    r->bytes = bytes;
    size_t weight = input_weight(owned_message);
    r->kept = weight > bytes ? weight : bytes;
    s->server->kept += r->kept;
    s->principal->kept += r->kept;
    r->log_level = MCP_LOG_NONE;
    if (revision_is_modern(revision)) {
        r->own_capabilities = mcp_client_capabilities_read(
            json_get(json_get(m->params, "_meta"), MCP_META_CAPABILITIES), revision);
    }
    r->next = s->requests;
    if (r->next != NULL) {
        r->next->prev = r;
    }
    s->requests = r;
    if (batch != NULL) {
        batch->open++;
    }
    return r;
}

static void drop_message(struct mcp_request *r)
{
    r->session->server->kept -= r->kept;
    r->session->principal->kept -= r->kept;
    r->kept = 0;
    cJSON_Delete(r->message);
    r->message = NULL;
}

void mcp_request_lighten(struct mcp_request *r)
{
    drop_message(r);
    r->method_name = r->method->name;
    r->params = NULL;
}

/* Where the answer goes after the request is freed. */
struct way {
    struct mcp_sink *sink;
    struct mcp_batch *batch;
    char *id; /* for an answer in a batch */
};

static struct way take_way(struct mcp_request *r)
{
    struct way w = {r->sink, r->batch, r->batch != NULL ? alloc_strdup(r->id) : NULL};
    r->sink = NULL;
    r->batch = NULL;
    return w;
}

/* json NULL: there is no answer. */
static void deliver(struct way w, char *json, enum mcp_status status)
{
    if (w.batch != NULL) {
        if (json != NULL) {
            mcp_batch_add(w.batch, w.id, json);
        }
        mcp_batch_settle(w.batch);
    } else if (w.sink != NULL) {
        w.sink->ops->answer(w.sink, json, status);
    } else {
        free(json);
    }
    free(w.id);
}

static void request_free(struct mcp_request *r)
{
    struct mcp_session *s = r->session;
    mcp_session_hold(s);
    mcp_unwatch(r);
    mcp_input_finish(r);
    if (r->counted) {
        s->calls--;
        s->principal->calls--;
    }
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        s->requests = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    }
    if (r->gone != NULL) {
        *r->gone = true;
    }
    progress_finish(&r->progress);
    drop_message(r);
    free(r->id);
    free(r);
    mcp_session_release(s);
}

static void end_request(struct mcp_request *r, char *json, enum mcp_status status)
{
    struct way w = take_way(r);
    if (r->cancelled) {
        free(json);
        json = NULL;
    }
    request_free(r);
    deliver(w, json, status);
}

static bool is_heard(const struct mcp_request *r)
{
    return !r->cancelled && (r->batch != NULL || r->sink != NULL);
}

void mcp_answer_as_is(struct mcp_request *r, cJSON *owned_result)
{
    char *json = NULL;
    if (r->task != NULL) {
        mcp_task_result(r, owned_result);
    } else if (is_heard(r)) {
        json = jsonrpc_result(r->id, owned_result);
    } else {
        cJSON_Delete(owned_result);
    }
    end_request(r, json, MCP_STATUS_OK);
}

void mcp_answer_early(struct mcp_request *r, cJSON *owned_result)
{
    mcp_unwatch(r);
    char *json = jsonrpc_result(r->id, owned_result);
    struct way w = take_way(r);
    deliver(w, json, MCP_STATUS_OK);
}

void mcp_refuse(struct mcp_request *r, enum mcp_status status, int code, const char *message,
                cJSON *owned_data)
{
    log_debug("refused id=%s method=%.100s code=%d: %.200s", r->id, r->method_name, code, message);
    char *json = NULL;
    if (r->task != NULL) {
        mcp_task_error(r, code, message, owned_data);
    } else {
        json = jsonrpc_error(r->id, false, code, message, owned_data);
    }
    end_request(r, json, status);
}

void mcp_request_drop(struct mcp_request *r)
{
    struct way w = take_way(r);
    w.sink = NULL;
    if (r->task != NULL) {
        mcp_task_drop(r);
    }
    if (w.batch != NULL) {
        w.batch->sink = NULL;
    }
    request_free(r);
    deliver(w, NULL, MCP_STATUS_OK);
}

/* ---- cancellation --------------------------------------------------------------------------- */

struct mcp_request *mcp_request_find(const struct mcp_session *s, const char *id)
{
    for (struct mcp_request *r = s->requests; r != NULL; r = r->next) {
        if (!r->cancelled && !r->disowned && r->task == NULL && strcmp(r->id, id) == 0) {
            return r;
        }
    }
    return NULL;
}

void mcp_request_cancel(struct mcp_request *r)
{
    if (r->cancelled) {
        return;
    }
    struct mcp_session *s = r->session;
    mcp_session_hold(s);
    log_debug("cancelled id=%s method=%s", r->id, r->method_name);
    r->cancelled = true;
    mcp_unwatch(r);
    bool gone = false;
    if (r->on_cancel != NULL) {
        void (*on_cancel)(struct mcp_request *) = r->on_cancel;
        r->on_cancel = NULL;
        r->gone = &gone;
        on_cancel(r); /* the callback may end the request, and the sink may disappear meanwhile */
    }
    if (!gone) {
        r->gone = NULL;
        deliver(take_way(r), NULL, MCP_STATUS_OK);
    }
    mcp_session_release(s);
}

void mcp_on_cancel(struct mcp_request *r, void (*cancelled)(struct mcp_request *r))
{
    if (r->cancelled && cancelled != NULL) {
        cancelled(r);
    } else {
        r->on_cancel = cancelled;
    }
}

void mcp_request_disown(struct mcp_request *r)
{
    struct mcp_batch *batch = STEAL_PTR(r->batch);
    mcp_unwatch(r);
    r->disowned = true;
    r->sink = NULL;
    if (batch != NULL) {
        mcp_batch_settle(batch); /* the others of its batch do not wait for it */
    }
}

bool mcp_is_cancelled(const struct mcp_request *r)
{
    return r->cancelled;
}

/* ---- parameters ------------------------------------------------------------------------------ */

void *mcp_request_app(const struct mcp_request *r)
{
    return r->session->server->app->arg;
}

void *mcp_request_session_data(const struct mcp_request *r)
{
    return r->session->data;
}

struct principal *mcp_request_principal(const struct mcp_request *r)
{
    return r->session->principal;
}

enum revision mcp_request_revision(const struct mcp_request *r)
{
    return r->revision;
}

const cJSON *mcp_request_params(const struct mcp_request *r)
{
    return r->params;
}

const char *mcp_request_client(const struct mcp_request *r)
{
    if (!revision_is_modern(r->revision)) {
        return r->session->client;
    }
    const cJSON *info = json_get(json_get(r->params, "_meta"), MCP_META_CLIENT_INFO);
    const char *name = json_get_str(info, "name");
    return name != NULL ? name : "";
}

bool mcp_request_results(const struct mcp_request *r, enum result_form *ret)
{
    const cJSON *wish = json_get(json_get(r->params, "_meta"), RESULT_FORM_META);
    *ret = r->session->results;
    return wish == NULL || (cJSON_IsString(wish) && result_form_parse(wish->valuestring, ret));
}

const struct mcp_client_capabilities *mcp_request_capabilities(const struct mcp_request *r)
{
    return revision_is_modern(r->revision) ? &r->own_capabilities : &r->session->capabilities;
}

bool mcp_client_can(const struct mcp_request *r, const char *capability)
{
    return mcp_client_capabilities_have(mcp_request_capabilities(r), capability);
}

bool mcp_client_shows_views(const struct mcp_request *r)
{
    return mcp_request_capabilities(r)->views;
}

void mcp_request_set_data(struct mcp_request *r, void *data)
{
    r->data = data;
}

void *mcp_request_data(const struct mcp_request *r)
{
    return r->data;
}

/* ---- progress and logs ----------------------------------------------------------------------- */

bool mcp_request_send(struct mcp_request *r, char *json)
{
    if (r->sink == NULL || r->cancelled || json == NULL) {
        free(json);
        return false;
    }
    return r->sink->ops->send(r->sink, json);
}

/* Whether progress has a stream. A task has none: its client polls. */
static bool hears_progress(const struct mcp_request *r)
{
    return r->sink != NULL && !r->cancelled && r->task == NULL;
}

bool mcp_hears_progress(const struct mcp_request *r)
{
    return hears_progress(r) && r->progress.token != NULL;
}

bool mcp_wants_progress(const struct mcp_request *r)
{
    return hears_progress(r) && progress_is_due(&r->progress, clock_ms());
}

void mcp_progress(struct mcp_request *r, double progress, double total, const char *message)
{
    if (mcp_wants_progress(r)) {
        mcp_progress_step(r, progress, total, message);
    }
}

void mcp_progress_step(struct mcp_request *r, double progress, double total, const char *message)
{
    if (hears_progress(r)) {
        mcp_request_send(r, progress_tell(&r->progress, progress, total, message, clock_ms()));
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

void mcp_answer(struct mcp_request *r, cJSON *result)
{
    if (!is_heard(r) && r->task == NULL) {
        mcp_answer_as_is(r, result);
        return;
    }
    mcp_shape(r, result);
    mcp_seal(r->session->server, r->revision, result);
    mcp_answer_as_is(r, result);
}

/* The HTTP status of an error. In the latest revision, errors of the envelope have one. */
static enum mcp_status status_of(const struct mcp_request *r, int code)
{
    if (!revision_is_modern(r->revision)) {
        return MCP_STATUS_OK;
    }
    switch (code) {
    case JSONRPC_METHOD_NOT_FOUND:
        return MCP_STATUS_NOT_FOUND;
    case JSONRPC_HEADER_MISMATCH:
    case JSONRPC_NEEDS_CAPABILITY:
    case JSONRPC_UNSUPPORTED_VERSION:
        return MCP_STATUS_BAD_REQUEST;
    default:
        return MCP_STATUS_OK;
    }
}

void mcp_answer_error(struct mcp_request *r, int code, const char *message, cJSON *data)
{
    mcp_refuse(r, status_of(r, code), code, message, data);
}

bool mcp_fail(struct mcp_request *r, enum jsonrpc_code code, const char *message)
{
    mcp_answer_error(r, code, message, NULL);
    return false;
}

bool mcp_bad_params(struct mcp_request *r, const char *problem)
{
    CLEANUP_FREE char *text = alloc_printf("Invalid params: %s", problem);
    return mcp_fail(r, JSONRPC_INVALID_PARAMS, text);
}

void mcp_answer_completion(struct mcp_request *r, cJSON *values, int64_t total)
{
    int there = cJSON_GetArraySize(values);
    bool more = there > COMPLETIONS_MAX || total > there;
    while (cJSON_GetArraySize(values) > COMPLETIONS_MAX) {
        cJSON_DeleteItemFromArray(values, COMPLETIONS_MAX);
    }
    cJSON *completion = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(completion, "values", values);
    if (total >= 0) {
        cJSON_AddItemToObjectCS(completion, "total", cJSON_CreateNumber((double)total));
    }
    cJSON_AddItemToObjectCS(completion, "hasMore", cJSON_CreateBool(more));
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "completion", completion);
    mcp_answer(r, result);
}

void mcp_answer_failure(struct mcp_request *r, const char *text)
{
    cJSON *block = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(block, "type", cJSON_CreateStringReference("text"));
    cJSON_AddItemToObjectCS(block, "text", cJSON_CreateString(text));
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToArray(cJSON_AddArrayToObject(result, "content"), block);
    cJSON_AddItemToObjectCS(result, "isError", cJSON_CreateTrue());
    mcp_answer(r, result);
}

void mcp_answer_bad_arguments(struct mcp_request *r, const char *problem)
{
    const char *name = json_get_str(r->params, "name");
    CLEANUP_FREE char *text = alloc_printf("Invalid arguments for %.100s: %s",
                                           name != NULL ? name : r->method_name, problem);
    if (r->tool == NULL || !revision_argument_errors_are_results(r->revision)) {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, text, NULL);
        return;
    }
    mcp_answer_failure(r, text);
}

void mcp_answer_no_resource(struct mcp_request *r, const char *uri)
{
    CLEANUP_FREE char *text = alloc_printf("Resource not found: %.500s", uri);
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(data, "uri", cJSON_CreateString(uri));
    mcp_answer_error(r,
                     revision_is_modern(r->revision) ? JSONRPC_INVALID_PARAMS : JSONRPC_NO_RESOURCE,
                     text, data);
}

void mcp_answer_needs(struct mcp_request *r, const char *capability)
{
    CLEANUP_FREE char *text =
        alloc_printf("The client must declare the capability \"%s\" for this", capability);
    if (!revision_is_modern(r->revision)) {
        mcp_answer_error(r, JSONRPC_INVALID_REQUEST, text, NULL);
        return;
    }
    cJSON *data = cJSON_CreateObject();
    cJSON *required = cJSON_AddObjectToObject(data, "requiredCapabilities");
    if (strchr(capability, '/') != NULL) {
        required = cJSON_AddObjectToObject(required, "extensions");
    }
    cJSON_AddObjectToObject(required, capability);
    mcp_answer_error(r, JSONRPC_NEEDS_CAPABILITY, text, data);
}
