/*
 * The methods that create readers: subscriptions/listen, whose filter we honour as far as it is
 * offered, allowed and within limits, and the two methods of older revisions. We never confirm that
 * something exists: a name that the client may not see is left out of the filter just like an
 * unknown one.
 */
#include "supervisor/mcp/subscriptions.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/mcp/subscribers.h"
#include "supervisor/mcp/tasks.h"

#define LISTENS_MAX  1024 /* of all principals */
#define LISTENS_EACH 256  /* of one principal */
#define LOOKS_MAX    512  /* names in one array; the application is asked about each */

/* ---- subscriptions/listen ------------------------------------------------------------------- */

static bool is_strings(const cJSON *array)
{
    for (const cJSON *one = cJSON_IsArray(array) ? array->child : NULL; one != NULL;
         one = one->next) {
        if (!cJSON_IsString(one)) {
            return false;
        }
    }
    return cJSON_IsArray(array);
}

/* Returns what is wrong with the filter, or NULL. */
static const char *filter_problem(const cJSON *filter)
{
    if (!cJSON_IsObject(filter)) {
        return "\"notifications\" must be an object that says what to tell";
    }
    for (enum notice_kind list = NOTICE_TOOLS; list < NOTICE_LISTS; list++) {
        const cJSON *wish = json_get(filter, subscriber_lists[list].wish);
        if (wish != NULL && !cJSON_IsBool(wish)) {
            return "toolsListChanged, resourcesListChanged and promptsListChanged "
                   "of \"notifications\" are booleans";
        }
    }
    const cJSON *uris = json_get(filter, "resourceSubscriptions");
    const cJSON *tasks = json_get(filter, "taskIds");
    if ((uris != NULL && !is_strings(uris)) || (tasks != NULL && !is_strings(tasks))) {
        return "resourceSubscriptions and taskIds of \"notifications\" are arrays "
               "of strings";
    }
    return NULL;
}

/* Whether this client may be notified of this resource or task. */
static bool may_hear(const struct mcp_session *s, enum notice_kind kind, const char *name)
{
    const struct mcp_app *app = s->server->app;
    return kind == NOTICE_TASK
               ? mcp_task_find(s->server, s->principal->name, name) != NULL
               : app->may_subscribe == NULL || app->may_subscribe(app->arg, s->principal, name);
}

/* Moves names from an array into the filter: each once, if it exists, is allowed and fits. */
static void honour_names(struct mcp_subscriber *one, cJSON *honoured, const char *wish,
                         enum notice_kind kind, const cJSON *names)
{
    cJSON *taken = cJSON_CreateArray();
    size_t looks = 0;
    for (const cJSON *name = names->child; name != NULL && looks < LOOKS_MAX; name = name->next) {
        looks++;
        if (notices_may_want(&one->notices, kind, name->valuestring) &&
            may_hear(one->session, kind, name->valuestring)) {
            notices_want(&one->notices, kind, name->valuestring);
            cJSON_AddItemToArray(taken, cJSON_CreateString(name->valuestring));
        }
    }
    cJSON_AddItemToObjectCS(honoured, wish, taken);
}

static void honour(struct mcp_subscriber *one, const cJSON *filter)
{
    unsigned offers = one->session->server->app->offers;
    cJSON *honoured = cJSON_CreateObject();
    for (enum notice_kind list = NOTICE_TOOLS; list < NOTICE_LISTS; list++) {
        if (cJSON_IsTrue(json_get(filter, subscriber_lists[list].wish)) &&
            (offers & subscriber_lists[list].offer) != 0) {
            one->notices.wants[list] = true;
            cJSON_AddItemToObjectCS(honoured, subscriber_lists[list].wish, cJSON_CreateTrue());
        }
    }
    const cJSON *uris = json_get(filter, "resourceSubscriptions");
    const cJSON *tasks = json_get(filter, "taskIds");
    if (uris != NULL && (offers & MCP_OFFER_SUBSCRIBE) != 0) {
        honour_names(one, honoured, "resourceSubscriptions", NOTICE_RESOURCE, uris);
    }
    if (tasks != NULL && (offers & MCP_OFFER_TASKS) != 0) {
        honour_names(one, honoured, "taskIds", NOTICE_TASK, tasks);
    }
    one->acknowledge = honoured;
}

static void on_listen_cancelled(struct mcp_request *r)
{
    if (r->data != NULL) {
        subscriber_end(r->data);
    }
    mcp_answer_as_is(r, cJSON_CreateObject()); /* the answer goes nowhere */
}

static bool is_too_many(const struct mcp_subscriptions *subs, const struct mcp_session *s)
{
    size_t own = 0;
    for (const struct mcp_subscriber *one = subs->first; one != NULL; one = one->next) {
        own += one->listen != NULL && !one->gone &&
               strcmp(one->session->principal->name, s->principal->name) == 0;
    }
    return subs->listens >= LISTENS_MAX || own >= LISTENS_EACH;
}

void mcp_subscriptions_listen(struct mcp_request *r)
{
    struct mcp_server *s = r->session->server;
    const cJSON *filter = json_get(r->params, "notifications");
    const char *problem = filter_problem(filter);
    if (json_get(filter, "taskIds") != NULL && !mcp_client_can(r, MCP_EXTENSION_TASKS)) {
        mcp_answer_needs(r, MCP_EXTENSION_TASKS);
        return;
    }
    if (problem != NULL) {
        mcp_bad_params(r, problem);
        return;
    }
    if (s->stopping) {
        mcp_fail(r, JSONRPC_INTERNAL, "The server is shutting down");
        return;
    }
    if (is_too_many(s->subscriptions, r->session)) {
        mcp_fail(r, JSONRPC_INTERNAL,
                 "Busy: too many subscriptions are open; end some, one can carry many kinds of "
                 "changes");
        return;
    }
    struct mcp_subscriber *one = subscriber_create(r->session, r);
    s->subscriptions->listens++;
    r->data = one;
    r->on_cancel = on_listen_cancelled;
    honour(one, filter);
    mcp_request_lighten(r);
    subscriber_acknowledge(one);
}

/* ---- older revisions ------------------------------------------------------------------------ */

static const char *uri_of(struct mcp_request *r)
{
    const char *uri = json_get_str(r->params, "uri");
    if (uri == NULL) {
        mcp_bad_params(r, "\"uri\" must be a string");
    }
    return uri;
}

void mcp_subscriptions_subscribe(struct mcp_request *r)
{
    const char *uri = uri_of(r);
    if (uri == NULL) {
        return;
    }
    if (!may_hear(r->session, NOTICE_RESOURCE, uri)) {
        mcp_answer_no_resource(r, uri);
    } else if (!notices_want(&subscriber_of_session(r->session)->notices, NOTICE_RESOURCE, uri)) {
        mcp_fail(r, JSONRPC_INTERNAL,
                 "Busy: too many resources are subscribed to in this session; at most 256, whose "
                 "URIs have 64 KiB together");
    } else {
        mcp_answer(r, cJSON_CreateObject());
    }
}

void mcp_subscriptions_unsubscribe(struct mcp_request *r)
{
    const char *uri = uri_of(r);
    if (uri == NULL) {
        return;
    }
    if (r->session->subscriber != NULL) {
        notices_unwant(&r->session->subscriber->notices, NOTICE_RESOURCE, uri);
    }
    mcp_answer(r, cJSON_CreateObject());
}

/* ---- end of listeners ------------------------------------------------------------------------ */

void mcp_subscriptions_end(struct mcp_session *s)
{
    if (s->subscriber != NULL) {
        subscriber_end(s->subscriber);
    }
}

static struct mcp_subscriber *any_listen(const struct mcp_subscriptions *subs)
{
    struct mcp_subscriber *one = subs->first;
    while (one != NULL && (one->listen == NULL || one->gone)) {
        one = one->next;
    }
    return one;
}

/* On a pipe the end is sent in two ways, because the texts of the protocol disagree. */
static void end_listen(struct mcp_subscriber *one)
{
    struct mcp_request *r = one->listen;
    struct mcp_session *s = one->session;
    mcp_session_hold(s);
    cJSON *result = cJSON_CreateObject();
    subscriber_sign(r, result);
    cJSON *params = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(params, "requestId", cJSON_CreateRaw(r->id));
    cJSON_AddItemToObjectCS(params, "reason",
                            cJSON_CreateStringReference("the server is shutting down"));
    char *cancelled = jsonrpc_notification("notifications/cancelled", params);
    r->on_cancel = NULL;
    subscriber_end(one);
    mcp_seal(s->server, r->revision, result);
    mcp_answer_as_is(r, result);
    if (s->kind == MCP_SESSION_PIPE && !s->ended) {
        mcp_session_send(s, cancelled);
    } else {
        free(cancelled);
    }
    mcp_session_release(s);
}

void mcp_subscriptions_stop(struct mcp_server *s)
{
    subscribers_tell(s->subscriptions);
    for (struct mcp_subscriber *one = any_listen(s->subscriptions); one != NULL;
         one = any_listen(s->subscriptions)) {
        end_listen(one);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void mcp_subscriptions_open(struct mcp_server *s)
{
    struct mcp_subscriptions *subs = alloc_one(struct mcp_subscriptions);
    subs->server = s;
    uv_timer_init(s->loop, &subs->timer);
    uv_unref((uv_handle_t *)&subs->timer); /* pending notifications do not keep the loop alive */
    subs->timer.data = subs;
    mcp_server_hold(s);
    s->subscriptions = subs;
}

static void on_subscription_closed(uv_handle_t *handle)
{
    struct mcp_subscriptions *subs = handle->data;
    struct mcp_server *s = subs->server;
    free(subs);
    mcp_server_release(s);
}

void mcp_subscriptions_close(struct mcp_server *s)
{
    struct mcp_subscriptions *subs = STEAL_PTR(s->subscriptions);
    subscribers_free(subs);
    uv_close((uv_handle_t *)&subs->timer, on_subscription_closed);
}
