/*
 * A thin layer over cJSON with one opinion, see the header. It builds only; text is parsed
 * elsewhere.
 */
#include "worker/backend/oci_json.h"

#include <stdio.h>

#include "common/alloc.h"

cJSON *oci_json_new(void)
{
    return alloc_check(cJSON_CreateObject());
}

void oci_json_put(cJSON *object, const char *key, cJSON *owned_item)
{
    alloc_check(cJSON_AddItemToObject(object, key, owned_item) ? object : NULL);
}

cJSON *oci_json_object(cJSON *object, const char *key)
{
    return alloc_check(cJSON_AddObjectToObject(object, key));
}

cJSON *oci_json_array(cJSON *object, const char *key)
{
    return alloc_check(cJSON_AddArrayToObject(object, key));
}

void oci_json_string(cJSON *object, const char *key, const char *value)
{
    alloc_check(cJSON_AddStringToObject(object, key, value));
}

void oci_json_number(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu",
             (unsigned long long)(value <= INT64_MAX ? value : INT64_MAX));
    alloc_check(cJSON_AddRawToObject(object, key, text));
}

void oci_json_bool(cJSON *object, const char *key, bool value)
{
    alloc_check(cJSON_AddBoolToObject(object, key, value));
}

void oci_json_strings(cJSON *object, const char *key, const char *const *items, size_t count)
{
    cJSON *array = oci_json_array(object, key);
    for (size_t i = 0; i < count; i++) {
        oci_json_append_string(array, items[i]);
    }
}

cJSON *oci_json_append_object(cJSON *array)
{
    cJSON *object = oci_json_new();
    cJSON_AddItemToArray(array, object); /* of an existing array and item: cannot fail */
    return object;
}

void oci_json_append_string(cJSON *array, const char *value)
{
    cJSON_AddItemToArray(array, alloc_check(cJSON_CreateString(value)));
}

char *oci_json_print(const cJSON *item)
{
    return alloc_check(cJSON_PrintUnformatted(item));
}
