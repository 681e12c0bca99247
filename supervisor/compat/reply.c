/*
 * JSON as Python's json module prints it. cJSON prints other separators and escapes, and users of
 * these servers compare texts, so values are printed here and cJSON only holds them.
 *
 * All values are our own: our code bounds their depth, and their strings are UTF-8.
 */
#include "supervisor/compat/reply.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/tools/tool.h"

/* Callers bound the growth by escapes with their budgets. */
#define WRITTEN_MAX_BYTES (16u << 20)
#define NUMBER_SIZE       32
#define FIRST_ASTRAL      0x10000u
#define REPLACEMENT       0xfffdu /* replaces invalid UTF-8 */
#define REPLACEMENT_BYTES 3

/* Cost of a character of a JSON text inside a JSON string. */
#define COST_QUOTED 4 /* \\\" */
#define COST_SHORT  3 /* \\n */
#define COST_UNIT   7 /* \\u00e9 */

static void add_bytes(struct buf *out, const char *text, size_t len)
{
    err_ignore(buf_add(out, text, len, NULL));
}

/* Decodes one character of valid UTF-8; returns its length. */
static size_t decode_utf8(const unsigned char *p, uint32_t *ret)
{
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *ret = (uint32_t)(p[0] & 0x1f) << 6 | (uint32_t)(p[1] & 0x3f);
        return 2;
    }
    if (p[0] < 0xf0) {
        *ret =
            (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (uint32_t)(p[2] & 0x3f);
        return 3;
    }
    *ret = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
           (uint32_t)(p[2] & 0x3f) << 6 | (uint32_t)(p[3] & 0x3f);
    return 4;
}

/* The letter of a two-character escape, or 0. */
static char short_escape(uint32_t c)
{
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

static bool is_plain_character(enum reply_style style, uint32_t c)
{
    return style == REPLY_DUMPS ? c >= ' ' && c < 0x7f : c >= ' ';
}

static void add_units(struct buf *out, uint32_t c)
{
    if (c < FIRST_ASTRAL) {
        text_printf(out, "\\u%04x", c);
    } else {
        c -= FIRST_ASTRAL;
        text_printf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    }
}

static void write_string(struct buf *out, enum reply_style style, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    add_bytes(out, "\"", 1);
    while (*p != '\0') {
        uint32_t c;
        size_t n = decode_utf8(p, &c);
        char letter = short_escape(c);
        if (letter != 0) {
            add_bytes(out, (const char[]){'\\', letter}, 2);
        } else if (is_plain_character(style, c)) {
            add_bytes(out, (const char *)p, n);
        } else {
            add_units(out, c);
        }
        p += n;
    }
    add_bytes(out, "\"", 1);
}

static void write_number(struct buf *out, double value)
{
    char text[NUMBER_SIZE];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break; /* the shortest text that is exact */
        }
    }
    add_bytes(out, text, strlen(text));
}

static void new_line(struct buf *out, int depth)
{
    text_printf(out, "\n%*s", 2 * depth, "");
}

static void write_value(struct buf *out, enum reply_style style, const cJSON *value, int depth);

static void write_members(struct buf *out, enum reply_style style, const cJSON *value, int depth)
{
    bool indented = style == REPLY_INDENTED;
    bool named = cJSON_IsObject(value);
    add_bytes(out, named ? "{" : "[", 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        if (item != value->child) {
            add_bytes(out, indented ? "," : ", ", indented ? 1 : 2);
        }
        if (indented) {
            new_line(out, depth + 1);
        }
        if (named) {
            write_string(out, style, item->string);
            add_bytes(out, ": ", 2);
        }
        write_value(out, style, item, depth + 1);
    }
    if (indented && value->child != NULL) {
        new_line(out, depth);
    }
    add_bytes(out, named ? "}" : "]", 1);
}

static void write_value(struct buf *out, enum reply_style style, const cJSON *value, int depth)
{
    if (cJSON_IsString(value)) {
        write_string(out, style, value->valuestring);
    } else if (cJSON_IsRaw(value)) {
        add_bytes(out, value->valuestring, strlen(value->valuestring));
    } else if (cJSON_IsNumber(value)) {
        write_number(out, value->valuedouble);
    } else if (cJSON_IsObject(value) || cJSON_IsArray(value)) {
        write_members(out, style, value, depth);
    } else {
        const char *word = cJSON_IsTrue(value) ? "true" : cJSON_IsFalse(value) ? "false" : "null";
        add_bytes(out, word, strlen(word));
    }
}

void reply_write(struct buf *out, enum reply_style style, const cJSON *value)
{
    write_value(out, style, value, 0);
}

cJSON *reply_float(double value)
{
    if (!isfinite(value) || value != floor(value) || fabs(value) >= 1e15) {
        return cJSON_CreateNumber(value);
    }
    char text[NUMBER_SIZE];
    snprintf(text, sizeof(text), "%.1f", value);
    return cJSON_CreateRaw(text);
}

static size_t character_cost(enum reply_style style, uint32_t c, size_t len)
{
    if (c == '"' || c == '\\') {
        return COST_QUOTED;
    }
    if (short_escape(c) != 0) {
        return COST_SHORT;
    }
    if (is_plain_character(style, c)) {
        return len;
    }
    return c < FIRST_ASTRAL ? COST_UNIT : 2 * COST_UNIT;
}

/* The cost of the next step as utf8_add_lossy() writes it. */
static size_t step_character(enum reply_style style, struct text_walk *w)
{
    size_t at = w->at;
    if (text_step(w) == 0) {
        return character_cost(style, REPLACEMENT, REPLACEMENT_BYTES);
    }
    uint32_t c;
    size_t n = decode_utf8((const unsigned char *)w->v.data + at, &c);
    return character_cost(style, c, n);
}

static size_t whole_cost(enum reply_style style, struct view v)
{
    struct text_walk w = {.v = v};
    size_t cost = 0;
    while (w.at < v.len) {
        cost += step_character(style, &w);
    }
    return cost;
}

/* Number of first bytes that cost at most max_cost. */
static size_t fit_begin(enum reply_style style, struct view v, size_t max_cost)
{
    struct text_walk w = {.v = v};
    size_t cost = 0;
    while (w.at < v.len) {
        size_t at = w.at;
        cost += step_character(style, &w);
        if (cost > max_cost) {
            return at;
        }
    }
    return v.len;
}

/* Offset from which the rest costs at most max_cost. */
static size_t fit_end(enum reply_style style, struct view v, size_t max_cost)
{
    struct text_walk w = {.v = v};
    size_t cost = whole_cost(style, v);
    while (cost > max_cost) {
        cost -= step_character(style, &w);
    }
    return w.at;
}

cJSON *reply_beginning(enum reply_style style, struct view bytes, uint64_t total, size_t max_cost)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, WRITTEN_MAX_BYTES);
    size_t taken = text_add(&text, bytes, max_cost, bytes.len < total);
    size_t shown = fit_begin(style, view_bytes(text.data, text.len), max_cost);
    if (shown < text.len || taken < total) {
        text.len = shown;
        text_printf(&text, "\n... [cut: %" PRIu64 " bytes in all]", total);
    }
    return cJSON_CreateString(text_cstr(&text));
}

cJSON *reply_bytes(enum reply_style style, struct view bytes, size_t max_cost)
{
    return reply_beginning(style, bytes, bytes.len, max_cost);
}

static void add_lossy(struct buf *out, struct view v)
{
    err_ignore(utf8_add_lossy(out, v.data, v.len, NULL));
}

cJSON *reply_stream(enum reply_style style, struct view head, struct view tail, uint64_t total,
                    size_t max_cost)
{
    CLEANUP_BUF struct buf kept;
    CLEANUP_BUF struct buf text;
    buf_init(&kept, WRITTEN_MAX_BYTES);
    buf_init(&text, WRITTEN_MAX_BYTES);
    if (total <= head.len + tail.len) { /* head and tail are contiguous */
        err_ignore(buf_add(&kept, head.data, head.len, NULL));
        err_ignore(buf_add(&kept, tail.data, tail.len, NULL));
        head = tail = view_bytes(kept.data, kept.len);
        if (whole_cost(style, head) <= max_cost) {
            add_lossy(&text, head);
            return cJSON_CreateString(text_cstr(&text));
        }
    } else {
        head.len = text_whole_chars(head);
    }
    size_t first = fit_begin(style, head, max_cost / 3 * 2);
    size_t from = fit_end(style, tail, max_cost / 3);
    add_lossy(&text, view_bytes(head.data, first));
    text_printf(&text, "\n... [%" PRIu64 " bytes left out] ...\n",
                total - first - (tail.len - from));
    if (from < tail.len) {
        add_lossy(&text, view_bytes(tail.data + from, tail.len - from));
    }
    return cJSON_CreateString(text_cstr(&text));
}

void reply_set_text(struct result *r, const char *text)
{
    result_init(r);
    cJSON_Delete(r->structured);
    r->structured = NULL;
    result_add_text(r, text);
}

void reply_set_json(struct result *r, enum reply_style style, cJSON *owned_value)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, WRITTEN_MAX_BYTES);
    reply_write(&text, style, owned_value);
    cJSON_Delete(owned_value);
    reply_set_text(r, text_cstr(&text));
}

void reply_text(struct tool_call *call, const char *text)
{
    struct result r;
    reply_set_text(&r, text);
    tool_finish(call, &r);
}

void reply_json(struct tool_call *call, enum reply_style style, cJSON *owned_value)
{
    struct result r;
    reply_set_json(&r, style, owned_value);
    tool_finish(call, &r);
}
