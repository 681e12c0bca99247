/*
 * Describes what a call found twice: in fields for programs, and as the text that a person at a
 * terminal would have seen. User code chooses most of the bytes, so all of them pass through
 * text_add(), which makes them UTF-8 and keeps them within their share of the result.
 *
 * Lines of our own in the text are in square brackets, so that they stand apart from output.
 */
#include "supervisor/results/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/text.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/uri.h"

/* Replacing bytes by U+FFFD makes a text at most three times as long; budgets are well below
 * this. */
#define TEXT_MAX_BYTES  (4u << 20)
#define WORDS_MAX_BYTES 8192

void result_init(struct result *r)
{
    *r = (struct result){.content = cJSON_CreateArray(), .structured = cJSON_CreateObject()};
}

void result_finish(struct result *r)
{
    cJSON_Delete(r->content);
    cJSON_Delete(r->structured);
    *r = (struct result){.content = NULL};
}

void result_put(cJSON *object, const char *key, cJSON *owned_value)
{
    cJSON_AddItemToObjectCS(object, key, owned_value);
}

void result_put_text(cJSON *object, const char *key, const char *text)
{
    result_put(object, key, cJSON_CreateString(text));
}

cJSON *result_words(const char *words)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, WORDS_MAX_BYTES);
    text_add(&text, view_of(words), WORDS_MAX_BYTES / 4, false);
    return cJSON_CreateString(text_cstr(&text));
}

void result_put_words(cJSON *object, const char *key, const char *words)
{
    result_put(object, key, result_words(words));
}

void result_put_int(cJSON *object, const char *key, int64_t value)
{
    /* cJSON prints at most 15 digits before it uses an exponent. */
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

void result_add_link(struct result *r, const char *uri, const char *name, const char *mime_type,
                     uint64_t size)
{
    if (uri == NULL) {
        return;
    }
    cJSON *block = cJSON_CreateObject();
    result_put(block, "type", cJSON_CreateStringReference("resource_link"));
    result_put_text(block, "uri", uri);
    result_put_text(block, "name", name);
    result_put_text(block, "title", name);
    if (mime_type != NULL) {
        result_put_text(block, "mimeType", mime_type);
    }
    result_put_uint(block, "size", size);
    cJSON_AddItemToArray(r->content, block);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* What to do next, for failures without a hint of their own. */
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
    case ERR_PACKAGE:
        return "output has the last lines of the installer; check_package_status tells what the "
               "sandbox has";
    case ERR_NETWORK:
        return "leave network out: install_package works without it; the server's operator can "
               "allow it with --allow-network";
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
    r->code = code < 0 ? -code : code;

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
