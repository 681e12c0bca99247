/*
 * The beginning of a stream that goes through a relay, the same whatever carries it: the relay's
 * greeting (common/relay.h) or the words of what failed instead, and a pair of sockets between the
 * stream and the agent's link.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_RELAYED_H
#define CLOISTER_WORKER_BACKEND_RELAYED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"

#define RELAYED_WORDS_MAX 400

struct relayed {
    size_t greeted; /* bytes of the greeting that have come */
    char words[RELAYED_WORDS_MAX];
    size_t words_len;
};

/* Takes bytes off *data. True when the greeting is complete: what is left of *data is the agent's.
 * Text that is no greeting is kept as words. */
bool relayed_greet(struct relayed *r, struct view *data);

/* Keeps text for people, as far as there is room. */
void relayed_keep(struct relayed *r, struct view said);

/* What was kept, on one line, without blanks at its end; "" if nothing was. */
const char *relayed_words(struct relayed *r);

/* Two connected sockets, non-blocking and close-on-exec, both the caller's. -ERR_IO. */
int relayed_pair(int *ret_own, int *ret_link, struct err *err) WARN_UNUSED;

#endif
