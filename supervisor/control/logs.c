/*
 * The output of an execution as JSON lines: first what is kept of it, then what comes.
 *
 *   {"stream":"stdout","text":"…"}   or, for bytes that are no text, {"stream":…,"base64":"…"}
 *   {"stream":"stdout","missed":N}   the middle of long output, which is not kept
 *   {"end":{…}}                      how it ended, or stands: the execution without its output, or
 *                                    with `error` why no more of it comes
 *
 * A follower waits for the execution as any client does, and ends that wait as soon as there is
 * output: then the outcome so far has all that is kept, of which it writes what is behind its own
 * two offsets, and waits again. So nothing is copied for it, and nothing is lost while its client
 * does not read: it looks again when the client has read what it had.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

#define LINE_BYTES 16384u /* of output, in one line */
#define EVERY_MS   20     /* between two looks at output that comes: people type into it */

struct follower {
    struct control *control;
    struct web_exchange *x;
    char *owner, *execution;
    uint64_t out_at, err_at;   /* offsets in the written output: what comes next */
    struct fleet_await *await; /* NULL: its client has to read first */
    bool follows;              /* until the end, not only what there is */
    bool begun;                /* the response */
    bool gone;                 /* its client; it is freed with its wait */
};

/* ---- lines ---------------------------------------------------------------------------------- */

static cJSON *stream_line(const char *stream)
{
    cJSON *line = cJSON_CreateObject();
    result_put_text(line, "stream", stream);
    return line;
}

static void write_piece(struct web_exchange *x, const char *stream, struct view piece)
{
    cJSON *line = stream_line(stream);
    CLEANUP_BUF struct buf text;
    buf_init(&text, 2 * LINE_BYTES);
    if (utf8_valid(piece.data, piece.len) && memchr(piece.data, '\0', piece.len) == NULL &&
        buf_add(&text, piece.data, piece.len, NULL) == 0) {
        result_put_text(line, "text", text_cstr(&text));
    } else if (base64_encode(&text, piece, NULL) == 0) {
        result_put_text(line, "base64", text_cstr(&text));
    }
    control_write_line(x, line);
}

/* Cuts between characters, so that text stays text. */
static void write_pieces(struct web_exchange *x, const char *stream, struct view rest)
{
    while (rest.len > 0) {
        size_t most = rest.len < LINE_BYTES ? rest.len : LINE_BYTES;
        size_t len = text_whole_chars(view_bytes(rest.data, most));
        len = len > 0 ? len : most;
        write_piece(x, stream, view_bytes(rest.data, len));
        rest = view_bytes(rest.data + len, rest.len - len);
    }
}

/* Writes what is kept of a stream from *at on, and moves that to the end. Half a character at the
 * end waits for its rest if `more` may come. */
static void write_stream(struct web_exchange *x, const char *stream, struct view head,
                         struct view tail, uint64_t written, bool more, uint64_t *at)
{
    uint64_t tail_at = written - tail.len;
    if (*at < head.len) {
        struct view rest = view_bytes(head.data + *at, head.len - (size_t)*at);
        rest.len = more && tail.len == 0 ? text_whole_chars(rest) : rest.len;
        write_pieces(x, stream, rest);
        *at += rest.len;
    }
    if (tail.len > 0 && *at < tail_at) {
        cJSON *line = stream_line(stream);
        result_put_uint(line, "missed", tail_at - *at);
        control_write_line(x, line);
        *at = tail_at;
    }
    if (tail.len > 0 && *at < written) {
        size_t skip = (size_t)(*at - tail_at);
        struct view rest = view_bytes(tail.data + skip, tail.len - skip);
        rest.len = more ? text_whole_chars(rest) : rest.len;
        write_pieces(x, stream, rest);
        *at += rest.len;
    }
}

static void write_output(struct follower *l, const struct fleet_outcome *o)
{
    bool more = o->state != OP_DONE && l->follows;
    write_stream(l->x, "stdout", o->out, o->out_tail, o->out_bytes, more, &l->out_at);
    write_stream(l->x, "stderr", o->err, o->err_tail, o->err_bytes, more, &l->err_at);
}

/* ---- following ------------------------------------------------------------------------------ */

static void free_follower(struct follower *l)
{
    l->control->follower_count -= l->follows ? 1 : 0;
    free(l->owner);
    free(l->execution);
    free(l);
}

static void end_follower(struct follower *l, cJSON *owned_end)
{
    struct web_exchange *x = l->x;
    cJSON *line = cJSON_CreateObject();
    result_put(line, "end", owned_end);
    control_write_line(x, line);
    web_on_gone(x, NULL, NULL);
    web_on_drain(x, NULL, NULL);
    free_follower(l);
    web_stream_end(x);
}

/* The server ends before the execution, as far as is known. */
static void leave_follower(struct follower *l, cJSON *owned_end)
{
    control_put_error(owned_end, ERR_SHUTTING_DOWN, "the server is shutting down", NULL);
    end_follower(l, owned_end);
}

static void fail_follower(struct follower *l, int rc, const struct err *err, const char *hint)
{
    if (l->begun) { /* it has begun to answer, so the failure is its last line */
        cJSON *end = cJSON_CreateObject();
        result_put_text(end, "status", "unknown");
        control_put_error(end, rc, err->text, hint);
        end_follower(l, end);
        return;
    }
    struct web_exchange *x = l->x;
    web_on_gone(x, NULL, NULL);
    free_follower(l);
    control_fail(x, rc, err->text, hint);
}

static bool on_follower_output(void *arg, const struct fleet_output *output)
{
    struct follower *l = arg;
    (void)output; /* the outcome has it as well, and all that was before */
    fleet_await_end(l->await);
    return true;
}

static void on_follower_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                                const struct err *err, const char *hint);

static void look_on(struct follower *l, uint64_t wait_ms)
{
    l->await =
        fleet_await(l->control->fleet, l->owner, l->execution, wait_ms, on_follower_outcome, l);
    if (wait_ms > 0) {
        fleet_await_output(l->await, EVERY_MS, on_follower_output);
    }
}

static void on_follower_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                                const struct err *err, const char *hint)
{
    struct follower *l = arg;
    l->await = NULL;
    if (l->gone) {
        free_follower(l);
        return;
    }
    if (rc < 0) {
        fail_follower(l, rc, err, hint);
        return;
    }
    if (!l->begun) {
        l->begun = true;
        web_stream_begin(l->x, 200, CONTROL_LINES);
    }
    write_output(l, outcome);
    if (outcome->state == OP_DONE || !l->follows) {
        end_follower(l, control_execution_whole(outcome, false));
    } else if (l->control->quiet) {
        leave_follower(l, control_execution_whole(outcome, false));
    } else if (web_stream_queued(l->x) < CONTROL_QUEUE) {
        look_on(l, FLEET_WAIT_FOR_EVER);
    }
}

/* The client has read all that it was sent. */
static void on_follower_drained(void *arg)
{
    struct follower *l = arg;
    if (l->await == NULL && l->control->quiet) { /* the fleet may be gone */
        cJSON *end = cJSON_CreateObject();
        result_put_text(end, "status", "running");
        leave_follower(l, end);
    } else if (l->await == NULL) {
        look_on(l, 0);
    }
}

static void on_follower_gone(void *arg)
{
    struct follower *l = arg;
    l->gone = true;
    if (l->await != NULL) {
        fleet_await_end(l->await);
    } else {
        free_follower(l);
    }
}

void control_get_logs(struct control *c, struct web_exchange *x, const char *name)
{
    const char *owner = fleet_execution_owner(c->fleet, name);
    if (owner == NULL) {
        control_fail(x, ERR_EXECUTION_NOT_FOUND, "no such execution", NULL);
        return;
    }
    bool follows = control_asks_for(x, "follow");
    if (follows && c->follower_count >= CONTROL_WATCHERS_MAX) {
        control_fail(x, ERR_BUSY, "too many follow output already",
                     "ask without follow, or when others have ended");
        return;
    }
    struct follower *l = alloc_one(struct follower);
    l->control = c;
    l->x = x;
    l->owner = alloc_strdup(owner);
    l->execution = alloc_strdup(name);
    l->follows = follows;
    c->follower_count += follows ? 1 : 0;
    web_set_header(x, "Cache-Control", "no-store");
    web_on_gone(x, on_follower_gone, l);
    web_on_drain(x, on_follower_drained, l);
    look_on(l, 0);
}
