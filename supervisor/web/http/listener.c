/*
 * libmicrohttpd on a libuv loop.
 *
 * libmicrohttpd runs without threads and has all its sockets in one epoll set, whose descriptor the
 * loop polls. It runs when that descriptor is readable, when its own timer is due, and when a
 * connection was resumed. It must not run from within one of its own callbacks, which it does not
 * expect; web_listener_kick() leaves such a run to an idle handle of the same turn of the loop.
 *
 * We accept connections ourselves. When descriptors run out, accepting pauses for a moment: the
 * listening socket stays readable, and polling it would spin. At the limit of connections we evict
 * the one that has been idle for longest; if all are at work, new ones wait in the kernel.
 *
 * Closing: accepting stops; each handler is told that its exchange is over; responses get some time
 * to leave; then the sockets are closed, then the handles, then the owner is told.
 */
#include "supervisor/web/http/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"
#include "proto/limits.h"
#include "supervisor/web/http/internal.h"

enum {
    ACCEPT_AT_ONCE = 16,
    ACCEPT_PAUSE_MS = 200,
    ACCEPT_WARN_MS = 60000,
    /* above our limit, for connections that libmicrohttpd counts itself: it is never the one to
     * refuse */
    ROOM = 64,
};

/* ---- lifetime ---- */

void web_listener_release(struct web_listener *l)
{
    if (--l->refs > 0) {
        return;
    }
    web_tls_release(l->tls);
    free((char *)l->config.address);
    free((char *)l->config.cert_file);
    free((char *)l->config.key_file);
    free(l->url);
    free(l);
}

void web_listener_handle_made(struct web_listener *l)
{
    l->handles++;
}

void web_listener_handle_closed(struct web_listener *l)
{
    if (--l->handles == 0) {
        if (l->closed != NULL) {
            l->closed(l->closed_arg);
        }
        web_listener_release(l);
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    web_listener_handle_closed(handle->data);
}

static void on_socket_closed(uv_handle_t *handle)
{
    web_listener_handle_closed(((struct web_socket *)handle->data)->listener);
}

static void close_sockets(struct web_listener *l)
{
    for (size_t i = 0; i < l->socket_count; i++) {
        struct web_socket *s = &l->sockets[i];
        if (s->fd >= 0) {
            uv_close((uv_handle_t *)&s->poll, on_socket_closed);
            close(s->fd);
            s->fd = -1;
        }
    }
    l->accepting = false;
}

static void stop_listener(struct web_listener *l)
{
    l->stopped = true;
    close_sockets(l);
    web_linger_end(l);
    for (struct web_connection *c = l->connections; c != NULL; c = c->next) {
        web_connection_kill(c); /* libmicrohttpd must have no suspended connection when it stops */
    }
    if (l->daemon != NULL) {
        uv_poll_stop(&l->daemon_poll);
        l->mhd.stop_daemon(l->daemon);
        l->daemon = NULL;
        web_connection_drop_unstarted(l);
    }
    web_exchange_tell_late(l);
    uv_close((uv_handle_t *)&l->daemon_poll, on_poll_closed);
    uv_close((uv_handle_t *)&l->run_timer, on_poll_closed);
    uv_close((uv_handle_t *)&l->sweep, on_poll_closed);
    uv_close((uv_handle_t *)&l->kick, on_poll_closed);
}

/* ---- running ---- */

static void on_run_timer(uv_timer_t *timer);

static void run_daemon(struct web_listener *l)
{
    l->mhd.run(l->daemon);
    web_exchange_tell_late(l);
    if (l->closing && (l->connections == NULL || uv_now(l->loop) >= l->close_at)) {
        stop_listener(l);
        return;
    }
    MHD_UNSIGNED_LONG_LONG wait_ms;
    if (l->mhd.get_timeout(l->daemon, &wait_ms) != MHD_YES) {
        uv_timer_stop(&l->run_timer);
    } else if (wait_ms == 0) {
        web_listener_kick(l);
    } else {
        uv_timer_start(&l->run_timer, on_run_timer, wait_ms, 0);
    }
}

static void on_run_timer(uv_timer_t *timer)
{
    run_daemon(timer->data);
}

static void on_daemon_ready(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    run_daemon(handle->data);
}

static void on_kick(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    run_daemon(idle->data);
}

void web_listener_kick(struct web_listener *l)
{
    if (!l->stopped) {
        uv_idle_start(&l->kick, on_kick);
    }
}

/* ---- deadlines ---- */

static void on_sweep(uv_timer_t *timer)
{
    struct web_listener *l = timer->data;
    l->sweep_at = 0;
    run_daemon(l); /* if we were stopped for long, what clients have sent meanwhile is in time */
    if (l->stopped) {
        return;
    }
    uint64_t now = uv_now(l->loop);
    if (l->accept_at != 0 && now >= l->accept_at) {
        l->accept_at = 0;
        web_listener_accept(l);
    }
    if (l->evict_at != 0 && now >= l->evict_at) {
        l->evict_at = 0;
        web_listener_accept(l);
    }
    web_listener_sweep_at(l, l->accept_at);
    web_listener_sweep_at(l, l->evict_at);
    web_listener_sweep_at(l, web_connection_sweep(l, now));
    if (l->closing && now >= l->close_at) {
        web_listener_kick(l);
    } else if (l->closing) {
        web_listener_sweep_at(l, l->close_at);
    }
}

void web_listener_sweep_at(struct web_listener *l, uint64_t at)
{
    if (at == 0 || l->stopped || (l->sweep_at != 0 && l->sweep_at <= at)) {
        return;
    }
    uint64_t now = uv_now(l->loop);
    l->sweep_at = at;
    uv_timer_start(&l->sweep, on_sweep, at > now ? at - now : 0, 0);
}

/* ---- accepting ---- */

static void stop_accepting(struct web_listener *l)
{
    for (size_t i = 0; i < l->socket_count && l->accepting; i++) {
        uv_poll_stop(&l->sockets[i].poll);
    }
    l->accepting = false;
}

static bool accept_one(struct web_listener *l, int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    int got = accept4(fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (got >= 0 && l->config.unix_fd != 0 && !web_socket_is_of_user(got)) {
        log_warn("control socket: a process of another user was turned away");
        close(got);
        return true;
    }
    if (got >= 0) {
        web_connection_add(l, got, (struct sockaddr *)&address, len);
        return true;
    }
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) {
        return true;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
        uint64_t now = uv_now(l->loop);
        if (l->accept_warned == 0 || now - l->accept_warned > ACCEPT_WARN_MS) {
            log_warn("http: no more connections for a moment: %s", strerror(errno));
            l->accept_warned = now + 1; /* 0 means "never" */
        }
        stop_accepting(l);
        l->accept_at = uv_now(l->loop) + ACCEPT_PAUSE_MS;
        web_listener_sweep_at(l, l->accept_at);
    }
    return false;
}

static void on_acceptable(uv_poll_t *handle, int status, int events)
{
    struct web_socket *s = handle->data;
    struct web_listener *l = s->listener;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPT_AT_ONCE && s->fd >= 0; i++) {
        if (l->connection_count >= l->config.max_connections && i > 0) {
            break; /* there may be no other one; and those that came now are read first */
        }
        if (l->connection_count >= l->config.max_connections) {
            stop_accepting(l); /* until a connection is closed or idle */
            l->evict_at = web_connection_evict(l);
            web_listener_sweep_at(l, l->evict_at);
            break;
        }
        if (!accept_one(l, s->fd)) {
            break;
        }
        web_connection_keep_places(l);
    }
    web_listener_kick(l); /* bytes may have arrived already, and libmicrohttpd has not polled yet */
}

void web_listener_accept(struct web_listener *l)
{
    if (l->accepting || l->quiesced || l->stopped || l->accept_at != 0) {
        return;
    }
    for (size_t i = 0; i < l->socket_count; i++) {
        l->accepting = uv_poll_start(&l->sockets[i].poll, UV_READABLE, on_acceptable) == 0;
    }
}

/* ---- opening ---- */

static void __attribute__((format(printf, 2, 0)))
on_daemon_log(void *arg, const char *format, va_list list)
{
    struct web_listener *l = arg;
    if (l->daemon == NULL || log_get_level() >= LOG_DEBUG) {
        vsnprintf(l->said, sizeof(l->said), format, list);
        l->said[strcspn(l->said, "\n")] = '\0';
        log_debug("http: %s", l->said);
    }
}

/* Each session gets credentials of its own (tls.c). This callback finds none, so that a session
 * without them fails its handshake. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **chain, unsigned int *chain_length,
                          gnutls_privkey_t *key)
{
    (void)session, (void)names, (void)name_count, (void)algorithms, (void)algorithm_count;
    (void)chain, (void)chain_length, (void)key;
    return -1;
}

static int start_daemon(struct web_listener *l, struct err *err)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
                     MHD_USE_ERROR_LOG | (l->tls != NULL ? MHD_USE_TLS : 0) |
                     (l->config.upgrades ? MHD_ALLOW_UPGRADE : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(intptr_t)no_certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned timeout_s = (unsigned)((l->config.output_ms + 999) / 1000);
    l->daemon = l->mhd.start_daemon(
        flags, 0, NULL, NULL, web_request_part, l,                                 //
        MHD_OPTION_EXTERNAL_LOGGER, on_daemon_log, l,                              //
        MHD_OPTION_URI_LOG_CALLBACK, web_request_line, l,                          //
        MHD_OPTION_NOTIFY_COMPLETED, web_request_done, l,                          //
        MHD_OPTION_NOTIFY_CONNECTION, web_connection_notify, l,                    //
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(l->config.max_connections + ROOM), //
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIMIT_HTTP_HEAD,               //
        MHD_OPTION_CONNECTION_TIMEOUT, timeout_s,                                  //
        MHD_OPTION_STRICT_FOR_CLIENT, 1,                                           //
        MHD_OPTION_ARRAY, l->tls != NULL ? tls : tls + 2, MHD_OPTION_END);
    if (l->daemon == NULL) {
        return err_set(err, ERR_INTERNAL, "HTTP: libmicrohttpd does not start: %s",
                       l->said[0] != '\0' ? l->said : "it does not say why");
    }
    return 0;
}

/* A client whose machine is gone sends no FIN. Unacknowledged data reveals that, and on a quiet
 * connection keep-alive probes do. Connections inherit these options from the listening socket. */
static void notice_dead_peers(const struct web_listener *l, int fd)
{
    const int on = 1, probes = 3;
    const int timeout_ms = (int)l->config.output_ms;
    const int idle_s = timeout_ms / 1000 > 0 ? timeout_ms / 1000 : 1;
    const int interval_s = idle_s / probes > 0 ? idle_s / probes : 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void init_handles(struct web_listener *l)
{
    const union MHD_DaemonInfo *info = l->mhd.get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    uv_poll_init(l->loop, &l->daemon_poll, info->epoll_fd);
    uv_timer_init(l->loop, &l->run_timer);
    uv_timer_init(l->loop, &l->sweep);
    uv_idle_init(l->loop, &l->kick);
    l->daemon_poll.data = l->run_timer.data = l->sweep.data = l->kick.data = l;
    l->handles = 4 + l->socket_count;
    uv_poll_start(&l->daemon_poll, UV_READABLE, on_daemon_ready);
    for (size_t i = 0; i < l->socket_count; i++) {
        struct web_socket *s = &l->sockets[i];
        uv_poll_init(l->loop, &s->poll, s->fd);
        s->poll.data = s;
        s->listener = l;
        if (l->config.unix_fd == 0) {
            notice_dead_peers(l, s->fd);
        }
    }
}

static int open_parts(struct web_listener *l, struct err *err)
{
    const struct web_listener_config *config = &l->config;
    int rc = mhd_lib_open(&l->mhd, err);
    if (rc == 0 && config->cert_file != NULL) {
        rc = tls_lib_open(&l->gnutls, err);
        if (rc == 0 && l->mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
            rc =
                err_set(err, ERR_CONFIG, "TLS: libmicrohttpd on this machine was built without it");
        }
        if (rc == 0) {
            rc = web_tls_load(&l->gnutls, config->cert_file, config->key_file, &l->tls, err);
        }
    }
    if (rc < 0) {
        return rc;
    }
    if (config->unix_fd != 0) {
        l->url = alloc_strdup("http://localhost");
        l->sockets[0].fd = config->unix_fd;
        rc = start_daemon(l, err);
        l->socket_count = rc == 0 ? 1 : 0; /* before that the descriptor is the caller's */
        return rc;
    }
    int fds[WEB_SOCKETS_MAX];
    int count = web_sockets_open(config->address, config->port, l->tls != NULL, fds, &l->url, err);
    if (count < 0) {
        return count;
    }
    for (int i = 0; i < count; i++) {
        l->sockets[i].fd = fds[i];
    }
    l->socket_count = (size_t)count;
    return start_daemon(l, err);
}

int web_listener_open(uv_loop_t *loop, const struct web_listener_config *config,
                      struct web_listener **ret, struct err *err)
{
    struct web_listener *l = alloc_one(struct web_listener);
    l->loop = loop;
    l->refs = 1;
    l->config = *config;
    l->config.address = config->address != NULL ? alloc_strdup(config->address) : NULL;
    l->config.cert_file = config->cert_file != NULL ? alloc_strdup(config->cert_file) : NULL;
    l->config.key_file = config->key_file != NULL ? alloc_strdup(config->key_file) : NULL;
    if (config->max_bodies_bytes == 0) {
        l->config.max_bodies_bytes = LIMIT_HTTP_BODIES;
    }
    if (config->max_output_bytes == 0) {
        l->config.max_output_bytes = LIMIT_HTTP_OUTPUT;
    }
    if (config->head_ms == 0) {
        l->config.head_ms = TIME_HTTP_HEAD_MS;
    }
    if (config->input_ms == 0) {
        l->config.input_ms = TIME_HTTP_INPUT_MS;
    }
    if (config->output_ms == 0) {
        l->config.output_ms = TIME_HTTP_OUTPUT_MS;
    }
    int rc = open_parts(l, err);
    if (rc < 0) {
        for (size_t i = 0; i < l->socket_count; i++) {
            close(l->sockets[i].fd);
        }
        web_listener_release(l);
        return rc;
    }
    init_handles(l);
    web_listener_accept(l);
    *ret = l;
    return 0;
}

const char *web_listener_url(const struct web_listener *l)
{
    return l->url;
}

size_t web_listener_names(const struct web_listener *l, const char *const **ret)
{
    return web_tls_names(l->tls, ret);
}

int web_listener_reload(struct web_listener *l, struct err *err)
{
    struct web_tls *fresh = NULL;
    if (l->tls == NULL) {
        return 0;
    }
    int rc = web_tls_load(&l->gnutls, l->config.cert_file, l->config.key_file, &fresh, err);
    if (rc == 0) {
        web_tls_release(l->tls);
        l->tls = fresh;
    }
    return rc;
}

/* ---- closing ---- */

void web_listener_quiesce(struct web_listener *l)
{
    if (l->quiesced) {
        return;
    }
    l->quiesced = true;
    close_sockets(l);
    for (struct web_connection *c = l->connections; c != NULL; c = c->next) {
        if (c->exchange == NULL) {
            web_connection_kill(c); /* idle */
        }
    }
}

void web_listener_close(struct web_listener *l, uint64_t flush_ms, void (*closed)(void *arg),
                        void *arg)
{
    if (l->closing) {
        return;
    }
    l->closing = true;
    l->closed = closed;
    l->closed_arg = arg;
    l->close_at = uv_now(l->loop) + flush_ms;
    web_listener_quiesce(l);
    for (struct web_connection *c = l->connections; c != NULL; c = c->next) {
        struct web_exchange *x = c->exchange;
        if (x != NULL && web_exchange_was_handed(x)) {
            web_exchange_lose(x); /* libmicrohttpd still has it, so this does not free it */
            web_exchange_fail(x, 503, "the server is shutting down");
            if (x->response.sm.state == WEB_RESPONSE_STREAM) {
                web_response_set(x, WEB_RESPONSE_ENDED);
            }
            web_connection_resume(c);
            web_tunnel_update(x);
        } else {
            web_connection_kill(c);
        }
    }
    web_listener_sweep_at(l, l->close_at);
    web_listener_kick(l);
}
