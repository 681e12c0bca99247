/*
 * The cost of a character in JSON is known from its first byte: two for the short escapes, six for
 * other control characters, its own length for the rest, and three for U+FFFD in place of anything
 * that is not UTF-8.
 *
 * Buffers given to text_add() and text_printf() are sized by their owners for the budgets they
 * pass, so running out here means a wrong sum in our code or no memory; both end the process.
 */
#include "supervisor/text.h"

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

static size_t cost_of(unsigned char c)
{
    switch (c) {
    case '\0':
        return COST_REPLACEMENT;
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

size_t text_fit(struct view v, size_t max_cost)
{
    if (v.len <= max_cost / COST_WORST) {
        return v.len;
    }
    size_t cost = 0;
    size_t i = 0;
    while (i < v.len) {
        size_t end = i + utf8_valid_prefix(v.data + i, v.len - i);
        while (i < end) {
            size_t n = char_len((unsigned char)v.data[i]);
            size_t c = n > 1 ? n : cost_of((unsigned char)v.data[i]);
            if (cost + c > max_cost) {
                return i;
            }
            cost += c;
            i += n;
        }
        if (i < v.len) {
            if (cost + COST_REPLACEMENT > max_cost) {
                return i;
            }
            cost += COST_REPLACEMENT;
            i++;
        }
    }
    return v.len;
}

size_t text_whole_chars(struct view v)
{
    /* Only the last three bytes can be the beginning of something longer. */
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
        return more ? start : at;
    }
    return utf8_valid_prefix(v.data + start, n) == n ? start : at;
}

size_t text_add(struct buf *out, struct view v, size_t max_cost, bool more)
{
    size_t fit = text_fit(v, max_cost);
    if (fit == v.len && more) {
        fit = text_whole_chars(v);
    }
    int rc = utf8_add_lossy(out, v.data, fit, NULL);
    assert(rc == 0);
    return fit;
}

void text_printf(struct buf *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *line = NULL;
    int n = vasprintf(&line, fmt, args);
    va_end(args);
    assert(n >= 0);
    int rc = buf_add(out, line, (size_t)n, NULL);
    assert(rc == 0);
    free(line);
}

const char *text_cstr(struct buf *b)
{
    const char *text = buf_cstr(b);
    return text != NULL ? text : "";
}
