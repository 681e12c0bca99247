/*
 * Packages in tool calls: reading what is wanted, waiting for an installation within the budget of
 * a call, and putting what became of it into a result.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_PACKAGE_H
#define CLOISTER_SUPERVISOR_TOOLS_PACKAGE_H

#include <stdbool.h>

#include "supervisor/fleet/fleet.h"
#include "supervisor/packages/packages.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/tool.h"

/* Borrowed from the arguments. */
struct package_choice {
    enum package_manager manager;
    const char *requirements[PACKAGES_PER_CALL];
    size_t count;
};

/* `manager`, and what is wanted from `package_name` or `packages`; none at all is fine. */
int package_choice_read(const cJSON *args, struct package_choice *ret, struct err *err) WARN_UNUSED;

/* Begins to install into call->sandbox_id; the installation's id is call->execution_id then. */
void package_begin(struct tool_call *call, const struct package_choice *choice);

/* Waits for call->execution_id, an installation, at most so long; `done` (whose argument is the
 * call) begins with package_waited(). */
void package_await(struct tool_call *call, uint64_t wait_ms, package_report_fn done);

/* The same for who knows the installation by its id only: `done` gets it as if it were a run of
 * code, and begins with tool_ran(). */
void package_await_outcome(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done);

/* As package_await(), as long as a call may wait, or for ever if it is a task, which it may become.
 */
void package_await_in_budget(struct tool_call *call, package_report_fn done);

/* The call of package_await() waits no more. */
void package_waited(struct tool_call *call);

/* "pip" or "npm", "installed" and so on. */
const char *package_manager_name(enum package_manager manager);
const char *package_state_name(enum package_state state);

/* Adds `packages` to an object. */
void package_put_list(cJSON *object, const struct package_report *report);

/* What is installed, or being installed, for a person to read. */
void package_put_text(struct buf *text, const struct package_report *report);

/* The result of a tool that installs. */
void package_result(const struct package_report *report, struct result *ret);

/* What went wrong, as the whole of a result. */
void package_failure(const struct package_report *report, struct result *ret);

#endif
