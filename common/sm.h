/*
 * State machines with declared transitions: a table lists the allowed successors of each state, and
 * one function moves. A move that the table does not allow is a bug, which ends the process.
 *
 * A machine may have invariants: what its owner promises to hold in some of its states, about its
 * own fields or about another machine beside it. Each move checks those of the state it leads to,
 * and a broken one ends the process. Release builds check none.
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

/* What holds in some states of a machine. */
struct sm_invariant {
    const char *name;                 /* a sentence that is true: "what is open has an agent" */
    uint32_t states;                  /* SM_BIT()s of the states in which it is */
    bool (*holds)(const void *owner); /* looks only */
};

#define SM_EVERY UINT32_MAX /* of its states */

struct sm_guard {
    const char *machine; /* its name, for the message */
    const struct sm_invariant *invariants;
    unsigned count;
};

struct sm {
    const struct sm_state *table; /* borrowed for the life of the machine */
    unsigned count;
    unsigned state;
    const struct sm_guard *guard; /* NULL: none; borrowed, as its owner */
    const void *owner;
};

/* At most 32 states. */
void sm_init(struct sm *m, const struct sm_state *table, unsigned count, unsigned first);

/* Checks the invariants from the next move on; they are told the owner. */
void sm_watch(struct sm *m, const struct sm_guard *guard, const void *owner);

/* Asserts what holds in the state it is in, for an owner that has changed something else. */
void sm_check(const struct sm *m);

bool sm_may(const struct sm *m, unsigned next);

/* Asserts sm_may(), and what holds in the state that is entered: what the owner does on entering it
 * is done before, if an invariant is about that. Returns the name of the state that was left, for
 * the caller's log line. */
const char *sm_move(struct sm *m, unsigned next);

const char *sm_name(const struct sm *m);

#endif
