/*
 * Checks a JSON value against a JSON schema of the kind that our tool tables use, and says what is
 * wrong in words that a model can act on: the field, what was expected, what came.
 *
 * Understood: type (one name), enum of strings, minimum, maximum, minLength, maxLength,
 * minItems, maxItems, items, maxProperties, properties, required, additionalProperties (false or a
 * schema). Annotations (title, description, default, examples) are passed over.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SCHEMA_H
#define CLOISTER_SUPERVISOR_TOOLS_SCHEMA_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"

/* -ERR_INVALID with the first objection. `value` is an object of arguments. */
int schema_check(const cJSON *schema, const cJSON *value, struct err *err) WARN_UNUSED;

/* False if the schema uses a keyword that schema_check() would not enforce; *ret_keyword names it.
 */
bool schema_is_understood(const cJSON *schema, const char **ret_keyword);

#endif
