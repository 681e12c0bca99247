/*
 * What tools of other servers do with our sandboxes: find them by their clients' names, run code or
 * programs to the end, and report the outcome in those servers' terms.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_RUNS_H
#define CLOISTER_SUPERVISOR_COMPAT_RUNS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/compat/reply.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/tools/tool.h"

#define RUNS_NAME_SIZE 80

/* Makes a sandbox name of a session id, which may be any text: the id itself, or a digest of it. */
void runs_name(const char *session_id, char ret[RUNS_NAME_SIZE]);

/* Finds the caller's sandbox for this session id and stores its id in call->sandbox_id. False:
 * there is none. A failed sandbox does not count, because these clients then make another one;
 * runs_find_any() finds it, so that it can be closed. */
bool runs_find(struct tool_call *call, const char *session_id);
bool runs_find_any(struct tool_call *call, const char *session_id);

/* Whether the sandbox has ended, and is kept only to report why, or until it is cleaned up. */
bool runs_has_ended(const struct fleet_info *info);

/* Opens that sandbox. It has network if the operator lets clients ask for it, as sandboxes of those
 * servers do. */
void runs_open(struct tool_call *call, const char *session_id, fleet_info_fn done);

/* Run code of a language, a program with `args`, or any operation that runs one, in
 * call->sandbox_id and wait for its end, or as long as a call may: then the outcome's state is not
 * OP_DONE, it has the output so far, and the run goes on. `done` gets the call as its argument and
 * must first call runs_done(). */
void runs_code(struct tool_call *call, const char *language, const char *code, struct view input,
               fleet_outcome_fn done);
void runs_program(struct tool_call *call, const char *const *args, size_t count, struct view input,
                  fleet_outcome_fn done);
void runs_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done);
void runs_done(struct tool_call *call);

/* Why there is no outcome, or a bad one that is no error of the code (a deadline, memory, a path),
 * or how to go on with code that still runs; NULL: it succeeded, or its code failed. The caller
 * frees it. */
char *runs_trouble(int rc, const struct fleet_outcome *outcome, const struct err *err);

/* All kept output of a stream, with a line that says how much was dropped. */
cJSON *runs_stream(enum reply_style style, const struct fleet_outcome *outcome, bool is_stderr);

/* {"name", "value", "traceback"} of the error that ended the code, or "StillRunning"; NULL: none.
 */
cJSON *runs_error(enum reply_style style, const struct fleet_outcome *outcome);

/* Answers {"error": "<prefix>: <what>"}. */
void runs_fail(struct tool_call *call, const char *prefix, const char *what);

#endif
