/*
 * Things that are due the same time after they were last set: heartbeats, idle sessions, answers
 * that are kept for a while. However many there are, they have one timer, which runs only while
 * there is something to wait for.
 *
 * Thread: the loop thread. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_TIMEOUT_LIST_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_TIMEOUT_LIST_H

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct timeout_list;

/* Embedded in whatever waits, in one list at a time; zeroed before its first use. */
struct timeout {
    TAILQ_ENTRY(timeout) node;
    struct timeout_list *in; /* NULL: waits for nothing */
    uint64_t due_ms;
    void *owner; /* the one that it is embedded in */
};

struct timeout_list {
    uv_timer_t timer;
    uint64_t period_ms; /* 0: soon, but not inside the call that set it; `due` sets none again */
    TAILQ_HEAD(timeouts, timeout) list;
    void (*due)(void *owner); /* no longer in the list; may set it again */
    void (*closed)(void *arg);
    void *closed_arg;
};

void timeout_list_init(struct timeout_list *b, uv_loop_t *loop, uint64_t period_ms,
                       void (*due)(void *owner));

/* Due a period from now. If it was in a list, it leaves that one. */
void timeout_list_set(struct timeout_list *b, struct timeout *t);

/* Fine if it is in none. */
void timeout_list_drop(struct timeout *t);

/* What is still in the list is forgotten. `closed` comes when the memory may go. */
void timeout_list_close(struct timeout_list *b, void (*closed)(void *arg), void *arg);

#endif
