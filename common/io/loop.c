/*
 * Only an item that is added to an empty queue wakes the loop; items that are added before the loop
 * has taken the queue need no further wake-up. The wake-up follows the unlock, because the woken
 * loop takes the lock first.
 */
#include "common/io/loop.h"

static void on_async(uv_async_t *async)
{
    /* the handle is a member of the queue, and its `data` belongs to the owner */
    struct loop_queue *q = (struct loop_queue *)async;
    struct loop_item *item = loop_queue_take(q);
    while (item != NULL) {
        struct loop_item *next = item->next;
        q->on_item(q->arg, item);
        item = next;
    }
}

int loop_queue_init(struct loop_queue *q, uv_loop_t *loop, loop_item_fn on_item, void *arg,
                    struct err *err)
{
    int rc = uv_mutex_init(&q->lock);
    if (rc < 0) {
        return err_set(err, ERR_INTERNAL, "cannot make a lock: %s", uv_strerror(rc));
    }
    rc = uv_async_init(loop, &q->async, on_async);
    if (rc < 0) {
        uv_mutex_destroy(&q->lock);
        return err_set(err, ERR_INTERNAL, "cannot make a wake-up: %s", uv_strerror(rc));
    }
    q->first = NULL;
    q->last = NULL;
    q->on_item = on_item;
    q->arg = arg;
    return 0;
}

void loop_queue_lock(struct loop_queue *q)
{
    uv_mutex_lock(&q->lock);
}

bool loop_queue_append(struct loop_queue *q, struct loop_item *item)
{
    bool was_empty = q->first == NULL;
    item->next = NULL;
    if (was_empty) {
        q->first = item;
    } else {
        q->last->next = item;
    }
    q->last = item;
    return was_empty;
}

void loop_queue_unlock(struct loop_queue *q, bool wake)
{
    uv_mutex_unlock(&q->lock);
    if (wake) {
        uv_async_send(&q->async);
    }
}

struct loop_item *loop_queue_take(struct loop_queue *q)
{
    uv_mutex_lock(&q->lock);
    struct loop_item *first = q->first;
    q->first = NULL;
    q->last = NULL;
    uv_mutex_unlock(&q->lock);
    return first;
}

void loop_queue_finish(struct loop_queue *q)
{
    uv_mutex_destroy(&q->lock);
}
