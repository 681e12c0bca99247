/*
 * Version 00 is VERSION-TRACE-SPAN-FLAGS, all in lower-case hexadecimal; ids that are all zero mean
 * nothing. A later version may have more behind a further dash, and is read as far as it is known.
 */
#include "supervisor/traces/traceparent.h"

#include <string.h>

#define VERSION_CHARS 2
#define FLAGS_CHARS   2

/* Reads `chars` digits at *at, and moves it behind them. */
static bool read_digits_of(const char **at, size_t chars, char *out)
{
    if (strspn(*at, "0123456789abcdef") < chars) {
        return false;
    }
    memcpy(out, *at, chars);
    out[chars] = '\0';
    *at += chars;
    return true;
}

static bool read_dash(const char **at)
{
    bool there = **at == '-';
    *at += there;
    return there;
}

static bool is_zero(const char *digits)
{
    return digits[strspn(digits, "0")] == '\0';
}

bool traceparent_read(const char *text, struct traceparent *ret)
{
    char version[VERSION_CHARS + 1];
    char flags[FLAGS_CHARS + 1];
    struct traceparent p;
    const char *at = text;
    if (at == NULL || !read_digits_of(&at, VERSION_CHARS, version) || !read_dash(&at) ||
        !read_digits_of(&at, TRACE_ID_CHARS, p.trace_id) || !read_dash(&at) ||
        !read_digits_of(&at, SPAN_ID_CHARS, p.span_id) || !read_dash(&at) ||
        !read_digits_of(&at, FLAGS_CHARS, flags)) {
        return false;
    }
    bool known = strcmp(version, "00") == 0;
    if (strcmp(version, "ff") == 0 || (*at != '\0' && (known || *at != '-')) ||
        is_zero(p.trace_id) || is_zero(p.span_id)) {
        return false;
    }
    p.sampled = strchr("13579bdf", flags[FLAGS_CHARS - 1]) != NULL;
    *ret = p;
    return true;
}
