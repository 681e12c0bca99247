/*
 * Models send code as they would show it: in a fenced block, with the prompts of a session, or
 * indented as a whole. This removes such decoration.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_CELL_H
#define CLOISTER_SUPERVISOR_TOOLS_CELL_H

#include "common/buf.h"
#include "common/view.h"

/* Returns the code without its fence and, in Python, without prompts or common indentation: a part
 * of `code`, or text in `room`, which this function initialises and the caller finishes. */
struct view cell_code(const char *language, struct view code, struct buf *room);

#endif
