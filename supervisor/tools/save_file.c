/*
 * save_file: puts a file of the sandbox into a directory of this host that the operator has marked
 * for that (--local-files DIR:rw).
 *
 *   begin (pool) -> read a piece (sandbox) -> write it (pool) -> ... -> name the file (pool)
 *
 * Pieces bound the memory. The agent says a stamp of the file with each piece, so a file that
 * changes meanwhile is not saved half old and half new. A file may be sparse, and larger than any
 * disk: its size is looked at before a byte of it is written.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/base/config.h"
#include "supervisor/base/local_file.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"
#include "supervisor/web/http/digest.h"

#define SAVE_PIECE_BYTES (1u << 20)
#define SAVE_MAX_BYTES   (UINT64_C(1) << 30)

#define HINT_WHERE                                                                                 \
    "local_path is below a directory that --local-files marks with :rw, and its parent exists"

struct saving {
    struct tool_call *call;
    uv_work_t work;
    struct local_save file;
    struct web_hash *hash;
    char *piece;
    size_t piece_len;
    uint64_t at, size, stamp;
    bool begun, last;
    int rc;
    struct err err;
};

static void saving_free(void *own)
{
    struct saving *s = own;
    local_save_end(&s->file);
    if (s->hash != NULL) {
        web_hash_end(s->hash, NULL);
    }
    free(s->piece);
    free(s);
}

static void on_save_work(uv_work_t *work)
{
    struct saving *s = work->data;
    const cJSON *args = s->call->args; /* stay as they are while the call lives */
    if (!s->begun) {
        s->rc = local_save_begin(s->call->session->config->local_files,
                                 json_get_str(args, "local_path"),
                                 cJSON_IsTrue(json_get(args, "overwrite")), &s->file, &s->err);
        return;
    }
    const struct view piece = view_bytes(s->piece, s->piece_len);
    s->rc = local_save_add(&s->file, piece, &s->err);
    s->rc = s->rc < 0 ? s->rc : web_hash_add(s->hash, piece, &s->err);
    if (s->rc == 0 && s->last) {
        s->rc = local_save_commit(&s->file, &s->err);
    }
}

static void succeed_save_file(struct saving *s)
{
    unsigned char digest[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    web_hash_end(STEAL_PTR(s->hash), digest);
    web_digest_hex(digest, hex);
    struct tool_call *call = s->call;
    const char *path = json_get_str(call->args, "path");
    const char *local = json_get_str(call->args, "local_path");
    struct result r;
    result_init(&r);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_text(r.structured, "path", path);
    result_put_text(r.structured, "local_path", local);
    result_put_uint(r.structured, "size", s->at);
    result_put_text(r.structured, "sha256", hex);
    CLEANUP_FREE char *text =
        alloc_printf("%s saved as %s: %" PRIu64 " bytes, SHA-256 %s", path, local, s->at, hex);
    result_add_text(&r, text);
    tool_finish(call, &r);
}

static void queue_save_work(struct saving *s);

static void on_saved_piece_read(struct tool_call *call, const struct fleet_outcome *o)
{
    struct saving *s = call->own;
    struct err *err = &s->err;
    if (s->at == 0) {
        s->size = o->end->file_size;
        s->stamp = o->end->file_stamp;
    }
    s->last = s->at + o->out.len == s->size;
    if (s->size > SAVE_MAX_BYTES) {
        s->rc = err_set(err, ERR_TOO_BIG,
                        "%.400s has %" PRIu64 " bytes; a file to save may have %" PRIu64,
                        json_get_str(call->args, "path"), s->size, SAVE_MAX_BYTES);
    } else if (o->end->file_size != s->size || o->end->file_stamp != s->stamp ||
               o->out.len > SAVE_PIECE_BYTES || (o->out.len == 0 && !s->last)) {
        s->rc = err_set(err, ERR_IO, "%.400s changed while it was being saved; nothing was saved",
                        json_get_str(call->args, "path"));
    }
    if (s->rc < 0) {
        tool_fail(call, s->rc, err->text, NULL);
        return;
    }
    if (o->out.len > 0) {
        memcpy(s->piece, o->out.data, o->out.len);
    }
    s->piece_len = o->out.len;
    queue_save_work(s);
}

static void read_saved_piece(struct saving *s)
{
    const struct fleet_progress progress = {"saving the file", s->at, s->size};
    tool_tell(s->call, &progress);
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = json_get_str(s->call->args, "path"),
        .offset = s->at,
        .length = SAVE_PIECE_BYTES,
        .keep_bytes = SAVE_PIECE_BYTES,
    };
    tool_run_file_op(s->call, &op, on_saved_piece_read);
}

static void on_save_worked(uv_work_t *work, int status)
{
    struct saving *s = work->data;
    struct tool_call *call = s->call;
    (void)status; /* a request of the pool is never cancelled */
    bool whole = s->begun && s->last && s->rc == 0;
    if (s->rc < 0) {
        tool_fail(call, s->rc, s->err.text, HINT_WHERE);
    } else if (whole) { /* it is there, wanted or not */
        s->at += s->piece_len;
        succeed_save_file(s);
    } else if (call->cancelled) {
        tool_fail(call, ERR_GONE, "cancelled", NULL);
    } else {
        s->at += s->begun ? s->piece_len : 0;
        s->begun = true;
        read_saved_piece(s);
    }
}

static void queue_save_work(struct saving *s)
{
    s->work.data = s;
    /* Fails only without a callback. */
    (void)uv_queue_work(s->call->session->services->loop, &s->work, on_save_work, on_save_worked);
}

static void start_save_file(struct tool_call *call)
{
    struct saving *s = alloc_one(struct saving);
    s->call = call;
    s->file = (struct local_save){.dir = -1, .fd = -1};
    s->piece = alloc_array(1, SAVE_PIECE_BYTES);
    call->own = s;
    call->own_free = saving_free;
    int rc = web_hash_begin(&s->hash, &s->err);
    if (rc < 0) {
        tool_fail(call, rc, s->err.text, NULL);
    } else {
        queue_save_work(s);
    }
}

static void run_save_file(struct tool_call *call)
{
    struct err err = ERR_INIT;
    int rc = args_check_path(json_get_str(call->args, "path"), &err);
    if (rc < 0) {
        tool_fail(call, rc, err.text, NULL);
    } else {
        tool_with_sandbox_there(call, start_save_file);
    }
}

/* clang-format off */
const struct tool tool_save_file = {
    .name = "save_file",
    .title = "Save a file on the host",
    .description =
        "Copies a file of the sandbox to the user's machine, into a directory that the user has opened for that. Use it for "
        "results that are to stay, such as charts and tables: a sandbox ends with all its files. The file appears in one "
        "step when it is whole, at most 1 GiB, and an existing one is kept unless overwrite is true. Directories on the way must be there.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @file_path@,
            @sandbox_there@,
            "local_path": {
                "type": "string", "minLength": 1, "maxLength": 4095,
                "description": "Where to, absolute or relative to@local_writable@."
            },
            "overwrite": {"type": "boolean", "default": false}
        },
        "required": ["path", "local_path"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "path": {"type": "string"},
            "local_path": {"type": "string"},
            @digest@
        },
        "required": ["path", "local_path", "size", "sha256"]
    }),
    .destructive = true,
    .idempotent = true,
    .run = run_save_file,
};
/* clang-format on */
