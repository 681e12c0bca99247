/*
 * Each owner has a list of its tasks, so that finding, counting and listing never touch another
 * owner's tasks, and no principal can see from a cursor what another one does. Lists are short
 * (TASKS_KEPT), so they are searched linearly.
 *
 * Owners share the room for results. When it runs out, the owner that keeps most loses its oldest
 * result, so nobody can evict the results of those that keep little.
 */
#include "supervisor/mcp/task_registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/err.h"
#include "common/log.h"
#include "common/str.h"

void task_registry_init(struct task_registry *reg)
{
    memset(reg, 0, sizeof(*reg));
}

static size_t kept_bytes(const struct mcp_task *t)
{
    return (t->result != NULL ? strlen(t->result) : 0) + input_weight(t->error);
}

/* Frees the owner with its last task. */
static void drop_task(struct task_registry *reg, struct mcp_task *t)
{
    struct task_owner *o = t->owner;
    size_t bytes = kept_bytes(t);
    *(t->prev != NULL ? &t->prev->next : &o->first) = t->next;
    *(t->next != NULL ? &t->next->prev : &o->last) = t->prev;
    o->count--;
    o->bytes -= bytes;
    reg->count--;
    reg->bytes -= bytes;
    task_finish(t);
    free(t);
    if (o->count == 0) {
        struct task_owner **slot = &reg->owners;
        while (*slot != o) {
            slot = &(*slot)->next;
        }
        *slot = o->next;
        free(o->name);
        free(o);
    }
}

void task_registry_finish(struct task_registry *reg)
{
    while (reg->owners != NULL) {
        drop_task(reg, reg->owners->first);
    }
}

static struct task_owner *find_owner(const struct task_registry *reg, const char *name)
{
    struct task_owner *o = reg->owners;
    while (o != NULL && strcmp(o->name, name) != 0) {
        o = o->next;
    }
    return o;
}

static struct task_owner *get_owner(struct task_registry *reg, const char *name)
{
    struct task_owner *o = find_owner(reg, name);
    if (o == NULL) {
        o = alloc_one(struct task_owner);
        o->name = alloc_strdup(name);
        o->next = reg->owners;
        reg->owners = o;
    }
    return o;
}

/* ---- room ----------------------------------------------------------------------------------- */

/* The owner's task that ended first, except `spared`. */
static struct mcp_task *oldest_over(const struct task_owner *o, const struct mcp_task *spared)
{
    struct mcp_task *oldest = NULL;
    for (struct mcp_task *t = o->first; t != NULL; t = t->next) {
        if (t != spared && task_is_over(t) && t->request == NULL &&
            (oldest == NULL || t->over_ms < oldest->over_ms)) {
            oldest = t;
        }
    }
    return oldest;
}

/* The oldest ended task of the owner with most bytes (or tasks, if `by_count`) that has one. */
static struct mcp_task *heaviest_oldest(const struct task_registry *reg, bool by_count,
                                        const struct mcp_task *spared)
{
    struct mcp_task *victim = NULL;
    size_t most = 0;
    for (const struct task_owner *o = reg->owners; o != NULL; o = o->next) {
        size_t weight = by_count ? o->count : o->bytes;
        struct mcp_task *t = weight > most || victim == NULL ? oldest_over(o, spared) : NULL;
        if (t != NULL) {
            victim = t;
            most = weight;
        }
    }
    return victim;
}

static void evict(struct task_registry *reg, struct mcp_task *t)
{
    log_debug("task evicted to make room owner=%s", t->owner->name);
    drop_task(reg, t);
}

/* Makes room for one more task. False if there is none. */
static bool make_task_room(struct task_registry *reg, const char *owner)
{
    const struct task_owner *o = find_owner(reg, owner);
    if (o != NULL && o->count >= TASKS_KEPT) {
        struct mcp_task *t = oldest_over(o, NULL);
        if (t == NULL) {
            return false;
        }
        evict(reg, t);
    }
    if (reg->count >= TASKS_TOTAL) {
        struct mcp_task *t = heaviest_oldest(reg, true, NULL);
        if (t == NULL) {
            return false;
        }
        evict(reg, t);
    }
    return true;
}

/* ---- interface ------------------------------------------------------------------------------- */

struct mcp_task *task_registry_add(struct task_registry *reg, const char *owner, bool modern,
                                   uint64_t ttl_ms, uint64_t now_ms)
{
    task_registry_expire(reg, now_ms);
    char id[TASK_ID_CHARS + 1];
    struct err err = ERR_INIT;
    if (!make_task_room(reg, owner)) {
        return NULL;
    }
    if (random_id(id, TASK_ID_CHARS, &err) < 0) {
        log_error("no task can be made: %s", err.text);
        return NULL;
    }
    struct mcp_task *t = alloc_one(struct mcp_task);
    task_init(t, modern, ttl_ms, now_ms);
    memcpy(t->id, id, sizeof(t->id));
    struct task_owner *o = get_owner(reg, owner);
    t->owner = o;
    t->seq = ++o->seq;
    t->prev = o->last;
    *(o->last != NULL ? &o->last->next : &o->first) = t;
    o->last = t;
    o->count++;
    reg->count++;
    return t;
}

struct mcp_task *task_registry_find(const struct task_registry *reg, const char *owner, bool modern,
                                    const char *id)
{
    const struct task_owner *o = find_owner(reg, owner);
    for (struct mcp_task *t = o != NULL ? o->first : NULL; t != NULL; t = t->next) {
        if (t->modern == modern && strcmp(t->id, id) == 0) {
            return t;
        }
    }
    return NULL;
}

void task_registry_keep(struct task_registry *reg, struct mcp_task *t)
{
    size_t bytes = kept_bytes(t);
    t->owner->bytes += bytes;
    reg->bytes += bytes;
    while (reg->bytes > TASKS_BYTES) {
        struct mcp_task *victim = heaviest_oldest(reg, false, t);
        if (victim == NULL) {
            break; /* only this task is left; a single result has a limit of its own */
        }
        evict(reg, victim);
    }
}

void task_registry_expire(struct task_registry *reg, uint64_t now_ms)
{
    struct task_owner *next_owner = NULL;
    for (struct task_owner *o = reg->owners; o != NULL; o = next_owner) {
        next_owner = o->next;
        struct mcp_task *next = NULL;
        for (struct mcp_task *t = o->first; t != NULL; t = next) {
            next = t->next; /* read first: the owner may be freed with the task */
            if (task_is_over(t) && task_due(t) <= now_ms) {
                drop_task(reg, t);
            }
        }
    }
}

struct mcp_task *task_registry_late(const struct task_registry *reg, uint64_t now_ms)
{
    for (const struct task_owner *o = reg->owners; o != NULL; o = o->next) {
        for (struct mcp_task *t = o->first; t != NULL; t = t->next) {
            if (t->sm.state == TASK_INPUT && task_due(t) <= now_ms) {
                return t;
            }
        }
    }
    return NULL;
}

uint64_t task_registry_due(const struct task_registry *reg)
{
    uint64_t due = UINT64_MAX;
    for (const struct task_owner *o = reg->owners; o != NULL; o = o->next) {
        for (const struct mcp_task *t = o->first; t != NULL; t = t->next) {
            due = task_due(t) < due ? task_due(t) : due;
        }
    }
    return due;
}

/* A cursor is the number of the last listed task, so it stays valid when that task is gone. */
bool task_registry_list(const struct task_registry *reg, const char *owner, bool modern,
                        const char *cursor, cJSON **ret_items, char **ret_next)
{
    const struct task_owner *o = find_owner(reg, owner);
    uint64_t after = 0;
    struct err err = ERR_INIT;
    if (cursor != NULL && str_to_u64(cursor, 1, UINT64_MAX, &after, &err) < 0) {
        return false;
    }
    cJSON *items = alloc_check(cJSON_CreateArray());
    char *next = NULL;
    uint64_t last = 0;
    size_t n = 0;
    for (const struct mcp_task *t = o != NULL ? o->first : NULL; t != NULL; t = t->next) {
        if (t->modern != modern || t->seq <= after) {
            continue;
        }
        if (n++ == TASKS_PAGE) {
            next = alloc_printf("%llu", (unsigned long long)last);
            break;
        }
        last = t->seq;
        cJSON_AddItemToArray(items, task_json(t, false));
    }
    *ret_items = items;
    *ret_next = next;
    return true;
}
