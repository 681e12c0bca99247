/*
 * A connection: its deadlines, and who watches its socket.
 *
 * libmicrohttpd's own timeout covers silence only: every byte starts it anew, so a client that
 * sends one byte a minute could keep a connection for ever. Our deadlines therefore cover a whole
 * request. The first deadline starts with the connection; a later one starts with the request's
 * first line, and the idle timeout bounds the wait for that line. Each part of a body extends the
 * deadline, since a large body takes long on a slow line. A head has a shorter one: it fits into a
 * few packets, and until it is here nobody knows whose connection that is. libmicrohttpd alone
 * handles clients that do not read their response, because only it knows what has been sent.
 *
 * Connections are free for whoever reaches the port, and behind a proxy all come from one address.
 * So those of strangers, on which nobody has shown yet that he may come in, are worth least. They
 * get three quarters of the places, and the oldest gives way to a new one when these are taken. A
 * newcomer who sends his head at once has shown it before that; only strangers who are slow lose.
 * What a handler works on is never taken away.
 *
 * libmicrohttpd suspends the connection while a handler has the exchange, and does not look at the
 * socket. We poll it meanwhile, but only for its end: bytes of a next request stay in the kernel.
 * The descriptor is then in two epoll sets, which do not disturb each other; it leaves ours before
 * it is closed.
 *
 * shutdown() kills a connection in any state: libmicrohttpd finds the end by itself, or when the
 * connection is resumed.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/internal.h"
#include "supervisor/web/http/rate_limit.h"

#define QUIET_MS 2000 /* a known client that keeps us waiting for less is not evicted */
#define KEPT     4    /* this part of the places is not for strangers */
#define ENDED_MS 1000 /* to serve what a client sent before it closed its side */

/* Whether another connection from this address would exceed the limit of one address. */
static bool address_full(const struct web_listener *l, const struct web_peer *peer)
{
    size_t limit = l->config.max_connections / 4 > 0 ? l->config.max_connections / 4 : 1;
    if (peer->loopback || l->connection_count < limit) {
        return false;
    }
    size_t count = 0;
    for (const struct web_connection *c = l->connections; c != NULL; c = c->next) {
        count +=
            c->peer.key_len == peer->key_len && memcmp(c->peer.key, peer->key, peer->key_len) == 0;
    }
    return count >= limit;
}

static void link_connection(struct web_connection *c)
{
    struct web_listener *l = c->listener;
    c->next = l->connections;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    l->connections = c;
    l->connection_count++;
}

static void unlink_connection(struct web_connection *c)
{
    struct web_listener *l = c->listener;
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    *(c->prev != NULL ? &c->prev->next : &l->connections) = c->next;
    l->connection_count--;
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct web_connection *c = handle->data;
    web_listener_handle_closed(c->listener);
    free(c);
}

static void destroy_connection(struct web_connection *c)
{
    web_tls_release(c->tls);
    if (c->watch_made) {
        uv_close((uv_handle_t *)&c->watch, on_watch_closed);
    } else {
        free(c);
    }
}

/* Newer versions of libmicrohttpd start a connection in their next run. If that fails they close it
 * without a callback, so an unstarted connection is known by its descriptor. */
static struct web_connection *find_unstarted(const struct web_listener *l, int fd)
{
    struct web_connection *c = l->connections;
    while (c != NULL && (c->mhd != NULL || c->fd != fd)) {
        c = c->next;
    }
    return c;
}

static void drop_unstarted(struct web_listener *l, int fd)
{
    struct web_connection *c = find_unstarted(l, fd);
    if (c != NULL) {
        unlink_connection(c);
        destroy_connection(c);
    }
}

void web_connection_drop_unstarted(struct web_listener *l)
{
    for (struct web_connection *c = l->connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->mhd == NULL) {
            unlink_connection(c);
            destroy_connection(c);
        }
    }
}

void web_connection_add(struct web_listener *l, int fd, const struct sockaddr *address,
                        socklen_t len)
{
    struct web_peer peer;
    web_peer_set(&peer, fd, address);
    if (l->stopped || address_full(l, &peer)) {
        log_debug("http: connection of %s refused: too many of this address", peer.text);
        metrics_count(METRIC_REJECTED, METRIC_REASON_CONNECTIONS);
        close(fd);
        return;
    }
    drop_unstarted(l, fd);
    struct web_connection *c = alloc_one(struct web_connection);
    c->listener = l;
    c->fd = fd;
    c->peer = peer;
    link_connection(c);
    web_connection_receiving(c, 0);
    if (l->mhd.add_connection(l->daemon, fd, address, len) != MHD_YES) {
        drop_unstarted(l, fd); /* the descriptor is closed */
    }
}

static void connection_started(struct web_listener *l, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info =
        l->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct web_connection *c = find_unstarted(l, info->connect_fd);
    assert(c != NULL);
    c->mhd = mhd;
    *context = c;
    if (l->tls == NULL) {
        return;
    }
    info = l->mhd.get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info != NULL && web_tls_use(l->tls, info->tls_session) >= 0) {
        c->tls = l->tls;
    }
}

/* Called before libmicrohttpd closes the descriptor. */
static void connection_closed(struct web_connection *c)
{
    struct web_listener *l = c->listener;
    int unread = 0;
    if (!c->killed && !l->stopped &&
        (c->linger || (ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0))) {
        web_linger_add(l, c->fd);
    }
    unlink_connection(c);
    destroy_connection(c);
    web_listener_accept(l);
}

void web_connection_notify(void *arg, struct MHD_Connection *mhd, void **context,
                           enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        connection_started(arg, mhd, context);
    } else if (*context != NULL) {
        connection_closed(*context);
        *context = NULL;
    }
}

void web_connection_kill(struct web_connection *c)
{
    if (!c->killed) {
        c->killed = true;
        shutdown(c->fd, SHUT_RDWR);
        if (c->exchange != NULL) {
            web_tunnel_end(c->exchange);
        }
        web_connection_unwatch(c);
        web_connection_resume(c);
        web_listener_kick(c->listener);
    }
}

void web_connection_reset(struct web_connection *c)
{
    static const struct linger none = {.l_onoff = 1};
    static const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (!c->killed) {
        /* Linux sends a reset for the latter, before shutdown() could send an end; elsewhere it
         * comes when the socket is closed. Behind a unix socket there is nothing like it. */
        err_ignore(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
        err_ignore(connect(c->fd, &nowhere, sizeof(nowhere)));
        web_connection_kill(c);
    }
}

void web_connection_suspend(struct web_connection *c)
{
    if (!c->suspended) {
        c->suspended = true;
        c->listener->mhd.suspend_connection(c->mhd);
    }
}

void web_connection_resume(struct web_connection *c)
{
    if (c->suspended) {
        c->suspended = false;
        c->listener->mhd.resume_connection(c->mhd);
        web_listener_kick(c->listener);
    }
}

static void on_watched(uv_poll_t *handle, int status, int events)
{
    struct web_connection *c = handle->data;
    (void)status; /* an error of the socket ends the connection, too */
    (void)events;
    struct web_exchange *x = c->exchange;
    log_debug("http: %s has gone", c->peer.text);
    web_connection_kill(c);
    if (x != NULL) {
        web_exchange_lose(x);
    }
}

void web_connection_watch(struct web_connection *c)
{
    if (c->watching || c->killed) {
        return;
    }
    if (!c->watch_made) {
        if (uv_poll_init(c->listener->loop, &c->watch, c->fd) < 0) {
            web_connection_kill(c); /* without the poll its end would go unnoticed */
            return;
        }
        c->watch.data = c;
        c->watch_made = true;
        web_listener_handle_made(c->listener);
    }
    c->watching = uv_poll_start(&c->watch, UV_DISCONNECT, on_watched) == 0;
}

void web_connection_unwatch(struct web_connection *c)
{
    if (c->watching) {
        uv_poll_stop(&c->watch);
        c->watching = false;
    }
}

static void set_deadline(struct web_connection *c, uint64_t at)
{
    c->deadline = at;
    web_listener_sweep_at(c->listener, at);
}

/* libmicrohttpd is told once that the socket is readable. If bytes and the end arrived together and
 * it stopped reading after the bytes, it never learns of the end, so we look for it. */
static bool has_ended(const struct web_connection *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool head_is_here(const struct web_connection *c)
{
    return c->exchange != NULL && c->exchange->request.head != NULL;
}

/* For what is being received, without its body's length. */
static uint64_t time_for(const struct web_connection *c)
{
    const struct web_listener_config *config = &c->listener->config;
    return !head_is_here(c) && config->head_ms < config->input_ms ? config->head_ms
                                                                  : config->input_ms;
}

void web_connection_receiving(struct web_connection *c, uint64_t body_bytes)
{
    struct web_listener *l = c->listener;
    if (c->input_since == 0) {
        c->input_since = uv_now(l->loop) + 1; /* 0 means "no request" */
    }
    uint64_t earned = body_bytes * 1000 / LIMIT_HTTP_RATE;
    bool ended = body_bytes > 0 && has_ended(c);
    set_deadline(c, ended ? uv_now(l->loop) + ENDED_MS : c->input_since + time_for(c) + earned);
}

void web_connection_received(struct web_connection *c)
{
    c->deadline = 0;
    c->input_since = 0;
}

void web_connection_sending(struct web_connection *c, bool waits)
{
    const struct web_listener *l = c->listener;
    set_deadline(c, waits ? uv_now(l->loop) + l->config.output_ms : 0);
}

void web_connection_idle(struct web_connection *c)
{
    uint64_t wait_ms = has_ended(c) ? ENDED_MS : c->listener->config.output_ms;
    c->input_since = 0;
    set_deadline(c, uv_now(c->listener->loop) + wait_ms);
    web_listener_accept(c->listener); /* an idle connection can be evicted */
}

uint64_t web_connection_sweep(struct web_listener *l, uint64_t now)
{
    uint64_t next = 0;
    for (struct web_connection *c = l->connections, *following; c != NULL; c = following) {
        following = c->next;
        if (c->deadline != 0 && now >= c->deadline && c->mhd == NULL) {
            unlink_connection(c); /* libmicrohttpd never started it */
            destroy_connection(c);
        } else if (c->deadline != 0 && now >= c->deadline) {
            log_debug("http: %s took too long%s", c->peer.text,
                      c->input_since != 0 && !head_is_here(c) ? " for the head of a request" : "");
            c->deadline = 0;
            web_connection_kill(c);
        } else if (c->deadline != 0 && (next == 0 || c->deadline < next)) {
            next = c->deadline;
        }
    }
    return next;
}

/* ---- places --------------------------------------------------------------------------------- */

/* Whether it can be evicted: it is idle, or its request is not whole. */
static bool is_waiting(const struct web_connection *c)
{
    return !c->killed && c->deadline != 0 &&
           (c->exchange == NULL || !web_exchange_was_handed(c->exchange));
}

/* Since when this client keeps us waiting: for a request, for a head, or for a body behind the rate
 * that a body must have. */
static uint64_t waiting_since(const struct web_connection *c)
{
    return c->deadline - (c->input_since != 0 ? time_for(c) : c->listener->config.output_ms);
}

/* The one of strangers that has waited for longest; NULL: none. The list begins with the newest. */
static struct web_connection *oldest_stranger(const struct web_listener *l, size_t *ret_count)
{
    struct web_connection *oldest = NULL;
    *ret_count = 0;
    for (struct web_connection *c = l->connections; c != NULL; c = c->next) {
        if (is_waiting(c) && c->who == 0) {
            *ret_count += 1;
            oldest = c;
        }
    }
    return oldest;
}

static void evict_stranger(struct web_listener *l, struct web_connection *c, size_t count)
{
    if (rate_limit(&l->strangers_warned)) {
        log_warn("http: connections that have not shown a token give way to new ones, as there are "
                 "%zu of them, and at most %zu connections (--max-connections)",
                 count, l->config.max_connections);
    }
    log_debug("http: %s gives way", c->peer.text);
    web_connection_kill(c);
}

uint64_t web_connection_evict(struct web_listener *l)
{
    size_t strangers;
    struct web_connection *oldest = oldest_stranger(l, &strangers);
    uint64_t later = 0, now = uv_now(l->loop);
    if (oldest != NULL) {
        evict_stranger(l, oldest, strangers);
        return 0;
    }
    for (struct web_connection *c = l->connections; c != NULL; c = c->next) {
        if (!is_waiting(c)) {
            continue;
        }
        uint64_t since = waiting_since(c);
        if (since + QUIET_MS > now) {
            later = later == 0 || since + QUIET_MS < later ? since + QUIET_MS : later;
        } else if (oldest == NULL || since <= waiting_since(oldest)) {
            oldest = c;
        }
    }
    if (oldest != NULL) {
        web_connection_kill(oldest);
        return 0;
    }
    return later;
}

bool web_connection_would_be_of_many(const struct web_connection *c, uint64_t who)
{
    const struct web_listener *l = c->listener;
    size_t half = l->config.max_connections / 2, count = 1;
    if (l->connection_count <= half) {
        return false;
    }
    for (const struct web_connection *each = l->connections; each != NULL; each = each->next) {
        count += each != c && each->who == who ? 1 : 0;
    }
    return count > half;
}

void web_connection_keep_places(struct web_listener *l)
{
    size_t most = l->config.max_connections - l->config.max_connections / KEPT;
    size_t strangers;
    if (l->connection_count <= most) {
        return;
    }
    struct web_connection *oldest = oldest_stranger(l, &strangers);
    if (strangers > most) {
        evict_stranger(l, oldest, strangers);
    }
}
