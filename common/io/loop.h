/*
 * A queue from any thread to a libuv loop. Threads of libraries (nng, HTTP) hand work to the loop
 * only in this way, so the loop owns all state.
 *
 * Items are linked and not copied, so adding one allocates nothing and cannot fail. Items come out
 * in the order in which they were added, all of them in one wake-up.
 */
#ifndef CLOISTER_COMMON_IO_LOOP_H
#define CLOISTER_COMMON_IO_LOOP_H

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"

/* First member of every queued object. It may be queued again as soon as its callback has begun. */
struct loop_item {
    struct loop_item *next;
};

/* On the loop thread. */
typedef void (*loop_item_fn)(void *arg, struct loop_item *item);

/* Memory of the owner. To end it, the owner calls uv_close() on `async`, whose `data` the owner
 * sets, and loop_queue_finish() in its close callback. */
struct loop_queue {
    uv_async_t async;
    uv_mutex_t lock;
    struct loop_item *first, *last;
    loop_item_fn on_item;
    void *arg;
};

int loop_queue_init(struct loop_queue *q, uv_loop_t *loop, loop_item_fn on_item, void *arg,
                    struct err *err) WARN_UNUSED;

/* Adding an item, from any thread, but not after uv_close(). There are three steps, because owners
 * protect some of their state with the same lock: append returns whether the loop must be woken,
 * and unlock wakes it. */
void loop_queue_lock(struct loop_queue *q);
bool loop_queue_append(struct loop_queue *q, struct loop_item *item) WARN_UNUSED;
void loop_queue_unlock(struct loop_queue *q, bool wake);

/* Empties the queue; returns its items, linked by `next`. */
struct loop_item *loop_queue_take(struct loop_queue *q);

void loop_queue_finish(struct loop_queue *q);

#endif
