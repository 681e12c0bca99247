/*
 * Running code: what the tools that start, follow and stop executions share.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H
#define CLOISTER_SUPERVISOR_TOOLS_EXECUTION_H

#include <stdbool.h>

#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"

/* What the arguments say about the code. Texts are borrowed from them; it owns its lists. */
struct execution_choice {
    struct fleet_op op; /* `data` is the code as it came */
    struct args_list env;
    struct args_list words;
};

/* Reads the arguments, and checks what the schema cannot express. *ret is zeroed before, and
 * execution_choice_finish() is due in any case. */
int execution_choice_read(struct execution_choice *ret, const struct tool_call *call,
                          struct err *err) WARN_UNUSED;
void execution_choice_finish(struct execution_choice *choice);

/* Starts the code in call->sandbox_id, and waits for it within the sync budget. `done` must first
 * call tool_ran(). */
void execution_start(struct tool_call *call, const struct execution_choice *choice,
                     fleet_outcome_fn done);

/* Copies execution_id from the arguments. */
void execution_name(struct tool_call *call);

/* Makes the result of an outcome, including failures. `range` as in result_set_execution(). */
void execution_result(struct tool_call *call, const struct fleet_outcome *outcome,
                      const struct result_range *range, struct result *ret);

/* Code that reads what write_stdin writes: a call waits until it has written something and been
 * quiet for this long, since then it may wait for an answer. */
#define EXECUTION_QUIET_MS 500

#endif
