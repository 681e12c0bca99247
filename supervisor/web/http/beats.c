/*
 * All in a list have the same period, so whoever is set goes to its end and the list stays sorted
 * by itself. The timer follows the first one only when it fires: setting one anew, which happens
 * with every message, moves two pointers.
 */
#include "supervisor/web/http/beats.h"

#include <stddef.h>

static void on_timer(uv_timer_t *timer);

static void arm(struct beats *b)
{
    struct beat *first = TAILQ_FIRST(&b->list);
    if (first != NULL) {
        uint64_t now = uv_now(b->timer.loop);
        uv_timer_start(&b->timer, on_timer, first->due_ms > now ? first->due_ms - now : 0, 0);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct beats *b = timer->data;
    struct beat *beat;
    uint64_t now = uv_now(timer->loop);
    while ((beat = TAILQ_FIRST(&b->list)) != NULL && beat->due_ms <= now) {
        beats_drop(beat);
        b->due(beat->owner);
    }
    arm(b);
}

void beats_init(struct beats *b, uv_loop_t *loop, uint64_t period_ms, void (*due)(void *owner))
{
    uv_timer_init(loop, &b->timer);
    b->timer.data = b;
    b->period_ms = period_ms;
    b->due = due;
    TAILQ_INIT(&b->list);
}

void beats_set(struct beats *b, struct beat *beat)
{
    beats_drop(beat);
    beat->in = b;
    beat->due_ms = uv_now(b->timer.loop) + b->period_ms;
    TAILQ_INSERT_TAIL(&b->list, beat, node);
    if (!uv_is_active((uv_handle_t *)&b->timer)) {
        arm(b);
    }
}

void beats_drop(struct beat *beat)
{
    if (beat->in != NULL) {
        TAILQ_REMOVE(&beat->in->list, beat, node);
        beat->in = NULL;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct beats *b = handle->data;
    b->closed(b->closed_arg);
}

void beats_close(struct beats *b, void (*closed)(void *arg), void *arg)
{
    struct beat *beat;
    while ((beat = TAILQ_FIRST(&b->list)) != NULL) {
        beats_drop(beat);
    }
    b->closed = closed;
    b->closed_arg = arg;
    uv_close((uv_handle_t *)&b->timer, on_closed);
}
