/*
 * A thin layer over cJSON that only builds; json.c parses.
 */
#include "worker/backend/json_build.h"

#include <stdio.h>

#include "common/alloc.h"

cJSON *json_build_new(void)
{
    return alloc_check(cJSON_CreateObject());
}

void json_build_put(cJSON *object, const char *key, cJSON *owned_item)
{
    alloc_check(cJSON_AddItemToObject(object, key, owned_item) ? object : NULL);
}

cJSON *json_build_object(cJSON *object, const char *key)
{
    return alloc_check(cJSON_AddObjectToObject(object, key));
}

cJSON *json_build_array(cJSON *object, const char *key)
{
    return alloc_check(cJSON_AddArrayToObject(object, key));
}

void json_build_string(cJSON *object, const char *key, const char *value)
{
    alloc_check(cJSON_AddStringToObject(object, key, value));
}

void json_build_number(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu",
             (unsigned long long)(value <= INT64_MAX ? value : INT64_MAX));
    alloc_check(cJSON_AddRawToObject(object, key, text));
}

void json_build_bool(cJSON *object, const char *key, bool value)
{
    alloc_check(cJSON_AddBoolToObject(object, key, value));
}

void json_build_strings(cJSON *object, const char *key, const char *const *items, size_t count)
{
    cJSON *array = json_build_array(object, key);
    for (size_t i = 0; i < count; i++) {
        json_build_append_string(array, items[i]);
    }
}

cJSON *json_build_append_object(cJSON *array)
{
    cJSON *object = json_build_new();
    cJSON_AddItemToArray(array, object); /* of an existing array and item: cannot fail */
    return object;
}

void json_build_append_string(cJSON *array, const char *value)
{
    cJSON_AddItemToArray(array, alloc_check(cJSON_CreateString(value)));
}

char *json_build_print(const cJSON *item)
{
    return alloc_check(cJSON_PrintUnformatted(item));
}
