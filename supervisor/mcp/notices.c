/*
 * Changes are marked, not queued. If two resources below a subscribed URI change before the reader
 * is notified, the mark becomes the URI itself, which covers both. A list that changes soon after
 * its last notification stays marked until the minimum interval is over.
 */
#include "supervisor/mcp/notices.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static void item_finish(struct notice_item *item)
{
    free(item->name);
    free(item->what);
}

void notices_finish(struct notices *n)
{
    for (size_t i = 0; i < n->count; i++) {
        item_finish(&n->items[i]);
    }
    free(n->items);
    memset(n, 0, sizeof(*n));
}

static struct notice_item *find_notice(const struct notices *n, enum notice_kind kind,
                                       const char *name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->items[i].kind == kind && strcmp(n->items[i].name, name) == 0) {
            return &n->items[i];
        }
    }
    return NULL;
}

bool notices_may_want(const struct notices *n, enum notice_kind kind, const char *name)
{
    return n->count < NOTICES_ITEMS &&
           strnlen(name, NOTICES_BYTES + 1) <= NOTICES_BYTES - n->bytes &&
           find_notice(n, kind, name) == NULL;
}

bool notices_want(struct notices *n, enum notice_kind kind, const char *name)
{
    if (find_notice(n, kind, name) != NULL) {
        return true;
    }
    if (!notices_may_want(n, kind, name)) {
        return false;
    }
    if (n->items == NULL) {
        n->items = alloc_array(NOTICES_ITEMS, sizeof(*n->items));
    }
    n->items[n->count++] = (struct notice_item){.kind = kind, .name = alloc_strdup(name)};
    n->bytes += strlen(name);
    return true;
}

void notices_unwant(struct notices *n, enum notice_kind kind, const char *name)
{
    struct notice_item *item = find_notice(n, kind, name);
    if (item != NULL) {
        n->bytes -= strlen(item->name);
        item_finish(item);
        *item = n->items[--n->count];
    }
}

/* ---- changes -------------------------------------------------------------------------------- */

static void mark(struct notice_item *item, const char *what)
{
    if (item->what == NULL) {
        item->what = alloc_strdup(what);
    } else if (strcmp(item->what, what) != 0) {
        free(item->what);
        item->what = alloc_strdup(item->name);
    }
}

/* Whether `uri` names something inside `outer`, a URI with or without a slash at its end. */
static bool lies_in(const char *uri, const char *outer)
{
    size_t len = strlen(outer);
    return len > 0 && strncmp(uri, outer, len) == 0 && (outer[len - 1] == '/' || uri[len] == '/');
}

bool notices_list_changed(struct notices *n, enum notice_kind list)
{
    n->changed[list] = n->changed[list] || n->wants[list];
    return n->wants[list];
}

bool notices_resource_changed(struct notices *n, const char *uri)
{
    bool wanted = false;
    size_t len = strlen(uri);
    for (size_t i = 0; i < n->count; i++) {
        struct notice_item *item = &n->items[i];
        if (item->kind != NOTICE_RESOURCE) {
            continue;
        }
        if (strcmp(uri, item->name) == 0 || lies_in(uri, item->name)) {
            mark(item, uri);
            wanted = true;
        } else if (len > 0 && uri[len - 1] == '/' && lies_in(item->name, uri)) {
            mark(item, item->name);
            wanted = true;
        }
    }
    return wanted;
}

bool notices_task_changed(struct notices *n, const char *id)
{
    struct notice_item *item = find_notice(n, NOTICE_TASK, id);
    if (item != NULL) {
        mark(item, id);
    }
    return item != NULL;
}

/* ---- notification ---------------------------------------------------------------------------- */

static bool may_tell(const struct notices *n, enum notice_kind list, uint64_t now_ms)
{
    return n->changed[list] && n->not_before_ms[list] <= now_ms;
}

bool notices_next(const struct notices *n, uint64_t now_ms, enum notice_kind *ret_kind,
                  const char **ret_name)
{
    for (enum notice_kind list = NOTICE_TOOLS; list < NOTICE_LISTS; list++) {
        if (may_tell(n, list, now_ms)) {
            *ret_kind = list;
            *ret_name = NULL;
            return true;
        }
    }
    for (size_t i = 0; i < n->count; i++) {
        if (n->items[i].what != NULL) {
            *ret_kind = n->items[i].kind;
            *ret_name = n->items[i].what;
            return true;
        }
    }
    return false;
}

uint64_t notices_due_ms(const struct notices *n)
{
    uint64_t due_ms = UINT64_MAX;
    for (enum notice_kind list = NOTICE_TOOLS; list < NOTICE_LISTS; list++) {
        if (n->changed[list] && n->not_before_ms[list] < due_ms) {
            due_ms = n->not_before_ms[list];
        }
    }
    return due_ms;
}

void notices_told(struct notices *n, uint64_t now_ms, enum notice_kind kind, const char *name)
{
    if (kind < NOTICE_LISTS) {
        n->changed[kind] = false;
        n->not_before_ms[kind] = now_ms + NOTICES_LIST_MS;
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        struct notice_item *item = &n->items[i];
        if (item->kind == kind && item->what != NULL && strcmp(item->what, name) == 0) {
            free(item->what);
            item->what = NULL;
        }
    }
}

void notices_untold(struct notices *n, enum notice_kind kind, const char *name)
{
    if (kind == NOTICE_TASK) {
        notices_task_changed(n, name);
    } else if (kind == NOTICE_RESOURCE) {
        notices_resource_changed(n, name);
    } else {
        n->not_before_ms[kind] = 0;
        notices_list_changed(n, kind);
    }
}
