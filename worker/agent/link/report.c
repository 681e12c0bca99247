/*
 * A state machine that takes a head of nine bytes, then the payload, in pieces of any size. The
 * length is checked against the cap of its kind before any payload is kept, so a hostile driver can
 * make the agent hold at most the sum of the caps.
 *
 * There may be many displays, so each is encoded at once as the message that will be sent, and only
 * that is kept.
 */
#include "worker/agent/link/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "proto/limits.h"
#include "proto/outcome.h"

#define NUMBER_MAX    20  /* digits of the largest 64-bit value */
#define DISPLAY_MAX   640 /* path, type and two numbers */
#define DISPLAY_FRAME 640 /* bytes of one encoded DISPLAY message */
#define GAP_MAX       64  /* newlines between two records: a shell writes one */

struct report_kind {
    char letter;
    bool text; /* the payload is kept as text; otherwise it is a number */
    size_t cap;
    size_t buf; /* offset of its buffer */
};

static const struct report_kind kinds[] = {
    {'R', true, LIMIT_RESULT, offsetof(struct report, result)},
    {'N', true, LIMIT_TEXT, offsetof(struct report, error_name)},
    {'M', true, LIMIT_RESULT, offsetof(struct report, message)},
    {'T', true, LIMIT_RESULT, offsetof(struct report, traceback)},
    {'V', true, DISPLAY_MAX, offsetof(struct report, display)},
    {'X', false, NUMBER_MAX, 0},
    {'F', false, NUMBER_MAX, 0},
    {'Y', false, NUMBER_MAX, 0},
    {'S', false, NUMBER_MAX, 0},
    {'U', false, NUMBER_MAX, 0},
    {'W', false, NUMBER_MAX, 0},
    {'H', false, NUMBER_MAX, 0},
    {'D', false, NUMBER_MAX, 0},
    {'I', false, 0, 0},
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

static struct buf *text_of(struct report *r, const struct report_kind *k)
{
    return (struct buf *)(void *)((char *)r + k->buf);
}

void report_init(struct report *r, const char *allowed)
{
    memset(r, 0, sizeof(*r));
    r->allowed = allowed;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].text) {
            buf_init(text_of(r, &kinds[i]), kinds[i].cap);
        }
    }
    framed_init(&r->displays, LIMIT_DISPLAYS * DISPLAY_FRAME);
}

void report_finish(struct report *r)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].text) {
            buf_finish(text_of(r, &kinds[i]));
        }
    }
    framed_finish(&r->displays);
}

void report_reset(struct report *r)
{
    report_finish(r);
    report_init(r, r->allowed);
}

static const struct report_kind *kind_find(char letter)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].letter == letter) {
            return &kinds[i];
        }
    }
    return NULL;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int begin_report(struct report *r, struct err *err)
{
    const struct report_kind *k = kind_find((char)r->head[0]);
    if (k == NULL || strchr(r->allowed, k->letter) == NULL) {
        return err_set(err, ERR_PROTOCOL, "report of unknown kind %u", r->head[0]);
    }
    unsigned bit = 1u << (unsigned)(k - kinds);
    bool again = k->letter == 'V' ? r->displays.count == LIMIT_DISPLAYS : (r->seen & bit) != 0;
    if (again) {
        return err_set(err, ERR_PROTOCOL, "report %c came too often", k->letter);
    }
    size_t len = 0;
    for (size_t i = 1; i < REPORT_HEAD_BYTES; i++) {
        int digit = hex_digit(r->head[i]);
        if (digit < 0) {
            return err_set(err, ERR_PROTOCOL, "report %c has no length", k->letter);
        }
        len = len << 4 | (size_t)digit;
    }
    if (len > k->cap || (!k->text && k->cap > 0 && len == 0)) {
        return err_set(err, ERR_PROTOCOL, "report %c of %zu bytes", k->letter, len);
    }
    r->seen |= bit;
    r->kind = k;
    r->left = len;
    r->number_len = 0;
    return 0;
}

static int end_number(struct report *r, char letter, struct err *err)
{
    uint64_t value = 0;
    r->number[r->number_len] = '\0';
    bool whole = strlen(r->number) == r->number_len; /* no NUL in between */
    if (!whole || str_to_u64(r->number, 0, letter == 'X' ? 255 : INT64_MAX, &value, err) < 0) {
        return err_set(err, ERR_PROTOCOL, "report %c is not a number in range", letter);
    }
    switch (letter) {
    case 'X':
        r->has_exit = true;
        r->exit_code = (int64_t)value;
        return 0;
    case 'F':
        r->fail_code = value;
        return err_known(value) ? 0 : err_set(err, ERR_PROTOCOL, "report F names no error");
    case 'Y':
        r->file_type = value;
        return value <= UINT8_MAX ? 0 : err_set(err, ERR_PROTOCOL, "report Y is out of range");
    case 'S':
        r->file_size = value;
        return 0;
    case 'H':
        r->file_stamp = value;
        return 0;
    case 'U':
        r->truncated = value != 0;
        return 0;
    case 'W':
        r->watches = value;
        return 0;
    default:
        r->done = true;
        r->run = value;
        return 0;
    }
}

static int field_number(struct view v, uint64_t max, uint64_t *ret, struct err *err)
{
    char text[NUMBER_MAX + 1];
    if (v.len == 0 || v.len > NUMBER_MAX || memchr(v.data, '\0', v.len) != NULL) {
        return err_set(err, ERR_PROTOCOL, "not a number");
    }
    memcpy(text, v.data, v.len);
    text[v.len] = '\0';
    return str_to_u64(text, 0, max, ret, err);
}

static int end_display(struct report *r, struct err *err)
{
    struct msg m = {.type = MSG_DISPLAY};
    struct msg_display *d = &m.display;
    struct view rest = view_bytes(r->display.data, r->display.len);
    struct view number = view_take_line(&rest);
    d->mime = view_take_line(&rest);
    struct view size = view_take_line(&rest);
    d->path = rest;
    int rc = field_number(number, UINT32_MAX, &d->number, err);
    if (rc == 0) {
        rc = field_number(size, INT64_MAX, &d->size, err);
    }
    if (rc == 0) {
        rc = outcome_check_display(d, err);
    }
    if (rc == 0) {
        rc = framed_add(&r->displays, &m, err);
    }
    if (rc < 0 || d->number < r->shown) {
        return err_set(err, ERR_PROTOCOL, "report V is not a display, or out of order");
    }
    r->shown = d->number;
    buf_reset(&r->display, DISPLAY_MAX);
    return 0;
}

static int end_report(struct report *r, struct err *err)
{
    char letter = (char)r->head[0];
    r->head_len = 0;
    if (letter == 'R') {
        r->has_result = true;
    } else if (letter == 'I') {
        r->missed_interrupt = true;
        return 0;
    } else if (letter == 'V') {
        return end_display(r, err);
    }
    return r->kind->text ? 0 : end_number(r, letter, err);
}

int report_feed(struct report *r, const void *data, size_t len, size_t *ret_used, struct err *err)
{
    const uint8_t *p = data;
    size_t at = 0;
    while (at < len && !r->done) {
        int rc = 0;
        if (r->head_len < REPORT_HEAD_BYTES) {
            if (r->head_len == 0 && p[at] == '\n') {
                at++;
                if (++r->gap > GAP_MAX) {
                    return err_set(err, ERR_PROTOCOL, "nothing but newlines where a report is due");
                }
                continue;
            }
            r->gap = 0;
            r->head[r->head_len++] = p[at++];
            if (r->head_len < REPORT_HEAD_BYTES) {
                continue;
            }
            rc = begin_report(r, err);
        } else {
            const struct report_kind *k = r->kind;
            size_t n = len - at < r->left ? len - at : r->left;
            if (k->text) {
                rc = buf_add(text_of(r, k), p + at, n, err);
            } else {
                memcpy(r->number + r->number_len, p + at, n);
                r->number_len += n;
            }
            at += n;
            r->left -= n;
        }
        if (rc == 0 && r->left == 0) {
            rc = end_report(r, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    *ret_used = at;
    return 0;
}

int report_put(struct buf *out, char kind, const void *data, size_t len, struct err *err)
{
    int rc = buf_printf(out, err, "%c%08zx", kind, len);
    return rc < 0 ? rc : buf_add(out, data, len, err);
}

int report_put_number(struct buf *out, char kind, uint64_t value, struct err *err)
{
    char text[NUMBER_MAX + 1];
    int n = snprintf(text, sizeof(text), "%" PRIu64, value);
    return report_put(out, kind, text, (size_t)n, err);
}
