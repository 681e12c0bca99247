/*
 * What the two python profiles share: sandboxes in which each piece of Python code is a program of
 * its own, run in /app/results, with links to the files that it made.
 *
 * Each function is the run() of a tool. Private to this directory. Loop thread; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_PYTHON_PROFILE_H
#define CLOISTER_SUPERVISOR_COMPAT_PYTHON_PROFILE_H

#include <cjson/cJSON.h>

#include "supervisor/compat/reply.h"
#include "supervisor/tools/tool.h"

/* The texts in which the profiles differ. */
struct python_shape {
    const char *key;                   /* name of the sandbox id in arguments and answers */
    const char *missing, *missing_end; /* around an id */
    enum reply_style style;
    /* The first generation: {"error": …} for a missing sandbox, files with the id and the time in
     * their names, links below /static/, and pip's output in messages. */
    bool first;
};

#define PYTHON_ID_CHARS 8 /* of a sandbox's id in names */

/* Arguments: the key, and `code`, `command` or `package_name`. */
void python_execute(struct tool_call *call, const struct python_shape *shape);
void python_terminal(struct tool_call *call, const struct python_shape *shape);
void python_install(struct tool_call *call, const struct python_shape *shape);
void python_check(struct tool_call *call, const struct python_shape *shape);

/* Opens a sandbox; `name` NULL: without a name. `opened` gets its name, "" if it has none, and must
 * end the call; the id is in call->sandbox_id. */
typedef void (*python_opened_fn)(struct tool_call *call, const char *name);
void python_create(struct tool_call *call, const struct python_shape *shape, const char *name,
                   python_opened_fn opened);

/* Lists the caller's sandboxes: for each the object that `describe` makes, with installed_packages.
 * If there are none, the answer has no content. */
void python_list(struct tool_call *call, const struct python_shape *shape,
                 cJSON *(*describe)(const struct fleet_info *info));

/* Finds the sandbox of the arguments, and stores its id in call->sandbox_id. False: there is none,
 * and the call has ended. */
bool python_find(struct tool_call *call, const struct python_shape *shape);

/* {"error": true, "message": …}, or {"error": …} */
void python_refuse(struct tool_call *call, const struct python_shape *shape, const char *message);

/* Add `files` and `file_links` to an answer: of the files that the run has changed, or as the first
 * generation does of those in /app/results, of a listing of it (NULL: none). */
void python_put_changed(struct tool_call *call, const struct python_shape *shape,
                        const struct fleet_outcome *o, cJSON *answer);
void python_put_named(struct tool_call *call, const struct python_shape *shape,
                      const struct fleet_outcome *listing, cJSON *answer);

#endif
