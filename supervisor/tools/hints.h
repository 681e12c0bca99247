/*
 * Hints for errors of user code whose cause is the sandbox rather than the code.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_HINTS_H
#define CLOISTER_SUPERVISOR_TOOLS_HINTS_H

#include <stdbool.h>

struct config;
struct fleet_outcome;

/* Returns a string literal of one sentence, or NULL. `closes`: the sandbox ends with this code, so
 * nothing can be installed into it afterwards. */
const char *hint_for(const struct config *config, const struct fleet_outcome *o, bool closes);

#endif
