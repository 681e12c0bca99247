/*
 * A follower wants to see what happens now, and gets a callback now and then. A program may write
 * any amount between two of them, so only the end of each stream is kept, and the number of all
 * bytes. That costs a copy of a kilobyte or two per message from the agent, and nothing if nobody
 * follows.
 *
 * Output is cut between characters: the beginning drops the rest of a character whose first bytes
 * are gone, and an incomplete character at the end waits for the next callback.
 */
#include "supervisor/calls/output_progress.h"

#include <string.h>

#include "common/alloc.h"
#include "common/text.h"

#define UTF8_MAX 4

struct output_progress *output_progress_create(uint64_t every_ms, fleet_output_fn output, void *arg)
{
    struct output_progress *n = alloc_one(struct output_progress);
    n->every_ms = every_ms;
    n->output = output;
    n->arg = arg;
    return n;
}

static void tail_drop(struct output_tail *t, size_t n)
{
    t->len -= n;
    memmove(t->bytes, t->bytes + n, t->len);
}

/* Number of bytes in front that belong to a cut character. */
static size_t torn(const struct output_tail *t)
{
    size_t n = 0;
    while (n < t->len && n < UTF8_MAX - 1 && ((unsigned char)t->bytes[n] & 0xc0) == 0x80) {
        n++;
    }
    return n;
}

static void tail_add(struct output_tail *t, struct view v)
{
    if (v.len == 0) {
        return;
    }
    size_t room = sizeof(t->bytes);
    size_t new_bytes = v.len < room ? v.len : room;
    size_t old_bytes = t->len < room - new_bytes ? t->len : room - new_bytes;
    bool cut = new_bytes < v.len || old_bytes < t->len;
    tail_drop(t, t->len - old_bytes);
    memcpy(t->bytes + t->len, v.data + v.len - new_bytes, new_bytes);
    t->len += new_bytes;
    t->count += v.len;
    if (cut) {
        tail_drop(t, torn(t));
    }
}

void output_progress_add(struct output_progress *n, struct view out, struct view err)
{
    tail_add(&n->out, out);
    tail_add(&n->err, err);
}

/* Without an incomplete character at the end. */
static struct view tail_view(const struct output_tail *t)
{
    struct view v = view_bytes(t->bytes, t->len);
    return view_bytes(t->bytes, text_whole_chars(v));
}

bool output_progress_any(const struct output_progress *n)
{
    return tail_view(&n->out).len > 0 || tail_view(&n->err).len > 0;
}

static void tail_taken(struct output_tail *t, size_t len)
{
    tail_drop(t, len);
    t->count = t->len;
}

void output_progress_tell(struct output_progress *n, const struct fleet_outcome *so_far,
                          uint64_t now_ms)
{
    struct fleet_output output = {
        .op = so_far->op,
        .out = tail_view(&n->out),
        .err = tail_view(&n->err),
        .out_bytes = so_far->out_bytes,
        .err_bytes = so_far->err_bytes,
    };
    size_t out_len = output.out.len;
    size_t err_len = output.err.len;
    output.out_new = n->out.count - (n->out.len - out_len);
    output.err_new = n->err.count - (n->err.len - err_len);
    n->next_ms = now_ms + n->every_ms;
    if (n->output(n->arg, &output)) {
        tail_taken(&n->out, out_len);
        tail_taken(&n->err, err_len);
    }
}
