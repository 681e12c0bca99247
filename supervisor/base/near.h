/*
 * "Did you mean …?": the known word that is nearest to one that was mistyped.
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_NEAR_H
#define CLOISTER_SUPERVISOR_BASE_NEAR_H

#include <stddef.h>

#include "common/view.h"

/* Begins with the typed word, which is borrowed, as are the known ones. */
struct near_word {
    struct view typed;
    const char *best; /* NULL: none is near */
    size_t distance;
};

void near_begin(struct near_word *n, struct view typed);
void near_try(struct near_word *n, const char *known);

#endif
