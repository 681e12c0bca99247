/*
 * Builds complete JSON: each function succeeds or ends the process (see alloc.h). cJSON itself
 * skips a member without memory for it, and a container's configuration must not lack a limit.
 *
 * Thread: any. Nothing blocks. Results are borrowed from the parent, except of json_build_new().
 */
#ifndef CLOISTER_WORKER_BACKEND_JSON_BUILD_H
#define CLOISTER_WORKER_BACKEND_JSON_BUILD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new object, owned by the caller until it is added to another. */
cJSON *json_build_new(void);

/* Members of an object. Numbers are written as whole decimals whatever their size: readers in other
 * languages refuse "1e+15" for an integer. */
cJSON *json_build_object(cJSON *object, const char *key);
cJSON *json_build_array(cJSON *object, const char *key);
void json_build_string(cJSON *object, const char *key, const char *value);
void json_build_number(cJSON *object, const char *key, uint64_t value);
void json_build_bool(cJSON *object, const char *key, bool value);
void json_build_strings(cJSON *object, const char *key, const char *const *items, size_t count);
void json_build_put(cJSON *object, const char *key, cJSON *owned_item);

/* Elements of an array. */
cJSON *json_build_append_object(cJSON *array);
void json_build_append_string(cJSON *array, const char *value);

/* The text, owned by the caller (free). */
char *json_build_print(const cJSON *item);

#endif
