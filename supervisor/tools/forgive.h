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

/* For arguments that do: if the path is the URI of a file in a sandbox, as results have it, a new
 * object with that sandbox and the path in it. NULL otherwise. */
cJSON *forgive_uri(const cJSON *schema, const cJSON *args);

#endif
