/*
 * How long a sandbox lives. Two limits end it: its idle time, and its lifetime, whatever it is
 * doing then. A call in flight counts as use, however long it takes; so do the creation and an
 * installation.
 *
 * One timer serves both. Calls do not move it; when it fires, it computes the remaining time and
 * waits for that. Times are monotonic, so they mean the same to each server of this boot, and steps
 * of the wall clock do not change them; the dates in answers are derived from them.
 */
#include "common/clock.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define TAKE_OVER_MS 1000  /* after a takeover it lives for at least this long */
#define RETIRED_MS   60000 /* time to fetch what the last code has left there */

static uint64_t left_of(uint64_t all_ms, uint64_t since_ms, uint64_t now_ms)
{
    uint64_t gone_ms = now_ms > since_ms ? now_ms - since_ms : 0;
    return gone_ms < all_ms ? all_ms - gone_ms : 0;
}

uint64_t sandbox_life_left_ms(const struct sandbox *s)
{
    return left_of(s->clock.lifetime_ms, s->clock.created_ms, clock_ms());
}

static bool is_sandbox_busy(const struct sandbox *s)
{
    return s->call_count > 0 || sandbox_state(s) == SANDBOX_CREATING ||
           !TAILQ_EMPTY(&s->installing.installers);
}

uint64_t sandbox_idle_ms(const struct sandbox *s)
{
    uint64_t now_ms = uv_now(s->host->loop);
    return is_sandbox_busy(s) || now_ms < s->clock.used_ms ? 0 : now_ms - s->clock.used_ms;
}

uint64_t sandbox_time_left_ms(const struct sandbox *s)
{
    uint64_t idle_ms = is_sandbox_busy(s)
                           ? s->clock.ttl_ms
                           : left_of(s->clock.ttl_ms, s->clock.used_ms, uv_now(s->host->loop));
    uint64_t life_ms = sandbox_life_left_ms(s);
    return idle_ms < life_ms ? idle_ms : life_ms;
}

static void on_ttl_time(uv_timer_t *timer)
{
    struct sandbox *s = timer->data;
    uint64_t left_ms = sandbox_time_left_ms(s);
    if (sandbox_state(s) >= SANDBOX_CLOSING) {
        return;
    }
    if (left_ms > 0) {
        uv_timer_start(timer, on_ttl_time, left_ms, 0);
    } else if (sandbox_life_left_ms(s) == 0) {
        sandbox_close(s, "it has reached its maximum lifetime", NULL, NULL);
    } else {
        sandbox_close(s, "nobody called it for its ttl", NULL, NULL);
    }
}

void sandbox_touch(struct sandbox *s)
{
    s->clock.used_ms = uv_now(s->host->loop);
}

bool sandbox_retire(struct sandbox *s)
{
    if (!is_sandbox_busy(s) || sandbox_state(s) >= SANDBOX_CLOSING) {
        return false;
    }
    s->clock.ttl_ms = s->clock.ttl_ms < RETIRED_MS ? s->clock.ttl_ms : RETIRED_MS;
    uv_timer_start(&s->clock.timer, on_ttl_time, sandbox_time_left_ms(s), 0);
    return true;
}

void sandbox_start_clock(struct sandbox *s)
{
    sandbox_touch(s);
    uv_timer_start(&s->clock.timer, on_ttl_time, sandbox_time_left_ms(s), 0);
    uv_unref((uv_handle_t *)&s->clock.timer); /* an idle sandbox does not keep the loop alive */
}

void sandbox_set_idle(struct sandbox *s, uint64_t idle_ms)
{
    uint64_t now_ms = uv_now(s->host->loop);
    s->clock.used_ms = idle_ms < now_ms ? now_ms - idle_ms : 0;
    /* Calls that only fetch old outcomes do not count as use, so they are not considered. */
    uint64_t idle_left_ms = left_of(s->clock.ttl_ms, s->clock.used_ms, now_ms);
    uint64_t life_ms = sandbox_life_left_ms(s);
    uint64_t left_ms = idle_left_ms < life_ms ? idle_left_ms : life_ms;
    uv_timer_start(&s->clock.timer, on_ttl_time, left_ms > TAKE_OVER_MS ? left_ms : TAKE_OVER_MS,
                   0);
    uv_unref((uv_handle_t *)&s->clock.timer);
}
