/*
 * What one reader wants to hear of, and what of it he has not been told yet.
 *
 * However much happens before he is told, there is at most one notice of each list, of each URI he
 * subscribed to, and of each task: memory is bounded by what he asked for. Knows nothing of how
 * notices travel. Thread: one owner. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_NOTICES_H
#define CLOISTER_SUPERVISOR_MCP_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From one notice of a list to the next. A client answers each by fetching the list, and the list
 * of files may change with every piece of code. */
#define NOTICES_LIST_MS 1000

#define NOTICES_ITEMS 256         /* URIs and tasks of one reader */
#define NOTICES_BYTES (64u << 10) /* of their names */

enum notice_kind {
    NOTICE_TOOLS,
    NOTICE_RESOURCES,
    NOTICE_PROMPTS,
    NOTICE_LISTS, /* so many lists */
    NOTICE_RESOURCE = NOTICE_LISTS,
    NOTICE_TASK,
};

struct notice_item {
    enum notice_kind kind; /* of a resource or of a task */
    char *name;            /* URI or id */
    char *what;            /* URI to be told, which may be below `name`; NULL: nothing to tell */
};

struct notices {
    bool wants[NOTICE_LISTS];
    bool changed[NOTICE_LISTS];
    uint64_t not_before_ms[NOTICE_LISTS]; /* the list is told again then at the earliest */
    struct notice_item *items;
    size_t count, bytes;
};

/* All zeroes wants nothing. */
void notices_finish(struct notices *n);

/* There is room for one more of this name, which is not there yet. */
bool notices_may_want(const struct notices *n, enum notice_kind kind, const char *name);

/* False if there is no room for one more. Twice is once. */
bool notices_want(struct notices *n, enum notice_kind kind, const char *name);
void notices_unwant(struct notices *n, enum notice_kind kind, const char *name);

/* Something changed. True if it is wanted: there is something to tell now. A resource concerns who
 * wants it, what it lies in, or, if the URI ends in a slash, what lies in it. */
bool notices_list_changed(struct notices *n, enum notice_kind list);
bool notices_resource_changed(struct notices *n, const char *uri);
bool notices_task_changed(struct notices *n, const char *id);

/* The next thing to tell at that time; false: nothing. *ret_name is NULL for lists, and otherwise
 * borrowed until anything else is done. Times are monotonic. */
bool notices_next(const struct notices *n, uint64_t now_ms, enum notice_kind *ret_kind,
                  const char **ret_name);

/* When there will be something to tell of what has been marked so far and must not be told yet;
 * UINT64_MAX: nothing has to wait. */
uint64_t notices_due_ms(const struct notices *n);

/* That has been told, whoever else it concerned here. */
void notices_told(struct notices *n, uint64_t now_ms, enum notice_kind kind, const char *name);

/* No, it has not: it is to be tried again. */
void notices_untold(struct notices *n, enum notice_kind kind, const char *name);

#endif
