/*
 * What tools of other servers do with our sandboxes: find them by the names that their clients use,
 * run code or programs to the end, and tell what came of it in their words.
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

/* The name of a sandbox for a session id, which may be any text: itself, or a digest of it. */
void runs_name(const char *session_id, char ret[RUNS_NAME_SIZE]);

/* Puts the id of the caller's sandbox for this session id into call->sandbox_id; false: there is
 * none. One that has failed is none: what those clients do then is to make another. To close it is
 * what runs_find_any() is for. */
bool runs_find(struct tool_call *call, const char *session_id);
bool runs_find_any(struct tool_call *call, const char *session_id);

/* Whether it has ended, and is only kept to tell why or until it is tidied up. */
bool runs_has_ended(const struct fleet_info *info);

/* Makes that sandbox. It reaches the network if the operator allows clients to ask for that: the
 * sandboxes of those servers do. */
void runs_open(struct tool_call *call, const char *session_id, fleet_info_fn done);

/* Runs code of a language, or with `args` a program, in call->sandbox_id and waits to the end, for
 * which there is the sandbox's deadline. `done` has the call as its argument and begins with
 * runs_done(). */
void runs_code(struct tool_call *call, const char *language, const char *code, struct view input,
               fleet_outcome_fn done);
void runs_program(struct tool_call *call, const char *const *args, size_t count, struct view input,
                  fleet_outcome_fn done);
void runs_done(struct tool_call *call);

/* Why it came to no outcome, or to a bad one that is no error of the code (a deadline, memory, a
 * path); NULL: it did well or its code failed. Free with free(). */
char *runs_trouble(int rc, const struct fleet_outcome *outcome, const struct err *err);

/* The whole of a stream, as far as it is kept, with a line about what is not. */
cJSON *runs_stream(enum reply_style style, const struct fleet_outcome *outcome, bool is_stderr);

/* {"name", "value", "traceback"} of what ended the code before its time; NULL: nothing did. */
cJSON *runs_error(enum reply_style style, const struct fleet_outcome *outcome);

/* {"error": "<prefix>: <what>"} as the answer. */
void runs_fail(struct tool_call *call, const char *prefix, const char *what);

#endif
