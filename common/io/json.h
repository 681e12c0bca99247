/*
 * Reads JSON from outside; no other file parses JSON text.
 *
 * Before cJSON sees the text, json_parse() checks size, nesting depth, UTF-8, raw NUL bytes, and
 * the escape \u0000, which cJSON would turn into the end of a C string, losing what follows. Half a
 * surrogate pair (\ud83d without its other half) becomes U+FFFD.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_IO_JSON_H
#define CLOISTER_COMMON_IO_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* Parses exactly len bytes. The caller owns *ret (cJSON_Delete). Errors, whose text says what is
 * wrong and where: -ERR_TOO_BIG, -ERR_INVALID (syntax, depth, UTF-8, NUL), -ERR_NO_MEMORY. A key
 * that is twice in one object is accepted: the first wins, as in cJSON. `ret_has_nul` (may be NULL)
 * is set when \u0000 was the only fault: *ret is returned then with rc 0, so that the caller can
 * answer with the right id, but its strings must not be used. */
int json_parse(const char *text, size_t len, size_t max_bytes, int max_depth, cJSON **ret,
               bool *ret_has_nul, struct err *err) WARN_UNUSED;

/* Prints on one line, for whatever cuts lines: besides control characters, which JSON escapes, the
 * characters U+0085, U+2028 and U+2029 are line ends to some programs, and are escaped, too. The
 * caller frees the text; NULL: no memory. */
char *json_print(const cJSON *json);

/* Member of an object, case-sensitive; NULL if absent or obj is not an object. */
const cJSON *json_get(const cJSON *obj, const char *key);

/* The same for an optional member, which some programs write as null: NULL for that, too. */
const cJSON *json_get_given(const cJSON *obj, const char *key);

/* String member; NULL if absent or not a string. Borrowed from obj. */
const char *json_get_str(const cJSON *obj, const char *key);

/* True for a number with an integral value within +-(2^53-1). */
bool json_is_int(const cJSON *item);

#endif
