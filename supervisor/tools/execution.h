/*
 * Running code: what the tools that begin, follow and end executions have in common.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H
#define CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H

#include <stdbool.h>

#include "supervisor/tools/tool.h"

/* Checks what the schema cannot say of the arguments that describe the code. */
int execution_check(const cJSON *args, struct err *err) WARN_UNUSED;

/* Begins to run the code that the arguments, once checked, describe, in call->sandbox_id, and waits
 * for it within the sync budget. `done` begins with tool_ran(). */
void execution_start(struct tool_call *call, fleet_outcome_fn done);

/* Takes the execution_id from the arguments. */
void execution_name(struct tool_call *call);

/* Fills the result from the outcome, failures included. `range` as in result_set_execution(). */
void execution_result(struct tool_call *call, const struct fleet_outcome *outcome,
                      const struct result_range *range, struct result *ret);

#endif
