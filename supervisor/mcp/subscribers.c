/*
 * Readers that are notified of changes. A reader is either a listen request of the latest revision,
 * with a filter of its own and a copy of each notification, or a session of an older revision,
 * which is notified of all lists without asking, and of the resources to which it subscribed.
 *
 * A change sets marks (notices.h), and is sent a moment later, so that a burst of changes is one
 * notification. A list is sent at most once a second. If a reader's stream is full, the marks stay
 * and are tried again; if it has no stream, they wait for one.
 *
 * A sink may end sessions, and with them readers, while it is called. During a round such readers
 * are only marked as gone, and freed after it.
 */
#include "supervisor/mcp/subscribers.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/task.h"
#include "supervisor/mcp/tasks.h"

#define SOON_MS      20  /* changes within this time are sent together */
#define AGAIN_MS     250 /* until a slow reader is tried again */
#define TELL_NEVER   UINT64_MAX
#define SUBSCRIPTION MCP_META "subscriptionId"

const struct subscriber_list subscriber_lists[NOTICE_LISTS] = {
    [NOTICE_TOOLS] = {MCP_OFFER_TOOLS_CHANGED, "toolsListChanged",
                      "notifications/tools/list_changed"},
    [NOTICE_RESOURCES] = {MCP_OFFER_RESOURCES_CHANGED, "resourcesListChanged",
                          "notifications/resources/list_changed"},
    [NOTICE_PROMPTS] = {MCP_OFFER_PROMPTS_CHANGED, "promptsListChanged",
                        "notifications/prompts/list_changed"},
};

/* ---- readers -------------------------------------------------------------------------------- */

struct mcp_subscriber *subscriber_create(struct mcp_session *s, struct mcp_request *listen)
{
    struct mcp_subscriptions *subs = s->server->subscriptions;
    struct mcp_subscriber *one = alloc_one(struct mcp_subscriber);
    one->session = s;
    one->listen = listen;
    one->next = subs->first;
    if (one->next != NULL) {
        one->next->prev = one;
    }
    subs->first = one;
    return one;
}

static void subscriber_free(struct mcp_subscriptions *subs, struct mcp_subscriber *one)
{
    *(one->prev != NULL ? &one->prev->next : &subs->first) = one->next;
    if (one->next != NULL) {
        one->next->prev = one->prev;
    }
    notices_finish(&one->notices);
    cJSON_Delete(one->acknowledge);
    free(one);
}

void subscriber_end(struct mcp_subscriber *one)
{
    struct mcp_subscriptions *subs = one->session->server->subscriptions;
    if (one->listen != NULL) {
        one->listen->data = NULL;
        subs->listens--;
    } else {
        one->session->subscriber = NULL;
    }
    one->gone = true;
    if (!subs->telling) {
        subscriber_free(subs, one);
    }
}

struct mcp_subscriber *subscriber_of_session(struct mcp_session *s)
{
    if (s->subscriber == NULL) {
        s->subscriber = subscriber_create(s, NULL);
        for (enum notice_kind list = NOTICE_TOOLS; list < NOTICE_LISTS; list++) {
            s->subscriber->notices.wants[list] =
                (s->server->app->offers & subscriber_lists[list].offer) != 0;
        }
    }
    return s->subscriber;
}

void subscribers_free(struct mcp_subscriptions *subs)
{
    while (subs->first != NULL) {
        subscriber_free(subs, subs->first);
    }
}

/* ---- notification ---------------------------------------------------------------------------- */

static bool put_event(struct mcp_subscriber *one, char *json)
{
    return one->listen != NULL ? mcp_request_send(one->listen, json)
                               : mcp_session_send(one->session, json);
}

void subscriber_sign(const struct mcp_request *listen, cJSON *object)
{
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(meta, SUBSCRIPTION, cJSON_CreateRaw(listen->id));
    cJSON_AddItemToObjectCS(object, "_meta", meta);
}

/* NULL: nothing needs to be sent after all. */
static char *notice_text(const struct mcp_subscriber *one, enum notice_kind kind, const char *name)
{
    cJSON *params = NULL;
    const char *method = NULL;
    if (kind == NOTICE_TASK) {
        const struct mcp_task *t =
            mcp_task_find(one->session->server, one->session->principal->name, name);
        if (t == NULL) {
            return NULL;
        }
        method = "notifications/tasks";
        params = task_json(t, true);
    } else if (kind == NOTICE_RESOURCE) {
        method = "notifications/resources/updated";
        params = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(params, "uri", cJSON_CreateString(name));
    } else {
        method = subscriber_lists[kind].method;
        params = one->listen != NULL ? cJSON_CreateObject() : NULL;
    }
    if (one->listen != NULL) {
        subscriber_sign(one->listen, params);
    }
    return jsonrpc_notification(method, params);
}

static bool acknowledge(struct mcp_subscriber *one)
{
    cJSON *params = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(params, "notifications", cJSON_Duplicate(one->acknowledge, true));
    subscriber_sign(one->listen, params);
    if (!put_event(one, jsonrpc_notification("notifications/subscriptions/acknowledged", params))) {
        return false;
    }
    cJSON_Delete(one->acknowledge);
    one->acknowledge = NULL;
    return true;
}

/* Sends all marks that are due. Returns in how many milliseconds the reader must be tried again;
 * TELL_NEVER: not before the next change. */
static uint64_t tell_subscriber(struct mcp_subscriber *one, uint64_t now_ms)
{
    enum notice_kind kind;
    const char *name = NULL;
    if (one->listen == NULL && one->session->stream == NULL) {
        return TELL_NEVER; /* until it has a stream */
    }
    if (one->acknowledge != NULL && !acknowledge(one)) {
        return AGAIN_MS;
    }
    while (!one->gone && notices_next(&one->notices, now_ms, &kind, &name)) {
        CLEANUP_FREE char *own = name != NULL ? alloc_strdup(name) : NULL;
        char *json = notice_text(one, kind, own);
        notices_told(&one->notices, now_ms, kind, own);
        if (json != NULL && !put_event(one, json)) {
            notices_untold(&one->notices, kind, own);
            return AGAIN_MS;
        }
    }
    uint64_t due_ms = notices_due_ms(&one->notices);
    return due_ms == UINT64_MAX ? TELL_NEVER : due_ms - now_ms;
}

static void on_subscriber_time(uv_timer_t *timer);

static void tell_in(struct mcp_subscriptions *subs, uint64_t ms)
{
    bool active = uv_is_active((uv_handle_t *)&subs->timer);
    /* a slow reader must not delay the others */
    if (!active || uv_timer_get_due_in(&subs->timer) > ms) {
        uv_timer_start(&subs->timer, on_subscriber_time, ms, 0);
    }
}

void subscribers_tell(struct mcp_subscriptions *subs)
{
    uint64_t now_ms = uv_now(subs->timer.loop);
    uint64_t again_ms = TELL_NEVER;
    if (subs->telling) {
        return;
    }
    subs->telling = true;
    for (struct mcp_subscriber *one = subs->first; one != NULL; one = one->next) {
        uint64_t ms = one->gone ? TELL_NEVER : tell_subscriber(one, now_ms);
        again_ms = !one->gone && ms < again_ms ? ms : again_ms;
    }
    subs->telling = false;
    struct mcp_subscriber *next = NULL;
    for (struct mcp_subscriber *one = subs->first; one != NULL; one = next) {
        next = one->next;
        if (one->gone) {
            subscriber_free(subs, one);
        }
    }
    if (again_ms != TELL_NEVER) {
        tell_in(subs, again_ms);
    }
}

static void on_subscriber_time(uv_timer_t *timer)
{
    subscribers_tell(timer->data);
}

void subscriber_acknowledge(struct mcp_subscriber *one)
{
    struct mcp_subscriptions *subs = one->session->server->subscriptions;
    bool was_telling = subs->telling;
    subs->telling = true; /* the sink must not free the reader meanwhile */
    bool sent = acknowledge(one);
    subs->telling = was_telling;
    if (!sent || one->gone) {
        tell_in(subs, AGAIN_MS); /* this also frees it */
    }
}

void mcp_subscriptions_stream(struct mcp_session *s)
{
    if (s->subscriber != NULL && s->stream != NULL) {
        tell_in(s->server->subscriptions, SOON_MS);
    }
}

/* ---- changes -------------------------------------------------------------------------------- */

static bool concerns(const struct mcp_session *s, const char *owner)
{
    return !s->ended && (owner == NULL || strcmp(s->principal->name, owner) == 0);
}

/* If a subscriber is gone, its session may be, too. */
static bool hears(const struct mcp_subscriber *one, const char *owner)
{
    return !one->gone && concerns(one->session, owner);
}

void mcp_list_changed(struct mcp_server *s, const char *owner, enum mcp_list list)
{
    static const enum notice_kind kinds[MCP_LIST_COUNT] = {
        [MCP_LIST_TOOLS] = NOTICE_TOOLS,
        [MCP_LIST_RESOURCES] = NOTICE_RESOURCES,
        [MCP_LIST_TEMPLATES] = NOTICE_RESOURCES, /* templates have no notification of their own */
        [MCP_LIST_PROMPTS] = NOTICE_PROMPTS,
    };
    bool wanted = false;
    for (struct mcp_session *session = s->sessions; session != NULL; session = session->next) {
        if (session->ready && concerns(session, owner)) {
            subscriber_of_session(session);
        }
    }
    for (struct mcp_subscriber *one = s->subscriptions->first; one != NULL; one = one->next) {
        wanted = (hears(one, owner) && (one->listen != NULL || one->session->ready) &&
                  notices_list_changed(&one->notices, kinds[list])) ||
                 wanted;
    }
    if (wanted) {
        tell_in(s->subscriptions, SOON_MS);
    }
}

void mcp_resource_updated(struct mcp_server *s, const char *owner, const char *uri)
{
    bool wanted = false;
    for (struct mcp_subscriber *one = s->subscriptions->first; one != NULL; one = one->next) {
        wanted = (hears(one, owner) && notices_resource_changed(&one->notices, uri)) || wanted;
    }
    if (wanted) {
        tell_in(s->subscriptions, SOON_MS);
    }
}

void mcp_subscriptions_task(struct mcp_server *s, const char *owner, const char *id)
{
    bool wanted = false;
    for (struct mcp_subscriber *one = s->subscriptions->first; one != NULL; one = one->next) {
        wanted = (hears(one, owner) && notices_task_changed(&one->notices, id)) || wanted;
    }
    if (wanted) {
        tell_in(s->subscriptions, SOON_MS);
    }
}
