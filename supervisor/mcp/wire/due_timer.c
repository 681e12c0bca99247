/*
 * The loop's cached time may lag behind the clock, so its timers can fire early by the difference.
 * The owner then finds nothing due and sets the timer again.
 */
#include "supervisor/mcp/wire/due_timer.h"

#include "common/clock.h"

void due_timer_init(struct due_timer *t, uv_loop_t *loop,
                    void (*on_due)(void *arg, uint64_t now_ms), void *arg)
{
    uv_timer_init(loop, &t->timer);
    uv_unref((uv_handle_t *)&t->timer);
    t->timer.data = arg;
    t->due_ms = DUE_NEVER;
    t->on_due = on_due;
}

static void on_due_time(uv_timer_t *timer)
{
    struct due_timer *t = (struct due_timer *)timer; /* its first member */
    t->due_ms = DUE_NEVER;
    t->on_due(timer->data, clock_ms());
}

void due_timer_set(struct due_timer *t, uint64_t due_ms)
{
    uint64_t now = clock_ms();
    t->due_ms = due_ms;
    if (due_ms == DUE_NEVER) {
        uv_timer_stop(&t->timer);
    } else {
        uv_timer_start(&t->timer, on_due_time, due_ms > now ? due_ms - now : 0, 0);
    }
}

void due_timer_by(struct due_timer *t, uint64_t due_ms)
{
    if (due_ms < t->due_ms) {
        due_timer_set(t, due_ms);
    }
}

void due_timer_close(struct due_timer *t, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&t->timer, closed);
}
