/*
 * Packages in tool calls: parsing the request, waiting for an installation within the call's
 * budget, and making its result.
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

/* Reads `manager`, and the packages from `package_name` or `packages`; there may be none. */
int package_choice_read(const cJSON *args, struct package_choice *ret, struct err *err) WARN_UNUSED;

/* The same for later callbacks: the choice is the call's `own`, also if it cannot be read. */
int package_choice_keep(struct tool_call *call, struct package_choice **ret,
                        struct err *err) WARN_UNUSED;

/* Starts to install into call->sandbox_id; sets call->execution_id to the installation's id. */
void package_begin(struct tool_call *call, const struct package_choice *choice);

/* Waits for the installation call->execution_id, at most wait_ms. `done` gets the call as its
 * argument, and must first call package_waited(). */
void package_await(struct tool_call *call, uint64_t wait_ms, package_report_fn done);

/* The same for callers that know only an id: `done` gets the installation as an execution, and must
 * first call tool_ran(). */
void package_await_outcome(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done);

/* Waits as package_await() within the call's budget, or without limit once the call is a task. */
void package_await_in_budget(struct tool_call *call, package_report_fn done);

/* Clears the call's wait. */
void package_waited(struct tool_call *call);

/* Names for results: "pip" or "npm", "installed" and so on. */
const char *package_manager_name(enum package_manager manager);
const char *package_state_name(enum package_state state);

/* Adds `packages` to an object. */
void package_put_list(cJSON *object, const struct package_report *report);

/* Adds a text for people about what is or will be installed. */
void package_put_text(struct buf *text, const struct package_report *report);

/* Makes the result of a tool that installs. */
void package_result(const struct package_report *report, struct result *ret);

/* Makes a result of the failure alone. */
void package_failure(const struct package_report *report, struct result *ret);

#endif
