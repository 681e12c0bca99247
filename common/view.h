/*
 * A borrowed run of bytes, not NUL-terminated. The header of the function that returns one says how
 * long it is valid.
 */
#ifndef CLOISTER_COMMON_VIEW_H
#define CLOISTER_COMMON_VIEW_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct view {
    const char *data; /* may be NULL when len is 0 */
    size_t len;
};

/* A borrowed list of borrowed runs. */
struct view_list {
    const struct view *items;
    size_t count;
};

/* For printf("%.*s", VIEW_ARG(v)). */
#define VIEW_ARG(v) (int)(v).len, (v).data != NULL ? (v).data : ""

static inline struct view view_of(const char *text)
{
    struct view v = {text, text != NULL ? strlen(text) : 0};
    return v;
}

static inline struct view view_bytes(const void *data, size_t len)
{
    struct view v = {data, len};
    return v;
}

static inline bool view_same(struct view a, struct view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool view_is(struct view v, const char *text)
{
    return view_same(v, view_of(text));
}

/* Whether *v ended with this text, which is cut off then. */
static inline bool view_cut_end(struct view *v, const char *end)
{
    size_t len = strlen(end);
    if (v->len < len || !view_is(view_bytes(v->data + v->len - len, len), end)) {
        return false;
    }
    v->len -= len;
    return true;
}

/* Without the white space around it. */
static inline struct view view_trimmed(struct view v)
{
    while (v.len > 0 && isspace((unsigned char)v.data[v.len - 1])) {
        v.len--;
    }
    while (v.len > 0 && isspace((unsigned char)v.data[0])) {
        v = view_bytes(v.data + 1, v.len - 1);
    }
    return v;
}

/* Takes the first line off *rest; the line end goes with it, and is not returned. */
static inline struct view view_take_line(struct view *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    struct view line = *rest;
    if (end != NULL) {
        line.len = (size_t)(end - rest->data);
        *rest = view_bytes(end + 1, rest->len - line.len - 1);
    } else {
        rest->len = 0;
    }
    return line;
}

#endif
