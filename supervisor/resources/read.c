/*
 * resources/read.
 *
 * A file is returned as text if it is text, else as base64, whatever its name suggests. A directory
 * is returned as JSON; we find it out by trying: a path that cannot be read as a file is listed.
 * Output of code is returned as far as it is kept, with a line where bytes are missing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/base/entries.h"
#include "supervisor/base/principal.h"
#include "supervisor/links/mime.h"
#include "supervisor/links/uri.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/resources/job.h"
#include "supervisor/resources/resources.h"
#include "supervisor/results/result.h"
#include "supervisor/results/stream.h"

#define TEXT_COST_MAX  (2u << 20) /* a text of mostly escapes is shorter as base64 */
#define LISTED_MAX     2000
#define LISTED_BYTES   (512u << 10)
#define TEXT_MAX_BYTES (8u << 20)

struct reading {
    struct job job;
    struct uri u;
    char *uri;
    cJSON *entries; /* of a directory */
    size_t bytes;
    bool cut;
};

static void forget_reading(struct reading *rd)
{
    free(rd->uri);
    free(rd);
}

/* Ends the request with one content: `text`, or base64 of `bytes`. */
static void answer(struct reading *rd, const char *type, const char *text, struct view bytes)
{
    cJSON *result = cJSON_CreateObject();
    cJSON *content = cJSON_CreateObject();
    cJSON_AddItemToArray(result_put_array(result, "contents"), content);
    result_put_text(content, "uri", rd->uri);
    result_put_text(content, "mimeType", type);
    if (text != NULL) {
        result_put_text(content, "text", text);
    } else {
        CLEANUP_BUF struct buf blob;
        buf_init(&blob, TEXT_MAX_BYTES);
        err_ignore(base64_encode(&blob, bytes, NULL)); /* RESOURCE_MAX_BYTES fit */
        result_put_text(content, "blob", text_cstr(&blob));
    }
    mcp_answer(rd->job.request, result);
    forget_reading(rd);
}

/* ---- files ---- */

static void answer_too_large(struct reading *rd, uint64_t size)
{
    cJSON *data = cJSON_CreateObject();
    result_put_text(data, "uri", rd->uri);
    result_put_uint(data, "size", size);
    result_put_uint(data, "limit", RESOURCE_MAX_BYTES);
    CLEANUP_FREE char *text =
        alloc_printf("The file has %" PRIu64 " bytes, resources/read returns at most %u; call the "
                     "tool read_file with sandbox_id, path, offset and length to read it in parts",
                     size, RESOURCE_MAX_BYTES);
    mcp_answer_error(rd->job.request, RESOURCE_TOO_LARGE, text, data);
    forget_reading(rd);
}

static bool is_text_content(struct view v)
{
    return utf8_valid(v.data, v.len) && (v.len == 0 || memchr(v.data, '\0', v.len) == NULL) &&
           text_fit(v, TEXT_COST_MAX) == v.len;
}

static void answer_file(struct reading *rd, const struct fleet_outcome *o)
{
    uint64_t size = o->end->file_size > o->out_bytes ? o->end->file_size : o->out_bytes;
    if (size > RESOURCE_MAX_BYTES || o->out.len < o->out_bytes) {
        answer_too_large(rd, size);
        return;
    }
    const char *type = mime_of_name(rd->u.path);
    if (is_text_content(o->out)) {
        CLEANUP_FREE char *text = alloc_viewdup(o->out);
        answer(rd, type != NULL ? type : "text/plain", text, o->out);
    } else {
        answer(rd, type != NULL ? type : "application/octet-stream", NULL, o->out);
    }
}

/* ---- directories ---- */

static bool on_reading_entry(void *arg, const struct msg_entry *e)
{
    struct reading *rd = arg;
    CLEANUP_FREE char *uri = uri_of_file(rd->job.sandbox, rd->u.path, e->path);
    if (uri == NULL) {
        return true;
    }
    if (cJSON_GetArraySize(rd->entries) == LISTED_MAX || rd->bytes > LISTED_BYTES) {
        rd->cut = true;
        return false;
    }
    CLEANUP_FREE char *name = alloc_viewdup(e->path);
    cJSON *entry = cJSON_CreateObject();
    result_put_text(entry, "name", name);
    result_put_text(entry, "type", file_type_name(e->type));
    result_put_uint(entry, "size", e->size);
    result_put_time(entry, "modified_at", e->mtime_ms);
    result_put_text(entry, "uri", uri);
    cJSON_AddItemToArray(rd->entries, entry);
    rd->bytes += strlen(uri) + strlen(name) + 128;
    return true;
}

static void answer_directory(struct reading *rd, const struct fleet_outcome *o)
{
    struct err err = ERR_INIT;
    cJSON *directory = cJSON_CreateObject();
    result_put_text(directory, "path", rd->u.path);
    rd->entries = result_put_array(directory, "entries");
    if (entries_read(o->out, on_reading_entry, rd, &err) < 0) {
        cJSON_Delete(directory);
        mcp_answer_error(rd->job.request, JSONRPC_INTERNAL, err.text, NULL);
        forget_reading(rd);
        return;
    }
    bool cut = rd->cut || o->end->truncated || o->out_bytes > o->out.len;
    result_put_bool(directory, "truncated", cut);
    char *text = cJSON_PrintUnformatted(directory);
    cJSON_Delete(directory);
    answer(rd, "application/json", text, view_bytes(NULL, 0));
    cJSON_free(text);
}

static void on_reading_listed(void *arg, int rc, const struct fleet_outcome *outcome,
                              const struct err *err, const char *hint)
{
    struct reading *rd = arg;
    (void)hint;
    rd->job.call = NULL;
    if (job_is_well(rc, outcome)) {
        answer_directory(rd, outcome);
    } else {
        job_answer_failure(&rd->job, rd->uri, rc, outcome, err);
        forget_reading(rd);
    }
}

static void list(struct reading *rd)
{
    const struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = rd->u.path,
        .length = LIMIT_ENTRIES,
        .keep_bytes = ENTRIES_KEEP_BYTES,
    };
    job_run(&rd->job, &op, on_reading_listed, rd);
}

static void on_reading_read(void *arg, int rc, const struct fleet_outcome *outcome,
                            const struct err *err, const char *hint)
{
    struct reading *rd = arg;
    (void)hint;
    rd->job.call = NULL;
    if (job_is_well(rc, outcome)) {
        answer_file(rd, outcome);
    } else if (rc == 0 && outcome->end->status == OP_STATUS_FAILED &&
               outcome->end->fail_code == ERR_PATH) {
        list(rd);
    } else {
        job_answer_failure(&rd->job, rd->uri, rc, outcome, err);
        forget_reading(rd);
    }
}

static void read_resource(struct reading *rd)
{
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = rd->u.path,
        .length = RESOURCE_MAX_BYTES,
        .keep_bytes = RESOURCE_MAX_BYTES,
    };
    job_run(&rd->job, &op, on_reading_read, rd);
}

/* ---- output of code -------------------------------------------------------------------------- */

static void on_stands(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                      const char *hint)
{
    struct reading *rd = arg;
    (void)hint;
    if (rc < 0) {
        job_answer_failure(&rd->job, rd->uri, rc, NULL, err);
        forget_reading(rd);
        return;
    }
    bool over = o->state == OP_DONE;
    const char *name = rd->u.is_stderr ? "stderr" : "stdout";
    const struct result_stream stream = {
        .execution = o->op,
        .head = rd->u.is_stderr ? o->err : o->out,
        .tail = rd->u.is_stderr ? o->err_tail : o->out_tail,
        .total = rd->u.is_stderr ? o->err_bytes : o->out_bytes,
        .over = over,
    };
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    result_stream_all(&text, &stream, TEXT_MAX_BYTES / 2);
    if (!over) {
        text_printf(&text, "\n[%s: this is what has come so far, the code is running]\n", name);
    }
    answer(rd, "text/plain", text_cstr(&text), view_bytes(NULL, 0));
}

void resources_read(struct fleet *f, struct mcp_request *r, const char *uri)
{
    struct reading *rd = alloc_one(struct reading);
    rd->uri = alloc_strdup(uri);
    job_init(&rd->job, f, r);
    bool good = uri_parse(uri, &rd->u);
    if (good && rd->u.kind == URI_STREAM) {
        fleet_await(f, rd->job.owner, rd->u.id, 0, on_stands, rd);
    } else if (!good || !job_find(&rd->job, rd->u.id)) {
        mcp_answer_no_resource(r, uri);
        forget_reading(rd);
    } else if (rd->u.is_directory) {
        list(rd);
    } else {
        read_resource(rd);
    }
}

bool resources_may_subscribe(struct fleet *f, const struct principal *principal, const char *uri)
{
    struct uri u;
    const char *id;
    if (!uri_parse(uri, &u)) {
        return false;
    }
    return u.kind == URI_FILE ? fleet_find(f, principal->name, u.id, &id, NULL) == 0
                              : fleet_has_execution(f, principal->name, u.id);
}
