/*
 * Walks schema and value together. Schemas are parsed once, at the start, and searched by member
 * name. With a dozen fields that costs about a microsecond, and the published schema is exactly the
 * enforced one.
 *
 * An error names a field by its path ("env.PATH", "args[2]"), quotes it as JSON would, and repeats
 * only a little of what the client sent.
 */
#include "supervisor/tools/schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/io/json.h"

#define GOT_CHARS 40 /* of a wrong string that an error repeats */

/* The position in the arguments, innermost last; formatted only for an error. */
struct where {
    const struct where *outer;
    const char *name; /* NULL: an array item */
    int index;
};

struct phrase {
    char text[320];
    size_t len;
};

static void say_phrase(struct phrase *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say_phrase(struct phrase *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(p->text + p->len, sizeof(p->text) - p->len, fmt, args);
    va_end(args);
    size_t room = sizeof(p->text) - 1 - p->len;
    p->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

/* Appends a client's string, cut between characters and without control characters. */
static void say_quoted(struct phrase *p, const char *text)
{
    size_t used = 0;
    size_t chars = 0;
    while (text[used] != '\0' && chars < GOT_CHARS) {
        used++;
        while (((unsigned char)text[used] & 0xc0) == 0x80) {
            used++;
        }
        chars++;
    }
    say_phrase(p, "\"");
    for (size_t i = 0; i < used; i++) {
        unsigned char c = (unsigned char)text[i];
        say_phrase(p, c < 0x20 || c == 0x7f ? "\\x%02x" : "%c", c);
    }
    say_phrase(p, text[used] == '\0' ? "\"" : "...\"");
}

static void say_path(struct phrase *p, const struct where *w)
{
    if (w->outer == NULL) {
        return;
    }
    say_path(p, w->outer);
    if (w->name == NULL) {
        say_phrase(p, "[%d]", w->index);
    } else if (strlen(w->name) > GOT_CHARS || strpbrk(w->name, "\" \t\r\n\b\f") != NULL) {
        say_quoted(p, w->name);
    } else {
        say_phrase(p, "%s%s", w->outer->outer != NULL ? "." : "", w->name);
    }
}

static void say_got(struct phrase *p, const cJSON *value)
{
    if (cJSON_IsString(value)) {
        say_quoted(p, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        say_phrase(p, "%.16g", value->valuedouble);
    } else if (cJSON_IsBool(value)) {
        say_phrase(p, cJSON_IsTrue(value) ? "true" : "false");
    } else if (cJSON_IsNull(value)) {
        say_phrase(p, "null");
    } else {
        say_phrase(p, cJSON_IsArray(value) ? "an array" : "an object");
    }
}

static void say_range(struct phrase *p, const cJSON *min, const cJSON *max, const char *unit)
{
    if (min != NULL && max != NULL) {
        say_phrase(p, " %s %.16g and %.16g%s", unit[0] != '\0' ? "with between" : "between",
                   min->valuedouble, max->valuedouble, unit);
    } else if (min != NULL) {
        say_phrase(p, " %s %.16g%s", unit[0] != '\0' ? "with at least" : "of at least",
                   min->valuedouble, unit);
    } else if (max != NULL) {
        say_phrase(p, " %s %.16g%s", unit[0] != '\0' ? "with at most" : "of at most",
                   max->valuedouble, unit);
    }
}

static void say_string(struct phrase *p, const cJSON *schema)
{
    const cJSON *min = json_get(schema, "minLength");
    const cJSON *max = json_get(schema, "maxLength");
    if (min != NULL && max == NULL && min->valuedouble <= 1) {
        say_phrase(p, "a string that is not empty");
        return;
    }
    say_phrase(p, "a string");
    say_range(p, min, max, " characters");
}

static void say_expected(struct phrase *p, const cJSON *schema)
{
    const cJSON *choices = json_get(schema, "enum");
    const cJSON *types = json_get(schema, "type");
    const char *type = cJSON_GetStringValue(cJSON_IsArray(types) ? types->child : types);
    if (choices != NULL) {
        const cJSON *choice;
        say_phrase(p, "one of ");
        cJSON_ArrayForEach(choice, choices)
        {
            say_phrase(p, "%s\"%s\"", choice != choices->child ? ", " : "", choice->valuestring);
        }
    } else if (type == NULL) {
        say_phrase(p, "a value");
    } else if (strcmp(type, "string") == 0) {
        say_string(p, schema);
    } else if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0) {
        say_phrase(p, type[0] == 'i' ? "an integer" : "a number");
        say_range(p, json_get(schema, "minimum"), json_get(schema, "maximum"), "");
    } else if (strcmp(type, "boolean") == 0) {
        say_phrase(p, "true or false");
    } else if (strcmp(type, "array") == 0) {
        say_phrase(p, "an array");
        say_range(p, json_get(schema, "minItems"), json_get(schema, "maxItems"), " items");
    } else {
        say_phrase(p, "an object");
        say_range(p, NULL, json_get(schema, "maxProperties"), " members");
    }
}

static int wrong(const struct where *w, const cJSON *schema, const cJSON *value, struct err *err)
{
    struct phrase p = {.len = 0};
    if (w->outer == NULL) {
        say_phrase(&p, "arguments");
    }
    say_path(&p, w);
    say_phrase(&p, ": expected ");
    say_expected(&p, schema);
    say_phrase(&p, ", got ");
    say_got(&p, value);
    return err_set(err, ERR_INVALID, "%s", p.text);
}

static bool type_fits(const char *type, const cJSON *value)
{
    if (strcmp(type, "null") == 0) {
        return cJSON_IsNull(value);
    }
    switch (type[0]) {
    case 's':
        return cJSON_IsString(value);
    case 'i':
        return json_is_int(value);
    case 'n':
        return cJSON_IsNumber(value) && isfinite(value->valuedouble);
    case 'b':
        return cJSON_IsBool(value);
    case 'a':
        return cJSON_IsArray(value);
    default:
        return cJSON_IsObject(value);
    }
}

static bool in_range(const cJSON *schema, const char *min_key, const char *max_key, double n)
{
    const cJSON *min = json_get(schema, min_key);
    const cJSON *max = json_get(schema, max_key);
    return (min == NULL || n >= min->valuedouble) && (max == NULL || n <= max->valuedouble);
}

/* JSON Schema counts characters, not bytes. */
static size_t char_count(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static bool string_fits(const cJSON *schema, const char *text)
{
    const cJSON *choices = json_get(schema, "enum");
    if (choices != NULL) {
        const cJSON *choice;
        cJSON_ArrayForEach(choice, choices)
        {
            if (strcmp(choice->valuestring, text) == 0) {
                return true;
            }
        }
        return false;
    }
    if (json_get(schema, "minLength") == NULL && json_get(schema, "maxLength") == NULL) {
        return true; /* not counted: code may be megabytes */
    }
    return in_range(schema, "minLength", "maxLength", (double)char_count(text));
}

static int check_value(const struct where *w, const cJSON *schema, const cJSON *value,
                       struct err *err);

static int unknown_member(const struct where *w, const cJSON *schema, struct err *err)
{
    struct phrase p = {.len = 0};
    say_path(&p, w);
    const cJSON *properties = json_get(schema, "properties");
    if (properties == NULL || properties->child == NULL) {
        say_phrase(&p, ": unexpected, no arguments are taken");
        return err_set(err, ERR_INVALID, "%s", p.text);
    }
    say_phrase(&p, ": unknown argument, expected only ");
    const cJSON *property;
    cJSON_ArrayForEach(property, properties)
    {
        say_phrase(&p, "%s%s", property == properties->child ? "" : ", ", property->string);
    }
    return err_set(err, ERR_INVALID, "%s", p.text);
}

static int check_object(const struct where *w, const cJSON *schema, const cJSON *value,
                        struct err *err)
{
    const cJSON *properties = json_get(schema, "properties");
    const cJSON *others = json_get(schema, "additionalProperties");
    const cJSON *member;
    int count = 0;
    cJSON_ArrayForEach(member, value)
    {
        struct where inner = {w, member->string, 0};
        const cJSON *property = json_get(properties, member->string);
        count++;
        if (property == NULL && cJSON_IsFalse(others)) {
            return unknown_member(&inner, schema, err);
        }
        const cJSON *rule = property != NULL ? property : others;
        int rc = cJSON_IsObject(rule) ? check_value(&inner, rule, member, err) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    if (!in_range(schema, "minProperties", "maxProperties", count)) {
        return wrong(w, schema, value, err);
    }
    const cJSON *name;
    cJSON_ArrayForEach(name, json_get(schema, "required"))
    {
        if (json_get(value, name->valuestring) == NULL) {
            struct where inner = {w, name->valuestring, 0};
            struct phrase p = {.len = 0};
            say_path(&p, &inner);
            say_phrase(&p, ": required but missing, expected ");
            say_expected(&p, json_get(properties, name->valuestring));
            return err_set(err, ERR_INVALID, "%s", p.text);
        }
    }
    return 0;
}

static int check_array(const struct where *w, const cJSON *schema, const cJSON *value,
                       struct err *err)
{
    const cJSON *items = json_get(schema, "items");
    const cJSON *item;
    int index = 0;
    cJSON_ArrayForEach(item, value)
    {
        struct where inner = {w, NULL, index++};
        int rc = items != NULL ? check_value(&inner, items, item, err) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    return in_range(schema, "minItems", "maxItems", index) ? 0 : wrong(w, schema, value, err);
}

/* True if the value has one of the types; no type means any. */
static bool types_fit(const cJSON *types, const cJSON *value)
{
    const cJSON *type;
    if (!cJSON_IsArray(types)) {
        return types == NULL || type_fits(types->valuestring, value);
    }
    cJSON_ArrayForEach(type, types)
    {
        if (type_fits(type->valuestring, value)) {
            return true;
        }
    }
    return false;
}

static int check_value(const struct where *w, const cJSON *schema, const cJSON *value,
                       struct err *err)
{
    if (!types_fit(json_get(schema, "type"), value)) {
        return wrong(w, schema, value, err);
    }
    if (cJSON_IsString(value) && !string_fits(schema, value->valuestring)) {
        return wrong(w, schema, value, err);
    }
    if (cJSON_IsNumber(value) && !in_range(schema, "minimum", "maximum", value->valuedouble)) {
        return wrong(w, schema, value, err);
    }
    if (cJSON_IsObject(value)) {
        return check_object(w, schema, value, err);
    }
    return cJSON_IsArray(value) ? check_array(w, schema, value, err) : 0;
}

int schema_check(const cJSON *schema, const cJSON *value, struct err *err)
{
    struct where root = {NULL, NULL, 0};
    return check_value(&root, schema, value, err);
}

bool schema_is_understood(const cJSON *schema, const char **ret_keyword)
{
    static const char *const known[] = {
        "type",      "enum",     "minimum",     "maximum",       "minLength",
        "maxLength", "minItems", "maxItems",    "maxProperties", "minProperties",
        "required",  "title",    "description", "default",       "examples",
    };
    const cJSON *keyword;
    cJSON_ArrayForEach(keyword, schema)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !found; i++) {
            found = strcmp(keyword->string, known[i]) == 0;
        }
        if (strcmp(keyword->string, "properties") == 0) {
            const cJSON *property;
            cJSON_ArrayForEach(property, keyword)
            {
                if (!schema_is_understood(property, ret_keyword)) {
                    return false;
                }
            }
        } else if (strcmp(keyword->string, "items") == 0 ||
                   strcmp(keyword->string, "additionalProperties") == 0) {
            if (cJSON_IsObject(keyword) && !schema_is_understood(keyword, ret_keyword)) {
                return false;
            }
        } else if (!found) {
            *ret_keyword = keyword->string;
            return false;
        }
    }
    return true;
}
