/*
 * A state machine is a drawing first. The drawing is kept beside the states as a table of allowed
 * successors, so that a wrong move is found where it is made and not three callbacks later. The
 * machine does not call anybody: what happens on entering a state is plain code of its owner,
 * right after the move, where a reader looks for it.
 */
#include "common/sm.h"

#include <assert.h>

void sm_init(struct sm *m, const struct sm_state *table, unsigned count, unsigned first)
{
    assert(count <= 32 && first < count);
    m->table = table;
    m->count = count;
    m->state = first;
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
    return left;
}

const char *sm_name(const struct sm *m)
{
    return m->table[m->state].name;
}
