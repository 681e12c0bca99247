/*
 * Checks JSON before cJSON parses it. cJSON recurses as deep as the text is nested, stops at a NUL
 * byte, accepts invalid UTF-8, decodes \u0000 into the end of a C string, uses 64 bytes for two
 * bytes of input in a list of digits, and fails at half a surrogate pair, as if it were no JSON.
 * One pass over the text finds all six before parsing.
 *
 * Half a pair is what is left where a program cut a text of JavaScript or Python in the middle of a
 * character. It is no character, and UTF-8 cannot hold it, so U+FFFD takes its place, which most
 * decoders and every browser put there.
 *
 * cJSON reports a lack of memory as a fault of the text. So it allocates through a hook that notes
 * the difference. While it parses, every allocation may fail, because the text is from outside.
 * Otherwise small blocks are nodes that we add, which callers do not check: they succeed or end the
 * process. Large ones are texts from outside that are copied or printed: callers get NULL.
 */
#include "common/io/json.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
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

/* ---- escapes -------------------------------------------------------------------------------- */

#define ESCAPE_LEN  6 /* of \uXXXX */
#define NO_UNIT     UINT_MAX
#define HALF_MENDED "\\ufffd"

/* The UTF-16 unit of the escape \uXXXX that begins here; NO_UNIT if none does. */
static unsigned escaped_unit(const char *text, size_t len, size_t at)
{
    if (len - at < ESCAPE_LEN || text[at] != '\\' || text[at + 1] != 'u') {
        return NO_UNIT;
    }
    unsigned unit = 0;
    for (size_t i = at + 2; i < at + ESCAPE_LEN; i++) {
        int digit = str_hex_value(text[i]);
        if (digit < 0) {
            return NO_UNIT;
        }
        unit = unit << 4 | (unsigned)digit;
    }
    return unit;
}

static bool is_high(unsigned unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(unsigned unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* Length of the escape that begins with this backslash, where a pair of surrogates is one. Sets
 * *ret_half if it is half a pair. */
static size_t escape_len(const char *text, size_t len, size_t at, unsigned *ret_unit,
                         bool *ret_half)
{
    unsigned unit = *ret_unit = escaped_unit(text, len, at);
    bool pair = is_high(unit) && is_low(escaped_unit(text, len, at + ESCAPE_LEN));
    *ret_half = is_low(unit) || (is_high(unit) && !pair);
    return unit == NO_UNIT ? 2 : pair ? 2 * ESCAPE_LEN : ESCAPE_LEN;
}

/* Replaces halves of surrogate pairs, from the first one on; nothing becomes longer. There are no
 * backslashes outside of strings, or the text is no JSON. */
static void mend_halves(char *text, size_t len, size_t first)
{
    for (size_t i = first; i < len;) {
        unsigned unit;
        bool half = false;
        size_t step = text[i] == '\\' ? escape_len(text, len, i, &unit, &half) : 1;
        if (half) {
            memcpy(text + i, HALF_MENDED, ESCAPE_LEN);
        }
        i += step;
    }
}

/* ---- the pass before ------------------------------------------------------------------------- */

struct scanned {
    bool nul;       /* \u0000 occurs */
    bool half;      /* half a surrogate pair occurs, */
    size_t half_at; /* here for the first time */
};

/* Checks depth and number of values, and finds escapes that cJSON does not take; cJSON checks the
 * syntax. */
static int scan(const char *text, size_t len, int max_depth, struct scanned *ret, struct err *err)
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
                unsigned unit;
                bool half;
                size_t step = escape_len(text, len, i, &unit, &half);
                ret->nul = ret->nul || unit == 0;
                if (half && !ret->half) {
                    ret->half = true;
                    ret->half_at = i;
                }
                i += step - 1;
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

/* ---- parsing -------------------------------------------------------------------------------- */

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
    struct scanned found = {.nul = false};
    int rc = scan(text, len, max_depth, &found, err);
    if (rc < 0) {
        return rc;
    }
    if (found.nul && ret_has_nul == NULL) {
        return err_set(err, ERR_INVALID, "the character \\u0000 is not supported");
    }
    CLEANUP_FREE char *mended = NULL;
    if (found.half) {
        mended = malloc(len);
        if (mended == NULL) {
            return err_set(err, ERR_NO_MEMORY, "no memory for JSON text of %zu bytes", len);
        }
        memcpy(mended, text, len);
        mend_halves(mended, len, found.half_at);
        text = mended;
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
        *ret_has_nul = found.nul;
    }
    *ret = json;
    return 0;
}

/* ---- printing ------------------------------------------------------------------------------- */

#define PRINT_FIRST_BYTES 2048 /* most texts fit, so most print without growing */

/* The escape of the line end that begins here, and its length; NULL if none does. */
static const char *line_end_escape(const char *text, size_t *ret_len)
{
    static const struct {
        const char *text, *escape;
    } ends[] = {
        {"\xc2\x85", "\\u0085"},
        {"\xe2\x80\xa8", "\\u2028"},
        {"\xe2\x80\xa9", "\\u2029"},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        *ret_len = strlen(ends[i].text);
        if (strncmp(text, ends[i].text, *ret_len) == 0) {
            return ends[i].escape;
        }
    }
    return NULL;
}

/* The next character that may be a line end, or the end of the text. */
static const char *line_end_candidate(const char *text)
{
    return text + strcspn(text, "\xc2\xe2");
}

/* These characters occur in strings only, where their escapes mean the same. Takes ownership. */
static char *escape_line_ends(char *text)
{
    size_t found = 0;
    size_t len;
    for (const char *p = line_end_candidate(text); *p != '\0'; p = line_end_candidate(p + 1)) {
        found += line_end_escape(p, &len) != NULL;
    }
    if (found == 0) {
        return text;
    }
    char *escaped = malloc(strlen(text) + found * ESCAPE_LEN + 1);
    char *to = escaped;
    for (const char *p = text; escaped != NULL && *p != '\0';) {
        const char *escape = line_end_escape(p, &len);
        if (escape != NULL) {
            memcpy(to, escape, ESCAPE_LEN);
            to += ESCAPE_LEN;
            p += len;
        } else {
            *to++ = *p++;
        }
    }
    if (escaped != NULL) {
        *to = '\0';
    }
    free(text);
    return escaped;
}

char *json_print(const cJSON *json)
{
    char *text = cJSON_PrintBuffered(json, PRINT_FIRST_BYTES, false);
    return text != NULL ? escape_line_ends(text) : NULL;
}

/* ---- members -------------------------------------------------------------------------------- */

const cJSON *json_get(const cJSON *obj, const char *key)
{
    return cJSON_IsObject(obj) ? cJSON_GetObjectItemCaseSensitive(obj, key) : NULL;
}

const cJSON *json_get_given(const cJSON *obj, const char *key)
{
    const cJSON *item = json_get(obj, key);
    return cJSON_IsNull(item) ? NULL : item;
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
