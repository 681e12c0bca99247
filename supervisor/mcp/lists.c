/*
 * The four lists. The application answers with all items, or with pages that it makes itself; whole
 * lists are divided into pages here.
 *
 * A cursor of ours names the last item of the previous page by a hash. So the list may change
 * between two pages: the next page begins after that item, wherever it is now. If the item is gone,
 * the cursor is unknown, and the client starts again.
 *
 * Clients ask for lists with every connection, so a list that never changes is printed once for
 * each revision and form, and cached.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "common/str.h"
#include "supervisor/mcp/internal.h"

#define CURSOR_SIZE 17 /* 16 hex digits */

static const struct {
    const char *method, *member;
    const char *key; /* member that identifies an item */
} lists[MCP_LIST_COUNT] = {
    [MCP_LIST_TOOLS] = {"tools/list", "tools", "name"},
    [MCP_LIST_RESOURCES] = {"resources/list", "resources", "uri"},
    [MCP_LIST_TEMPLATES] = {"resources/templates/list", "resourceTemplates", "uriTemplate"},
    [MCP_LIST_PROMPTS] = {"prompts/list", "prompts", "name"},
};

static enum mcp_list asked_list(const struct mcp_request *r)
{
    size_t i = 0;
    while (i < MCP_LIST_COUNT && strcmp(lists[i].method, r->method_name) != 0) {
        i++;
    }
    assert(i < MCP_LIST_COUNT); /* a handler answered another method with a list */
    return (enum mcp_list)i;
}

/* NULL if there is none. */
static const cJSON *cursor_of(const struct mcp_request *r)
{
    return json_get_given(r->params, "cursor");
}

static void unknown_cursor(struct mcp_request *r)
{
    mcp_bad_params(r, "unknown cursor");
}

/* The cached text of a list that never changes, in the form for this request; NULL if the list may
 * change. */
static char **kept_list(const struct mcp_request *r)
{
    struct mcp_server *server = r->session->server;
    const struct mcp_app *app = server->app;
    enum mcp_list list = asked_list(r);
    unsigned form = app->has_forms[list] ? app->list_form(r, list) : 0;
    return app->fixed[list] && form < MCP_LIST_FORMS ? &server->lists[list][form][r->revision]
                                                     : NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

bool mcp_list_answer_kept(struct mcp_request *r)
{
    if (r->method->run != mcp_list_method || cursor_of(r) != NULL) {
        return false;
    }
    char **kept = kept_list(r);
    if (kept == NULL || *kept == NULL) {
        return false;
    }
    mcp_answer_as_is(r, mcp_raw(*kept));
    return true;
}

void mcp_list_method(struct mcp_request *r)
{
    const struct mcp_app *app = r->session->server->app;
    const cJSON *cursor = cursor_of(r);
    if (cursor != NULL && !cJSON_IsString(cursor)) {
        unknown_cursor(r);
        return;
    }
    app->list(r, asked_list(r), cursor != NULL ? cursor->valuestring : NULL);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Adds each tool's task support, which only 2025-11-25 has. */
static void tell_task_support(const struct mcp_request *r, cJSON *tools)
{
    const struct mcp_app *app = r->session->server->app;
    if (r->revision != REVISION_2025_11_25 || !(app->offers & MCP_OFFER_TASKS)) {
        return;
    }
    cJSON *entry;
    cJSON_ArrayForEach(entry, tools)
    {
        const char *name = json_get_str(entry, "name");
        const struct mcp_tool *tool = name != NULL ? app->tool_find(app->arg, name) : NULL;
        if (tool != NULL && tool->tasks != MCP_TASK_NEVER) {
            cJSON *execution = cJSON_AddObjectToObject(entry, "execution");
            cJSON_AddItemToObjectCS(execution, "taskSupport",
                                    cJSON_CreateStringReference(tool->tasks == MCP_TASK_REQUIRED
                                                                    ? "required"
                                                                    : "optional"));
        }
    }
}

void mcp_answer_page(struct mcp_request *r, cJSON *items, const char *next_cursor)
{
    struct mcp_server *server = r->session->server;
    enum mcp_list list = asked_list(r);
    bool fixed = server->app->fixed[list];
    char **kept = kept_list(r);
    mcp_shape_items(r->revision, list, items);
    if (list == MCP_LIST_TOOLS) {
        tell_task_support(r, items);
    }
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, lists[list].member, items);
    if (next_cursor != NULL) {
        cJSON_AddItemToObjectCS(result, "nextCursor", cJSON_CreateString(next_cursor));
    }
    mcp_cacheable(r->revision, result, fixed && !server->app->has_forms[list],
                  fixed ? MCP_LIST_TTL_MS : 0);
    mcp_seal(server, r->revision, result);
    if (kept != NULL && cursor_of(r) == NULL && *kept == NULL) {
        *kept = cJSON_PrintUnformatted(result);
    }
    mcp_answer_as_is(r, result);
}

static void write_cursor(char out[CURSOR_SIZE], enum mcp_list list, const cJSON *item)
{
    const char *key = json_get_str(item, lists[list].key);
    snprintf(out, CURSOR_SIZE, "%016" PRIx64, hash_text(key != NULL ? key : ""));
}

/* Deletes the items up to and including the one that the cursor names; false if there is none. */
static bool skip_to(cJSON *items, enum mcp_list list, const char *cursor)
{
    char mine[CURSOR_SIZE];
    while (items->child != NULL) {
        cJSON *item = cJSON_DetachItemViaPointer(items, items->child);
        write_cursor(mine, list, item);
        cJSON_Delete(item);
        if (strcmp(mine, cursor) == 0) {
            return true;
        }
    }
    return false;
}

/* Deletes the items after `last`, which do not fit on the page. */
static void cut_page(cJSON *items, cJSON *last)
{
    cJSON *rest = last->next;
    last->next = NULL;
    items->child->prev = last; /* cJSON keeps a list's end in its first item */
    cJSON_Delete(rest);
}

void mcp_answer_items(struct mcp_request *r, cJSON *items)
{
    enum mcp_list list = asked_list(r);
    const cJSON *cursor = cursor_of(r);
    char next[CURSOR_SIZE] = "";
    if (cursor != NULL && !skip_to(items, list, cursor->valuestring)) {
        cJSON_Delete(items);
        unknown_cursor(r);
        return;
    }
    cJSON *last = cJSON_GetArrayItem(items, MCP_PAGE_ITEMS - 1);
    if (last != NULL && last->next != NULL) {
        cut_page(items, last);
        write_cursor(next, list, last);
    }
    mcp_answer_page(r, items, next[0] != '\0' ? next : NULL);
}
