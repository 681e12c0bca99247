/*
 * A START message that owns its texts.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_START_H
#define CLOISTER_SUPERVISOR_CALLS_START_H

#include "common/buf.h"
#include "supervisor/fleet/fleet.h"

struct start_memory {
    struct buf text;    /* owns the texts of the views */
    struct view *items; /* owns the lists */
};

void call_start_init(struct start_memory *mem);
void call_start_finish(struct start_memory *mem);

/* Copies the operation into the message; a language gets a final NUL. Call once per memory.
 * -ERR_TOO_BIG, -ERR_NO_MEMORY. */
int call_start_copy(struct msg_start *start, struct start_memory *mem, const struct fleet_op *op,
                    struct err *err) WARN_UNUSED;

#endif
