/*
 * Reads tool arguments that need more checks than a schema can express. All strings are borrowed
 * from the arguments.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_ARGS_H
#define CLOISTER_SUPERVISOR_TOOLS_ARGS_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

/* 1 to 64 letters, digits, '.', '_' or '-', not starting with '.'. The text of -ERR_INVALID names
 * the field. */
int args_check_name(const char *field, const char *text, struct err *err) WARN_UNUSED;

/* Checks a path in the sandbox, absolute or relative to the workspace: not empty, at most
 * LIMIT_PATH - 1 bytes, no control characters, and at no point above the root. -ERR_PATH. */
int args_check_path(const char *path, struct err *err) WARN_UNUSED;

/* At most `max` bytes. The text of -ERR_TOO_BIG names the field. */
int args_check_size(const char *field, const char *text, size_t max, struct err *err) WARN_UNUSED;

/* args_ms() converts seconds to milliseconds. Both return 0 if the argument is absent. */
uint64_t args_ms(const cJSON *args, const char *field);
uint64_t args_uint(const cJSON *args, const char *field);

/* A list made from arguments; args_list_finish() frees it. */
struct args_list {
    struct view *items;
    size_t count;
};

/* `env`, an array of "NAME=value". -ERR_INVALID for names that a shell would refuse. */
int args_env(const cJSON *args, struct args_list *ret, struct err *err) WARN_UNUSED;

/* An array of strings. */
int args_strings(const cJSON *args, const char *field, struct args_list *ret,
                 struct err *err) WARN_UNUSED;

void args_list_finish(struct args_list *list);

static inline struct view_list args_list_view(const struct args_list *list)
{
    return (struct view_list){list->items, list->count};
}

#endif
