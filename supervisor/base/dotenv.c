/*
 * Only what a line can say: no value over several lines, no escapes, no variables in values. A line
 * that is no setting is passed over, as python-dotenv does.
 */
#include "supervisor/base/dotenv.h"

#include <stdio.h>
#include <string.h>

static bool is_line_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct view trim_blanks(struct view v)
{
    while (v.len > 0 && is_line_blank(v.data[0])) {
        v = view_bytes(v.data + 1, v.len - 1);
    }
    while (v.len > 0 && is_line_blank(v.data[v.len - 1])) {
        v.len--;
    }
    return v;
}

static struct view skip_bytes(struct view v, size_t n)
{
    return view_bytes(v.data + n, v.len - n);
}

/* The value of a line, if it sets this name. */
static bool take_value(struct view line, const char *name, struct view *ret)
{
    static const char export[] = "export";
    size_t len = strlen(name);
    struct view v = trim_blanks(line);
    if (v.len > strlen(export) && memcmp(v.data, export, strlen(export)) == 0 &&
        is_line_blank(v.data[strlen(export)])) {
        v = trim_blanks(skip_bytes(v, strlen(export)));
    }
    if (v.len <= len || memcmp(v.data, name, len) != 0) {
        return false;
    }
    v = trim_blanks(skip_bytes(v, len));
    if (v.len == 0 || v.data[0] != '=') {
        return false;
    }
    *ret = trim_blanks(skip_bytes(v, 1));
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
        if (v.data[i] == '#' && (i == 0 || is_line_blank(v.data[i - 1]))) {
            return trim_blanks(view_bytes(v.data, i));
        }
    }
    return v;
}

bool dotenv_find(struct view text, const char *name, char ret[DOTENV_VALUE_SIZE])
{
    struct view last = view_bytes("", 0);
    bool found = false;
    while (text.len > 0) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
        struct view value;
        if (take_value(view_bytes(text.data, len), name, &value)) {
            last = unquoted(value);
            found = last.len < DOTENV_VALUE_SIZE && memchr(last.data, '\0', last.len) == NULL;
        }
        text = skip_bytes(text, len + (end != NULL ? 1 : 0));
    }
    if (found) {
        snprintf(ret, DOTENV_VALUE_SIZE, "%.*s", VIEW_ARG(last));
    }
    return found;
}
