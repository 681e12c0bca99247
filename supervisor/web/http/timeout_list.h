/*
 * A list of entries that are due the same time after they were last set: heartbeats, idle sessions,
 * kept answers. All entries share one timer, which runs only while the list is not empty.
 *
 * Thread: the loop thread. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_TIMEOUT_LIST_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_TIMEOUT_LIST_H

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct timeout_list;

/* Embedded in its owner; in one list at a time. Must be zeroed before its first use. */
struct timeout {
    TAILQ_ENTRY(timeout) node;
    struct timeout_list *in; /* NULL: not set */
    uint64_t due_ms;
    void *owner; /* the struct that embeds it */
};

struct timeout_list {
    uv_timer_t timer;
    uint64_t period_ms; /* 0: soon, but not inside the call that sets it; `due` must not set an
                           entry then */
    TAILQ_HEAD(timeouts, timeout) list;
    void (*due)(void *owner); /* the entry has left the list; may set it again */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* `due` is called from the loop for each entry, period_ms after it was set. */
void timeout_list_init(struct timeout_list *b, uv_loop_t *loop, uint64_t period_ms,
                       void (*due)(void *owner));

/* Makes it due one period from now. If it is in a list, it leaves that list first. */
void timeout_list_set(struct timeout_list *b, struct timeout *t);

/* Does nothing if it is in no list. */
void timeout_list_drop(struct timeout *t);

/* Drops all entries. `closed` is called when the list's memory may be freed. */
void timeout_list_close(struct timeout_list *b, void (*closed)(void *arg), void *arg);

#endif
