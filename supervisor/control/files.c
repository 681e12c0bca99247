/*
 * Files of sandboxes, as `cloister cp` moves them: read in pieces, each asked for when the client
 * has read the one before, and written in requests of at most LIMIT_CODE bytes, of which the later
 * ones append. Paths are the sandbox's own: relative ones start in its workspace, and what user
 * code could not reach there nobody reaches by this way.
 *
 * A directory is copied file by file, by its list: names in it are whatever user code has made
 * them, so whoever writes them down elsewhere has to check them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/base/entries.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

#define PIECE_BYTES (1u << 20)
#define MODE_MAX    0777

/* The path of the query; NULL: there is none, and the exchange was answered. */
static const char *query_path(struct web_exchange *x)
{
    const char *path = web_query(x, "path");
    if (path == NULL || path[0] == '\0' || strlen(path) >= LIMIT_PATH) {
        control_fail(x, ERR_INVALID, "expected ?path=PATH of a file in the sandbox", NULL);
        return NULL;
    }
    return path;
}

/* The error of an operation, which may be that of its own outcome; 0: it has none. */
static int failure_of(int rc, const struct fleet_outcome *outcome, const struct err *err,
                      struct err *ret)
{
    if (rc < 0) {
        *ret = *err;
        return rc;
    }
    if (outcome->end->status == OP_STATUS_OK) {
        return 0;
    }
    if (outcome->end->status == OP_STATUS_FAILED) {
        return err_set(ret, (enum err_code)outcome->end->fail_code, "%.*s",
                       VIEW_ARG(outcome->end->error_message));
    }
    return err_set(ret, ERR_ENGINE, "it did not end in time");
}

/* ---- reading -------------------------------------------------------------------------------- */

struct sending {
    struct control *control;
    struct web_exchange *x;
    char id[FLEET_ID_SIZE];
    char *path;
    uint64_t at, size;       /* bytes sent, and those of the whole */
    struct fleet_call *call; /* NULL: its client has to read first */
    bool begun, gone;
};

static void free_sending(struct sending *s)
{
    free(s->path);
    free(s);
}

static void ask_piece(struct sending *s);

/* The file is shorter than it was, or cannot be read any more: the client must see that. */
static void cut_sending(struct sending *s, int rc, const struct err *err)
{
    struct web_exchange *x = s->x;
    bool begun = s->begun;
    web_on_gone(x, NULL, NULL);
    web_on_drain(x, NULL, NULL);
    free_sending(s);
    if (begun) {
        control_deed_done(x, rc < 0 ? rc : ERR_IO);
        web_stream_cut(x);
    } else {
        control_fail(x, rc, err->text, NULL);
    }
}

static void end_sending(struct sending *s)
{
    struct web_exchange *x = s->x;
    web_on_gone(x, NULL, NULL);
    web_on_drain(x, NULL, NULL);
    free_sending(s);
    control_deed_done(x, 0);
    web_stream_end(x);
}

static void send_bytes(struct sending *s, struct view bytes)
{
    uint64_t left = s->size - s->at;
    size_t len = bytes.len < left ? bytes.len : (size_t)left; /* it may have grown */
    char *copy = alloc_block(len + 1);
    memcpy(copy, bytes.data != NULL ? bytes.data : "", len);
    s->at += len;
    web_stream_write(s->x, copy, len);
}

static void on_bytes_read(void *arg, int rc, const struct fleet_outcome *outcome,
                          const struct err *err, const char *hint)
{
    struct sending *s = arg;
    struct err failure = ERR_INIT;
    (void)hint;
    s->call = NULL;
    if (s->gone) {
        free_sending(s);
        return;
    }
    rc = failure_of(rc, outcome, err, &failure);
    bool is_short = rc == 0 && s->begun && outcome->out.len == 0 && s->at < s->size;
    if (rc < 0 || is_short) {
        cut_sending(s, rc, &failure);
        return;
    }
    if (!s->begun) {
        s->begun = true;
        s->size = outcome->end->file_size;
        web_stream_begin_sized(s->x, 200, "application/octet-stream", s->size);
    }
    send_bytes(s, outcome->out);
    if (s->at >= s->size) {
        end_sending(s);
    }
}

static void ask_piece(struct sending *s)
{
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = s->path,
        .offset = s->at,
        .length = PIECE_BYTES,
        .keep_bytes = PIECE_BYTES,
    };
    s->call = fleet_run(s->control->fleet, s->id, &op, on_bytes_read, s);
}

static void on_sending_drained(void *arg)
{
    struct sending *s = arg;
    struct err err = ERR_INIT;
    if (s->call == NULL && s->control->quiet) { /* the fleet may be gone */
        cut_sending(s, err_set(&err, ERR_SHUTTING_DOWN, "the server is shutting down"), &err);
    } else if (s->call == NULL) {
        ask_piece(s);
    }
}

static void on_sending_gone(void *arg)
{
    struct sending *s = arg;
    s->gone = true;
    if (s->call != NULL) {
        fleet_cancel(s->call);
    } else {
        free_sending(s);
    }
}

void control_read_file(struct control *c, struct web_exchange *x, const char *name)
{
    char id[FLEET_ID_SIZE];
    const char *path = query_path(x);
    if (path == NULL || !control_find_sandbox(c, x, name, id)) {
        return;
    }
    struct sending *s = alloc_one(struct sending);
    s->control = c;
    s->x = x;
    s->path = alloc_strdup(path);
    snprintf(s->id, sizeof(s->id), "%s", id);
    web_set_header(x, "Cache-Control", "no-store");
    web_set_header(x, "X-Content-Type-Options", "nosniff");
    web_on_gone(x, on_sending_gone, s);
    web_on_drain(x, on_sending_drained, s);
    ask_piece(s);
}

/* ---- lists ---------------------------------------------------------------------------------- */

struct entry_list {
    cJSON *entries;
    uint64_t unnamed; /* whose names are no text, and so cannot be told */
};

static bool add_listed_entry(void *arg, const struct msg_entry *e)
{
    struct entry_list *list = arg;
    if (!utf8_valid(e->path.data, e->path.len) || memchr(e->path.data, '\0', e->path.len) != NULL) {
        list->unnamed++;
        return true;
    }
    CLEANUP_FREE char *path = alloc_viewdup(e->path);
    cJSON *row = cJSON_CreateObject();
    result_put_text(row, "path", path);
    result_put_text(row, "type", file_type_name(e->type));
    result_put_uint(row, "size", e->size);
    result_put_uint(row, "mode", e->mode);
    cJSON_AddItemToArray(list->entries, row);
    return true;
}

static void on_entries_listed(void *arg, int rc, const struct fleet_outcome *outcome,
                              const struct err *err, const char *hint)
{
    struct web_exchange *x = arg;
    struct err failure = ERR_INIT;
    cJSON *body = cJSON_CreateObject();
    struct entry_list list = {.entries = result_put_array(body, "entries")};
    rc = failure_of(rc, outcome, err, &failure);
    if (rc == 0) {
        rc = entries_read(outcome->out, add_listed_entry, &list, &failure);
    }
    if (rc < 0) {
        cJSON_Delete(body);
        control_fail(x, rc, failure.text, hint);
        return;
    }
    result_put_uint(body, "unnamed", list.unnamed);
    result_put_bool(body, "truncated",
                    outcome->end->truncated || outcome->out_bytes > outcome->out.len);
    control_answer(x, 200, body);
}

void control_list_entries(struct control *c, struct web_exchange *x, const char *name)
{
    char id[FLEET_ID_SIZE];
    const char *path = query_path(x);
    if (path == NULL || !control_find_sandbox(c, x, name, id)) {
        return;
    }
    const struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = path,
        .length = LIMIT_ENTRIES,
        .flags = OP_FLAG_RECURSIVE,
        .keep_bytes = ENTRIES_KEEP_BYTES,
    };
    (void)fleet_run(c->fleet, id, &op, on_entries_listed, x);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void on_bytes_written(void *arg, int rc, const struct fleet_outcome *outcome,
                             const struct err *err, const char *hint)
{
    struct web_exchange *x = arg;
    struct err failure = ERR_INIT;
    rc = failure_of(rc, outcome, err, &failure);
    if (rc < 0) {
        control_fail(x, rc, failure.text, hint);
        return;
    }
    cJSON *body = cJSON_CreateObject();
    result_put_uint(body, "size", outcome->end->file_size);
    control_answer(x, 200, body);
}

void control_write_file(struct control *c, struct web_exchange *x, const char *name)
{
    char id[FLEET_ID_SIZE];
    uint64_t mode;
    struct view bytes = web_body(x);
    const char *path = query_path(x);
    if (path == NULL || !control_number(x, "mode", 0, MODE_MAX, &mode) ||
        !control_find_sandbox(c, x, name, id)) {
        return;
    }
    if (bytes.len > LIMIT_CODE) {
        control_fail(x, ERR_TOO_BIG, "at most 12 MiB in one request",
                     "send the rest with append=1");
        return;
    }
    const struct fleet_op op = {
        .kind = OP_FILE_WRITE,
        .path = path,
        .data = bytes,
        .mode = mode,
        .flags = control_asks_for(x, "append") ? OP_FLAG_APPEND : 0,
    };
    (void)fleet_run(c->fleet, id, &op, on_bytes_written, x);
}
