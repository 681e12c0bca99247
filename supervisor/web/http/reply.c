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

void web_reply_sent(struct web_exchange *x, size_t len)
{
    x->response.queue_bytes -= len;
    web_exchange_uncount(x, len);
    web_exchange_moved(x);
    while (len > 0) {
        struct web_chunk *chunk = x->response.first;
        size_t n = chunk->len - chunk->taken < len ? chunk->len - chunk->taken : len;
        len -= n;
        chunk->taken += n;
        if (chunk->taken == chunk->len) {
            x->response.first = chunk->next;
            if (x->response.first == NULL) {
                x->response.last = NULL;
            }
            free(chunk->data);
            free(chunk);
        }
    }
}

static void take_chunks(struct web_exchange *x, char *out, size_t len)
{
    const struct web_chunk *chunk = x->response.first;
    for (size_t done = 0; done < len; chunk = chunk->next) {
        size_t left = chunk->len - chunk->taken, n = left < len - done ? left : len - done;
        memcpy(out + done, chunk->data + chunk->taken, n);
        done += n;
    }
    web_reply_sent(x, len);
}

static ssize_t on_reply_read(void *arg, uint64_t at, char *out, size_t max)
{
    (void)at;
    struct web_exchange *x = arg;
    struct web_connection *c = x->connection;
    if (c->killed) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (x->response.queue_bytes > 0) {
        size_t n = x->response.queue_bytes < max ? x->response.queue_bytes : max;
        take_chunks(x, out, n);
        if (x->response.queue_bytes == 0 && !web_exchange_is_over(x) &&
            x->handler.on_drain != NULL) {
            x->handler.on_drain(x->handler.drain_arg);
        }
        return (ssize_t)n;
    }
    if (x->response.sm.state == WEB_RESPONSE_ENDED) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    web_connection_suspend(c);
    if (web_exchange_is_live(x)) {
        web_connection_watch(c);
    }
    return 0;
}

static struct MHD_Response *make_response(struct web_exchange *x)
{
    const struct mhd_lib *lib = &x->listener->mhd;
    if (x->response.status == 101) {
        return lib->create_response_for_upgrade(web_tunnel_open, x);
    }
    if (x->response.sm.state != WEB_RESPONSE_WHOLE) {
        return lib->create_response_from_callback(x->response.size, STREAM_BLOCK_BYTES,
                                                  on_reply_read, x, NULL);
    }
    struct MHD_Response *r = lib->create_response_from_buffer(
        x->response.text_len, x->response.text,
        x->response.text != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (r != NULL) {
        x->response.text = NULL;
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
    if (x->response.content_type != NULL) {
        lib->add_response_header(r, "Content-Type", x->response.content_type);
    }
    for (size_t i = 0; i < x->response.set_count; i++) {
        lib->add_response_header(r, x->response.set[i].name, x->response.set[i].value);
    }
    if (x->response.status != 101 && (x->response.close || x->listener->quiesced)) {
        lib->add_response_header(r, "Connection", "close");
    }
    enum MHD_Result rc = lib->queue_response(c->mhd, (unsigned)x->response.status, r);
    lib->destroy_response(r); /* libmicrohttpd holds its own reference if it took the response */
    if (rc == MHD_YES && x->response.sm.state == WEB_RESPONSE_STREAM && web_exchange_is_live(x)) {
        web_connection_watch(c);
    }
    return rc;
}

void web_reply_drop(struct web_exchange *x)
{
    while (x->response.first != NULL) {
        struct web_chunk *chunk = x->response.first;
        x->response.first = chunk->next;
        free(chunk->data);
        free(chunk);
    }
    x->response.last = NULL;
    x->response.queue_bytes = 0;
    web_exchange_uncount(x, x->response.output_bytes);
}

void web_reply_finish(struct web_exchange *x)
{
    web_reply_drop(x);
    for (size_t i = 0; i < x->response.set_count; i++) {
        free((char *)x->response.set[i].name);
        free((char *)x->response.set[i].value);
    }
    free(x->response.set);
    free(x->response.content_type);
    free(x->response.text);
    x->response.set = NULL;
    x->response.set_count = 0;
    x->response.content_type = NULL;
    x->response.text = NULL;
}
