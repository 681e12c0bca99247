/*
 * Building JSON that must be complete: each function succeeds or ends the process (see alloc.h).
 * cJSON by itself skips what it has no memory for, and a container's configuration that silently
 * lacks a limit is worse than none.
 *
 * Thread: any. Nothing blocks. Results are borrowed from the parent, except of oci_json_new().
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_JSON_H
#define CLOISTER_WORKER_BACKEND_OCI_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new object, owned by the caller until it is added to another. */
cJSON *oci_json_new(void);

/* Members of an object. Numbers are written as whole decimals whatever their size: readers in other
 * languages refuse "1e+15" for an integer. */
cJSON *oci_json_object(cJSON *object, const char *key);
cJSON *oci_json_array(cJSON *object, const char *key);
void oci_json_string(cJSON *object, const char *key, const char *value);
void oci_json_number(cJSON *object, const char *key, uint64_t value);
void oci_json_bool(cJSON *object, const char *key, bool value);
void oci_json_strings(cJSON *object, const char *key, const char *const *items, size_t count);
void oci_json_put(cJSON *object, const char *key, cJSON *owned_item);

/* Elements of an array. */
cJSON *oci_json_append_object(cJSON *array);
void oci_json_append_string(cJSON *array, const char *value);

/* The text, owned by the caller (free). */
char *oci_json_print(const cJSON *item);

#endif
