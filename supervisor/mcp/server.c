/*
 * What all sessions share, and the order in which it is closed.
 *
 * A server has two kinds of handles on the loop: its own timer, which repeats progress to waiting
 * clients and runs only if there are any, and the handles of tasks and input. Each handle counts as
 * a hold. The last release frees the server, always from the loop.
 */
#include <assert.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/mcp/internal.h"

#define LOOK_MS 2500 /* interval of the heartbeat's checks */

/* ---- heartbeat ------------------------------------------------------------------------------ */

/* A sink may end requests while it is called, so the search starts anew after each. True if one was
 * called. */
static bool look_at_session(struct mcp_session *s, uint64_t now)
{
    for (struct mcp_request *r = s->requests; r != NULL; r = r->next) {
        char *json = r->watched ? progress_repeat(&r->progress, LOOK_MS, now) : NULL;
        if (json != NULL) {
            mcp_request_send(r, json);
            return true;
        }
    }
    return false;
}

static void on_server_look(uv_timer_t *timer)
{
    struct mcp_server *server = timer->data;
    uint64_t now = clock_ms();
    struct mcp_session *s = server->sessions;
    if (s != NULL) {
        mcp_session_hold(s);
    }
    while (s != NULL) {
        while (look_at_session(s, now)) {
        }
        struct mcp_session *next = s->next;
        if (next != NULL) {
            mcp_session_hold(next);
        }
        mcp_session_release(s);
        s = next;
    }
}

void mcp_watch(struct mcp_request *r)
{
    struct mcp_server *s = r->session->server;
    if (r->watched || r->progress.token == NULL) {
        return;
    }
    r->watched = true;
    if (s->watched++ == 0) {
        uv_timer_start(&s->heartbeat, on_server_look, LOOK_MS, LOOK_MS);
    }
}

void mcp_unwatch(struct mcp_request *r)
{
    struct mcp_server *s = r->session->server;
    if (!r->watched) {
        return;
    }
    r->watched = false;
    if (--s->watched == 0) {
        uv_timer_stop(&s->heartbeat);
    }
}

/* ---- server info ----------------------------------------------------------------------------- */

static void put_text(cJSON *object, const char *key, const char *text)
{
    if (text != NULL) {
        cJSON_AddItemToObjectCS(object, key, cJSON_CreateStringReference(text));
    }
}

const char *mcp_server_info(struct mcp_server *s, enum revision revision)
{
    const struct mcp_app *app = s->app;
    if (s->info[revision] != NULL) {
        return s->info[revision];
    }
    cJSON *info = cJSON_CreateObject();
    put_text(info, "name", app->name);
    put_text(info, "title", revision_has_structure(revision) ? app->title : NULL);
    put_text(info, "version", app->version);
    if (revision_has_icons(revision)) {
        put_text(info, "description", app->description);
        put_text(info, "websiteUrl", app->website);
        if (app->icons != NULL) {
            cJSON_AddItemToObjectCS(info, "icons", mcp_raw(app->icons));
        }
    }
    s->info[revision] = alloc_check(cJSON_PrintUnformatted(info));
    cJSON_Delete(info);
    return s->info[revision];
}

const char *mcp_server_signature(struct mcp_server *s)
{
    if (s->signature == NULL) {
        cJSON *info = cJSON_CreateObject();
        put_text(info, "name", s->app->name);
        put_text(info, "version", s->app->version);
        s->signature = alloc_check(cJSON_PrintUnformatted(info));
        cJSON_Delete(info);
    }
    return s->signature;
}

static cJSON *put_object(cJSON *object, const char *key)
{
    cJSON *inner = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(object, key, inner);
    return inner;
}

static void put_true_if(cJSON *object, const char *key, unsigned offered)
{
    if (offered != 0) {
        cJSON_AddItemToObjectCS(object, key, cJSON_CreateTrue());
    }
}

static void put_tasks(cJSON *capabilities, cJSON *extensions, enum revision revision)
{
    if (revision_is_modern(revision)) {
        put_object(extensions, MCP_EXTENSION_TASKS);
    } else if (revision == REVISION_2025_11_25) {
        cJSON *tasks = put_object(capabilities, "tasks");
        put_object(tasks, "list");
        put_object(tasks, "cancel");
        put_object(put_object(put_object(tasks, "requests"), "tools"), "call");
    }
}

cJSON *mcp_server_capabilities(const struct mcp_request *r)
{
    unsigned offers = r->session->server->app->offers;
    enum revision revision = r->revision;
    cJSON *c = cJSON_CreateObject();
    cJSON *extensions = cJSON_CreateObject();
    if (offers & MCP_OFFER_TOOLS) {
        put_true_if(put_object(c, "tools"), "listChanged", offers & MCP_OFFER_TOOLS_CHANGED);
    }
    if (offers & MCP_OFFER_RESOURCES) {
        cJSON *resources = put_object(c, "resources");
        put_true_if(resources, "subscribe", offers & MCP_OFFER_SUBSCRIBE);
        put_true_if(resources, "listChanged", offers & MCP_OFFER_RESOURCES_CHANGED);
    }
    if (offers & MCP_OFFER_PROMPTS) {
        put_true_if(put_object(c, "prompts"), "listChanged", offers & MCP_OFFER_PROMPTS_CHANGED);
    }
    if ((offers & MCP_OFFER_COMPLETIONS) && revision >= REVISION_2025_03_26) {
        put_object(c, "completions");
    }
    if (offers & MCP_OFFER_LOGGING) {
        put_object(c, "logging");
    }
    if (offers & MCP_OFFER_TASKS) {
        put_tasks(c, extensions, revision);
    }
    if ((offers & MCP_OFFER_VIEWS) && mcp_client_shows_views(r)) {
        put_object(extensions, MCP_EXTENSION_UI);
    }
    if (extensions->child != NULL) {
        cJSON_AddItemToObjectCS(c, "extensions", extensions);
    } else {
        cJSON_Delete(extensions);
    }
    return c;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct mcp_server *mcp_server_create(uv_loop_t *loop, const struct mcp_app *app)
{
    struct mcp_server *s = alloc_one(struct mcp_server);
    s->loop = loop;
    s->app = app;
    s->holds = 1;
    uv_timer_init(loop, &s->heartbeat);
    s->heartbeat.data = s;
    uv_unref((uv_handle_t *)&s->heartbeat); /* the heartbeat alone does not keep the loop alive */
    mcp_tasks_open(s);
    mcp_inputs_open(s);
    mcp_subscriptions_open(s);
    return s;
}

void mcp_server_stop(struct mcp_server *s)
{
    s->stopping = true;
    mcp_subscriptions_stop(s);
}

void mcp_server_hold(struct mcp_server *s)
{
    s->holds++;
}

void mcp_server_release(struct mcp_server *s)
{
    if (--s->holds > 0) {
        return;
    }
    assert(s->sessions == NULL);
    free(s->signature);
    for (size_t r = 0; r < REVISION_COUNT; r++) {
        free(s->info[r]);
        for (size_t l = 0; l < MCP_LIST_COUNT; l++) {
            for (int f = 0; f < MCP_LIST_FORMS; f++) {
                free(s->lists[l][f][r]);
            }
        }
    }
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    free(s);
    if (closed != NULL) {
        closed(arg);
    }
}

static void on_heartbeat_closed(uv_handle_t *handle)
{
    mcp_server_release(handle->data);
}

void mcp_server_close(struct mcp_server *s, void (*closed)(void *arg), void *arg)
{
    s->stopping = true;
    s->closed = closed;
    s->closed_arg = arg;
    while (s->sessions != NULL) {
        struct mcp_session *session = s->sessions;
        mcp_session_hold(session);
        mcp_session_mute(session);
        while (session->requests != NULL) {
            mcp_request_drop(session->requests);
        }
        mcp_session_release(session);
    }
    mcp_subscriptions_close(s);
    mcp_inputs_close(s);
    mcp_tasks_close(s);
    uv_close((uv_handle_t *)&s->heartbeat, on_heartbeat_closed);
}
