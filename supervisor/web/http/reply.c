/*
 * A response on its way to the client.
 *
 * A whole response is one buffer that libmicrohttpd takes over. For a stream, libmicrohttpd asks
 * for as much as fits into its buffer each time that the buffer is empty. When the stream has no
 * bytes, the connection is suspended until it has; otherwise libmicrohttpd would ask again at once.
 */
#include <stdlib.h>
#include <string.h>

#include "supervisor/web/http/internal.h"

enum { STREAM_BLOCK_BYTES = 16 << 10 };

static void take_chunks(struct web_exchange *x, char *out, size_t len)
{
    x->queue_bytes -= len;
    web_exchange_uncount(x, len);
    web_exchange_moved(x);
    while (len > 0) {
        struct web_chunk *chunk = x->first;
        size_t n = chunk->len - chunk->taken < len ? chunk->len - chunk->taken : len;
        memcpy(out, chunk->data + chunk->taken, n);
        out += n;
        len -= n;
        chunk->taken += n;
        if (chunk->taken == chunk->len) {
            x->first = chunk->next;
            if (x->first == NULL) {
                x->last = NULL;
            }
            free(chunk->data);
            free(chunk);
        }
    }
}

static ssize_t on_reply_read(void *arg, uint64_t at, char *out, size_t max)
{
    (void)at;
    struct web_exchange *x = arg;
    struct web_connection *c = x->connection;
    if (c->killed) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (x->queue_bytes > 0) {
        size_t n = x->queue_bytes < max ? x->queue_bytes : max;
        take_chunks(x, out, n);
        if (x->queue_bytes == 0 && !x->over && x->on_drain != NULL) {
            x->on_drain(x->drain_arg);
        }
        return (ssize_t)n;
    }
    if (x->ended) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    web_connection_suspend(c);
    if (!x->over && !x->lost) {
        web_connection_watch(c);
    }
    return 0;
}

static struct MHD_Response *make_response(struct web_exchange *x)
{
    const struct mhd_lib *lib = &x->listener->mhd;
    if (x->stream) {
        return lib->create_response_from_callback(x->sized ? x->size : MHD_SIZE_UNKNOWN,
                                                  STREAM_BLOCK_BYTES, on_reply_read, x, NULL);
    }
    struct MHD_Response *r = lib->create_response_from_buffer(
        x->text_len, x->text, x->text != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (r != NULL) {
        x->text = NULL;
    }
    return r;
}

enum MHD_Result web_reply_queue(struct web_exchange *x)
{
    const struct mhd_lib *lib = &x->listener->mhd;
    struct web_connection *c = x->connection;
    web_exchange_drop_body(x);
    struct MHD_Response *r = make_response(x);
    if (r == NULL) {
        return MHD_NO;
    }
    web_connection_received(c);
    if (x->content_type != NULL) {
        lib->add_response_header(r, "Content-Type", x->content_type);
    }
    for (size_t i = 0; i < x->set_count; i++) {
        lib->add_response_header(r, x->set[i].name, x->set[i].value);
    }
    if (x->close || x->listener->quiesced) {
        lib->add_response_header(r, "Connection", "close");
    }
    enum MHD_Result rc = lib->queue_response(c->mhd, (unsigned)x->status, r);
    lib->destroy_response(r); /* libmicrohttpd holds its own reference if it took the response */
    if (rc == MHD_YES && x->stream && !x->over && !x->lost) {
        web_connection_watch(c);
    }
    return rc;
}

void web_reply_drop(struct web_exchange *x)
{
    while (x->first != NULL) {
        struct web_chunk *chunk = x->first;
        x->first = chunk->next;
        free(chunk->data);
        free(chunk);
    }
    x->last = NULL;
    x->queue_bytes = 0;
    web_exchange_uncount(x, x->output_bytes);
}

void web_reply_finish(struct web_exchange *x)
{
    web_reply_drop(x);
    for (size_t i = 0; i < x->set_count; i++) {
        free((char *)x->set[i].name);
        free((char *)x->set[i].value);
    }
    free(x->set);
    free(x->content_type);
    free(x->text);
    x->set = NULL;
    x->set_count = 0;
    x->content_type = NULL;
    x->text = NULL;
}
