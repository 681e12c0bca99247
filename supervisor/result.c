/*
 * What a call found out, put into words twice: as fields for programs, and as the text a person at
 * a terminal would have seen. User code chooses most of the bytes, so everything from it passes
 * through text_add(), which makes it UTF-8 and keeps it within its share of the result.
 *
 * Lines of our own in the text are in square brackets, so that they stand apart from output.
 */
#include "supervisor/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/err.h"
#include "supervisor/fleet.h"
#include "supervisor/text.h"

/* Texts grow by at most three when bytes become U+FFFD; budgets bound them well below this. */
#define TEXT_MAX_BYTES (4u << 20)

void result_init(struct result *r)
{
    *r = (struct result){cJSON_CreateArray(), cJSON_CreateObject(), false};
}

void result_finish(struct result *r)
{
    cJSON_Delete(r->content);
    cJSON_Delete(r->structured);
    *r = (struct result){NULL, NULL, false};
}

void result_put(cJSON *object, const char *key, cJSON *owned_value)
{
    cJSON_AddItemToObjectCS(object, key, owned_value);
}

void result_put_text(cJSON *object, const char *key, const char *text)
{
    result_put(object, key, cJSON_CreateString(text));
}

void result_put_int(cJSON *object, const char *key, int64_t value)
{
    /* cJSON prints at most 15 digits before it turns to exponents. */
    if (value > -1000000000000000 && value < 1000000000000000) {
        result_put(object, key, cJSON_CreateNumber((double)value));
        return;
    }
    char digits[32];
    snprintf(digits, sizeof(digits), "%" PRId64, value);
    result_put(object, key, cJSON_CreateRaw(digits));
}

void result_put_uint(cJSON *object, const char *key, uint64_t value)
{
    result_put_int(object, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

void result_put_number(cJSON *object, const char *key, double value)
{
    result_put(object, key, cJSON_CreateNumber(value));
}

void result_put_bool(cJSON *object, const char *key, bool value)
{
    result_put(object, key, cJSON_CreateBool(value));
}

void result_put_time(cJSON *object, const char *key, uint64_t wall_ms)
{
    char iso[CLOCK_ISO_SIZE];
    clock_iso(wall_ms, iso, sizeof(iso));
    result_put_text(object, key, iso);
}

cJSON *result_put_object(cJSON *object, const char *key)
{
    cJSON *inner = cJSON_CreateObject();
    result_put(object, key, inner);
    return inner;
}

cJSON *result_put_array(cJSON *object, const char *key)
{
    cJSON *inner = cJSON_CreateArray();
    result_put(object, key, inner);
    return inner;
}

void result_add_text(struct result *r, const char *text)
{
    cJSON *block = cJSON_CreateObject();
    result_put(block, "type", cJSON_CreateStringReference("text"));
    result_put_text(block, "text", text);
    cJSON_AddItemToArray(r->content, block);
}

void result_add_image(struct result *r, const char *mime_type, const char *base64)
{
    cJSON *block = cJSON_CreateObject();
    result_put(block, "type", cJSON_CreateStringReference("image"));
    result_put_text(block, "data", base64);
    result_put_text(block, "mimeType", mime_type);
    cJSON_AddItemToArray(r->content, block);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* What to do next, for failures whose reporter had no better idea. */
static const char *usual_hint(int code)
{
    switch (code < 0 ? -code : code) {
    case ERR_INVALID:
        return "correct the arguments; the tool's inputSchema describes them";
    case ERR_SANDBOX_NOT_FOUND:
    case ERR_GONE:
        return "get_sandbox_status without arguments lists your sandboxes; create_sandbox makes a "
               "new one; without sandbox_id the default sandbox is used";
    case ERR_EXECUTION_NOT_FOUND:
        return "get_sandbox_status with a sandbox_id lists its latest executions; outcomes are not "
               "kept for ever";
    case ERR_SANDBOX_LIMIT:
        return "close a sandbox that is not needed any more with close_sandbox";
    case ERR_ENGINE:
        return "run `cloister doctor` on the server's host: it tells what is missing";
    case ERR_PATH:
        return "use a path in the sandbox, absolute or relative to the workspace; list_files shows "
               "what is there";
    case ERR_FILE_NOT_FOUND:
        return "list_files shows what is there; relative paths start in the workspace";
    case ERR_DENIED:
        return "use a path in the workspace, which belongs to the sandbox's user";
    case ERR_NO_SPACE:
        return "remove files, or create a sandbox with a larger disk_mb";
    case ERR_TOO_BIG:
        return "send it in parts";
    case ERR_LANGUAGE:
        return "get_sandbox_status lists the sandbox's languages";
    case ERR_BUSY:
        return "wait for some of the calls that are under way, then try again";
    case ERR_SHUTTING_DOWN:
        return "the client closed the server's input or stopped it; keep it open until the answer "
               "is there";
    default:
        return "try again; if it happens again, the server's log tells more";
    }
}

void result_set_failure(struct result *r, int code, const char *message, const char *hint)
{
    result_finish(r);
    result_init(r);
    r->is_error = true;

    CLEANUP_BUF struct buf words;
    CLEANUP_BUF struct buf advice;
    CLEANUP_BUF struct buf text;
    buf_init(&words, TEXT_MAX_BYTES);
    buf_init(&advice, TEXT_MAX_BYTES);
    buf_init(&text, TEXT_MAX_BYTES);
    bool has_message = message != NULL && message[0] != '\0';
    text_add(&words, view_of(has_message ? message : err_text(code)), RESULT_MESSAGE_BYTES, false);
    bool has_hint = hint != NULL && hint[0] != '\0';
    text_add(&advice, view_of(has_hint ? hint : usual_hint(code)), RESULT_MESSAGE_BYTES, false);

    cJSON *error = result_put_object(r->structured, "error");
    result_put_text(error, "code", err_wire_name(code));
    result_put_text(error, "message", text_cstr(&words));
    result_put_text(error, "hint", text_cstr(&advice));

    text_printf(&text, "Error (%s): %s\nHint: %s", err_wire_name(code), text_cstr(&words),
                text_cstr(&advice));
    result_add_text(r, text_cstr(&text));
}

void result_set_operation_failure(struct result *r, const struct fleet_outcome *outcome)
{
    const struct msg_output *end = outcome->end;
    CLEANUP_FREE char *said = alloc_viewdup(end->error_message);
    switch (end->status) {
    case OP_STATUS_TIMEOUT:
        result_set_failure(r, ERR_TIMEOUT, "the operation ran into its deadline",
                           "try again, with less at once");
        break;
    case OP_STATUS_MEMORY:
        result_set_failure(r, ERR_TOO_BIG, "the sandbox ran out of memory during the operation",
                           "free memory in the sandbox, or create one with a larger memory_mb");
        break;
    case OP_STATUS_CANCELLED:
        result_set_failure(r, ERR_GONE, said[0] != '\0' ? said : "the operation was cancelled",
                           "create a new sandbox and try again");
        break;
    default:
        result_set_failure(r, err_known(end->fail_code) ? (int)end->fail_code : ERR_INTERNAL, said,
                           NULL);
        break;
    }
}

/* ---- executions ----------------------------------------------------------------------------- */

/* The part of a stream that a result shows. */
struct part {
    struct buf text;
    uint64_t from, to; /* in what was written */
    uint64_t kept;     /* what could be shown ends here */
    uint64_t total;    /* and what was written here, so far */
    bool cut;          /* there is more than is shown */
};

/* The texts of one execution, each within its budget. */
struct execution_texts {
    struct part out, err;
    struct buf value, name, message, traceback;
};

static bool is_over(const struct fleet_outcome *o)
{
    return o->state == OP_DONE;
}

/* Parts of one stream, one behind the other, are the whole: none begins or ends inside a character,
 * and one that is still being written waits for its rest. */
static void part_init(struct part *p, struct view kept, uint64_t total, uint64_t from,
                      size_t max_cost, bool over)
{
    bool more = !over || total > kept.len;
    size_t begin = text_char_start(kept, (size_t)from, more);
    struct view rest = view_bytes(kept.len > 0 ? kept.data + begin : NULL, kept.len - begin);
    buf_init(&p->text, TEXT_MAX_BYTES);
    size_t shown = text_add(&p->text, rest, max_cost, more);
    p->from = begin;
    p->to = begin + shown;
    p->kept = more ? text_whole_chars(kept) : kept.len;
    p->total = total;
    p->cut = total > kept.len || shown < (over ? rest.len : text_whole_chars(rest));
}

static void texts_init(struct execution_texts *t, const struct fleet_outcome *o,
                       const struct result_range *range)
{
    struct buf *all[] = {&t->value, &t->name, &t->message, &t->traceback};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        buf_init(all[i], TEXT_MAX_BYTES);
    }
    bool over = is_over(o);
    part_init(&t->out, o->out, o->out_bytes, range->out, RESULT_STDOUT_BYTES, over);
    part_init(&t->err, o->err, o->err_bytes, range->err, RESULT_STDERR_BYTES, over);
    const struct msg_output *end = o->end;
    struct {
        struct buf *to;
        struct view from;
        size_t max;
    } parts[] = {
        {&t->value, end->result, RESULT_VALUE_BYTES},
        {&t->name, end->error_name, RESULT_MESSAGE_BYTES / 4},
        {&t->message, end->error_message, RESULT_MESSAGE_BYTES},
        {&t->traceback, end->traceback, RESULT_TRACEBACK_BYTES},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t shown = text_add(parts[i].to, parts[i].from, parts[i].max, false);
        if (shown < parts[i].from.len) {
            text_printf(parts[i].to, "... [%zu more bytes]", parts[i].from.len - shown);
        }
    }
}

static void texts_finish(struct execution_texts *t)
{
    struct buf *all[] = {&t->out.text, &t->err.text, &t->value,
                         &t->name,     &t->message,  &t->traceback};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        buf_finish(all[i]);
    }
}

/* Starts a new line unless the text is at the beginning of one. */
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
    if (o->state == OP_RUNNING) {
        text_printf(text, "[still running after %.1f s", (double)o->duration_us / 1e6);
    } else {
        text_printf(text, "[not begun yet: it waits for its turn");
    }
    text_printf(text,
                "; get_execution with execution_id %s tells how it goes on, cancel_execution "
                "stops it]",
                o->op);
}

/* How it ended, in the words of whoever ended it if there are any. */
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
        if (explained) {
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

static void append_cut(struct buf *text, const char *stream, const char *argument,
                       const struct part *p)
{
    if (!p->cut) {
        return;
    }
    fresh_line(text);
    if (p->from == 0) {
        text_printf(text, "[%s: only the first %" PRIu64 " of %" PRIu64 " bytes are shown", stream,
                    p->to, p->total);
    } else {
        text_printf(text, "[%s: bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 " are shown", stream,
                    p->from, p->to, p->total);
    }
    if (p->to < p->kept) {
        text_printf(text, "; get_execution with %s %" PRIu64 " shows more]", argument, p->to);
    } else {
        text_printf(text, "; no more is kept]");
    }
}

static void execution_content(struct result *r, const struct fleet_outcome *o,
                              struct execution_texts *t, const char *notice)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    if (notice != NULL) {
        text_printf(&text, "[%s]\n", notice);
    }
    append(&text, &t->out.text);
    append_cut(&text, "stdout", "offset", &t->out);
    if (t->err.text.len > 0) {
        fresh_line(&text);
        text_printf(&text, "[stderr]\n");
        append(&text, &t->err.text);
    }
    append_cut(&text, "stderr", "stderr_offset", &t->err);
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
    while (text.len > 0 && text.data[text.len - 1] == '\n') {
        text.len--;
    }
    result_add_text(r, text.len > 0 ? text_cstr(&text) : "[no output]");
}

static void put_range(cJSON *s, const struct execution_texts *t, bool tell)
{
    if (tell) {
        result_put_uint(s, "offset", t->out.from);
        result_put_uint(s, "stderr_offset", t->err.from);
    }
    result_put_uint(s, "next_offset", t->out.to);
    result_put_uint(s, "next_stderr_offset", t->err.to);
}

static void put_end(cJSON *s, const struct msg_output *end, struct execution_texts *t)
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
    }
    if (end->interpreter != OP_INTERPRETER_NONE) {
        result_put_text(s, "interpreter", op_interpreter_name(end->interpreter));
    }
}

void result_set_execution(struct result *r, const struct fleet_outcome *o,
                          const struct result_range *range, const char *notice)
{
    static const struct result_range all = {0, 0, false};
    result_finish(r);
    result_init(r);
    const struct msg_output *end = o->end;
    bool over = is_over(o);
    r->is_error = over && end->status != OP_STATUS_OK;
    range = range != NULL ? range : &all;
    struct execution_texts t;
    texts_init(&t, o, range);
    bool cut = t.out.cut || t.err.cut;

    cJSON *s = r->structured;
    result_put_text(s, "execution_id", o->op);
    result_put_text(s, "sandbox_id", o->sandbox);
    result_put_text(s, "language", o->language);
    result_put_text(s, "status", over ? op_status_name(end->status) : "running");
    result_put_text(s, "stdout", text_cstr(&t.out.text));
    result_put_text(s, "stderr", text_cstr(&t.err.text));
    result_put_uint(s, "stdout_bytes", o->out_bytes);
    result_put_uint(s, "stderr_bytes", o->err_bytes);
    result_put_bool(s, "truncated", cut);
    if (!over || cut || range->tell) {
        put_range(s, &t, range->tell);
    }
    if (over) {
        put_end(s, end, &t);
    }
    result_put_number(s, "duration_ms", (double)o->duration_us / 1000.0);
    if (over) {
        result_put_number(s, "cpu_ms", (double)end->cpu_us / 1000.0);
        result_put_uint(s, "max_rss_kb", end->max_rss_kb);
    }
    execution_content(r, o, &t, notice);
    texts_finish(&t);
}
