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
#include "supervisor/base/local/file.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"
#include "supervisor/web/http/digest.h"

#define SAVE_PIECE_BYTES (1u << 20)
#define SAVE_MAX_BYTES   (UINT64_C(1) << 30)

struct saving {
    struct tool_call *call;
    uv_work_t work;
    const char *path, *local; /* arguments, borrowed while the call lives */
    bool overwrite;
    struct local_save file; /* only for the pool, which also ends it */
    struct web_hash *hash;
    char *piece;
    size_t piece_len;
    uint64_t at, size, stamp;
    bool begun, last;
    bool given_up; /* call->held says why */
    int rc;        /* of the work */
    struct err err;
    const char *hint;
};

static void saving_free(void *own)
{
    struct saving *s = own;
    if (s->hash != NULL) {
        web_hash_end(s->hash, NULL);
    }
    free(s->piece);
    free(s);
}

/* ---- the file on this host, on a thread of the pool ------------------------------------------ */

/* What helps if the file on this host is the cause; NULL if it is not. */
static const char *hint_for_local(const struct saving *s)
{
    if (s->file.name == NULL) {
        return "local_path is below a directory that --local-files marks with :rw, and its parent "
               "exists";
    }
    switch (-s->rc) {
    case ERR_PATH:
    case ERR_DENIED:
        return "choose another local_path; overwrite: true replaces a regular file";
    case ERR_TOO_BIG:
        return "save something smaller, or have room made on the server's host";
    default:
        return NULL;
    }
}

static int save_piece(struct saving *s)
{
    const struct view piece = view_bytes(s->piece, s->piece_len);
    int rc = local_save_add(&s->file, piece, &s->err);
    rc = rc < 0 ? rc : web_hash_add(s->hash, piece, &s->err);
    return rc == 0 && s->last ? local_save_commit(&s->file, &s->err) : rc;
}

/* What is not to stay is removed here, too: the loop must not wait for the disk. */
static void on_save_work(uv_work_t *work)
{
    struct saving *s = work->data;
    if (!s->given_up) {
        s->rc = s->begun ? save_piece(s)
                         : local_save_begin(s->call->session->config->local_files, s->local,
                                            s->overwrite, &s->file, &s->err);
        s->hint = s->rc < 0 ? hint_for_local(s) : NULL;
    }
    if (s->given_up || s->rc < 0 || s->last) {
        local_save_end(&s->file);
    }
}

/* ---- the life of a save ---------------------------------------------------------------------- */

static void succeed_save_file(struct saving *s)
{
    unsigned char digest[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    web_hash_end(STEAL_PTR(s->hash), digest);
    web_digest_hex(digest, hex);
    struct tool_call *call = s->call;
    struct result r;
    result_init(&r);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_text(r.structured, "path", s->path);
    result_put_text(r.structured, "local_path", s->local);
    result_put_uint(r.structured, "size", s->at);
    result_put_text(r.structured, "sha256", hex);
    CLEANUP_FREE char *text = alloc_printf("%s saved as %s: %" PRIu64 " bytes, SHA-256 %s", s->path,
                                           s->local, s->at, hex);
    result_add_text(&r, text);
    tool_finish(call, &r);
}

static void queue_save_work(struct saving *s);

/* The call fails with call->held when the pool has removed what was written. */
static void give_up_save(struct saving *s)
{
    s->given_up = true;
    queue_save_work(s);
}

/* Checks the piece that the sandbox has sent, and copies it. */
static int take_saved_piece(struct saving *s, const struct fleet_outcome *o, struct err *err)
{
    if (s->at == 0) {
        s->size = o->end->file_size;
        s->stamp = o->end->file_stamp;
    }
    if (s->size > SAVE_MAX_BYTES) {
        return err_set(err, ERR_TOO_BIG,
                       "%.400s has %" PRIu64 " bytes; a file to save may have %" PRIu64, s->path,
                       s->size, SAVE_MAX_BYTES);
    }
    s->last = s->at + o->out.len == s->size;
    if (o->end->file_size != s->size || o->end->file_stamp != s->stamp ||
        o->out.len > SAVE_PIECE_BYTES || o->out.len > s->size - s->at ||
        (o->out.len == 0 && !s->last)) {
        return err_set(err, ERR_IO, "%.400s changed while it was being saved; nothing was saved",
                       s->path);
    }
    if (o->out.len > 0) {
        memcpy(s->piece, o->out.data, o->out.len);
    }
    s->piece_len = o->out.len;
    return 0;
}

static void on_saved_piece_read(void *arg, int rc, const struct fleet_outcome *o,
                                const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    struct saving *s = call->own;
    struct err refused = ERR_INIT;
    tool_op_over(call, rc);
    if (rc < 0) {
        result_set_failure(&call->held, rc, err != NULL ? err->text : NULL, hint);
        give_up_save(s);
    } else if (o->end->status != OP_STATUS_OK) {
        result_set_operation_failure(&call->held, o);
        give_up_save(s);
    } else if ((rc = take_saved_piece(s, o, &refused)) < 0) {
        result_set_failure(&call->held, rc, refused.text,
                           rc == -ERR_TOO_BIG ? "split it in the sandbox, and save the parts"
                                              : NULL);
        give_up_save(s);
    } else {
        queue_save_work(s);
    }
}

static void read_saved_piece(struct saving *s)
{
    const struct fleet_progress progress = {"saving the file", s->at, s->size};
    tool_tell(s->call, &progress);
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = s->path,
        .offset = s->at,
        .length = SAVE_PIECE_BYTES,
        .keep_bytes = SAVE_PIECE_BYTES,
    };
    tool_run_op(s->call, &op, on_saved_piece_read);
}

static void on_save_worked(uv_work_t *work, int status)
{
    struct saving *s = work->data;
    struct tool_call *call = s->call;
    (void)status; /* a request of the pool is never cancelled */
    s->at += s->begun && s->rc == 0 ? s->piece_len : 0;
    if (s->given_up) {
        tool_finish(call, &call->held);
    } else if (s->rc < 0) {
        tool_fail(call, s->rc, s->err.text, s->hint);
    } else if (s->last) { /* it is there, wanted or not */
        succeed_save_file(s);
    } else if (call->cancelled) {
        result_set_failure(&call->held, ERR_GONE, "cancelled", NULL);
        give_up_save(s);
    } else {
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
    struct saving *s = call->own;
    int rc = web_hash_begin(&s->hash, &s->err);
    if (rc < 0) {
        tool_fail(call, rc, s->err.text, NULL);
    } else {
        queue_save_work(s);
    }
}

static void run_save_file(struct tool_call *call)
{
    struct saving *s = alloc_one(struct saving);
    s->call = call;
    s->path = json_get_str(call->args, "path");
    s->local = json_get_str(call->args, "local_path");
    s->overwrite = cJSON_IsTrue(json_get(call->args, "overwrite"));
    s->file = (struct local_save){.dir = -1, .fd = -1};
    s->piece = alloc_array(1, SAVE_PIECE_BYTES);
    call->own = s;
    call->own_free = saving_free;
    int rc = args_check_path(s->path, &s->err);
    if (rc < 0) {
        tool_fail(call, rc, s->err.text, NULL);
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
