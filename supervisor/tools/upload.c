/*
 * Copies a file of this host into a sandbox in pieces. A thread of the pool reads a piece and adds
 * it to the digest; then the piece is appended to a file with a hidden name, which the last piece
 * renames. So memory does not grow with the file, code in the sandbox never sees part of it, and a
 * call that ends early leaves nothing.
 */
#include "supervisor/tools/upload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/str.h"
#include "supervisor/base/config.h"
#include "supervisor/base/local/file.h"
#include "supervisor/tools/tool.h"

#define PIECE_BYTES (1u << 20)
#define ID_CHARS    16

struct upload {
    struct tool_call *call;
    uv_work_t work;
    char *dirs, *local, *path;
    upload_done_fn done;
    char id[ID_CHARS + 1]; /* by which the agent finds the hidden file */
    int fd;
    uint64_t size, at;
    char *piece;
    size_t piece_len;
    bool last;
    bool begun;     /* a piece was sent: there may be a hidden file, whatever became of the piece */
    bool not_local; /* the error is about the file on this host */
    struct web_hash *hash;
    int rc; /* the first error, of reading or writing */
    struct err err;
    char *hint;
};

/* ---- reading, on a thread of the pool -------------------------------------------------------- */

static int read_piece(struct upload *u, struct err *err)
{
    uint64_t left = u->size - u->at;
    size_t want = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
    u->piece_len = 0;
    while (u->piece_len < want) {
        ssize_t n = read(u->fd, u->piece + u->piece_len, want - u->piece_len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(err, ERR_IO, errno, "local_path: %.400s", u->local);
        }
        if (n == 0) {
            return err_set(err, ERR_IO, "local_path: %.400s has become shorter meanwhile",
                           u->local);
        }
        u->piece_len += (size_t)n;
    }
    u->last = u->at + u->piece_len == u->size;
    return web_hash_add(u->hash, view_bytes(u->piece, u->piece_len), err);
}

static void on_upload_work(uv_work_t *work)
{
    struct upload *u = work->data;
    if (u->fd < 0) {
        u->rc = local_file_open(u->dirs, u->local, &u->fd, &u->size, &u->err);
        u->not_local = u->rc < 0;
    }
    if (u->rc == 0) {
        u->rc = read_piece(u, &u->err);
    }
}

/* ---- the life of an upload ------------------------------------------------------------------- */

static void upload_free(void *own)
{
    struct upload *u = own;
    if (u->fd >= 0) {
        close(u->fd);
    }
    if (u->hash != NULL) {
        web_hash_end(u->hash, NULL);
    }
    free(u->dirs);
    free(u->local);
    free(u->path);
    free(u->piece);
    free(u->hint);
    free(u);
}

static void step_upload(struct upload *u);

static struct fleet_op write_op(const struct upload *u, struct view *id, uint64_t flags)
{
    *id = view_of(u->id);
    return (struct fleet_op){
        .kind = OP_FILE_WRITE,
        .path = u->path,
        .data = view_bytes(u->piece, flags & OP_FLAG_DROP ? 0 : u->piece_len),
        .offset = u->at,
        .args = {id, 1},
        .flags = OP_FLAG_PART | flags,
    };
}

static void end_upload(struct upload *u)
{
    static const char which[] =
        "local_path is a file of the server's host, below a directory that --local-files names";
    struct upload_result result = {
        .rc = u->rc, .err = &u->err, .hint = u->not_local ? which : u->hint, .size = u->at};
    unsigned char digest[WEB_DIGEST_BYTES];
    if (u->rc == 0) {
        web_hash_end(u->hash, digest);
        u->hash = NULL;
        web_digest_hex(digest, result.sha256);
    }
    struct tool_call *call = u->call;
    upload_done_fn done = u->done;
    call->own = NULL;
    call->own_free = NULL;
    done(call, &result);
    upload_free(u);
}

static void on_dropped(void *arg, int rc, const struct fleet_outcome *outcome,
                       const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)outcome, (void)err, (void)hint; /* the sandbox may be gone, too */
    tool_op_over(call, rc);
    end_upload(call->own);
}

/* Removes the hidden file. */
static void give_up_upload(struct upload *u)
{
    struct view id;
    if (!u->begun) {
        end_upload(u);
        return;
    }
    const struct fleet_op op = write_op(u, &id, OP_FLAG_DROP);
    tool_run_op(u->call, &op, on_dropped);
}

static void on_piece_written(void *arg, int rc, const struct fleet_outcome *outcome,
                             const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    struct upload *u = call->own;
    tool_op_over(call, rc);
    if (rc < 0) {
        u->rc = rc;
        u->err = *err;
        u->hint = alloc_strdup(hint != NULL ? hint : "");
    } else if (outcome->end->status == OP_STATUS_FAILED) {
        const struct view why = outcome->end->error_message;
        u->rc = err_set(&u->err, (enum err_code)outcome->end->fail_code, "%.*s", VIEW_ARG(why));
    } else if (outcome->end->status != OP_STATUS_OK) {
        u->rc = err_set(&u->err, ERR_GONE, "writing %.400s was stopped: %s", u->path,
                        op_status_name(outcome->end->status));
    }
    u->at += u->rc == 0 ? u->piece_len : 0;
    if (u->rc < 0) {
        give_up_upload(u);
    } else if (u->last) {
        end_upload(u);
    } else {
        step_upload(u);
    }
}

static void on_upload_worked(uv_work_t *work, int status)
{
    struct upload *u = work->data;
    struct view id;
    (void)status; /* a request of the pool is never cancelled */
    if (u->rc == 0 && u->call->cancelled) {
        u->rc = err_set(&u->err, ERR_GONE, "cancelled");
    }
    if (u->rc < 0) {
        give_up_upload(u);
        return;
    }
    const struct fleet_progress progress = {"copying the file", u->at, u->size};
    tool_tell(u->call, &progress);
    u->begun = true;
    const struct fleet_op op = write_op(u, &id, u->last ? OP_FLAG_LAST : 0);
    tool_run_op(u->call, &op, on_piece_written);
}

static void step_upload(struct upload *u)
{
    u->work.data = u;
    /* Fails only without a callback. */
    (void)uv_queue_work(u->call->session->services->loop, &u->work, on_upload_work,
                        on_upload_worked);
}

void upload_local(struct tool_call *call, const char *local, const char *path, upload_done_fn done)
{
    struct upload *u = alloc_one(struct upload);
    u->call = call;
    u->fd = -1;
    u->dirs = alloc_strdup(call->session->config->local_files);
    u->local = alloc_strdup(local);
    u->path = alloc_strdup(path);
    u->done = done;
    u->piece = alloc_array(1, PIECE_BYTES);
    call->own = u;
    call->own_free = upload_free;
    u->rc = random_id(u->id, ID_CHARS, &u->err);
    if (u->rc == 0) {
        u->rc = web_hash_begin(&u->hash, &u->err);
    }
    if (u->rc < 0) {
        end_upload(u);
    } else {
        step_upload(u);
    }
}
