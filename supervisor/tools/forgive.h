/*
 * Repairs arguments. Models write what they know of other servers' tools: other names for
 * arguments, numbers and lists as text, null or empty texts for absent values.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_FORGIVE_H
#define CLOISTER_SUPERVISOR_TOOLS_FORGIVE_H

#include <cjson/cJSON.h>

/* For arguments that do not fit their schema: returns a new object that may fit, and must be
 * checked again; NULL if nothing could be repaired. */
cJSON *forgive_arguments(const cJSON *schema, const cJSON *args);

/* The same, but repairs only what stands for absent arguments: for tools of other servers. */
cJSON *forgive_absent(const cJSON *schema, const cJSON *args);

/* For arguments that fit: if the path is a sandbox:// URI, as in results, returns a new object with
 * that sandbox and path; if it begins with ~/, one with the absolute path. NULL otherwise. */
cJSON *forgive_path(const cJSON *schema, const cJSON *args);

#endif
