/*
 * Bodies of requests: an object of JSON whose members are known beforehand. One that is not, or
 * that has another type, is refused by name: whoever mistypes "timeout_seconds" must not get the
 * usual one.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/near.h"
#include "supervisor/control/internal.h"

static bool is_whole_number(const cJSON *value)
{
    return json_is_int(value) && value->valuedouble >= 0;
}

static bool is_text_list(const cJSON *value)
{
    const cJSON *item;
    if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) > LIMIT_LIST) {
        return false;
    }
    cJSON_ArrayForEach(item, value)
    {
        if (!cJSON_IsString(item)) {
            return false;
        }
    }
    return true;
}

static bool has_type(const cJSON *value, enum control_type type)
{
    switch (type) {
    case CONTROL_TEXT:
        return cJSON_IsString(value);
    case CONTROL_UINT:
        return is_whole_number(value);
    case CONTROL_BOOL:
        return cJSON_IsBool(value);
    case CONTROL_TEXTS:
        return is_text_list(value);
    }
    return false;
}

static int check_member(const cJSON *value, const struct control_member *members, struct err *err)
{
    static const char *const types[] = {[CONTROL_TEXT] = "a text",
                                        [CONTROL_UINT] = "a whole number from 0 on",
                                        [CONTROL_BOOL] = "true or false",
                                        [CONTROL_TEXTS] = "a list of at most 256 texts"};
    struct near_word near;
    near_begin(&near, view_of(value->string));
    for (; members->name != NULL; members++) {
        if (strcmp(members->name, value->string) == 0) {
            return has_type(value, members->type) ? 0
                                                  : err_set(err, ERR_INVALID, "%s: expected %s",
                                                            members->name, types[members->type]);
        }
        near_try(&near, members->name);
    }
    return err_set(err, ERR_INVALID, "unknown member \"%.64s\"%s%s%s", value->string,
                   near.best != NULL ? "; did you mean " : "", near.best != NULL ? near.best : "",
                   near.best != NULL ? "?" : "");
}

bool control_body(struct web_exchange *x, const struct control_member *members, cJSON **ret)
{
    struct err err = ERR_INIT;
    struct view text = web_body(x);
    cJSON *body = NULL;
    int rc = 0;
    if (text.len == 0) {
        body = cJSON_CreateObject();
    } else {
        rc = json_parse(text.data, text.len, LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &body, NULL, &err);
    }
    if (rc == 0 && !cJSON_IsObject(body)) {
        rc = err_set(&err, ERR_INVALID, "expected an object of JSON");
    }
    for (const cJSON *value = rc == 0 ? body->child : NULL; value != NULL && rc == 0;
         value = value->next) {
        rc = check_member(value, members, &err);
    }
    if (rc < 0) {
        cJSON_Delete(body);
        control_fail(x, rc, err.text, NULL);
        return false;
    }
    *ret = body;
    return true;
}

uint64_t control_uint(const cJSON *body, const char *name)
{
    const cJSON *value = json_get(body, name);
    return value != NULL ? (uint64_t)value->valuedouble : 0;
}
