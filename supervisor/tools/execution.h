/*
 * Running code: what the tools that start, follow and stop executions share.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H
#define CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H

#include <stdbool.h>

#include "supervisor/tools/tool.h"

/* Checks what the schema cannot express about the arguments that describe the code. */
int execution_check(const cJSON *args, struct err *err) WARN_UNUSED;

/* Starts the code that the checked arguments describe, in call->sandbox_id, and waits for it within
 * the sync budget. `done` must first call tool_ran(). */
void execution_start(struct tool_call *call, fleet_outcome_fn done);

/* Copies execution_id from the arguments. */
void execution_name(struct tool_call *call);

/* Makes the result of an outcome, including failures. `range` as in result_set_execution(). */
void execution_result(struct tool_call *call, const struct fleet_outcome *outcome,
                      const struct result_range *range, struct result *ret);

#endif
