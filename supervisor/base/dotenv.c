/*
 * Only what a line can say: no value over several lines, no escapes, no variables in values. A line
 * that is no setting is passed over, as python-dotenv does.
 */
#include "supervisor/base/dotenv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static struct view skip_bytes(struct view v, size_t n)
{
    return view_bytes(v.data + n, v.len - n);
}

/* The value of a line, if it sets this name. */
static bool take_value(struct view line, const char *name, struct view *ret)
{
    static const char export[] = "export";
    size_t len = strlen(name);
    struct view v = view_trimmed(line);
    if (v.len > strlen(export) && memcmp(v.data, export, strlen(export)) == 0 &&
        isspace((unsigned char)v.data[strlen(export)])) {
        v = view_trimmed(skip_bytes(v, strlen(export)));
    }
    if (v.len <= len || memcmp(v.data, name, len) != 0) {
        return false;
    }
    v = view_trimmed(skip_bytes(v, len));
    if (v.len == 0 || v.data[0] != '=') {
        return false;
    }
    *ret = view_trimmed(skip_bytes(v, 1));
    return true;
}

/* Without its quotes, or without the comment behind it. */
static struct view unquoted(struct view v)
{
    char quote = v.len > 0 ? v.data[0] : '\0';
    if (quote == '"' || quote == '\'') {
        const char *end = memchr(v.data + 1, quote, v.len - 1);
        return end != NULL ? view_bytes(v.data + 1, (size_t)(end - v.data) - 1) : v;
    }
    for (size_t i = 0; i < v.len; i++) {
        if (v.data[i] == '#' && (i == 0 || isspace((unsigned char)v.data[i - 1]))) {
            return view_trimmed(view_bytes(v.data, i));
        }
    }
    return v;
}

bool dotenv_find(struct view text, const char *name, char ret[DOTENV_VALUE_SIZE])
{
    struct view last = view_bytes("", 0);
    bool found = false;
    while (text.len > 0) {
        struct view value;
        if (take_value(view_take_line(&text), name, &value)) {
            last = unquoted(value);
            found = last.len < DOTENV_VALUE_SIZE && memchr(last.data, '\0', last.len) == NULL;
        }
    }
    if (found) {
        snprintf(ret, DOTENV_VALUE_SIZE, "%.*s", VIEW_ARG(last));
    }
    return found;
}
