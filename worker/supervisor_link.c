/*
 * Who is at the other end of the link to the supervisor.
 *
 *             link           HELLO
 *      AWAY ───────▶ THERE ─────────▶ GREETED
 *       ▲ ◀─── lost ───┘ ◀── lost ──────┘
 *       │
 *       │ we hang up, from each of these: leaving, or since none will come any more
 *       └────────▶ HANGING_UP ───────▶ ENDED
 *
 * Whoever is greeted keeps the sandbox alive. Else a timer runs, at whose end it is orphaned. A
 * link that we end tells nobody that it is lost.
 *
 * That the supervisor which started us has died is a fact beside it: its link may be told as lost
 * before or after, and the next supervisor may be there by then.
 */
#include "worker/supervisor_link.h"

#include "common/log.h"
#include "worker/life.h"

const struct sm_state supervisor_states[SUPERVISOR_COUNT] = {
    [SUPERVISOR_AWAY] = {"away", SM_BIT(SUPERVISOR_THERE) | SM_BIT(SUPERVISOR_HANGING_UP)},
    [SUPERVISOR_THERE] = {"there", SM_BIT(SUPERVISOR_AWAY) | SM_BIT(SUPERVISOR_GREETED) |
                                       SM_BIT(SUPERVISOR_HANGING_UP)},
    [SUPERVISOR_GREETED] = {"greeted", SM_BIT(SUPERVISOR_AWAY) | SM_BIT(SUPERVISOR_HANGING_UP)},
    [SUPERVISOR_HANGING_UP] = {"hanging up", SM_BIT(SUPERVISOR_ENDED)},
    [SUPERVISOR_ENDED] = {"ended", 0},
};

#define BIT(state) SM_BIT(SUPERVISOR_##state)

static bool orphan_timer_runs(const void *owner)
{
    const struct worker *w = owner;
    return uv_is_active((const uv_handle_t *)&w->supervisor.orphan_timer);
}

static bool orphan_timer_rests(const void *owner)
{
    return !orphan_timer_runs(owner);
}

static bool server_is_open(const void *owner)
{
    const struct worker *w = owner;
    return w->supervisor.server != NULL;
}

static bool server_is_gone(const void *owner)
{
    return !server_is_open(owner);
}

/* Somebody who still waits would never know. */
static bool leaving_or_mute(const void *owner)
{
    const struct worker *w = owner;
    return w->sm.state == WORKER_LEAVING || w->supervisor.mute;
}

static const struct sm_invariant supervisor_invariants[] = {
    {"nobody is away without the time for which that may last", BIT(AWAY), orphan_timer_runs},
    {"whoever is greeted is not waited for", BIT(GREETED), orphan_timer_rests},
    {"a link has an end here", BIT(AWAY) | BIT(THERE) | BIT(GREETED) | BIT(HANGING_UP),
     server_is_open},
    {"nothing is left of an ended link", BIT(ENDED), server_is_gone},
    {"nobody hangs up on who would still be answered", BIT(HANGING_UP), leaving_or_mute},
};

static const struct sm_guard supervisor_guard = {"worker's supervisor", supervisor_invariants,
                                                 sizeof(supervisor_invariants) /
                                                     sizeof(supervisor_invariants[0])};

void supervisor_link_init(struct worker *w)
{
    sm_init(&w->supervisor.sm, supervisor_states, SUPERVISOR_COUNT, SUPERVISOR_AWAY);
    sm_watch(&w->supervisor.sm, &supervisor_guard, w);
}

void supervisor_link_set(struct worker *w, enum supervisor_state next)
{
    const char *left = sm_move(&w->supervisor.sm, next);
    log_debug("supervisor: %s -> %s", left, sm_name(&w->supervisor.sm));
}

bool supervisor_link_is_up(const struct worker *w)
{
    unsigned state = w->supervisor.sm.state;
    return state == SUPERVISOR_THERE || state == SUPERVISOR_GREETED;
}

bool supervisor_link_is_over(const struct worker *w)
{
    return w->supervisor.sm.state >= SUPERVISOR_HANGING_UP;
}
