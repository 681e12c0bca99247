/*
 * What clients see of a sandbox:
 *
 *               opened              worker died
 *     CREATING ───────▶ READY ─────────────────────▶ RECOVERING
 *        │               │ ▲       adopted again      │     │
 *        │               │ └──────────────────────────┘     │ gone, or given up
 *        │ closed,       │ gone                             ▼
 *        │ or failed     ├──────────────────────────────▶ FAILED
 *        ▼               ▼ closed, idle       closed        │
 *     CLOSING ◀─────────────────────────────────────────────┘   (RECOVERING too)
 *        │ nothing left
 *        ▼
 *     CLOSED
 *
 * A sandbox that an earlier server left begins in RECOVERING. READY and RECOVERING may become LEFT:
 * this server ends, and the sandbox goes on without it.
 *
 * Its present worker, from start to start:
 *
 *     UNASKED ──OPEN──▶ ASKED ──▶ REACHED, or REFUSED, or SILENT      each ──started──▶ UNASKED
 *
 * What there may be of it:
 *
 *     NOT ──OPEN──▶ ONCE ──no language──▶ MUTE ──removed──▶ UNMADE ──worker ended──▶ PENDING
 *                                                                                       │ OPEN
 *       from each of these: ──nothing left──▶ DESTROYED ◀────────────────────────── AGAIN
 *
 * Its end, while it is FAILED or CLOSING:
 *
 *     NONE ─▶ INSTALLERS ─▶ WORKER ─▶ SWEEP ─▶ RECORD ─▶ FILES ─▶ DONE
 *
 * of which SWEEP and RECORD are left out if there is nothing to sweep and nothing being written,
 * and all behind WORKER where it never had a directory. DONE follows SWEEP when that is left to
 * others.
 *
 * How it is taken over:
 *
 *     NONE ─▶ RUNNING ─▶ QUEUED ─▶ STARTING ─▶ RUNNING       each but NONE ─▶ SETTLED
 *
 * One that is made for nobody stays CREATING until it is given to somebody:
 *
 *     NO ─▶ FILLING ──made──▶ KEPT ──somebody wants it──▶ CLAIMED ──it is good──▶ GIVEN
 *                                                            └────it is not─────▶ LOST
 */
#include "supervisor/fleet/sandbox/states.h"

#include "supervisor/fleet/sandbox/sandbox.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

const struct sm_state sandbox_states[SANDBOX_STATE_COUNT] = {
    [SANDBOX_CREATING] = {"creating", SM_BIT(SANDBOX_READY) | SM_BIT(SANDBOX_CLOSING)},
    [SANDBOX_READY] = {"ready", SM_BIT(SANDBOX_RECOVERING) | SM_BIT(SANDBOX_FAILED) |
                                    SM_BIT(SANDBOX_CLOSING) | SM_BIT(SANDBOX_LEFT)},
    [SANDBOX_RECOVERING] = {"recovering", SM_BIT(SANDBOX_READY) | SM_BIT(SANDBOX_FAILED) |
                                              SM_BIT(SANDBOX_CLOSING) | SM_BIT(SANDBOX_LEFT)},
    [SANDBOX_FAILED] = {"failed", SM_BIT(SANDBOX_CLOSING)},
    [SANDBOX_CLOSING] = {"closing", SM_BIT(SANDBOX_CLOSED)},
    [SANDBOX_CLOSED] = {"closed", 0},
    [SANDBOX_LEFT] = {"left", 0},
};

const struct sm_state sandbox_attempts[ATTEMPT_COUNT] = {
    [ATTEMPT_UNASKED] = {"unasked", SM_BIT(ATTEMPT_UNASKED) | SM_BIT(ATTEMPT_ASKED)},
    [ATTEMPT_ASKED] = {"asked", SM_BIT(ATTEMPT_REACHED) | SM_BIT(ATTEMPT_REFUSED) |
                                    SM_BIT(ATTEMPT_SILENT) | SM_BIT(ATTEMPT_UNASKED)},
    [ATTEMPT_REACHED] = {"reached", SM_BIT(ATTEMPT_UNASKED)},
    [ATTEMPT_REFUSED] = {"refused", SM_BIT(ATTEMPT_UNASKED)},
    [ATTEMPT_SILENT] = {"silent", SM_BIT(ATTEMPT_UNASKED)},
};

const struct sm_state sandbox_mades[MADE_COUNT] = {
    [MADE_NOT] = {"not made", SM_BIT(MADE_ONCE) | SM_BIT(MADE_DESTROYED)},
    [MADE_ONCE] = {"made", SM_BIT(MADE_MUTE) | SM_BIT(MADE_DESTROYED)},
    [MADE_MUTE] = {"mute", SM_BIT(MADE_UNMADE) | SM_BIT(MADE_DESTROYED)},
    [MADE_UNMADE] = {"unmade", SM_BIT(MADE_PENDING) | SM_BIT(MADE_DESTROYED)},
    [MADE_PENDING] = {"to be made again", SM_BIT(MADE_AGAIN) | SM_BIT(MADE_DESTROYED)},
    [MADE_AGAIN] = {"made again", SM_BIT(MADE_DESTROYED)},
    [MADE_DESTROYED] = {"destroyed", 0},
};

const struct sm_state sandbox_cleanups[CLEANUP_COUNT] = {
    [CLEANUP_NONE] = {"none", SM_BIT(CLEANUP_INSTALLERS)},
    [CLEANUP_INSTALLERS] = {"installers", SM_BIT(CLEANUP_WORKER)},
    [CLEANUP_WORKER] = {"worker", SM_BIT(CLEANUP_SWEEP) | SM_BIT(CLEANUP_RECORD) |
                                      SM_BIT(CLEANUP_FILES) | SM_BIT(CLEANUP_DONE)},
    [CLEANUP_SWEEP] = {"sweep",
                       SM_BIT(CLEANUP_RECORD) | SM_BIT(CLEANUP_FILES) | SM_BIT(CLEANUP_DONE)},
    [CLEANUP_RECORD] = {"record", SM_BIT(CLEANUP_FILES)},
    [CLEANUP_FILES] = {"files", SM_BIT(CLEANUP_DONE)},
    [CLEANUP_DONE] = {"done", 0},
};

const struct sm_state sandbox_adoptions[ADOPTION_COUNT] = {
    [ADOPTION_NONE] = {"none", SM_BIT(ADOPTION_RUNNING)},
    [ADOPTION_RUNNING] = {"running", SM_BIT(ADOPTION_QUEUED) | SM_BIT(ADOPTION_SETTLED)},
    [ADOPTION_QUEUED] = {"queued", SM_BIT(ADOPTION_STARTING) | SM_BIT(ADOPTION_SETTLED)},
    [ADOPTION_STARTING] = {"starting", SM_BIT(ADOPTION_RUNNING) | SM_BIT(ADOPTION_SETTLED)},
    [ADOPTION_SETTLED] = {"settled", 0},
};

const struct sm_state sandbox_pooleds[POOLED_COUNT] = {
    [POOLED_NO] = {"no", SM_BIT(POOLED_FILLING) | SM_BIT(POOLED_SOUGHT)},
    [POOLED_FILLING] = {"filling", SM_BIT(POOLED_KEPT)},
    [POOLED_KEPT] = {"kept", SM_BIT(POOLED_CLAIMED)},
    [POOLED_SOUGHT] = {"sought", SM_BIT(POOLED_CLAIMED) | SM_BIT(POOLED_LOST)},
    [POOLED_CLAIMED] = {"claimed", SM_BIT(POOLED_GIVEN) | SM_BIT(POOLED_LOST)},
    [POOLED_GIVEN] = {"given", 0},
    [POOLED_LOST] = {"lost", 0},
};

/* ---- what holds: of the state ---- */

static bool worker_has_reached_it(const void *owner)
{
    const struct sandbox *s = owner;
    return s->link != NULL && s->attempt.state == ATTEMPT_REACHED;
}

static bool may_exist(const void *owner)
{
    return sandbox_may_exist(owner);
}

static bool has_no_cleanup(const void *owner)
{
    const struct sandbox *s = owner;
    return s->end.sm.state == CLEANUP_NONE;
}

static bool has_nothing_left(const void *owner)
{
    const struct sandbox *s = owner;
    return s->end.sm.state == CLEANUP_DONE && s->link == NULL;
}

static bool has_told_all(const void *owner)
{
    const struct sandbox *s = owner;
    return s->opening.done == NULL && TAILQ_EMPTY(&s->end.waiters);
}

#define IN(state) SM_BIT(SANDBOX_##state)

static const struct sm_invariant state_invariants[] = {
    {"a ready sandbox has a worker that has reached it", IN(READY), worker_has_reached_it},
    {"what goes on has been made", IN(READY) | IN(RECOVERING) | IN(LEFT), may_exist},
    {"nothing is removed of what goes on", IN(READY) | IN(RECOVERING) | IN(LEFT), has_no_cleanup},
    {"a closed sandbox has left nothing", IN(CLOSED), has_nothing_left},
    {"who waited has been told", IN(CLOSED), has_told_all},
};

static const struct sm_guard state_guard = {"sandbox", state_invariants, COUNT(state_invariants)};

/* ---- … of its worker, and of what was made ---- */

static bool has_no_worker(const void *owner)
{
    const struct sandbox *s = owner;
    return s->link == NULL;
}

static bool worker_can_be_asked(const void *owner)
{
    const struct sandbox *s = owner;
    return s->link != NULL && worker_link_is_ready(s->link) && !sandbox_is_leaving(s);
}

static bool is_recovering(const void *owner)
{
    const struct sandbox *s = owner;
    return sandbox_state(s) == SANDBOX_RECOVERING;
}

static bool is_creating(const void *owner)
{
    const struct sandbox *s = owner;
    return sandbox_state(s) == SANDBOX_CREATING;
}

static bool is_written_down(const void *owner)
{
    const struct sandbox *s = owner;
    return s->dir != NULL && s->record_saved;
}

static bool has_no_language(const void *owner)
{
    const struct sandbox *s = owner;
    return s->languages.count == 0;
}

static const struct sm_invariant attempt_invariants[] = {
    {"one worker is dead before the next is started", SM_BIT(ATTEMPT_UNASKED), has_no_worker},
    {"only a worker that is ready is asked", SM_BIT(ATTEMPT_ASKED), worker_can_be_asked},
    {"what is reached exists", SM_BIT(ATTEMPT_REACHED), may_exist},
    {"only a sandbox that recovers is refused", SM_BIT(ATTEMPT_REFUSED) | SM_BIT(ATTEMPT_SILENT),
     is_recovering},
};

static const struct sm_invariant made_invariants[] = {
    {"what is made is written down first", SM_BIT(MADE_ONCE) | SM_BIT(MADE_AGAIN), is_written_down},
    {"nothing is made again that was there",
     SM_BIT(MADE_MUTE) | SM_BIT(MADE_PENDING) | SM_BIT(MADE_AGAIN), is_creating},
    {"only what is mute is made again", SM_BIT(MADE_MUTE), has_no_language},
};

static const struct sm_guard attempt_guard = {"sandbox's worker", attempt_invariants,
                                              COUNT(attempt_invariants)};
static const struct sm_guard made_guard = {"what there is of a sandbox", made_invariants,
                                           COUNT(made_invariants)};

/* ---- … of its end ---- */

static bool is_failed_or_closing(const void *owner)
{
    const struct sandbox *s = owner;
    return sandbox_state(s) == SANDBOX_FAILED || sandbox_state(s) == SANDBOX_CLOSING;
}

static bool has_no_installers(const void *owner)
{
    const struct sandbox *s = owner;
    return TAILQ_EMPTY(&s->installing.installers);
}

static bool is_not_there(const void *owner)
{
    return !sandbox_may_exist(owner);
}

static bool record_is_being_written(const void *owner)
{
    const struct sandbox *s = owner;
    return s->dir != NULL && !s->record_saved;
}

#define AT(step) SM_BIT(CLEANUP_##step)

static const struct sm_invariant cleanup_invariants[] = {
    {"only what fails or closes is removed", SM_EVERY, is_failed_or_closing},
    {"installers end before the sandbox that they write for", SM_EVERY & ~AT(INSTALLERS),
     has_no_installers},
    {"its worker is dead before others remove what is left",
     AT(SWEEP) | AT(RECORD) | AT(FILES) | AT(DONE), has_no_worker},
    {"what there may be is swept", AT(SWEEP), may_exist},
    {"files stay as long as there may be something", AT(RECORD) | AT(FILES), is_not_there},
    {"a directory is removed when nobody writes to it", AT(FILES), is_written_down},
    {"the record is waited for while it is written", AT(RECORD), record_is_being_written},
};

static const struct sm_guard cleanup_guard = {"sandbox's end", cleanup_invariants,
                                              COUNT(cleanup_invariants)};

/* ---- … of its adoption ---- */

static bool has_adopter(const void *owner)
{
    const struct sandbox *s = owner;
    return s->adoption.run != NULL;
}

static bool has_no_adopter(const void *owner)
{
    return !has_adopter(owner);
}

#define TAKEN_OVER (SM_BIT(ADOPTION_RUNNING) | SM_BIT(ADOPTION_QUEUED) | SM_BIT(ADOPTION_STARTING))

static const struct sm_invariant adoption_invariants[] = {
    {"what is being taken over recovers", TAKEN_OVER, is_recovering},
    {"somebody is told what became of it", TAKEN_OVER, has_adopter},
    {"… once", SM_BIT(ADOPTION_SETTLED), has_no_adopter},
    {"who waits for a worker has none", SM_BIT(ADOPTION_QUEUED) | SM_BIT(ADOPTION_STARTING),
     has_no_worker},
};

static const struct sm_guard adoption_guard = {"sandbox's adoption", adoption_invariants,
                                               COUNT(adoption_invariants)};

/* ---- … of the pool ---- */

static bool has_no_owner(const void *owner)
{
    const struct sandbox *s = owner;
    return s->owner[0] == '\0' && s->name[0] == '\0' && s->call_count == 0 && s->executions == 0;
}

#define NOBODYS (SM_BIT(POOLED_FILLING) | SM_BIT(POOLED_KEPT))

static const struct sm_invariant pooled_invariants[] = {
    {"what is nobody's has run nothing", NOBODYS, has_no_owner},
    {"what is nobody's, or not yet anybody's, is still being created",
     NOBODYS | SM_BIT(POOLED_SOUGHT) | SM_BIT(POOLED_CLAIMED) | SM_BIT(POOLED_GIVEN), is_creating},
    {"what is kept has a worker that has reached it",
     SM_BIT(POOLED_KEPT) | SM_BIT(POOLED_CLAIMED) | SM_BIT(POOLED_GIVEN), worker_has_reached_it},
};

static const struct sm_guard pooled_guard = {"sandbox of the pool", pooled_invariants,
                                             COUNT(pooled_invariants)};

/* ---- moves and questions ---- */

void sandbox_init_states(struct sandbox *s, enum sandbox_state first)
{
    sm_init(&s->sm, sandbox_states, SANDBOX_STATE_COUNT, first);
    sm_watch(&s->sm, &state_guard, s);
    sm_init(&s->attempt, sandbox_attempts, ATTEMPT_COUNT, ATTEMPT_UNASKED);
    sm_watch(&s->attempt, &attempt_guard, s);
    sm_init(&s->made, sandbox_mades, MADE_COUNT, MADE_NOT);
    sm_watch(&s->made, &made_guard, s);
    sm_init(&s->end.sm, sandbox_cleanups, CLEANUP_COUNT, CLEANUP_NONE);
    sm_watch(&s->end.sm, &cleanup_guard, s);
    sm_init(&s->adoption.sm, sandbox_adoptions, ADOPTION_COUNT, ADOPTION_NONE);
    sm_watch(&s->adoption.sm, &adoption_guard, s);
    sm_init(&s->pooled.sm, sandbox_pooleds, POOLED_COUNT, POOLED_NO);
    sm_watch(&s->pooled.sm, &pooled_guard, s);
}

void sandbox_made_begin(struct sandbox *s)
{
    if (!sandbox_may_exist(s)) {
        sm_move(&s->made, s->made.state == MADE_PENDING ? MADE_AGAIN : MADE_ONCE);
    }
}

void sandbox_made_destroyed(struct sandbox *s)
{
    if (s->made.state != MADE_DESTROYED) {
        sm_move(&s->made, MADE_DESTROYED);
    }
}

bool sandbox_may_exist(const struct sandbox *s)
{
    return s->made.state == MADE_ONCE || s->made.state == MADE_MUTE || s->made.state == MADE_AGAIN;
}
