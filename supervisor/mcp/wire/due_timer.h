/*
 * One timer for an owner that keeps things which are due at different times and knows the earliest.
 * It wakes the loop once for that, and not at all if nothing is kept. It does not keep the loop
 * alive.
 *
 * Times are monotonic (clock_ms()). Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_WIRE_DUE_TIMER_H
#define CLOISTER_SUPERVISOR_MCP_WIRE_DUE_TIMER_H

#include <stdint.h>
#include <uv.h>

#define DUE_NEVER UINT64_MAX

struct due_timer {
    uv_timer_t timer; /* `data` is the owner's argument */
    uint64_t due_ms;  /* DUE_NEVER: the timer is stopped */
    void (*on_due)(void *arg, uint64_t now_ms);
};

/* `on_due` sets the timer again if more is due later. It may be called a little early, which it
 * sees from now_ms. */
void due_timer_init(struct due_timer *t, uv_loop_t *loop,
                    void (*on_due)(void *arg, uint64_t now_ms), void *arg);

/* Sets the timer to this time, later or earlier than before. */
void due_timer_set(struct due_timer *t, uint64_t due_ms);

/* Sets the timer to this time, unless it is due earlier. */
void due_timer_by(struct due_timer *t, uint64_t due_ms);

/* `closed` gets the handle; its `data` is the owner's argument. */
void due_timer_close(struct due_timer *t, uv_close_cb closed);

#endif
