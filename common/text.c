/*
 * The first byte of a character gives its cost in JSON: two for the short escapes, six for other
 * control characters, its own length for the rest, and three for the U+FFFD that replaces invalid
 * UTF-8.
 *
 * The owners of the buffers given to text_add() and text_printf() size them for their budgets, so a
 * text that does not fit is a bug. One that finds no memory ends the process, as in alloc.h.
 */
#include "common/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"

#define COST_REPLACEMENT 3
#define COST_WORST       6

static size_t char_cost(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '\b':
    case '\f':
    case '\n':
    case '\r':
    case '\t':
        return 2;
    default:
        return c < 0x20 ? COST_WORST : 1;
    }
}

static size_t char_len(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t text_step(struct text_walk *w)
{
    if (w->at >= w->good_to) {
        w->good_to = w->at + utf8_valid_prefix(w->v.data + w->at, w->v.len - w->at);
    }
    unsigned char first = (unsigned char)w->v.data[w->at];
    bool good = w->at < w->good_to && first != '\0';
    size_t n = good ? char_len(first) : 0;
    w->at += good ? n : 1;
    return n;
}

/* A character that json_print() escapes, since it is a line end to some programs. */
static bool is_line_end(const char *c, size_t n)
{
    return (n == 2 && memcmp(c, "\xc2\x85", 2) == 0) ||
           (n == 3 && (memcmp(c, "\xe2\x80\xa8", 3) == 0 || memcmp(c, "\xe2\x80\xa9", 3) == 0));
}

/* The cost of the next step. */
static size_t step_text(struct text_walk *w)
{
    size_t at = w->at;
    size_t n = text_step(w);
    if (n > 1 && is_line_end(w->v.data + at, n)) {
        return COST_WORST;
    }
    return n == 1 ? char_cost((unsigned char)w->v.data[at]) : n > 1 ? n : COST_REPLACEMENT;
}

size_t text_fit(struct view v, size_t max_cost)
{
    if (v.len <= max_cost / COST_WORST) {
        return v.len;
    }
    struct text_walk w = {.v = v};
    size_t cost = 0;
    while (w.at < v.len) {
        size_t at = w.at;
        cost += step_text(&w);
        if (cost > max_cost) {
            return at;
        }
    }
    return v.len;
}

size_t text_cost(struct view v)
{
    struct text_walk w = {.v = v};
    size_t cost = 0;
    while (w.at < v.len) {
        cost += step_text(&w);
    }
    return cost;
}

size_t text_fit_end(struct view v, size_t max_cost)
{
    /* every byte costs at least one, so more cannot fit */
    size_t begin = v.len > max_cost ? v.len - max_cost : 0;
    if (begin > 0) {
        size_t start = text_char_start(v, begin, false);
        begin = start < begin ? start + char_len((unsigned char)v.data[start]) : begin;
    }
    struct text_walk w = {.v = v, .at = begin, .good_to = begin};
    size_t cost = text_cost(view_bytes(v.data + begin, v.len - begin));
    while (cost > max_cost) {
        cost -= step_text(&w);
    }
    return w.at;
}

size_t text_whole_chars(struct view v)
{
    /* only the last three bytes can begin a character that is cut off */
    for (size_t back = 1; back <= 3 && back <= v.len; back++) {
        unsigned char c = (unsigned char)v.data[v.len - back];
        if ((c & 0xc0) == 0x80) {
            continue;
        }
        return c >= 0xc2 && c <= 0xf4 && char_len(c) > back ? v.len - back : v.len;
    }
    return v.len;
}

size_t text_char_start(struct view v, size_t at, bool more)
{
    size_t start = text_whole_chars(view_bytes(v.data, at));
    size_t n = start < at ? char_len((unsigned char)v.data[start]) : 0;
    if (n == 0) {
        return at;
    }
    if (start + n > v.len) {
        return more && text_whole_chars(v) == start ? start : at;
    }
    return utf8_valid_prefix(v.data + start, n) == n ? start : at;
}

static void must_have_fitted(int rc)
{
    if (rc == -ERR_NO_MEMORY) {
        alloc_check(NULL);
    }
    assert(rc == 0);
}

size_t text_add(struct buf *out, struct view v, size_t max_cost, bool more)
{
    size_t fit = text_fit(v, max_cost);
    if (fit == v.len && more) {
        fit = text_whole_chars(v);
    }
    must_have_fitted(utf8_add_lossy(out, v.data, fit, NULL));
    return fit;
}

/* The offset after the bytes from `at` on that are in this range. */
static size_t skip_range(struct view v, size_t at, unsigned char first, unsigned char last)
{
    while (at < v.len && (unsigned char)v.data[at] >= first && (unsigned char)v.data[at] <= last) {
        at++;
    }
    return at;
}

/* The offset after the text of a command that BEL or ESC \ ends; 0 if another ESC or control
 * character comes first. So no byte is read for two sequences. */
static size_t skip_command(struct view v, size_t at)
{
    while (at < v.len && (unsigned char)v.data[at] >= ' ') {
        at++;
    }
    if (at < v.len && v.data[at] == '\a') {
        return at + 1;
    }
    return at + 1 < v.len && v.data[at] == '\033' && v.data[at + 1] == '\\' ? at + 2 : 0;
}

/* The offset after the escape sequence whose ESC is at `at`; at + 1 if it is none. */
static size_t skip_escape(struct view v, size_t at)
{
    size_t next = at + 1;
    size_t end = 0;
    if (next == v.len) {
        return next;
    }
    if (v.data[next] == '[') { /* parameters, intermediates, one final byte */
        end = skip_range(v, skip_range(v, next + 1, 0x30, 0x3f), 0x20, 0x2f);
        return end < v.len && v.data[end] >= 0x40 && v.data[end] <= 0x7e ? end + 1 : next;
    }
    if (strchr("]PX^_", v.data[next]) != NULL && v.data[next] != '\0') {
        end = skip_command(v, next + 1);
        return end > 0 ? end : next;
    }
    end = skip_range(v, next, 0x20, 0x2f);
    return end < v.len && v.data[end] >= 0x30 && v.data[end] <= 0x7e ? end + 1 : next;
}

void text_strip_escapes(struct buf *b)
{
    struct view v = view_bytes(b->data, b->len);
    size_t to = 0;
    for (size_t at = 0; at < v.len;) {
        if (v.data[at] == '\033') {
            at = skip_escape(v, at);
        } else {
            b->data[to++] = b->data[at++];
        }
    }
    b->len = to;
}

void text_printf(struct buf *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *line = NULL;
    int n = vasprintf(&line, fmt, args);
    va_end(args);
    alloc_check(n >= 0 ? line : NULL);
    must_have_fitted(buf_add(out, line, (size_t)n, NULL));
    free(line);
}

const char *text_cstr(struct buf *b)
{
    return buf_cstr(b) != NULL ? (const char *)b->data : alloc_check(NULL);
}
