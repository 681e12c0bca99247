/*
 * What one reader subscribes to, and of what it has not been notified yet.
 *
 * Between two notifications there is at most one mark for each list, each subscribed URI and each
 * task, so memory is bounded by the subscriptions. How notifications travel is not known here.
 * Thread: one owner. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_NOTICES_H
#define CLOISTER_SUPERVISOR_MCP_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Minimum interval between two notifications of one list. A client answers each by fetching the
 * list, and the list of files may change with every piece of code. */
#define NOTICES_LIST_MS 1000

#define NOTICES_ITEMS 256         /* URIs and tasks of one reader */
#define NOTICES_BYTES (64u << 10) /* of their names */

enum notice_kind {
    NOTICE_TOOLS,
    NOTICE_RESOURCES,
    NOTICE_PROMPTS,
    NOTICE_LISTS, /* the number of lists */
    NOTICE_RESOURCE = NOTICE_LISTS,
    NOTICE_TASK,
};

struct notice_item {
    enum notice_kind kind; /* resource or task */
    char *name;            /* URI or id */
    char *what;            /* URI to report, which may be below `name`; NULL: unchanged */
};

struct notices {
    bool wants[NOTICE_LISTS];
    bool changed[NOTICE_LISTS];
    uint64_t not_before_ms[NOTICE_LISTS]; /* earliest time of the next notification */
    struct notice_item *items;
    size_t count, bytes;
};

/* A zeroed struct subscribes to nothing. */
void notices_finish(struct notices *n);

/* Whether there is room for one more item; the item must be new. */
bool notices_may_want(const struct notices *n, enum notice_kind kind, const char *name);

/* Subscribes. False if there is no room. Repeating it has no effect. */
bool notices_want(struct notices *n, enum notice_kind kind, const char *name);
void notices_unwant(struct notices *n, enum notice_kind kind, const char *name);

/* Marks a change. True if the reader subscribes to it, so there is something to send. A resource
 * matches subscriptions to itself and to what contains it; a URI that ends in a slash also matches
 * those to what it contains. */
bool notices_list_changed(struct notices *n, enum notice_kind list);
bool notices_resource_changed(struct notices *n, const char *uri);
bool notices_task_changed(struct notices *n, const char *id);

/* Finds the next notification that may be sent now; false: none. *ret_name is NULL for lists, and
 * otherwise borrowed until the next call. Times are monotonic. */
bool notices_next(const struct notices *n, uint64_t now_ms, enum notice_kind *ret_kind,
                  const char **ret_name);

/* When the first delayed notification may be sent; UINT64_MAX: none is delayed. */
uint64_t notices_due_ms(const struct notices *n);

/* Clears the mark: the notification is being sent. */
void notices_told(struct notices *n, uint64_t now_ms, enum notice_kind kind, const char *name);

/* Sets the mark again, because the notification could not be sent. */
void notices_untold(struct notices *n, enum notice_kind kind, const char *name);

#endif
