/*
 * All entries of a list have the same period, so an entry that is set goes to the end and the list
 * stays sorted. The timer is set for the first entry, and adjusted only when it fires: setting an
 * entry anew, which happens with every message, moves two pointers.
 */
#include "supervisor/web/http/timeout_list.h"

#include <stddef.h>

static void on_list_timeout(uv_timer_t *timer);

static void arm(struct timeout_list *b)
{
    struct timeout *first = TAILQ_FIRST(&b->list);
    if (first != NULL) {
        uint64_t now = uv_now(b->timer.loop);
        uv_timer_start(&b->timer, on_list_timeout, first->due_ms > now ? first->due_ms - now : 0,
                       0);
    }
}

static void on_list_timeout(uv_timer_t *timer)
{
    struct timeout_list *b = timer->data;
    struct timeout *t;
    uint64_t now = uv_now(timer->loop);
    while ((t = TAILQ_FIRST(&b->list)) != NULL && t->due_ms <= now) {
        timeout_list_drop(t);
        b->due(t->owner);
    }
    arm(b);
}

void timeout_list_init(struct timeout_list *b, uv_loop_t *loop, uint64_t period_ms,
                       void (*due)(void *owner))
{
    uv_timer_init(loop, &b->timer);
    b->timer.data = b;
    b->period_ms = period_ms;
    b->due = due;
    TAILQ_INIT(&b->list);
}

void timeout_list_set(struct timeout_list *b, struct timeout *t)
{
    timeout_list_drop(t);
    t->in = b;
    t->due_ms = uv_now(b->timer.loop) + b->period_ms;
    TAILQ_INSERT_TAIL(&b->list, t, node);
    if (!uv_is_active((uv_handle_t *)&b->timer)) {
        arm(b);
    }
}

void timeout_list_drop(struct timeout *t)
{
    if (t->in != NULL) {
        TAILQ_REMOVE(&t->in->list, t, node);
        t->in = NULL;
    }
}

static void on_list_timeout_list_closed(uv_handle_t *handle)
{
    struct timeout_list *b = handle->data;
    b->closed(b->closed_arg);
}

void timeout_list_close(struct timeout_list *b, void (*closed)(void *arg), void *arg)
{
    struct timeout *t;
    while ((t = TAILQ_FIRST(&b->list)) != NULL) {
        timeout_list_drop(t);
    }
    b->closed = closed;
    b->closed_arg = arg;
    uv_close((uv_handle_t *)&b->timer, on_list_timeout_list_closed);
}
