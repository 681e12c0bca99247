/*
 * The answer of a server to a plain request, on its way to the program that asked.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_DOOR_RESPONSE_H
#define CLOISTER_WORKER_DOOR_RESPONSE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

#define DOOR_RESPONSE_MORE 64 /* bytes that are said on may be more than those that came */

struct door_response {
    struct buf head; /* what came of it, while it is not whole */
    bool over;       /* it has been said on; what follows is not looked at */
};

void door_response_init(struct door_response *r);
void door_response_finish(struct door_response *r);

/* Appends to `out` what is to be said on now. -ERR_TOO_BIG or -ERR_NO_MEMORY if it does not fit. */
int door_response_pass(struct door_response *r, struct view data, struct buf *out,
                       struct err *err) WARN_UNUSED;

#endif
