/*
 * What is under way within a state of the worker. States to the left, time goes down and right.
 *
 *     NEW          NONE
 *                   | OPEN
 *                   v     called back
 *     OPENING     CREATE -------------> AGENT            the agent's hello is waited for
 *     OPEN          |                  |  |  |  |
 *                   | close   .--------'  |  |  | it ended by itself
 *                   |         | close   close |  '---------> JUDGE     GONE
 *     CLOSING     CREATE      |  of OPENING   |  of OPEN       |
 *                   | called  |           |   v                v
 *                   | back,   |           |  STOP             TELL     GONE
 *                   | or late |           |   |                |
 *                   '---------'---> DESTROY <-'----------------'
 *                                         |
 *     LEAVING     ONESHOTS -> BACKEND -> PARTS -> SERVER -> TIMERS     from every step above
 *
 * The callbacks of a step look whether it is still the one: what comes late from a step that was
 * left means nothing. Every step that waits for others has an end in time.
 */
#include "worker/step.h"

#include "common/log.h"
#include "worker/life.h"

const struct sm_state worker_steps[STEP_COUNT] = {
    [STEP_NONE] = {"none", SM_BIT(STEP_CREATE) | SM_BIT(STEP_ONESHOTS)},
    [STEP_CREATE] = {"create", SM_BIT(STEP_AGENT) | SM_BIT(STEP_DESTROY) | SM_BIT(STEP_ONESHOTS)},
    [STEP_AGENT] = {"agent", SM_BIT(STEP_STOP) | SM_BIT(STEP_JUDGE) | SM_BIT(STEP_DESTROY) |
                                 SM_BIT(STEP_ONESHOTS)},
    [STEP_STOP] = {"stop", SM_BIT(STEP_DESTROY) | SM_BIT(STEP_ONESHOTS)},
    [STEP_JUDGE] = {"judge", SM_BIT(STEP_TELL) | SM_BIT(STEP_ONESHOTS)},
    [STEP_TELL] = {"tell", SM_BIT(STEP_DESTROY) | SM_BIT(STEP_ONESHOTS)},
    [STEP_DESTROY] = {"destroy", SM_BIT(STEP_ONESHOTS)},
    [STEP_ONESHOTS] = {"oneshots", SM_BIT(STEP_BACKEND)},
    [STEP_BACKEND] = {"backend", SM_BIT(STEP_PARTS)},
    [STEP_PARTS] = {"parts", SM_BIT(STEP_SERVER)},
    [STEP_SERVER] = {"server", SM_BIT(STEP_TIMERS)},
    [STEP_TIMERS] = {"timers", 0},
};

const uint32_t worker_step_states[STEP_COUNT] = {
    [STEP_NONE] = SM_BIT(WORKER_NEW) | SM_BIT(WORKER_OPENING),
    [STEP_CREATE] = SM_BIT(WORKER_OPENING) | SM_BIT(WORKER_CLOSING),
    [STEP_AGENT] = SM_BIT(WORKER_OPENING) | SM_BIT(WORKER_OPEN),
    [STEP_STOP] = SM_BIT(WORKER_CLOSING),
    [STEP_JUDGE] = SM_BIT(WORKER_GONE),
    [STEP_TELL] = SM_BIT(WORKER_GONE),
    [STEP_DESTROY] = SM_BIT(WORKER_CLOSING) | SM_BIT(WORKER_GONE),
    [STEP_ONESHOTS] = SM_BIT(WORKER_LEAVING),
    [STEP_BACKEND] = SM_BIT(WORKER_LEAVING),
    [STEP_PARTS] = SM_BIT(WORKER_LEAVING),
    [STEP_SERVER] = SM_BIT(WORKER_LEAVING),
    [STEP_TIMERS] = SM_BIT(WORKER_LEAVING),
};

/* ---- invariants ----------------------------------------------------------------------------- */

#define BIT(step)    SM_BIT(STEP_##step)
#define WITH_AGENT   (BIT(AGENT) | BIT(STOP) | BIT(JUDGE) | BIT(TELL))
#define WITH_BACKEND (BIT(CREATE) | WITH_AGENT | BIT(DESTROY))
#define CLOSED       (BIT(PARTS) | BIT(SERVER) | BIT(TIMERS))
#define ON_A_TIMER   (BIT(JUDGE) | BIT(DESTROY) | BIT(BACKEND) | BIT(PARTS) | BIT(SERVER))

static bool step_fits_state(const void *owner)
{
    const struct worker *w = owner;
    return (worker_step_states[w->step.state] & SM_BIT(w->sm.state)) != 0;
}

static bool backend_is_there(const void *owner)
{
    const struct worker *w = owner;
    return w->backend != NULL;
}

static bool backend_is_closed(const void *owner)
{
    const struct worker *w = owner;
    return w->backend == NULL && w->oneshots == NULL;
}

static bool agent_parts_are_there(const void *owner)
{
    const struct worker *w = owner;
    return w->link != NULL && w->operations != NULL && w->figures != NULL;
}

static bool agent_parts_are_not_there(const void *owner)
{
    const struct worker *w = owner;
    return w->link == NULL && w->operations == NULL;
}

static bool step_timer_runs(const void *owner)
{
    const struct worker *w = owner;
    return uv_is_active((const uv_handle_t *)&w->step_timer);
}

static bool nobody_asks_for_open(const void *owner)
{
    const struct worker *w = owner;
    return w->open_askers == NULL;
}

static bool nobody_asks_for_close(const void *owner)
{
    const struct worker *w = owner;
    return w->close_askers == NULL;
}

static bool server_is_closed(const void *owner)
{
    const struct worker *w = owner;
    return w->supervisor.server == NULL;
}

static const struct sm_invariant step_invariants[] = {
    {"a step belongs to its state", SM_EVERY, step_fits_state},
    {"a sandbox is worked on by a backend", WITH_BACKEND, backend_is_there},
    {"what backends call back into goes after them", CLOSED, backend_is_closed},
    {"an agent is asked over a link, by operations", WITH_AGENT, agent_parts_are_there},
    {"there is no way to the agent before the backend has called back", BIT(NONE) | BIT(CREATE),
     agent_parts_are_not_there},
    {"nothing is left that would use the link to the supervisor", BIT(SERVER) | BIT(TIMERS),
     agent_parts_are_not_there},
    {"a step that waits for others has an end in time", ON_A_TIMER, step_timer_runs},
    {"who asked for OPEN is answered before the removal",
     BIT(STOP) | BIT(DESTROY) | BIT(BACKEND) | CLOSED, nobody_asks_for_open},
    {"who asked for CLOSE is answered before the end", BIT(BACKEND) | CLOSED,
     nobody_asks_for_close},
    {"the link to the supervisor goes last", BIT(TIMERS), server_is_closed},
};

static const struct sm_guard step_guard = {"worker step", step_invariants,
                                           sizeof(step_invariants) / sizeof(step_invariants[0])};

/* ---- moves ---------------------------------------------------------------------------------- */

void worker_step_init(struct worker *w)
{
    sm_init(&w->step, worker_steps, STEP_COUNT, STEP_NONE);
    sm_watch(&w->step, &step_guard, w);
}

void worker_set_step(struct worker *w, enum worker_step next)
{
    const char *left = sm_move(&w->step, next);
    log_debug("sandbox %s: step %s -> %s", w->setup->sandbox, left, sm_name(&w->step));
}
