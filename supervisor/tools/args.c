/*
 * Checks beyond the schema. A path is checked by its text only; the agent resolves it inside the
 * sandbox (with symbolic links), where it can reach nothing else. We refuse paths that are surely
 * mistakes, early and with a clear error.
 */
#include "supervisor/tools/args.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "proto/limits.h"

/* The workspace is a directory in the root, so a relative path may climb once. */
#define WORKSPACE_DEPTH 1

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

int args_check_name(const char *field, const char *text, struct err *err)
{
    size_t len = strlen(text);
    bool good = len >= 1 && len <= LIMIT_NAME && text[0] != '.' && strstr(text, "..") == NULL;
    for (size_t i = 0; good && i < len; i++) {
        good = is_name_char(text[i]);
    }
    if (good) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "%s: expected 1 to %d letters, digits, '_', '-' or single '.', not starting "
                   "with '.'",
                   field, LIMIT_NAME);
}

int args_check_path(const char *path, struct err *err)
{
    size_t len = strlen(path);
    if (len == 0 || len >= LIMIT_PATH) {
        return err_set(err, ERR_PATH, "path: expected 1 to %d bytes, got %zu", LIMIT_PATH - 1, len);
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];
        if (c < 0x20 || c == 0x7f) {
            return err_set(err, ERR_PATH, "path: control character 0x%02x at byte %zu", c, i);
        }
    }
    int depth = path[0] == '/' ? 0 : WORKSPACE_DEPTH;
    for (const char *p = path; *p != '\0';) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            if (--depth < 0) {
                return err_set(err, ERR_PATH,
                               "path: \"..\" leads out of the sandbox's file system");
            }
        } else if (n > 1 || (n == 1 && p[0] != '.')) {
            depth++;
        }
        p += n + (p[n] == '/' ? 1 : 0);
    }
    return 0;
}

int args_check_size(const char *field, const char *text, size_t max, struct err *err)
{
    size_t len = text != NULL ? strlen(text) : 0;
    if (len > max) {
        return err_set(err, ERR_TOO_BIG, "%s: %zu bytes, at most %zu are allowed", field, len, max);
    }
    return 0;
}

uint64_t args_ms(const cJSON *args, const char *field)
{
    const cJSON *item = json_get(args, field);
    return item != NULL ? (uint64_t)(item->valuedouble * 1000.0 + 0.5) : 0;
}

uint64_t args_uint(const cJSON *args, const char *field)
{
    const cJSON *item = json_get(args, field);
    return item != NULL && item->valuedouble > 0 ? (uint64_t)item->valuedouble : 0;
}

/* Whether a valid name precedes the "=". */
static bool has_env_name(const char *entry)
{
    size_t len = strcspn(entry, "=");
    bool good = len > 0 && entry[len] == '=' && !isdigit((unsigned char)entry[0]);
    for (size_t i = 0; good && i < len; i++) {
        good = isalnum((unsigned char)entry[i]) || entry[i] == '_';
    }
    return good;
}

int args_env(const cJSON *args, struct args_list *ret, struct err *err)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, json_get(args, "env"))
    {
        if (!has_env_name(entry->valuestring)) {
            *ret = (struct args_list){NULL, 0};
            return err_set(err, ERR_INVALID,
                           "env: expected NAME=value, with a name of letters, digits and '_' that "
                           "does not start with a digit, got \"%.40s\"",
                           entry->valuestring);
        }
    }
    return args_strings(args, "env", ret, err);
}

int args_strings(const cJSON *args, const char *field, struct args_list *ret, struct err *err)
{
    *ret = (struct args_list){NULL, 0};
    const cJSON *array = json_get(args, field);
    size_t count = (size_t)cJSON_GetArraySize(array);
    if (count == 0) {
        return 0;
    }
    struct args_list list = {alloc_array(count, sizeof(struct view)), 0};
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        if (strlen(item->valuestring) > LIMIT_ITEM) {
            int rc = err_set(err, ERR_TOO_BIG, "%s[%zu]: longer than %u bytes", field, list.count,
                             LIMIT_ITEM);
            args_list_finish(&list);
            return rc;
        }
        list.items[list.count++] = view_of(item->valuestring);
    }
    *ret = list;
    return 0;
}

void args_list_finish(struct args_list *list)
{
    free(list->items);
    *list = (struct args_list){NULL, 0};
}
