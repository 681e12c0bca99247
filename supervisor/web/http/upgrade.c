/*
 * A connection that has changed to another protocol (101): bytes both ways, of which nothing is
 * understood here.
 *
 * Such a connection leaves the loop of libmicrohttpd, and we read and write the client's socket
 * ourselves, with TLS by the same session (upgrade_tls.c). We poll a duplicate of it, because the
 * loop has one handle a descriptor, and that is our watch of the connection. libmicrohttpd closes
 * its own when it is told that we are done.
 *
 * What is to be sent waits in the response, like that of any stream, and counts in the same sum; a
 * client that takes nothing of it for a while is killed by the deadline of its connection, as
 * libmicrohttpd has no time limit for a connection that it gave away. What comes is read a piece at
 * a time, only while the handler wants it: the rest stays in the kernel, and slows the client.
 *
 * Bytes that came together with the request are kept until the loop calls: the handler expects no
 * callback from within libmicrohttpd. A client that closes its side has gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/web/http/internal.h"

#define TUNNEL_PIECE_BYTES (64u << 10)
#define RECORD_BYTES       (16u << 10) /* the largest that TLS has */

struct web_tunnel {
    struct web_listener *listener;
    struct web_exchange *x;                /* NULL: it has ended */
    struct MHD_UpgradeResponseHandle *mhd; /* NULL: the answer is on its way */
    int fd;                                /* ours, from then on */
    uv_poll_t poll;
    bool paused;
    void (*heard)(void *arg, struct view bytes);
    void *arg;
    struct web_cipher *cipher; /* NULL: no TLS */
    struct buf early;          /* what came with the request */
};

/* ---- its end -------------------------------------------------------------------------------- */

static void free_tunnel(struct web_tunnel *t)
{
    buf_finish(&t->early);
    free(t);
}

static void on_tunnel_closed(uv_handle_t *handle)
{
    struct web_tunnel *t = handle->data;
    web_listener_handle_closed(t->listener);
    free_tunnel(t);
}

void web_tunnel_end(struct web_exchange *x)
{
    struct web_tunnel *t = x->tunnel;
    if (t == NULL) {
        return;
    }
    x->tunnel = NULL;
    t->x = NULL;
    web_reply_drop(x);
    if (t->mhd == NULL) {
        free_tunnel(t);
        return;
    }
    uv_close((uv_handle_t *)&t->poll, on_tunnel_closed);
    close(t->fd);
    web_cipher_end(STEAL_PTR(t->cipher));
    t->listener->mhd.upgrade_action(t->mhd, MHD_UPGRADE_ACTION_CLOSE);
    web_listener_kick(t->listener);
}

static void lose_tunnel(struct web_tunnel *t)
{
    struct web_exchange *x = t->x;
    log_debug("http: %s has gone", x->request.peer);
    web_exchange_lose(x); /* its connection is there, so this does not free it */
    web_tunnel_end(x);
}

/* ---- both ways ------------------------------------------------------------------------------ */

static ssize_t read_tunnel(struct web_tunnel *t, char *out, size_t size)
{
    return t->cipher != NULL ? web_cipher_read(t->cipher, out, size)
                             : recv(t->fd, out, size, MSG_DONTWAIT);
}

static ssize_t write_tunnel(struct web_tunnel *t, const char *data, size_t size)
{
    return t->cipher != NULL ? web_cipher_write(t->cipher, data, size)
                             : send(t->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* False: the client has gone. */
static bool send_queued(struct web_tunnel *t)
{
    struct web_exchange *x = t->x;
    if (x->response.first == NULL) {
        return true;
    }
    while (x->response.first != NULL) {
        const struct web_chunk *chunk = x->response.first;
        ssize_t n = write_tunnel(t, chunk->data + chunk->taken, chunk->len - chunk->taken);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (n < 0) {
            return false;
        }
        web_reply_sent(x, (size_t)n);
        web_connection_sending(x->connection, x->response.queue_bytes > 0);
    }
    if (!web_exchange_is_over(x) && x->handler.on_drain != NULL) {
        x->handler.on_drain(x->handler.drain_arg);
    }
    return true;
}

/* False: the client has gone. */
static bool hear(struct web_tunnel *t)
{
    static char piece[TUNNEL_PIECE_BYTES]; /* lent to the handler during the call */
    if (t->early.len > 0) {
        CLEANUP_BUF struct buf early = t->early;
        buf_init(&t->early, 0);
        t->heard(t->arg, view_bytes(early.data, early.len));
        return true;
    }
    ssize_t n = read_tunnel(t, piece, sizeof(piece));
    if (n > 0) {
        t->heard(t->arg, view_bytes(piece, (size_t)n));
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool wants_to_hear(const struct web_tunnel *t)
{
    return !t->paused && web_exchange_is_live(t->x);
}

static void on_tunnel_ready(uv_poll_t *handle, int status, int events)
{
    struct web_tunnel *t = handle->data;
    (void)events; /* whatever it is, both ways are tried */
    if (status < 0 || !send_queued(t) || (t->x != NULL && wants_to_hear(t) && !hear(t))) {
        lose_tunnel(t);
    } else if (t->x != NULL) {
        web_tunnel_update(t->x);
    }
}

void web_tunnel_update(struct web_exchange *x)
{
    struct web_tunnel *t = x->tunnel;
    if (t == NULL || t->mhd == NULL) {
        return;
    }
    bool has_bytes = x->response.queue_bytes > 0;
    if (!has_bytes && x->response.sm.state == WEB_RESPONSE_ENDED) {
        web_tunnel_end(x);
        return;
    }
    if (has_bytes && x->connection->deadline == 0) {
        web_connection_sending(x->connection, true);
    }
    bool hears = wants_to_hear(t);
    int events =
        (has_bytes || (hears && t->early.len > 0) ? UV_WRITABLE : 0) | (hears ? UV_READABLE : 0);
    if (events != 0) {
        uv_poll_start(&t->poll, events, on_tunnel_ready);
    } else {
        uv_poll_stop(&t->poll);
    }
}

/* ---- its beginning -------------------------------------------------------------------------- */

void web_upgrade(struct web_exchange *x, const char *protocol,
                 void (*heard)(void *arg, struct view bytes), void *arg)
{
    if (web_exchange_is_over(x) || web_exchange_is_answered(x)) {
        return;
    }
    struct web_tunnel *t = alloc_one(struct web_tunnel);
    t->listener = x->listener;
    t->x = x;
    t->heard = heard;
    t->arg = arg;
    buf_init(&t->early, LIMIT_HTTP_HEAD + RECORD_BYTES);
    x->tunnel = t;
    web_set_header(x, "Upgrade", protocol);
    web_stream_begin(x, 101, NULL);
}

void web_upgrade_pause(struct web_exchange *x, bool paused)
{
    if (x->tunnel != NULL) {
        x->tunnel->paused = paused;
        web_tunnel_update(x);
    }
}

static bool keep_early(struct web_tunnel *t, const char *early, size_t len)
{
    char record[RECORD_BYTES];
    int rc = buf_add(&t->early, early, len, NULL);
    while (rc == 0 && t->cipher != NULL && web_cipher_holds(t->cipher)) {
        ssize_t n = web_cipher_read(t->cipher, record, sizeof(record));
        rc = n > 0 ? buf_add(&t->early, record, (size_t)n, NULL) : -1;
    }
    return rc == 0;
}

static bool poll_tunnel(struct web_tunnel *t, int fd)
{
    const int on = 1;
    t->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (t->fd < 0) {
        return false;
    }
    if (uv_poll_init(t->listener->loop, &t->poll, t->fd) < 0) {
        close(t->fd);
        return false;
    }
    /* messages are small, and somebody waits for each; a unix socket has no such option */
    err_ignore(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
    t->poll.data = t;
    web_listener_handle_made(t->listener);
    return true;
}

void web_tunnel_open(void *arg, struct MHD_Connection *mhd, void *context, const char *early,
                     size_t early_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    struct web_exchange *x = arg;
    struct web_tunnel *t = x->tunnel;
    (void)mhd, (void)context, (void)fd;
    web_connection_unwatch(x->connection); /* the tunnel sees its end */
    if (t == NULL || !poll_tunnel(t, x->connection->fd)) {
        web_tunnel_end(x);
        x->listener->mhd.upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
        web_listener_kick(x->listener);
        return;
    }
    t->mhd = handle;
    t->cipher = web_cipher_begin(x->connection);
    if (keep_early(t, early, early_len)) {
        web_tunnel_update(x);
    } else {
        web_tunnel_end(x);
    }
}
