/*
 * Checks JSON before cJSON parses it. cJSON recurses as deep as the text is nested, stops at a NUL
 * byte, accepts invalid UTF-8, decodes \u0000 into the end of a C string, and uses 64 bytes for two
 * bytes of input in a list of digits. One pass over the text finds all five before parsing.
 *
 * cJSON reports a lack of memory as a fault of the text. So it allocates through a hook that notes
 * the difference. While it parses, every allocation may fail, because the text is from outside.
 * Otherwise small blocks are nodes that we add, which callers do not check: they succeed or end the
 * process. Large ones are texts from outside that are copied or printed: callers get NULL.
 */
#include "common/io/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"

#define VALUES_MAX  200000 /* limit of values in one text; tool arguments have dozens */
#define SMALL_BYTES 4096   /* of a block that is there or ends the process */

static _Thread_local struct {
    bool parsing;
    bool without_memory; /* an allocation has failed since the parsing began */
} now;

static void *json_block(size_t size)
{
    if (!now.parsing && size <= SMALL_BYTES) {
        return alloc_block(size);
    }
    void *block = malloc(size);
    now.without_memory = now.without_memory || block == NULL;
    return block;
}

/* Before main(), because cJSON reads its hooks in every thread without a lock. */
__attribute__((constructor)) static void set_hooks(void)
{
    cJSON_Hooks hooks = {json_block, free};
    cJSON_InitHooks(&hooks);
}

/* Checks depth, number of values and NUL escapes outside and inside of strings; cJSON checks the
 * syntax. */
static int scan(const char *text, size_t len, int max_depth, bool *ret_nul, struct err *err)
{
    int depth = 0;
    int values = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        values += !in_string && (c == ',' || c == '{' || c == '[');
        if (values > VALUES_MAX) {
            return err_set(err, ERR_INVALID, "JSON of more than %d values", VALUES_MAX);
        }
        if (in_string) {
            if (c == '"') {
                in_string = false;
            } else if (c == '\\') {
                if (i + 5 < len && memcmp(text + i + 1, "u0000", 5) == 0) {
                    *ret_nul = true;
                }
                i++;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth) {
                return err_set(err, ERR_INVALID, "JSON nested deeper than %d levels at byte %zu",
                               max_depth, i);
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return 0;
}

int json_parse(const char *text, size_t len, size_t max_bytes, int max_depth, cJSON **ret,
               bool *ret_has_nul, struct err *err)
{
    if (len > max_bytes) {
        return err_set(err, ERR_TOO_BIG, "JSON text of %zu bytes is over the limit of %zu", len,
                       max_bytes);
    }
    size_t valid = utf8_valid_prefix(text, len);
    if (valid != len) {
        return err_set(err, ERR_INVALID, "not UTF-8 at byte %zu", valid);
    }
    const char *nul = len > 0 ? memchr(text, '\0', len) : NULL;
    if (nul != NULL) {
        return err_set(err, ERR_INVALID, "NUL byte at byte %zu", (size_t)(nul - text));
    }
    bool escaped_nul = false;
    int rc = scan(text, len, max_depth, &escaped_nul, err);
    if (rc < 0) {
        return rc;
    }
    if (escaped_nul && ret_has_nul == NULL) {
        return err_set(err, ERR_INVALID, "the character \\u0000 is not supported");
    }

    const char *end = NULL;
    now.parsing = true;
    now.without_memory = false;
    cJSON *json = cJSON_ParseWithLengthOpts(text, len, &end, false);
    now.parsing = false;
    if (json == NULL && now.without_memory) {
        return err_set(err, ERR_NO_MEMORY, "no memory for JSON text of %zu bytes", len);
    }
    if (json == NULL) {
        size_t at = end != NULL && end >= text ? (size_t)(end - text) : 0;
        return err_set(err, ERR_INVALID, "not valid JSON near byte %zu", at > len ? len : at);
    }
    while (end < text + len && strchr(" \t\r\n", *end) != NULL) {
        end++;
    }
    if (end != text + len) {
        cJSON_Delete(json);
        return err_set(err, ERR_INVALID, "text behind the JSON value at byte %zu",
                       (size_t)(end - text));
    }
    if (ret_has_nul != NULL) {
        *ret_has_nul = escaped_nul;
    }
    *ret = json;
    return 0;
}

const cJSON *json_get(const cJSON *obj, const char *key)
{
    return cJSON_IsObject(obj) ? cJSON_GetObjectItemCaseSensitive(obj, key) : NULL;
}

const char *json_get_str(const cJSON *obj, const char *key)
{
    const cJSON *item = json_get(obj, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool json_is_int(const cJSON *item)
{
    return cJSON_IsNumber(item) && fabs(item->valuedouble) <= 9007199254740991.0 &&
           (double)(long long)item->valuedouble == item->valuedouble;
}
