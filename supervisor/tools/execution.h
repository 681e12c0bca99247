/*
 * Running code: what execute_code and create_run_close have in common.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H
#define CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H

#include <stdbool.h>

#include "supervisor/tools/tool.h"

/* Checks what the schema cannot say of the arguments that describe the code. */
int execution_check(const cJSON *args, struct err *err) WARN_UNUSED;

/* Runs the code that the arguments, once checked, describe, in call->sandbox_id. */
void execution_start(struct tool_call *call, fleet_outcome_fn done);

/* Fills the result from the outcome, failures included. */
void execution_result(struct tool_call *call, const struct fleet_outcome *outcome,
                      struct result *ret);

#endif
