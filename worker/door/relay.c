/*
 * Towards the server there is one write at a time, of all that has come by then. When it is done,
 * the agent gets as much credit, so that nothing is gathered here but one window. From the server
 * nothing is read without credit of the agent's; then its own socket slows the server down.
 *
 * Of a plain request the head of the answer is changed on its way (response.c), for which it is
 * gathered; what is gathered is within the credit, too.
 *
 * A server that closes its end ends the channel: no client has anything to say to it after that.
 * What was read before is with the agent by then.
 */
#include "worker/door/relay.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "worker/door/channel.h"

static void read_server(struct door_channel *c);

/* How many bytes of the server may be said on. */
static uint64_t room_for(const struct door_channel *c)
{
    uint64_t held = c->response.over ? 0 : c->response.head.len + DOOR_RESPONSE_MORE;
    return c->may_send > held ? c->may_send - held : 0;
}

static void on_relay_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct door_channel *c = handle->data;
    size_t most = sizeof(c->door->scratch);
    uint64_t room = room_for(c);
    *ret = uv_buf_init(c->door->scratch, (unsigned)(room < most ? room : most));
}

static void say_on(struct door_channel *c, struct view data)
{
    CLEANUP_BUF struct buf out;
    buf_init(&out, c->response.head.max + DOOR_RESPONSE_MORE);
    if (c->response.over) {
        door_post_data(c, data);
    } else if (door_response_pass(&c->response, data, &out, NULL) < 0) {
        door_channel_end(c);
    } else {
        door_post_data(c, view_bytes(out.data, out.len));
    }
}

static void on_relay_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct door_channel *c = stream->data;
    if (c->relay.tcp == NULL || n == 0) {
        return;
    }
    if (n < 0) { /* with half a head: said as it is */
        door_post_data(c, view_bytes(c->response.head.data, c->response.head.len));
        door_channel_end(c);
        return;
    }
    c->active_ms = uv_now(c->door->setup.loop);
    say_on(c, view_bytes(buf->base, (size_t)n));
    if (c->relay.tcp != NULL) {
        read_server(c);
    }
}

static void read_server(struct door_channel *c)
{
    struct door_relay *r = &c->relay;
    bool wanted = room_for(c) > 0;
    if (wanted && !r->reading) {
        r->reading = uv_read_start((uv_stream_t *)r->tcp, on_relay_alloc, on_relay_read) == 0;
    } else if (!wanted && r->reading) {
        uv_read_stop((uv_stream_t *)r->tcp);
        r->reading = false;
    }
}

static void write_server(struct door_channel *c);

/* The request belongs to the channel, which lives until the connection is closed. */
static void on_relay_written(uv_write_t *request, int status)
{
    struct door_channel *c = request->data;
    struct door_relay *r = &c->relay;
    size_t credit = r->credit;
    buf_finish(&r->writing);
    r->busy = false;
    r->credit = 0;
    if (r->tcp == NULL) {
        return;
    }
    if (status < 0) {
        door_channel_end(c);
        return;
    }
    c->active_ms = uv_now(c->door->setup.loop);
    if (credit > 0) {
        door_post_credit(c, credit);
    }
    write_server(c);
}

static void begin_write(struct door_channel *c, struct buf *bytes, size_t credit)
{
    struct door_relay *r = &c->relay;
    r->writing = *bytes;
    buf_init(bytes, bytes->max);
    r->credit = credit;
    r->busy = true;
    r->write.data = c;
    uv_buf_t out = uv_buf_init((char *)r->writing.data, (unsigned)r->writing.len);
    if (uv_write(&r->write, (uv_stream_t *)r->tcp, &out, 1, on_relay_written) < 0) {
        r->busy = false;
        buf_finish(&r->writing);
        door_channel_end(c);
    }
}

static void on_relay_shut(uv_shutdown_t *request, int status)
{
    /* what became of it is told by reading */
}

static void write_server(struct door_channel *c)
{
    struct door_relay *r = &c->relay;
    if (r->busy || r->shut) {
        return;
    }
    if (c->in.len > c->body) {
        /* beyond its one request: for nobody, and for no credit */
        c->in.len = (size_t)c->body;
    }
    if (c->in.len > 0) {
        size_t len = c->in.len;
        c->body -= c->body == UINT64_MAX ? 0 : len;
        begin_write(c, &c->in, len);
    } else if (c->in_ended) {
        r->shut = true;
        r->shutdown.data = c;
        if (uv_shutdown(&r->shutdown, (uv_stream_t *)r->tcp, on_relay_shut) < 0) {
            door_channel_end(c);
        }
    }
}

void door_relay_begin(struct door_channel *c, uv_tcp_t *tcp, struct buf *head)
{
    c->relay.tcp = tcp;
    tcp->data = c;
    uv_tcp_nodelay(tcp, 1);
    if (head->len > 0) {
        begin_write(c, head, 0);
    }
    door_relay_go_on(c);
}

void door_relay_go_on(struct door_channel *c)
{
    if (c->relay.tcp != NULL) {
        write_server(c);
    }
    if (c->relay.tcp != NULL) {
        read_server(c);
    }
}

static void on_relay_closed(uv_handle_t *handle)
{
    struct door_channel *c = handle->data;
    free(handle);
    door_channel_handle_gone(c);
}

void door_relay_stop(struct door_channel *c)
{
    uv_tcp_t *tcp = c->relay.tcp;
    if (tcp != NULL) {
        c->relay.tcp = NULL;
        uv_close((uv_handle_t *)tcp, on_relay_closed);
    }
}
