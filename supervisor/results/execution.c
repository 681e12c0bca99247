/*
 * Describes the end of a run of code twice: in fields for programs, and as the text that a person
 * at a terminal would have seen. User code chooses most of the bytes, so all of them pass through
 * text_add(), which makes them UTF-8 and keeps them within their share of the result.
 *
 * The shares: pictures, files and links come first (shown.c), since a plot cannot be shown in part;
 * they leave at least MIN_TEXT_BYTES. The rest goes to the status, then to the value, then to the
 * output, each within its own limit and within what the call asked for. stderr gets at most half of
 * the output's share, since clients rarely ask for it.
 *
 * Lines of our own in the text are in square brackets, so that they stand apart from output.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/uri.h"
#include "supervisor/results/result.h"
#include "supervisor/results/shown.h"
#include "supervisor/results/stream.h"

#define TEXT_MAX_BYTES (4u << 20)
#define MIN_TEXT_BYTES (32u << 10)

/* The texts of an execution, each within its budget. */
struct execution_texts {
    struct result_part out, err;
    struct buf value, name, message, traceback;
};

static bool is_over(const struct fleet_outcome *o)
{
    return o->state == OP_DONE;
}

static struct result_stream stream_of(const struct fleet_outcome *o, bool is_stderr)
{
    return (struct result_stream){
        .execution = o->op,
        .argument = is_stderr ? "stderr_offset" : "offset",
        .head = is_stderr ? o->err : o->out,
        .tail = is_stderr ? o->err_tail : o->out_tail,
        .total = is_stderr ? o->err_bytes : o->out_bytes,
        .over = is_over(o),
    };
}

/* Appends a text within its share and the rest of the budget; subtracts its cost from the rest. */
static void add_short(struct buf *to, struct view from, size_t share, size_t *left)
{
    size_t most = share < *left ? share : *left;
    buf_init(to, TEXT_MAX_BYTES);
    size_t shown = text_add(to, from, most, false);
    if (shown < from.len) {
        text_printf(to, "... [%zu more bytes]", from.len - shown);
    }
    *left -= text_cost(view_bytes(from.data, shown));
}

static void add_stream_text(struct result_part *p, const struct fleet_outcome *o, bool is_stderr,
                            const struct result_range *range, size_t max_cost)
{
    struct result_stream s = stream_of(o, is_stderr);
    bool page = is_stderr ? range->err_page : range->out_page;
    if (page) {
        result_stream_page(p, &s, is_stderr ? range->err : range->out, max_cost);
    } else {
        result_stream_summary(p, &s, max_cost);
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void texts_init(struct execution_texts *t, const struct fleet_outcome *o,
                       const struct result_range *range, size_t max_cost)
{
    const struct msg_output *end = o->end;
    size_t left = max_cost;
    size_t most = range->most != 0 ? range->most : RESULT_OUTPUT_BYTES;
    add_short(&t->name, end->error_name, RESULT_MESSAGE_BYTES / 4, &left);
    add_short(&t->message, end->error_message, RESULT_MESSAGE_BYTES, &left);
    add_short(&t->traceback, end->traceback, least(left / 2, RESULT_TRACEBACK_BYTES), &left);
    add_short(&t->value, end->result, least(left / 2, least(most, RESULT_VALUE_BYTES)), &left);
    add_stream_text(&t->err, o, true, range, least(left / 3, least(most / 2, RESULT_STDERR_BYTES)));
    left -= least(left, text_cost(view_bytes(t->err.text.data, t->err.text.len)));
    add_stream_text(&t->out, o, false, range, least(left, least(most, RESULT_STDOUT_BYTES)));
}

static void texts_finish(struct execution_texts *t)
{
    struct buf *all[] = {&t->value, &t->name, &t->message, &t->traceback};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        buf_finish(all[i]);
    }
    result_part_finish(&t->out);
    result_part_finish(&t->err);
}

/* Starts a new line, unless the text is at the start of one. */
static void fresh_line(struct buf *text)
{
    if (text->len > 0 && text->data[text->len - 1] != '\n') {
        text_printf(text, "\n");
    }
}

static void append(struct buf *text, struct buf *part)
{
    if (part->len > 0) {
        fresh_line(text);
        text_printf(text, "%s", text_cstr(part));
    }
}

static void append_standing(struct buf *text, const struct fleet_outcome *o)
{
    fresh_line(text);
    if (o->unconfirmed) {
        text_printf(text, "[the sandbox has not answered yet, so whether the code has begun is not "
                          "known");
    } else if (o->state == OP_RUNNING) {
        text_printf(text, "[still running after %.1f s", (double)o->duration_us / 1e6);
    } else {
        text_printf(text, "[not begun yet: it waits for its turn");
    }
    text_printf(text,
                "; get_execution with execution_id %s tells how it goes on, cancel_execution "
                "stops it]",
                o->op);
    if (o->silent) {
        fresh_line(text);
        text_printf(text,
                    "[the sandbox does not answer at the moment: the engine of its host may be "
                    "busy or stopped; nothing is known to have ended it]");
    }
}

/* Appends how the code ended; `words` is the explanation of the agent or worker, if there is
 * one. */
static void append_status(struct buf *text, const struct fleet_outcome *o, const char *words)
{
    const struct msg_output *end = o->end;
    double seconds = (double)o->duration_us / 1e6;
    bool restarted = end->interpreter == OP_INTERPRETER_RESTARTED;
    bool explained = end->error_name.len == 0 && words[0] != '\0';
    fresh_line(text);
    switch (end->status) {
    case OP_STATUS_TIMEOUT:
        text_printf(text, "[timed out after %.1f s and was stopped%s]", seconds,
                    restarted ? "" : "; the interpreter and its variables are still there");
        break;
    case OP_STATUS_MEMORY:
        text_printf(text, "[%s]",
                    explained ? words : "killed: the sandbox's memory limit was exceeded");
        break;
    case OP_STATUS_CANCELLED:
        text_printf(text, "[cancelled after %.1f s%s%s]", seconds, explained ? ": " : "",
                    explained ? words : "");
        break;
    case OP_STATUS_CRASHED:
        if (o->sandbox_ended) {
            text_printf(text,
                        "[crashed: %s; files and variables of this sandbox are lost, create a new "
                        "one]",
                        words);
        } else if (explained) {
            text_printf(text, "[crashed: %s]", words);
        } else {
            text_printf(text, "[the interpreter ended unexpectedly, exit code %lld]",
                        (long long)end->exit_code);
        }
        break;
    case OP_STATUS_ERROR:
        if (end->exit_code != 0 && end->error_name.len == 0 && end->traceback.len == 0) {
            text_printf(text, "[exit code %lld]", (long long)end->exit_code);
        }
        break;
    default:
        break;
    }
    if (restarted) {
        fresh_line(text);
        text_printf(text, "[the interpreter was restarted: variables and imports of earlier calls "
                          "are gone, files are still there]");
    }
}

/* Appends a line about the position of a page. A summary has its own line where output is left
 * out. */
static void append_cut(struct buf *text, const struct fleet_outcome *o, bool is_stderr,
                       const struct result_part *p)
{
    const char *stream = is_stderr ? "stderr" : "stdout";
    uint64_t total = is_stderr ? o->err_bytes : o->out_bytes;
    if (!p->cut || (!p->is_page && p->more_kept)) {
        return;
    }
    if (!p->is_page && (is_stderr ? o->err_tail : o->out_tail).len > 0) {
        return;
    }
    fresh_line(text);
    if (p->from == 0) {
        text_printf(text, "[%s: only the first %" PRIu64 " of %" PRIu64 " bytes are shown", stream,
                    p->next, total);
    } else {
        text_printf(text, "[%s: bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 " are shown", stream,
                    p->from, p->next, total);
    }
    if (p->more_kept) {
        text_printf(text, "; get_execution with %s %" PRIu64 " shows more]",
                    is_stderr ? "stderr_offset" : "offset", p->next);
    } else {
        text_printf(text, "; no more is kept]");
    }
}

static void execution_content(struct result *r, const struct fleet_outcome *o,
                              struct execution_texts *t, struct result_shown *shown,
                              const char *notice, const char *hint)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    if (notice != NULL) {
        text_printf(&text, "[%s]\n", notice);
    }
    append(&text, &t->out.text);
    append_cut(&text, o, false, &t->out);
    if (t->err.text.len > 0) {
        fresh_line(&text);
        text_printf(&text, "[stderr]\n");
        append(&text, &t->err.text);
    }
    append_cut(&text, o, true, &t->err);
    append(&text, &shown->text);
    append(&text, &t->value);
    if (t->traceback.len > 0) {
        append(&text, &t->traceback);
    } else if (t->name.len > 0) {
        fresh_line(&text);
        text_printf(&text, "%s: %s", text_cstr(&t->name), text_cstr(&t->message));
    }
    if (is_over(o)) {
        append_status(&text, o, text_cstr(&t->message));
    } else {
        append_standing(&text, o);
    }
    if (hint != NULL) {
        fresh_line(&text);
        text_printf(&text, "[%s]", hint);
    }
    append(&text, &shown->notes);
    text_strip_escapes(&text); /* a model sees no colours; the fields keep the bytes */
    while (text.len > 0 && text.data[text.len - 1] == '\n') {
        text.len--;
    }
    bool any = cJSON_GetArraySize(shown->images) + cJSON_GetArraySize(shown->links) > 0;
    if (text.len > 0 || !any) {
        result_add_text(r, text.len > 0 ? text_cstr(&text) : "[no output]");
    }
}

/* Links all kept output of a stream that is shown only in part. */
static void add_stream_link(struct result *r, const struct fleet_outcome *o, bool is_stderr,
                            const struct result_part *p)
{
    if (p->cut) {
        CLEANUP_FREE char *uri = uri_of_stream(o->op, is_stderr);
        struct result_stream s = stream_of(o, is_stderr);
        result_add_link(r, uri, is_stderr ? "stderr" : "stdout", "text/plain",
                        s.head.len + s.tail.len);
    }
}

static void put_range(cJSON *s, const struct execution_texts *t, bool tell)
{
    if (tell) {
        result_put_uint(s, "offset", t->out.from);
        result_put_uint(s, "stderr_offset", t->err.from);
    }
    result_put_uint(s, "next_offset", t->out.next);
    result_put_uint(s, "next_stderr_offset", t->err.next);
}

static void put_end(cJSON *s, const struct msg_output *end, struct execution_texts *t,
                    const char *hint)
{
    result_put_int(s, "exit_code", end->exit_code);
    if (end->has_result) {
        result_put_text(s, "result", text_cstr(&t->value));
    }
    if (t->name.len > 0 || t->message.len > 0 || t->traceback.len > 0) {
        cJSON *error = result_put_object(s, "error");
        result_put_text(error, "name", text_cstr(&t->name));
        result_put_text(error, "message", text_cstr(&t->message));
        result_put_text(error, "traceback", text_cstr(&t->traceback));
        if (hint != NULL) {
            result_put_text(error, "hint", hint);
        }
    }
    if (end->interpreter != OP_INTERPRETER_NONE) {
        result_put_text(s, "interpreter", op_interpreter_name(end->interpreter));
    }
}

void result_set_execution(struct result *r, const struct fleet_outcome *o,
                          const struct result_range *range, const char *notice)
{
    static const struct result_range all = {.out = 0};
    result_finish(r);
    result_init(r);
    const struct msg_output *end = o->end;
    bool over = is_over(o);
    r->is_error = over && end->status != OP_STATUS_OK;
    r->asked_wall_ms = o->started_wall_ms;
    r->status = over ? op_status_name(end->status) : "running";
    range = range != NULL ? range : &all;
    struct result_shown shown;
    struct execution_texts t;
    result_shown_init(&shown, o, range->gone ? NULL : range->workspace, range->links,
                      RESULT_WIRE_BYTES - 2 * MIN_TEXT_BYTES);
    size_t text_bytes = (RESULT_WIRE_BYTES - shown.cost) / 2;
    texts_init(&t, o, range, text_bytes < RESULT_TEXT_BYTES ? text_bytes : RESULT_TEXT_BYTES);
    bool cut = t.out.cut || t.err.cut;

    cJSON *s = r->structured;
    result_put_text(s, "execution_id", o->op);
    result_put_text(s, "sandbox_id", o->sandbox);
    result_put_text(s, "language", o->language);
    result_put_text(s, "status", r->status);
    result_put_text(s, "stdout", text_cstr(&t.out.text));
    result_put_text(s, "stderr", text_cstr(&t.err.text));
    result_put_uint(s, "stdout_bytes", o->out_bytes);
    result_put_uint(s, "stderr_bytes", o->err_bytes);
    result_put_bool(s, "truncated", cut);
    if (o->unconfirmed) {
        result_put_bool(s, "unconfirmed", true);
    }
    if (!over || cut || range->tell) {
        put_range(s, &t, range->tell);
    }
    if (over) {
        put_end(s, end, &t, range->hint);
    }
    result_put_number(s, "duration_ms", (double)o->duration_us / 1000.0);
    if (over) {
        result_put_number(s, "cpu_ms", (double)end->cpu_us / 1000.0);
        result_put_uint(s, "max_rss_kb", end->max_rss_kb);
    }
    execution_content(r, o, &t, &shown, notice, range->hint);
    if (over) {
        result_shown_put(&shown, r);
    }
    add_stream_link(r, o, false, &t.out);
    add_stream_link(r, o, true, &t.err);
    texts_finish(&t);
    result_shown_finish(&shown);
}
