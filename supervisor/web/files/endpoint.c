/*
 * A download reads the file in pieces. The first piece gives the file's size and version; all
 * others must have the same version. While one piece waits for its client, the next is read, but no
 * more: a download holds at most two pieces, and reads nothing for a client that does not read.
 *
 * The client may disconnect while a piece is being read. The download then stays until the piece
 * has arrived, and drops it.
 */
#include "supervisor/web/files/endpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/web/files/headers.h"
#include "supervisor/web/http/exchange.h"

#define PIECE_BYTES   (512u << 10)
#define OPEN_MAX      64 /* downloads at a time */
#define OPEN_EACH_MAX 8  /* of one sandbox, whose agent has other work */

struct download {
    LIST_ENTRY(download) node;
    struct files_endpoint *endpoint;
    struct web_exchange *x; /* NULL: the client has gone */
    char *sandbox, *path, *expires, *signature;
    struct file_link link;
    struct file_range range;
    void *reading; /* the source's read in progress, or NULL */
    bool probe;    /* the first read is for the size and version only */
    bool begun;    /* the response has begun */
    uint64_t stamp;
    uint64_t at, end; /* the range that is still to be read */
    char *held;       /* a piece that the client is not ready for */
    size_t held_len;
};

struct files_endpoint {
    struct files_source source;
    LIST_HEAD(, download) downloads;
    size_t open;
};

struct files_endpoint *files_endpoint_create(const struct files_source *source)
{
    struct files_endpoint *e = alloc_one(struct files_endpoint);
    e->source = *source;
    LIST_INIT(&e->downloads);
    return e;
}

/* ---- the life of a download ----------------------------------------------------------------- */

static void destroy_download(struct download *d)
{
    LIST_REMOVE(d, node);
    d->endpoint->open--;
    free(d->sandbox);
    free(d->path);
    free(d->expires);
    free(d->signature);
    free(d->held);
    free(d);
}

/* The exchange has ended, or its client has gone. */
static void end_download(struct download *d)
{
    d->x = NULL;
    if (d->reading != NULL) {
        d->endpoint->source.stop(d->reading);
    } else {
        destroy_download(d);
    }
}

static void on_download_gone(void *arg)
{
    end_download(arg);
}

void files_endpoint_destroy(struct files_endpoint *e)
{
    if (e != NULL) {
        while (!LIST_EMPTY(&e->downloads)) {
            destroy_download(LIST_FIRST(&e->downloads));
        }
        free(e);
    }
}

size_t files_endpoint_open_requests(const struct files_endpoint *e)
{
    return e->open;
}

static void refuse_download(struct web_exchange *x, int status, const char *why)
{
    char *text = alloc_printf("%s\n", why);
    web_set_header(x, "X-Content-Type-Options", "nosniff");
    web_set_header(x, "Cache-Control", "no-store");
    if (status == 503) {
        web_set_header(x, "Retry-After", "1");
    }
    web_respond_text(x, status, "text/plain; charset=utf-8", text);
}

static void fail_download(struct download *d, int status, const char *why)
{
    if (d->begun) {
        log_info("http: %s of sandbox %s is cut: %s", d->path, d->sandbox, why);
        web_stream_cut(d->x);
    } else {
        refuse_download(d->x, status, why);
    }
    end_download(d);
}

/* ---- pieces --------------------------------------------------------------------------------- */

static void on_piece(void *arg, const struct file_piece *piece);

static void read_next_piece(struct download *d)
{
    uint64_t left = d->end - d->at;
    uint64_t length = d->probe ? 1 : left < PIECE_BYTES ? left : PIECE_BYTES;
    d->reading =
        d->endpoint->source.read(d->endpoint->source.arg, &d->link, d->at, length, on_piece, d);
}

static void end_well(struct download *d)
{
    web_stream_end(d->x);
    end_download(d);
}

/* Gives the held piece to the client and reads the next one. */
static void go_on(struct download *d)
{
    if (d->held != NULL && web_stream_queued(d->x) == 0) {
        web_stream_write(d->x, d->held, d->held_len);
        d->held = NULL;
    }
    if (d->held != NULL || d->reading != NULL) {
        return;
    }
    if (d->at == d->end) {
        end_well(d);
    } else {
        read_next_piece(d);
    }
}

static void on_drain(void *arg)
{
    go_on(arg);
}

static void hold_bytes(struct download *d, struct view bytes)
{
    d->held = alloc_array(1, bytes.len > 0 ? bytes.len : 1);
    memcpy(d->held, bytes.data, bytes.len);
    d->held_len = bytes.len;
    d->at += bytes.len;
}

/* ---- the beginning of the response ---------------------------------------------------------- */

static bool is_head(const struct download *d)
{
    return strcmp(web_method(d->x), "HEAD") == 0;
}

static void begin_download(struct download *d, const struct file_piece *piece)
{
    char etag[FILE_ETAG_SIZE];
    char scratch[96];
    file_etag(piece->stamp, etag);
    const char *if_range = web_header(d->x, "If-Range");
    /* the client has another version, so it gets the whole file */
    if (if_range != NULL && strcmp(if_range, etag) != 0) {
        d->range = (struct file_range){.to = UINT64_MAX};
    }
    if (file_is_known(d->x, etag)) {
        file_headers_set(d->x, d->path, piece->type, etag);
        /* No body, but the file's length: caches would take 0 for its new length. */
        web_stream_begin_sized(d->x, 304, NULL, piece->size);
        end_well(d);
        return;
    }
    if (!file_range_fit(&d->range, piece->size, &d->at, &d->end)) {
        snprintf(scratch, sizeof(scratch), "bytes */%" PRIu64, piece->size);
        web_set_header(d->x, "Content-Range", scratch);
        fail_download(d, 416, "the file is shorter than that");
        return;
    }
    file_headers_set(d->x, d->path, piece->type, etag);
    if (d->range.asked) {
        snprintf(scratch, sizeof(scratch), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, d->at,
                 d->end - 1, piece->size);
        web_set_header(d->x, "Content-Range", scratch);
    }
    d->begun = true;
    d->stamp = piece->stamp;
    const char *type = file_content_type(piece->type, scratch, sizeof(scratch));
    web_stream_begin_sized(d->x, d->range.asked ? 206 : 200, type, d->end - d->at);
    if (is_head(d)) {
        end_well(d);
        return;
    }
    web_on_drain(d->x, on_drain, d);
    if (!d->probe && d->at < d->end) {
        uint64_t want = d->end - d->at;
        hold_bytes(d, view_bytes(piece->bytes.data,
                                 piece->bytes.len < want ? piece->bytes.len : (size_t)want));
    }
    d->probe = false;
    go_on(d);
}

static void on_piece(void *arg, const struct file_piece *piece)
{
    struct download *d = arg;
    d->reading = NULL;
    if (d->x == NULL) {
        destroy_download(d);
    } else if (piece->status != 0) {
        fail_download(d, piece->status, piece->why);
    } else if (!d->begun) {
        begin_download(d, piece);
    } else if (piece->stamp != d->stamp || piece->bytes.len == 0) {
        fail_download(d, 500, "it has changed");
    } else {
        hold_bytes(d, piece->bytes);
        go_on(d);
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Copies the link of a request; NULL if it is none. */
static struct download *read_link(struct web_exchange *x)
{
    const char *at = web_path(x);
    bool named = strncmp(at, FILES_STATIC_PATH, strlen(FILES_STATIC_PATH)) == 0;
    bool foreign = named || strcmp(at, FILES_FOREIGN_PATH) == 0;
    const char *sandbox = NULL, *path = NULL;
    char *id = NULL;
    if (foreign) {
        sandbox = web_query(x, "sandbox_id");
        sandbox = sandbox != NULL ? sandbox : web_query(x, "container_id");
        path = named ? at + strlen(FILES_STATIC_PATH) : web_query(x, "file_path");
    } else {
        at += strlen(FILES_PATH);
        path = strchr(at, '/');
        id = path != NULL ? alloc_viewdup(view_bytes(at, (size_t)(path - at))) : NULL;
        sandbox = id;
    }
    struct download *d = NULL;
    if (sandbox != NULL && path != NULL) {
        const char *expires = web_query(x, "expires"), *signature = web_query(x, "sig");
        d = alloc_one(struct download);
        d->sandbox = alloc_strdup(sandbox);
        d->path = alloc_strdup(path);
        d->expires = expires != NULL ? alloc_strdup(expires) : NULL;
        d->signature = signature != NULL ? alloc_strdup(signature) : NULL;
        d->link = (struct file_link){d->sandbox, d->path, d->expires, d->signature, foreign};
    }
    free(id);
    return d;
}

static bool has_room(const struct files_endpoint *e, const struct download *d)
{
    size_t each = 0;
    const struct download *other;
    LIST_FOREACH(other, &e->downloads, node)
    {
        each += strcmp(other->sandbox, d->sandbox) == 0;
    }
    return e->open <= OPEN_MAX && each <= OPEN_EACH_MAX; /* the new one is counted already */
}

void files_endpoint_handle(struct files_endpoint *e, struct web_exchange *x)
{
    const char *method = web_method(x);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        web_set_header(x, "Allow", "GET, HEAD");
        refuse_download(x, 405, "a link to a file can only be read");
        return;
    }
    struct download *d = read_link(x);
    if (d == NULL) {
        refuse_download(x, 404, "this is no link to a file");
        return;
    }
    d->endpoint = e;
    d->x = x;
    LIST_INSERT_HEAD(&e->downloads, d, node);
    e->open++;
    const char *why = "";
    int status = e->source.check(e->source.arg, &d->link, &why);
    if (status == 0 && !has_room(e, d)) {
        status = 503;
        why = "too many files are being fetched; try again";
    }
    if (status != 0) {
        fail_download(d, status, why);
        return;
    }
    const char *range = strcmp(method, "GET") == 0 ? web_header(x, "Range") : NULL;
    d->range = file_range_parse(web_header_count(x, "Range") == 1 ? range : NULL);
    /* The range depends on the size, and If-Range on the version, so both are read first. */
    d->probe = d->range.asked || strcmp(method, "HEAD") == 0;
    d->end = UINT64_MAX;
    web_on_gone(x, on_download_gone, d);
    read_next_piece(d);
}
