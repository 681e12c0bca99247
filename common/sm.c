/*
 * A state machine is a drawing first. The drawing is kept beside the states as a table of allowed
 * successors, so that a wrong move is found where it is made and not three callbacks later. The
 * machine does not call anybody: what happens on entering a state is plain code of its owner,
 * right after the move, where a reader looks for it.
 *
 * Invariants are kept in a table, too, and not in asserts at each place that changes something:
 * there they are read together, and none is forgotten where the next move is written. They cost a
 * few comparisons a move, which only builds for development pay for (CLOISTER_CHECKED,
 * meson.build).
 */
#include "common/sm.h"

#include <assert.h>
#include <stdlib.h>

#include "checked.h"
#include "common/log.h"

#if CLOISTER_CHECKED
static void check_invariants(const struct sm *m, const char *left)
{
    const struct sm_guard *guard = m->guard;
    for (unsigned i = 0; guard != NULL && i < guard->count; i++) {
        const struct sm_invariant *invariant = &guard->invariants[i];
        if ((invariant->states & SM_BIT(m->state)) != 0 && !invariant->holds(m->owner)) {
            log_error("sm: %s: %s -> %s: it does not hold that %s", guard->machine, left,
                      sm_name(m), invariant->name);
            abort();
        }
    }
}
#else
static void check_invariants(const struct sm *m, const char *left)
{
    (void)m, (void)left;
}
#endif

void sm_init(struct sm *m, const struct sm_state *table, unsigned count, unsigned first)
{
    assert(count <= 32 && first < count);
    m->table = table;
    m->count = count;
    m->state = first;
    m->guard = NULL;
    m->owner = NULL;
}

void sm_watch(struct sm *m, const struct sm_guard *guard, const void *owner)
{
    m->guard = guard;
    m->owner = owner;
}

void sm_check(const struct sm *m)
{
    check_invariants(m, sm_name(m));
}

bool sm_may(const struct sm *m, unsigned next)
{
    return next < m->count && (m->table[m->state].next & SM_BIT(next)) != 0;
}

const char *sm_move(struct sm *m, unsigned next)
{
    assert(sm_may(m, next));
    const char *left = m->table[m->state].name;
    m->state = next;
    check_invariants(m, left);
    return left;
}

const char *sm_name(const struct sm *m)
{
    return m->table[m->state].name;
}
