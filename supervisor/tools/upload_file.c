/*
 * upload_file: writes a whole file into the sandbox, either from the call or from this host
 * (upload.h).
 */
#include <inttypes.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"
#include "supervisor/tools/upload.h"
#include "supervisor/web/http/digest.h"

static void succeed_upload_file(struct tool_call *call, uint64_t size, const char *sha256)
{
    const char *path = json_get_str(call->args, "path");
    struct result r;
    result_init(&r);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_text(r.structured, "path", path);
    result_put_uint(r.structured, "size", size);
    result_put_text(r.structured, "sha256", sha256);
    CLEANUP_FREE char *text = alloc_printf("%s: %" PRIu64 " bytes, SHA-256 %s", path, size, sha256);
    result_add_text(&r, text);
    tool_add_file_link(call, &r, path, NULL, size);
    tool_finish(call, &r);
}

static void on_local(struct tool_call *call, const struct upload_result *result)
{
    if (result->rc == 0) {
        succeed_upload_file(call, result->size, result->sha256);
    } else {
        tool_fail_fleet(call, result->rc, result->err, result->hint);
    }
}

static void on_content_written(struct tool_call *call, const struct fleet_outcome *outcome)
{
    struct err why = ERR_INIT;
    unsigned char digest[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    int rc = web_digest_sha256(view_bytes(call->scratch.data, call->scratch.len), digest, &why);
    if (rc < 0) {
        tool_fail(call, rc, why.text, NULL);
        return;
    }
    web_digest_hex(digest, hex);
    succeed_upload_file(call, outcome->end->file_size, hex);
}

static void start_upload_file(struct tool_call *call)
{
    const char *local = json_get_str(call->args, "local_path");
    const char *path = json_get_str(call->args, "path");
    const struct fleet_op op = {
        .kind = OP_FILE_WRITE,
        .path = path,
        .data = view_bytes(call->scratch.data, call->scratch.len),
    };
    if (local != NULL) {
        upload_local(call, local, path, on_local);
    } else {
        tool_run_file_op(call, &op, on_content_written);
    }
}

/* The bytes of `content`. */
static int read_content(struct tool_call *call, struct err *err)
{
    const char *content = json_get_str(call->args, "content");
    const char *encoding = json_get_str(call->args, "encoding");
    bool base64 = encoding != NULL && strcmp(encoding, "base64") == 0;
    buf_init(&call->scratch, LIMIT_CODE);
    int rc = base64 ? base64_decode(&call->scratch, view_of(content), err)
                    : buf_add_str(&call->scratch, content, err);
    return rc < 0 ? err_wrap(err, "content") : 0;
}

static void run_upload_file(struct tool_call *call)
{
    struct err err = ERR_INIT;
    const char *hint = NULL;
    const char *content = json_get_str(call->args, "content");
    bool has_local = json_get_str(call->args, "local_path") != NULL;
    /* Who has to fill in all arguments leaves the other one empty. */
    bool has_content = content != NULL && (content[0] != '\0' || !has_local);
    int rc = args_check_path(json_get_str(call->args, "path"), &err);
    if (rc == 0 && has_content == has_local) {
        rc = err_set(&err, ERR_INVALID, "expected either content or local_path");
    } else if (rc == 0 && has_content) {
        rc = read_content(call, &err);
        hint = rc == -ERR_TOO_BIG ? "write it in parts, by write_file with append: true" : NULL;
    } else if (rc == 0 && call->session->config->local_files[0] == '\0') {
        rc = err_set(&err, ERR_PATH, "local_path: this server takes no files of its host");
        hint = "pass the content of the file, or have the server started with --local-files";
    }
    if (rc < 0) {
        tool_fail(call, rc, err.text, hint);
        return;
    }
    tool_with_sandbox(call, start_upload_file);
}

/* clang-format off */
const struct tool tool_upload_file = {
    .name = "upload_file",
    .title = "Upload a file",
    .description =
        "Puts a whole file into the sandbox, creating directories on the way; an existing file is replaced, in "
        "one step. Its bytes come with the call (content, at most 12 MiB of text or 11 MiB in base64, and 16 MiB "
        "with all of the message), or from the host that the server runs on (local_path, of any size)"
        "@local_files_about@. The result has the file's SHA-256.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @file_path@,
            @sandbox_id@,
            @content@,
            "local_path": {
                "type": "string", "minLength": 1, "maxLength": 4095,
                "description": "Instead of content: a file of the server's host, absolute or relative to a directory "
                               "from which files may be taken."
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
            @digest@
        },
        "required": ["path", "size", "sha256"]
    }),
    .destructive = true,
    .idempotent = true,
    .run = run_upload_file,
};
/* clang-format on */
