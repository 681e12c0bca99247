/*
 * Output of running code in progress messages.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_OUTPUT_H
#define CLOISTER_SUPERVISOR_TOOLS_OUTPUT_H

#include "common/buf.h"
#include "supervisor/fleet/fleet.h"

#define OUTPUT_MESSAGE_BYTES 1000 /* as escaped JSON */

/* Formats the new output as one message: the end of each stream, and how much was left out. Valid
 * UTF-8, within OUTPUT_MESSAGE_BYTES. */
void output_message(struct buf *message, const struct fleet_output *output);

#endif
