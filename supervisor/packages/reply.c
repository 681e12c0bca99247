/*
 * A line is accepted as a whole or not at all: an invalid name, an invalid version or a line
 * without an end is a mistake or an attack, and tells us nothing.
 */
#include "supervisor/packages/reply.h"

#include <string.h>

#include "supervisor/packages/names.h"

/* Takes the next whole line from *rest. */
static bool next_line(struct view *rest, struct view *ret)
{
    const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    if (end == NULL) {
        return false;
    }
    *ret = view_bytes(rest->data, (size_t)(end - rest->data));
    rest->len -= ret->len + 1;
    rest->data = end + 1;
    return true;
}

/* Takes the next word, up to a space, from *line. */
static struct view next_reply_word(struct view *line)
{
    const char *space = line->len > 0 ? memchr(line->data, ' ', line->len) : NULL;
    size_t n = space != NULL ? (size_t)(space - line->data) : line->len;
    struct view word = view_bytes(line->data, n);
    size_t used = space != NULL ? n + 1 : n;
    line->data += used;
    line->len -= used;
    return word;
}

bool package_reply_next(enum package_manager manager, struct view *rest, struct package_line *ret)
{
    struct view line;
    while (next_line(rest, &line)) {
        if (line.len > PACKAGE_REPLY_LINE_MAX || !view_is(next_reply_word(&line), "+")) {
            continue;
        }
        struct package_line found;
        found.name = next_reply_word(&line);
        found.version = next_reply_word(&line);
        if (line.len == 0 && package_is_name(manager, found.name) &&
            package_is_version(found.version)) {
            *ret = found;
            return true;
        }
    }
    return false;
}

bool package_reply_find(enum package_manager manager, struct view text, struct view name,
                        struct view *ret_version)
{
    char wanted[PACKAGE_NAME_SIZE];
    char other[PACKAGE_NAME_SIZE];
    struct package_line line;
    bool found = false;
    if (!package_name_normal(manager, name, wanted)) {
        return false;
    }
    while (package_reply_next(manager, &text, &line)) { /* the last line counts */
        if (package_name_normal(manager, line.name, other) && strcmp(wanted, other) == 0) {
            *ret_version = line.version;
            found = true;
        }
    }
    return found;
}

bool package_reply_failure(struct view text, struct view *ret_kind, struct view *ret_words)
{
    struct view line;
    while (next_line(&text, &line)) {
        if (line.len <= PACKAGE_REPLY_LINE_MAX && view_is(next_reply_word(&line), "!")) {
            *ret_kind = next_reply_word(&line);
            *ret_words = line;
            return true;
        }
    }
    return false;
}
