/*
 * Arguments as they were meant. Models write what they know of other servers' tools: other names
 * for arguments, numbers and lists as text, null for what is absent.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_FORGIVE_H
#define CLOISTER_SUPERVISOR_TOOLS_FORGIVE_H

#include <cjson/cJSON.h>

/* For arguments that do not fit their schema: a new object that may, and is still to be checked.
 * NULL if nothing about them can be meant otherwise. */
cJSON *forgive_arguments(const cJSON *schema, const cJSON *args);

/* For arguments that do: a new object if the path is the URI of a file in a sandbox, as results
 * have it, with that sandbox and the path in it; or if it begins with ~/, as people write the home.
 * NULL otherwise. */
cJSON *forgive_path(const cJSON *schema, const cJSON *args);

#endif
