/*
 * read_file: a file's content as text, as base64, or as a picture that the model can see.
 *
 * One call returns at most READ_MAX_BYTES, so that the result stays below what clients accept even
 * though the content appears in it twice; `offset` and `length` of the result say where to
 * continue. Text is never cut inside a character.
 */
#include <string.h>

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/links/mime.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"

#define READ_MAX_BYTES (360u << 10) /* in base64 as much as RESULT_TEXT_BYTES */
#define TEXT_MAX_BYTES (2u << 20)

static bool is_text_part(struct view v, bool more)
{
    size_t whole = more ? text_whole_chars(v) : v.len;
    if (whole == 0 && v.len > 0) {
        return false; /* part of a character, which needs base64 */
    }
    return utf8_valid(v.data, whole) && (whole == 0 || memchr(v.data, '\0', whole) == NULL);
}

struct reading {
    const char *encoding; /* "utf-8" or "base64" */
    const char *image;
    struct buf content;
    size_t used; /* bytes of the file that are in `content` */
    bool truncated;
};

static void decode_content(struct reading *rd, const char *wanted, uint64_t offset,
                           const struct fleet_outcome *o)
{
    bool more = o->end->truncated || o->out_bytes > o->out.len;
    bool automatic = strcmp(wanted, "auto") == 0;
    bool as_text = strcmp(wanted, "utf-8") == 0 || (automatic && is_text_part(o->out, more));
    buf_init(&rd->content, TEXT_MAX_BYTES);
    rd->encoding = as_text ? "utf-8" : "base64";
    if (as_text) {
        rd->used = text_add(&rd->content, o->out, RESULT_TEXT_BYTES, more);
        if (rd->used == 0) { /* the client asked for part of one character only */
            rd->used = text_add(&rd->content, o->out, RESULT_TEXT_BYTES, false);
        }
    } else {
        rd->used = o->out.len;
        err_ignore(base64_encode(&rd->content, o->out, NULL)); /* READ_MAX_BYTES fit */
        rd->image = offset == 0 && !more ? mime_of_image(o->out) : NULL;
    }
    rd->truncated = more || rd->used < o->out.len;
}

static void succeed_read_file(struct tool_call *call, const struct fleet_outcome *o)
{
    struct reading rd = {.image = NULL};
    const char *path = json_get_str(call->args, "path");
    const char *wanted = json_get_str(call->args, "encoding");
    uint64_t offset = args_uint(call->args, "offset");
    decode_content(&rd, wanted != NULL ? wanted : "auto", offset, o);

    struct result r;
    result_init(&r);
    cJSON *s = r.structured;
    result_put_text(s, "sandbox_id", call->sandbox_id);
    result_put_text(s, "path", path);
    result_put_text(s, "content", text_cstr(&rd.content));
    result_put_text(s, "encoding", rd.encoding);
    result_put_uint(s, "size", o->end->file_size);
    result_put_uint(s, "offset", offset);
    result_put_uint(s, "length", rd.used);
    result_put_bool(s, "truncated", rd.truncated);

    CLEANUP_BUF struct buf note;
    buf_init(&note, TEXT_MAX_BYTES);
    if (rd.image != NULL) {
        result_put_text(s, "mime_type", rd.image);
        result_add_image(&r, rd.image, text_cstr(&rd.content));
        text_printf(&note, "[%s: %s, %llu bytes]", path, rd.image,
                    (unsigned long long)o->end->file_size);
    } else if (rd.content.len == 0) {
        /* APIs of models refuse a block of text that is empty. */
        if (o->end->file_size == 0) {
            text_printf(&note, "[the file is empty]");
        } else {
            text_printf(&note, "[nothing there: the file has %llu bytes]",
                        (unsigned long long)o->end->file_size);
        }
    } else {
        result_add_text(&r, text_cstr(&rd.content));
        if (strcmp(rd.encoding, "base64") == 0) {
            text_printf(&note, "[the base64 of %zu bytes]", rd.used);
        }
    }
    if (rd.truncated) {
        text_printf(&note, "[bytes %llu to %llu of %llu; go on with offset %llu]",
                    (unsigned long long)offset, (unsigned long long)(offset + rd.used),
                    (unsigned long long)o->end->file_size, (unsigned long long)(offset + rd.used));
    }
    if (note.len > 0) {
        result_add_text(&r, text_cstr(&note));
    }
    tool_add_file_link(call, &r, path, rd.image, o->end->file_size);
    buf_finish(&rd.content);
    tool_finish(call, &r);
}

static void start_read_file(struct tool_call *call)
{
    uint64_t length = args_uint(call->args, "length");
    struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = json_get_str(call->args, "path"),
        .offset = args_uint(call->args, "offset"),
        .length = length != 0 ? length : READ_MAX_BYTES,
        .keep_bytes = READ_MAX_BYTES,
    };
    tool_run_file_op(call, &op, succeed_read_file);
}

static void run_read_file(struct tool_call *call)
{
    struct err err = ERR_INIT;
    int rc = args_check_path(json_get_str(call->args, "path"), &err);
    if (rc < 0) {
        tool_fail(call, rc, err.text, NULL);
        return;
    }
    tool_with_sandbox_there(call, start_read_file);
}

/* clang-format off */
const struct tool tool_read_file = {
    .name = "read_file",
    .title = "Read a file",
    .description =
        "Reads a file of the sandbox. One call returns at most 368640 bytes; for more, call again with offset "
        "= offset + length of the last result. PNG, JPEG, GIF and WebP pictures are also returned as images.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @file_path@,
            @sandbox_there@,
            "offset": {
                "type": "integer", "minimum": 0, "maximum": 9007199254740991, "default": 0,
                "description": "First byte to read."
            },
            "length": {
                "type": "integer", "minimum": 1, "maximum": 368640,
                "description": "Most bytes to read. Default: 368640."
            },
            "encoding": {
                "type": "string", "enum": ["auto", "utf-8", "base64"], "default": "auto",
                "description": "utf-8: as text, with U+FFFD for bytes that are not text; base64: exact bytes; auto: by the content."
            }
        },
        "required": ["path"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "path": {"type": "string"},
            @file_url@,
            "content": {"type": "string"},
            "encoding": {"type": "string", "enum": ["utf-8", "base64"]},
            "mime_type": {"type": "string", "description": "Of a picture."},
            "size": {"type": "integer", "description": "Size of the whole file in bytes."},
            "offset": {"type": "integer", "description": "First byte of content in the file."},
            "length": {"type": "integer", "description": "Bytes of the file that are in content."},
            "truncated": {"type": "boolean", "description": "True if the file continues after content."}
        },
        "required": ["path", "content", "encoding", "size", "offset", "length", "truncated"]
    }),
    .read_only = true,
    .idempotent = true,
    .long_results = true,
    .run = run_read_file,
};
/* clang-format on */
