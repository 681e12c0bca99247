/*
 * Makes bytes of user code fit for JSON: valid UTF-8 within a budget, which counts the bytes of the
 * text after JSON escaping. Clients refuse messages over 1 MiB, and a megabyte of control
 * characters is six in JSON. All of these texts have a budget, so a lack of memory ends the
 * process, as in alloc.h.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_TEXT_H
#define CLOISTER_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/view.h"

/* Walks over any bytes as utf8_add_lossy() does. Initialise .v and zero the rest. */
struct text_walk {
    struct view v;
    size_t at;
    size_t good_to; /* offset up to which the bytes are valid UTF-8 */
};

/* Steps over the next character and returns its length, or over one invalid byte and returns 0.
 * There must be a next byte. */
size_t text_step(struct text_walk *w);

/* How many bytes of v, cut between characters, cost at most max_cost bytes inside a JSON string
 * after utf8_add_lossy(). */
size_t text_fit(struct view v, size_t max_cost);

/* The cost of v inside a JSON string after utf8_add_lossy(). */
size_t text_cost(struct view v);

/* The first offset between characters from which the rest of v costs at most max_cost; v.len at
 * worst. */
size_t text_fit_end(struct view v, size_t max_cost);

/* The length of v without an incomplete UTF-8 character at its end. */
size_t text_whole_chars(struct view v);

/* The begin of the UTF-8 character that contains `at` (at most v.len); `at` itself between
 * characters. An incomplete one at the end of v counts as a character if `more` may follow. */
size_t text_char_start(struct view v, size_t at, bool more);

/* Appends v lossily within the budget and returns how many bytes of v were used. An incomplete
 * character at the end of v is left out if `more` bytes follow v. */
size_t text_add(struct buf *out, struct view v, size_t max_cost, bool more);

/* Removes terminal escape sequences (colours, titles, cursor movements) in one pass. One without an
 * end loses only its ESC, so that no text is lost. */
void text_strip_escapes(struct buf *b);

/* Appends text of our own making; such buffers have room by construction. */
void text_printf(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The content as a C string, "" if it is empty. Borrowed until the next change. */
const char *text_cstr(struct buf *b);

#endif
