/*
 * Checks a JSON value against a JSON schema of the kind that our tool tables use. An error says
 * what a model needs to correct it: the field, what was expected, and what came.
 *
 * Supported keywords: type (one name), enum of strings, minimum, maximum, minLength, maxLength,
 * minItems, maxItems, items, maxProperties, properties, required, additionalProperties (false or a
 * schema). Annotations (title, description, default, examples) are ignored.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SCHEMA_H
#define CLOISTER_SUPERVISOR_TOOLS_SCHEMA_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"

/* -ERR_INVALID with the first violation. `value` is an object of arguments. */
int schema_check(const cJSON *schema, const cJSON *value, struct err *err) WARN_UNUSED;

/* False if the schema uses a keyword that schema_check() does not enforce; *ret_keyword names
 * it. */
bool schema_is_understood(const cJSON *schema, const char **ret_keyword);

#endif
