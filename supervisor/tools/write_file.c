/*
 * write_file: creates, replaces or extends a file in the sandbox.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"

static bool is_base64(const cJSON *args)
{
    const char *encoding = json_get_str(args, "encoding");
    return encoding != NULL && strcmp(encoding, "base64") == 0;
}

/* "0644", "644": three octal digits, with a leading 0 or not. */
static int read_mode(const cJSON *args, uint64_t *ret, struct err *err)
{
    const char *text = json_get_str(args, "mode");
    uint64_t mode = 0;
    if (text == NULL) {
        *ret = 0;
        return 0;
    }
    const char *digits = text[0] == '0' && strlen(text) == 4 ? text + 1 : text;
    if (strlen(digits) != 3 || strspn(digits, "01234567") != 3 || strcmp(digits, "000") == 0) {
        return err_set(err, ERR_INVALID,
                       "mode: expected permissions in octal such as \"0644\" or \"755\", got "
                       "\"%s\"",
                       text);
    }
    for (; *digits != '\0'; digits++) {
        mode = mode * 8 + (uint64_t)(*digits - '0');
    }
    *ret = mode;
    return 0;
}

static void succeed_write_file(struct tool_call *call, const struct fleet_outcome *outcome)
{
    const char *path = json_get_str(call->args, "path");
    unsigned long long size = outcome->end->file_size;
    struct result r;
    result_init(&r);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_text(r.structured, "path", path);
    result_put_uint(r.structured, "size", size);
    CLEANUP_FREE char *text = alloc_printf("%s: %llu bytes", path, size);
    result_add_text(&r, text);
    tool_add_file_link(call, &r, path, NULL, size);
    tool_finish(call, &r);
}

static void start_write_file(struct tool_call *call)
{
    const cJSON *args = call->args;
    const uint64_t *mode = call->own;
    struct fleet_op op = {
        .kind = OP_FILE_WRITE,
        .path = json_get_str(args, "path"),
        .data = is_base64(args) ? view_bytes(call->scratch.data, call->scratch.len)
                                : view_of(json_get_str(args, "content")),
        .mode = *mode,
        .flags = cJSON_IsTrue(json_get(args, "append")) ? OP_FLAG_APPEND : 0,
        .keep_bytes = 0,
    };
    tool_run_file_op(call, &op, succeed_write_file);
}

/* Checks the arguments before a sandbox is created for the call. */
static void run_write_file(struct tool_call *call)
{
    const cJSON *args = call->args;
    struct err err = ERR_INIT;
    const char *content = json_get_str(args, "content");
    uint64_t *mode = alloc_one(uint64_t);
    call->own = mode;
    call->own_free = free;
    int rc = args_check_path(json_get_str(args, "path"), &err);
    if (rc == 0) {
        rc = read_mode(args, mode, &err);
    }
    if (rc == 0 && is_base64(args)) {
        buf_init(&call->scratch, LIMIT_CODE);
        rc = base64_decode(&call->scratch, view_of(content), &err);
        if (rc < 0) {
            err_wrap(&err, "content");
        }
    } else if (rc == 0) {
        rc = args_check_size("content", content, LIMIT_CODE, &err);
    }
    if (rc < 0) {
        tool_fail(call, rc, err.text,
                  rc == -ERR_TOO_BIG ? "write it in parts with append: true" : NULL);
        return;
    }
    tool_with_sandbox(call, start_write_file);
}

/* clang-format off */
const struct tool tool_write_file = {
    .name = "write_file",
    .title = "Write a file",
    .description =
        "Writes a file in the sandbox, creating directories on the way. An existing file is replaced, in one "
        "step, unless append is true. At most 12 MiB of text or 11 MiB in base64 a call, and 16 MiB "
        "with all of the message.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @file_path@,
            @content@,
            @sandbox_id@,
            "append": {
                "type": "boolean", "default": false,
                "description": "Add to the end of the file instead of replacing it."
            },
            "mode": {
                "type": "string", "minLength": 3, "maxLength": 4,
                "description": "Permissions of the file in octal, for example 0755. Default: 0644."
            }
        },
        "required": ["path", "content"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "path": {"type": "string"},
            @file_url@,
            "size": {"type": "integer", "description": "Bytes in the file now."}
        },
        "required": ["path", "size"]
    }),
    .destructive = true,
    .idempotent = false,
    .run = run_write_file,
};
/* clang-format on */
