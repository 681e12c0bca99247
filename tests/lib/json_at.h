/*
 * Reading a JSON value by its place, for tests that look at what was built.
 */
#ifndef CLOISTER_TESTS_LIB_JSON_AT_H
#define CLOISTER_TESTS_LIB_JSON_AT_H

#include <string.h>

#include "common/io/json.h"

/* "a.b.c" below an object; NULL if absent. */
static inline const cJSON *json_at(const cJSON *item, const char *path)
{
    char part[64];
    while (item != NULL && *path != '\0') {
        size_t len = strcspn(path, ".");
        if (len >= sizeof(part)) {
            return NULL;
        }
        memcpy(part, path, len);
        part[len] = '\0';
        item = json_get(item, part);
        path += len + (path[len] == '.' ? 1 : 0);
    }
    return item;
}

#endif
