/*
 * Declared state machines: a table says which state may follow which, one function moves, and a
 * move that the table does not allow is a bug of ours that ends the process.
 *
 * Thread: none of its own; one owner at a time. Nothing blocks or allocates.
 */
#ifndef CLOISTER_COMMON_SM_H
#define CLOISTER_COMMON_SM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SM_BIT(state) (UINT32_C(1) << (state))

/* One row per state, at the index of its number. */
struct sm_state {
    const char *name;
    uint32_t next; /* SM_BIT()s of the states that may follow; 0 = final */
};

struct sm {
    const struct sm_state *table; /* borrowed for the life of the machine */
    unsigned count;
    unsigned state;
};

/* At most 32 states. */
void sm_init(struct sm *m, const struct sm_state *table, unsigned count, unsigned first);

bool sm_may(const struct sm *m, unsigned next);

/* Asserts sm_may(). Returns the name of the state that was left, for the caller's log line. */
const char *sm_move(struct sm *m, unsigned next);

const char *sm_name(const struct sm *m);

#endif
