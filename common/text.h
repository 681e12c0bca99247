/*
 * Bytes that user code wrote, made fit for JSON: valid UTF-8, and no longer than a budget that
 * counts what the text costs once JSON has escaped it. Clients refuse messages over 1 MiB, and a
 * megabyte of control characters is six in JSON.
 * All of these texts have a budget, so memory that is not to be had for one ends the process, as in
 * alloc.h.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_TEXT_H
#define CLOISTER_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/view.h"

/* Goes through any bytes as utf8_add_lossy() does. Begins with .v only. */
struct text_walk {
    struct view v;
    size_t at;
    size_t good_to; /* valid UTF-8 as far as this */
};

/* Steps over the next character, of which there must be one, and returns its length; or over one
 * byte that U+FFFD stands for, and returns 0. */
size_t text_step(struct text_walk *w);

/* How many bytes of v, cut between characters, cost at most max_cost bytes inside a JSON string
 * after utf8_add_lossy(). */
size_t text_fit(struct view v, size_t max_cost);

/* What v costs inside a JSON string after utf8_add_lossy(). */
size_t text_cost(struct view v);

/* From where on, between characters, the rest of v costs at most max_cost; v.len at worst. */
size_t text_fit_end(struct view v, size_t max_cost);

/* Length of v without a UTF-8 character that is cut off by its end. */
size_t text_whole_chars(struct view v);

/* Where the UTF-8 character that `at` (at most v.len) is inside of begins; `at` itself if it is
 * inside of none. What the end of v cuts off counts as a character if `more` may follow. */
size_t text_char_start(struct view v, size_t at, bool more);

/* Appends v lossily within the budget and returns how many bytes of v that took. A character that
 * the end of v cuts off is left out if `more` says that v is only the beginning of something. */
size_t text_add(struct buf *out, struct view v, size_t max_cost, bool more);

/* Takes escape sequences for terminals (colours, titles, movements of the cursor) out of it. One
 * that has no end loses its ESC only, so that no text is lost with it. In one pass. */
void text_strip_escapes(struct buf *b);

/* Appends text of our own making; such buffers have room by construction. */
void text_printf(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The content as a C string, "" if it is empty. Borrowed until the next change. */
const char *text_cstr(struct buf *b);

#endif
