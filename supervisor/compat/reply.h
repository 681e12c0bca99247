/*
 * Answers of other servers' tools: one text, which may be JSON as their Python prints it; no
 * structured content; and never isError, since the text reports failures.
 *
 * result.h bounds a whole answer. Here a text is escaped twice (JSON in a JSON string), so the
 * budgets of reply_bytes() count the escaped size.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_COMPAT_REPLY_H
#define CLOISTER_SUPERVISOR_COMPAT_REPLY_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/view.h"
#include "supervisor/results/result.h"

struct tool_call;

enum reply_style {
    REPLY_DUMPS,    /* json.dumps(value): ", " and ": ", ASCII only */
    REPLY_INDENTED, /* indented by 2, UTF-8 unescaped */
};

/* Budget of all texts of one answer, and a fair share for one of several. */
#define REPLY_BYTES       (800u << 10)
#define REPLY_SHARE_BYTES (240u << 10)

/* End the call. `text` is valid UTF-8, `owned_value` any JSON value that we made. */
void reply_text(struct tool_call *call, const char *text);
void reply_json(struct tool_call *call, enum reply_style style, cJSON *owned_value);

/* Makes the result without ending the call, so that blocks can be added before tool_finish(). */
void reply_set_text(struct result *r, const char *text);
void reply_set_json(struct result *r, enum reply_style style, cJSON *owned_value);

/* Makes a JSON string of any bytes: invalid UTF-8 becomes U+FFFD. If it would cost more than
 * max_cost bytes in an answer of this style, it is cut, and its end says how long it was. */
cJSON *reply_bytes(enum reply_style style, struct view bytes, size_t max_cost);

/* The same of the first bytes of `total`. */
cJSON *reply_beginning(enum reply_style style, struct view bytes, uint64_t total, size_t max_cost);

/* The same of a stream of `total` bytes of which head and tail are kept; a line between them says
 * how much is left out. */
cJSON *reply_stream(enum reply_style style, struct view head, struct view tail, uint64_t total,
                    size_t max_cost);

/* A number that Python would print as a float: 5.0, not 5. */
cJSON *reply_float(double value);

/* Appends the JSON text of a value; `out` must have room. */
void reply_write(struct buf *out, enum reply_style style, const cJSON *value);

#endif
