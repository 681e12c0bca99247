/*
 * A thin layer over cJSON with one opinion, see the header. It builds only; text is parsed elsewhere.
 */
#include "worker/backend/oci_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"

static void require(bool done)
{
    if (!done) {
        log_error("out of memory, aborting");
        abort();
    }
}

static cJSON *made(cJSON *item)
{
    require(item != NULL);
    return item;
}

cJSON *oci_json_new(void)
{
    return made(cJSON_CreateObject());
}

void oci_json_put(cJSON *object, const char *key, cJSON *owned_item)
{
    require(cJSON_AddItemToObject(object, key, owned_item));
}

cJSON *oci_json_object(cJSON *object, const char *key)
{
    return made(cJSON_AddObjectToObject(object, key));
}

cJSON *oci_json_array(cJSON *object, const char *key)
{
    return made(cJSON_AddArrayToObject(object, key));
}

void oci_json_string(cJSON *object, const char *key, const char *value)
{
    made(cJSON_AddStringToObject(object, key, value));
}

void oci_json_number(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu",
             (unsigned long long)(value <= INT64_MAX ? value : INT64_MAX));
    made(cJSON_AddRawToObject(object, key, text));
}

void oci_json_bool(cJSON *object, const char *key, bool value)
{
    made(cJSON_AddBoolToObject(object, key, value));
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
    require(cJSON_AddItemToArray(array, object));
    return object;
}

void oci_json_append_string(cJSON *array, const char *value)
{
    require(cJSON_AddItemToArray(array, made(cJSON_CreateString(value))));
}

char *oci_json_print(const cJSON *item)
{
    char *text = cJSON_PrintUnformatted(item);
    require(text != NULL);
    return text;
}
