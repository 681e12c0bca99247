/*
 * A timer for whoever keeps things that are due at different times, and knows which is the
 * earliest: one wake-up then, and none while nothing is kept. It does not keep the loop going.
 *
 * Times are monotonic (clock_ms()). Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_WIRE_DUE_TIMER_H
#define CLOISTER_SUPERVISOR_MCP_WIRE_DUE_TIMER_H

#include <stdint.h>
#include <uv.h>

#define DUE_NEVER UINT64_MAX

struct due_timer {
    uv_timer_t timer; /* its data is the owner's argument */
    uint64_t due_ms;  /* DUE_NEVER: it does not run */
    void (*on_due)(void *arg, uint64_t now_ms);
};

/* `on_due` sets the timer again if there is more to come. It may be called a little early, and sees
 * that from the time that it is given. */
void due_timer_init(struct due_timer *t, uv_loop_t *loop,
                    void (*on_due)(void *arg, uint64_t now_ms), void *arg);

/* Then, and at no other time. */
void due_timer_set(struct due_timer *t, uint64_t due_ms);

/* Then at the latest. */
void due_timer_by(struct due_timer *t, uint64_t due_ms);

/* `closed` gets the handle, whose data is the argument. */
void due_timer_close(struct due_timer *t, uv_close_cb closed);

#endif
