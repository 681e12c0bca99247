/*
 * resources/list: the files in the workspaces of the caller's sandboxes, page by page.
 *
 * The list cannot be cached, because files come and go while code runs. So each page asks the
 * sandboxes again, and the cursor is a position rather than a number: the last listed file.
 * Positions have an order that does not depend on what exists (by id of the sandbox, then by path
 * as the agent walks). So a page continues after a file that was removed meanwhile, and each
 * remaining file is listed exactly once.
 *
 * Limits: a page has PAGE_ITEMS files; the first LIMIT_ENTRIES entries of each sandbox count. A
 * sandbox that cannot answer now (being created, busy, failing) is left out, and announced when it
 * changes. Listing does not count as use, so a client that lists now and then keeps no sandbox
 * alive.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "supervisor/base/entries.h"
#include "supervisor/links/mime.h"
#include "supervisor/links/uri.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/resources/job.h"
#include "supervisor/resources/resources.h"
#include "supervisor/results/result.h"

#define PAGE_ITEMS 100
#define PAGE_BYTES (256u << 10) /* of URIs, which may be long */

struct place {
    char id[FLEET_ID_SIZE];
    char name[LIMIT_NAME + 1];
};

struct walk {
    struct job job;
    struct place *places; /* the sandboxes to list, by id */
    size_t count, at;
    /* the last listed file, with its path relative to the workspace; id "": none */
    struct uri after;
    cJSON *items;
    size_t bytes;
    bool full;
    char *last; /* cursor to the last item */
};

/* ---- order ---- */

/* Compares in the agent's order: by segments, a directory before its entries. */
static int compare_paths(const char *a, const char *b)
{
    for (;; a++, b++) {
        int x = *a == '/' ? 1 : (unsigned char)*a;
        int y = *b == '/' ? 1 : (unsigned char)*b;
        if (x != y || *a == '\0') {
            return x - y;
        }
    }
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    return strcmp(x->id, y->id);
}

/* ---- items ---- */

static bool is_told(const struct walk *w, const char *path)
{
    return strcmp(w->after.id, w->places[w->at].id) == 0 &&
           compare_paths(path, w->after.path + 1) <= 0;
}

static cJSON *make_item(const struct place *place, const char *uri, const char *path,
                        const struct msg_entry *e)
{
    cJSON *item = cJSON_CreateObject();
    const char *type = mime_of_name(path);
    CLEANUP_FREE char *title =
        alloc_printf("%s in %s", path, place->name[0] != '\0' ? place->name : place->id);
    result_put_text(item, "uri", uri);
    result_put_text(item, "name", path);
    result_put_text(item, "title", title);
    if (type != NULL) {
        result_put_text(item, "mimeType", type);
    }
    result_put_uint(item, "size", e->size);
    result_put_time(result_put_object(item, "annotations"), "lastModified", e->mtime_ms);
    return item;
}

static bool on_walk_entry(void *arg, const struct msg_entry *e)
{
    struct walk *w = arg;
    const struct place *place = &w->places[w->at];
    CLEANUP_FREE char *path = alloc_viewdup(e->path);
    CLEANUP_FREE char *uri = NULL;
    if (e->type == FILE_TYPE_FILE && !is_told(w, path)) {
        uri = uri_of_file(place->id, fleet_workspace(w->job.fleet, place->id), e->path);
    }
    if (uri == NULL) { /* no URI can name it, so it is not listed */
        return true;
    }
    if (cJSON_GetArraySize(w->items) == PAGE_ITEMS || w->bytes > PAGE_BYTES) {
        w->full = true;
        return false;
    }
    w->bytes += 3 * strlen(uri);
    cJSON_AddItemToArray(w->items, make_item(place, uri, path, e));
    free(w->last);
    w->last = uri_of_file(place->id, "/", e->path);
    return true;
}

/* ---- from sandbox to sandbox ---- */

static void finish_walk(struct walk *w)
{
    mcp_answer_page(w->job.request, w->items, w->full ? w->last : NULL);
    free(w->last);
    free(w->places);
    free(w);
}

static void next_place(struct walk *w);

static void on_walk_listed(void *arg, int rc, const struct fleet_outcome *outcome,
                           const struct err *err, const char *hint)
{
    struct walk *w = arg;
    struct err bad = ERR_INIT;
    (void)hint;
    w->job.call = NULL;
    if (!job_is_well(rc, outcome)) {
        log_debug("resources: no list: %s sandbox=%s", rc < 0 ? err->text : "failed",
                  w->job.sandbox);
    } else if (entries_read(outcome->out, on_walk_entry, w, &bad) < 0) {
        log_warn("resources: %s sandbox=%s", bad.text, w->job.sandbox);
    }
    w->at++;
    next_place(w);
}

static void next_place(struct walk *w)
{
    const struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = ".",
        .length = LIMIT_ENTRIES,
        .flags = OP_FLAG_RECURSIVE,
        .keep_bytes = ENTRIES_KEEP_BYTES,
        .is_look = true,
    };
    bool over = w->full || mcp_is_cancelled(w->job.request);
    while (!over && w->at < w->count && !job_find(&w->job, w->places[w->at].id)) {
        w->at++; /* closed since the listing began */
    }
    if (over || w->at == w->count) {
        finish_walk(w);
    } else {
        job_run(&w->job, &op, on_walk_listed, w);
    }
}

static void on_walk_sandbox(void *arg, const struct fleet_info *info)
{
    struct walk *w = arg;
    if (strcmp(info->state, "ready") != 0 || strcmp(info->id, w->after.id) < 0) {
        return;
    }
    struct place *more = alloc_array(w->count + 1, sizeof(*more));
    if (w->count > 0) {
        memcpy(more, w->places, w->count * sizeof(*more));
    }
    free(w->places);
    w->places = more;
    snprintf(more[w->count].id, sizeof(more[0].id), "%s", info->id);
    snprintf(more[w->count].name, sizeof(more[0].name), "%s", info->name);
    w->count++;
}

void resources_list(struct fleet *f, struct mcp_request *r, const char *cursor, cJSON *first)
{
    struct walk *w = alloc_one(struct walk);
    if (cursor != NULL && (!uri_parse(cursor, &w->after) || w->after.kind != URI_FILE)) {
        free(w);
        cJSON_Delete(first);
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS,
                         "cursor: unknown; list again from the beginning, without a cursor", NULL);
        return;
    }
    job_init(&w->job, f, r);
    w->items = cJSON_CreateArray();
    if (cursor == NULL && first != NULL) {
        cJSON_AddItemToArray(w->items, STEAL_PTR(first));
    }
    cJSON_Delete(first);
    fleet_list(f, w->job.owner, on_walk_sandbox, w);
    if (w->count > 0) {
        qsort(w->places, w->count, sizeof(w->places[0]), compare_places);
    }
    next_place(w);
}
