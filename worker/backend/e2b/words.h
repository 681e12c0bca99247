/*
 * What the other side says, as words for people.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_WORDS_H
#define CLOISTER_WORKER_BACKEND_E2B_WORDS_H

#include <stddef.h>

#include "common/view.h"

/* What must not be told; NULL: none. */
struct e2b_secrets {
    char *key;   /* of the service */
    char *token; /* of a sandbox's daemon */
};

/* On one line, without blanks at its end, valid UTF-8, cut where `ret` ends, and without the
 * secrets. `size` is at least 16. */
void e2b_words(const struct e2b_secrets *secrets, struct view said, char *ret, size_t size);

#endif
