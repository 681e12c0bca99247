/*
 * Code as it was meant: models send it as they would show it, in a fenced block, with the prompts
 * of a session, or indented as a whole.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_CELL_H
#define CLOISTER_SUPERVISOR_TOOLS_CELL_H

#include "common/buf.h"
#include "common/view.h"

/* The code without its fence, and, in Python, without prompts or the indentation of all of it: a
 * part of `code`, or what has been written into `room`, which is initialised here and finished by
 * the caller. */
struct view cell_code(const char *language, struct view code, struct buf *room);

#endif
