/*
 * A fence is removed only if it encloses all of the code and is the only one. Code is a session if
 * its first line has a prompt; then lines without a prompt are output, and are removed. If the
 * first line of Python code is indented, which is a syntax error, its indentation is removed from
 * every line, provided that every line has it.
 *
 * All other code, which is nearly all, is returned without a copy.
 */
#include "supervisor/tools/cell.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define FENCE  "```"
#define PROMPT ">>>"
#define MORE   "..."

static bool begins(struct view v, const char *with)
{
    size_t len = strlen(with);
    return v.len >= len && memcmp(v.data, with, len) == 0;
}

/* "```python": a fence with at most one word after it. */
static bool opens_fence(struct view line)
{
    line = view_trimmed(line);
    for (size_t i = strlen(FENCE); i < line.len; i++) {
        if (isspace((unsigned char)line.data[i]) || line.data[i] == '`') {
            return false;
        }
    }
    return begins(line, FENCE);
}

static struct view without_fence(struct view code)
{
    struct view rest = view_trimmed(code);
    if (!begins(rest, FENCE) || !opens_fence(view_take_line(&rest))) {
        return code;
    }
    const struct view inside = rest;
    while (rest.len > 0) {
        struct view line = view_take_line(&rest);
        if (begins(view_trimmed(line), FENCE)) {
            bool closes = rest.len == 0 && view_trimmed(line).len == strlen(FENCE);
            return closes ? view_bytes(inside.data, (size_t)(line.data - inside.data)) : code;
        }
    }
    return code;
}

/* Returns the first line that is not blank. */
static struct view first_line(struct view code)
{
    struct view line = view_bytes(code.data, 0);
    while (code.len > 0 && view_trimmed(line).len == 0) {
        line = view_take_line(&code);
    }
    return line;
}

/* Whether the line has the prompt, alone or followed by a blank, as Python prints it. */
static bool has_prompt(struct view line, const char *prompt)
{
    size_t len = strlen(prompt);
    return begins(line, prompt) && (view_trimmed(line).len == len || line.data[len] == ' ');
}

static void add(struct buf *out, struct view line)
{
    err_ignore(buf_add(out, line.data, line.len, NULL)); /* there is room for all of the code */
    err_ignore(buf_add(out, "\n", 1, NULL));
}

static struct view without_prompts(struct view code, size_t indent, struct buf *out)
{
    while (code.len > 0) {
        struct view line = view_take_line(&code);
        size_t blank = line.len < indent ? line.len : indent;
        line = view_bytes(line.data + blank, line.len - blank);
        if (has_prompt(line, PROMPT) || has_prompt(line, MORE)) {
            size_t skip = line.len > strlen(PROMPT) ? strlen(PROMPT) + 1 : line.len;
            add(out, view_bytes(line.data + skip, line.len - skip));
        }
    }
    return view_bytes(out->data, out->len);
}

/* The indentation of the first line if all other non-blank lines have it; else an empty view. */
static struct view common_indent(struct view code)
{
    struct view indent = first_line(code);
    size_t len = 0;
    while (len < indent.len && (indent.data[len] == ' ' || indent.data[len] == '\t')) {
        len++;
    }
    indent.len = len;
    while (len > 0 && code.len > 0) {
        struct view line = view_take_line(&code);
        bool has = line.len >= len && memcmp(line.data, indent.data, len) == 0;
        indent.len = has || view_trimmed(line).len == 0 ? indent.len : 0;
    }
    return indent;
}

static struct view without_indent(struct view code, size_t indent, struct buf *out)
{
    while (code.len > 0) {
        struct view line = view_take_line(&code);
        size_t skip = line.len < indent ? line.len : indent;
        add(out, view_bytes(line.data + skip, line.len - skip));
    }
    return view_bytes(out->data, out->len);
}

struct view cell_code(const char *language, struct view code, struct buf *room)
{
    buf_init(room, code.len + 1); /* one more byte for the last line's end */
    if (code.len == 0) {
        return code;
    }
    code = without_fence(code);
    if (language == NULL || strcmp(language, "python") != 0) {
        return code;
    }
    struct view line = first_line(code);
    struct view indent = common_indent(code);
    if (has_prompt(view_bytes(line.data + indent.len, line.len - indent.len), PROMPT)) {
        return without_prompts(code, indent.len, room);
    }
    return indent.len > 0 ? without_indent(code, indent.len, room) : code;
}
