/*
 * A borrowed run of bytes, not NUL-terminated. The header of the function that returns one says how
 * long it is valid.
 */
#ifndef CLOISTER_COMMON_VIEW_H
#define CLOISTER_COMMON_VIEW_H

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

static inline bool view_is(struct view v, const char *text)
{
    size_t n = strlen(text);
    return v.len == n && (n == 0 || memcmp(v.data, text, n) == 0);
}

#endif
