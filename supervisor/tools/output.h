/*
 * What a client that follows its call is shown of running code.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_OUTPUT_H
#define CLOISTER_SUPERVISOR_TOOLS_OUTPUT_H

#include "common/buf.h"
#include "supervisor/fleet/fleet.h"

#define OUTPUT_MESSAGE_BYTES 1000 /* as escaped JSON */

/* The news as one message: the end of what was written to each stream, and how much of it is left
 * out. Valid UTF-8, within OUTPUT_MESSAGE_BYTES. */
void output_message(struct buf *message, const struct fleet_output *news);

#endif
