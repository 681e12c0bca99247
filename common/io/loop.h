/*
 * A queue from any thread to a libuv loop: the one way by which threads that are not ours (nng's,
 * an HTTP library's) hand work to the loop that owns all state.
 *
 * An item is linked in, not copied, so putting one in allocates nothing and cannot fail. Items come
 * out in the order in which they went in, all that are there in one wake-up.
 */
#ifndef CLOISTER_COMMON_IO_LOOP_H
#define CLOISTER_COMMON_IO_LOOP_H

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"

/* First member of whatever is queued. It may be queued again as soon as its callback has begun. */
struct loop_item {
    struct loop_item *next;
};

/* On the loop thread. */
typedef void (*loop_item_fn)(void *arg, struct loop_item *item);

/* Memory of the owner, who ends it with uv_close() on `async` (whose `data` is the owner's to set)
 * and calls loop_queue_finish() in that handle's close callback. */
struct loop_queue {
    uv_async_t async;
    uv_mutex_t lock;
    struct loop_item *first, *last;
    loop_item_fn on_item;
    void *arg;
};

int loop_queue_init(struct loop_queue *q, uv_loop_t *loop, loop_item_fn on_item, void *arg,
                    struct err *err) WARN_UNUSED;

/* Putting something in, from any thread, but from none any more when uv_close() is called. It takes
 * three steps, because owners guard a little state of their own with the same lock: append tells
 * whether the loop has to be woken, unlock does that. */
void loop_queue_lock(struct loop_queue *q);
bool loop_queue_append(struct loop_queue *q, struct loop_item *item) WARN_UNUSED;
void loop_queue_unlock(struct loop_queue *q, bool wake);

/* Empties the queue; returns its items, linked by `next`. */
struct loop_item *loop_queue_take(struct loop_queue *q);

void loop_queue_finish(struct loop_queue *q);

#endif
