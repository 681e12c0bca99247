/*
 * Readers of a program's output want its beginning (what it is about) and its end (how it went),
 * rarely its middle. So the budget is divided, two thirds and one third, and a line between says
 * what is missing and how to get it.
 *
 * A stream is kept as a head, and a tail if not all of it could be kept. Both this gap and the
 * budget cut output, so the part that is left out may be kept, lost, or kept in part. Pages go
 * through the kept output: the page after the head begins with the tail.
 *
 * Consecutive pages add up to the whole kept stream: none begins or ends inside a character, and a
 * page waits for the rest of a character that is still being written.
 */
#include "supervisor/results/stream.h"

#include <inttypes.h>

#include "common/text.h"

/* Replacing bytes by U+FFFD makes a text at most three times as long; budgets are well below
 * this. */
#define TEXT_MAX_BYTES (4u << 20)

static struct view rest_of(struct view v, size_t from)
{
    return view_bytes(v.len > 0 ? v.data + from : NULL, v.len - from);
}

/* Whether more output follows the head. */
static bool head_goes_on(const struct result_stream *s)
{
    return !s->over || s->total > s->head.len;
}

/* The tail without the rest of a character that began in the gap. */
static struct view clean_tail(const struct result_stream *s)
{
    size_t torn = 0;
    while (torn < 3 && torn < s->tail.len && ((unsigned char)s->tail.data[torn] & 0xc0) == 0x80) {
        torn++;
    }
    return rest_of(s->tail, torn < s->tail.len ? torn : 0);
}

static void part_init(struct result_part *p)
{
    *p = (struct result_part){.from = 0};
    buf_init(&p->text, TEXT_MAX_BYTES);
}

void result_part_finish(struct result_part *p)
{
    buf_finish(&p->text);
}

static void begin_line(struct buf *text)
{
    if (text->len > 0 && text->data[text->len - 1] != '\n') {
        text_printf(text, "\n");
    }
}

/* Appends the line between head and tail. */
static void say_left_out(struct buf *text, const struct result_stream *s, uint64_t count,
                         uint64_t kept, uint64_t next)
{
    begin_line(text);
    text_printf(text, "[... %" PRIu64 " bytes left out", count);
    if (kept == 0) {
        text_printf(text, "; they are not kept ...]\n");
    } else if (kept < count) {
        text_printf(text,
                    ", %" PRIu64 " of which are kept: get_execution with execution_id %s and %s "
                    "%" PRIu64 " shows those ...]\n",
                    kept, s->execution, s->argument, next);
    } else {
        text_printf(text,
                    "; get_execution with execution_id %s and %s %" PRIu64 " shows them ...]\n",
                    s->execution, s->argument, next);
    }
}

void result_stream_summary(struct result_part *p, const struct result_stream *s, size_t max_cost)
{
    bool more = head_goes_on(s);
    struct view tail = clean_tail(s);
    part_init(p);
    bool all = s->tail.len == 0 && text_fit(s->head, max_cost) == s->head.len;
    size_t head = text_add(&p->text, s->head, all ? max_cost : max_cost / 3 * 2, more);
    p->next = head;
    if (all) {
        p->cut = s->total > s->head.len;
        return;
    }
    /* The end of the kept output. */
    struct view last = tail.len > 0 ? tail : rest_of(s->head, head);
    size_t begin = text_fit_end(last, max_cost / 3);
    uint64_t end = s->tail.len > 0 ? s->total : s->head.len;
    uint64_t count = end - head - (last.len - begin);
    uint64_t kept = begin + (tail.len > 0 ? s->head.len - head : 0);
    if (count == 0) { /* because of rounding it just fits */
        p->next = head + text_add(&p->text, last, max_cost / 3, !s->over);
        return;
    }
    p->cut = true;
    p->more_kept = kept > 0;
    say_left_out(&p->text, s, count, kept, p->next);
    text_add(&p->text, rest_of(last, begin), max_cost / 3, !s->over);
}

void result_stream_page(struct result_part *p, const struct result_stream *s, uint64_t from,
                        size_t max_cost)
{
    bool more = head_goes_on(s);
    struct view tail = clean_tail(s);
    struct view rest = view_bytes(NULL, 0);
    uint64_t kept_to = 0;
    part_init(p);
    p->is_page = true;
    if (from < s->head.len || tail.len == 0) {
        size_t at = from < s->head.len ? (size_t)from : s->head.len;
        size_t begin = text_char_start(s->head, at, more);
        rest = rest_of(s->head, begin);
        p->from = begin;
        kept_to = more ? text_whole_chars(s->head) : s->head.len;
        /* The head has only part of a character left, so the tail is next. */
        if (tail.len > 0 && text_whole_chars(rest) == 0) {
            from = s->head.len;
        }
    }
    if (tail.len > 0 && from >= s->head.len) {
        uint64_t tail_from = s->total - tail.len;
        size_t at = from > tail_from ? (size_t)(from - tail_from) : 0;
        size_t begin = text_char_start(tail, at, !s->over);
        rest = rest_of(tail, begin);
        p->from = tail_from + begin;
        more = !s->over;
        kept_to = s->total - (more ? tail.len - text_whole_chars(tail) : 0);
    }
    size_t shown = text_add(&p->text, rest, max_cost, more);
    p->next = p->from + shown;
    p->more_kept = p->next < kept_to || (tail.len > 0 && p->next < s->total - tail.len);
    p->cut = p->more_kept || p->next < (s->over ? s->total : kept_to);
}

void result_stream_all(struct buf *out, const struct result_stream *s, size_t max_cost)
{
    struct view tail = clean_tail(s);
    text_add(out, s->head, max_cost / 2, head_goes_on(s));
    uint64_t count = s->total - s->head.len - tail.len;
    if (count > 0) {
        begin_line(out);
        text_printf(out, "[... %" PRIu64 " bytes are not kept ...]\n", count);
    }
    text_add(out, tail, max_cost / 2, !s->over);
}
