/*
 * Access to a JSON value by its path, for tests that check results.
 */
#ifndef CLOISTER_TESTS_LIB_JSON_AT_H
#define CLOISTER_TESTS_LIB_JSON_AT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"

/* "a.b.0" below an object or array; NULL if absent. */
static inline const cJSON *at(const cJSON *root, const char *path)
{
    char name[128];
    while (root != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)n, path);
        uint64_t index;
        if (cJSON_IsArray(root) && str_to_u64(name, 0, 100000, &index, NULL) == 0) {
            root = cJSON_GetArrayItem(root, (int)index);
        } else {
            root = json_get(root, name);
        }
        path += n + (path[n] == '.' ? 1 : 0);
    }
    return root;
}

/* The value there, which must be a string. */
static inline const char *text_at(const cJSON *root, const char *path)
{
    const cJSON *item = at(root, path);
    if (!cJSON_IsString(item)) {
        CLEANUP_FREE char *whole = cJSON_PrintUnformatted(root);
        fail_msg("no text at %s in %s", path, whole);
    }
    return item->valuestring;
}

#endif
