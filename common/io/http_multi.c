/*
 * Connects libcurl's event interface to libuv's.
 *
 * libcurl names descriptors to watch and one timeout; it runs only when it is told that one of them
 * is ready. Without a request there is neither descriptor nor timer, so an idle worker sleeps. Idle
 * connections are not watched: one that the peer has closed is detected at its next use.
 *
 * libcurl reports "remove" for a descriptor before it closes it. uv_close() removes the handle from
 * epoll at once, although its memory stays until the close callback. So when libcurl opens the same
 * descriptor number again, a new handle does not conflict with the old one.
 */
#include "common/io/http_multi.h"

#include <assert.h>
#include <stdlib.h>

#include "common/alloc.h"

struct http_socket {
    struct http_multi *multi;
    struct http_socket *next; /* of multi->sockets; not after uv_close() */
    curl_socket_t fd;
    int events; /* requested events as UV_* bits */
    uv_poll_t poll;
};

static void multi_handle_gone(struct http_multi *m)
{
    assert(m->handles > 0);
    m->handles--;
    if (m->handles == 0) {
        m->closed(m->arg);
    }
}

static void on_multi_socket_closed(uv_handle_t *handle)
{
    struct http_socket *s = handle->data;
    struct http_multi *m = s->multi;
    free(s);
    multi_handle_gone(m);
}

static void on_multi_timer_closed(uv_handle_t *handle)
{
    multi_handle_gone(handle->data);
}

static void deliver_results(struct http_multi *m)
{
    CURLMsg *message;
    int left = 0;
    while (!m->closing && (message = m->lib->multi_info_read(m->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            /* copied first: removing the handle frees the message */
            CURL *easy = message->easy_handle;
            CURLcode result = message->data.result;
            m->on_done(m->arg, easy, result);
        }
    }
}

static void drive(struct http_multi *m, curl_socket_t fd, int events)
{
    if (!m->closing) {
        int running = 0;
        m->lib->multi_socket_action(m->multi, fd, events, &running);
        deliver_results(m);
    }
}

static void on_multi_timer(uv_timer_t *timer)
{
    drive(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* libuv stops at POLLERR. libcurl is told "readable and writable" instead of "error", so that it
 * reads the peer's last bytes, perhaps a TLS alert, and the reason of the error.
 */
static void on_multi_poll(uv_poll_t *poll, int status, int events)
{
    struct http_socket *s = poll->data;
    if (status < 0) {
        events = UV_READABLE | UV_WRITABLE;
        uv_poll_start(poll, s->events, on_multi_poll);
    }
    int flags = 0;
    flags |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
    flags |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
    drive(s->multi, s->fd, flags);
}

/* libcurl sets its timer; -1: none. */
static int on_want_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct http_multi *m = arg;
    if (m->closing) {
        return 0;
    }
    if (timeout_ms < 0) {
        uv_timer_stop(&m->timer);
    } else {
        uv_update_time(m->loop); /* otherwise the timer of a busy loop would fire early */
        uv_timer_start(&m->timer, on_multi_timer, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

static struct http_socket *socket_open(struct http_multi *m, curl_socket_t fd)
{
    struct http_socket *s = alloc_one(struct http_socket);
    s->multi = m;
    s->fd = fd;
    if (uv_poll_init_socket(m->loop, &s->poll, fd) < 0) {
        free(s);
        return NULL;
    }
    s->poll.data = s;
    m->handles++;
    s->next = m->sockets;
    m->sockets = s;
    return s;
}

static void socket_close(struct http_multi *m, struct http_socket *s)
{
    struct http_socket **slot = &m->sockets;
    while (*slot != s) {
        slot = &(*slot)->next;
    }
    *slot = s->next;
    uv_close((uv_handle_t *)&s->poll, on_multi_socket_closed);
}

static struct http_socket *find_socket(struct http_multi *m, curl_socket_t fd)
{
    struct http_socket *s = m->sockets;
    while (s != NULL && s->fd != fd) {
        s = s->next;
    }
    return s;
}

/* libcurl changes the events of a descriptor. The list is searched by number, because only a few
 * are open. */
static int on_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
    (void)easy;
    (void)unused;
    struct http_multi *m = arg;
    struct http_socket *s = find_socket(m, fd);
    if (what == CURL_POLL_REMOVE || m->closing) {
        if (s != NULL) {
            socket_close(m, s);
        }
        return 0;
    }
    if (s == NULL) {
        s = socket_open(m, fd);
    }
    if (s == NULL) {
        return -1; /* this transfer ends by its timeout, or at once in newer versions */
    }
    s->events = (what & CURL_POLL_IN) != 0 ? UV_READABLE : 0;
    s->events |= (what & CURL_POLL_OUT) != 0 ? UV_WRITABLE : 0;
    return uv_poll_start(&s->poll, s->events, on_multi_poll) < 0 ? -1 : 0;
}

int http_multi_init(struct http_multi *m, const struct http_lib *lib, uv_loop_t *loop,
                    long max_idle, http_multi_done_fn on_done, void *arg, struct err *err)
{
    *m = (struct http_multi){.lib = lib, .loop = loop, .on_done = on_done, .arg = arg};
    m->multi = lib->multi_init();
    if (m->multi == NULL) {
        return err_set(err, ERR_ENGINE, "libcurl is out of memory");
    }
    lib->multi_setopt(m->multi, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    lib->multi_setopt(m->multi, CURLMOPT_SOCKETDATA, m);
    lib->multi_setopt(m->multi, CURLMOPT_TIMERFUNCTION, on_want_timer);
    lib->multi_setopt(m->multi, CURLMOPT_TIMERDATA, m);
    lib->multi_setopt(m->multi, CURLMOPT_MAXCONNECTS, max_idle);
    uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    m->handles = 1;
    return 0;
}

int http_multi_add(struct http_multi *m, CURL *easy, struct err *err)
{
    CURLMcode rc = m->lib->multi_add_handle(m->multi, easy);
    if (rc != CURLM_OK) {
        return err_set(err, ERR_ENGINE, "libcurl: %s", m->lib->multi_strerror(rc));
    }
    return 0;
}

void http_multi_remove(struct http_multi *m, CURL *easy)
{
    CURLMcode rc = m->lib->multi_remove_handle(m->multi, easy);
    assert(rc == CURLM_OK); /* fails only inside libcurl, where the handle must not be freed */
    (void)rc;
}

void http_multi_close(struct http_multi *m, void (*closed)(void *arg))
{
    m->closing = true;
    m->closed = closed;
    m->lib->multi_cleanup(m->multi); /* reports "remove" for what it closes */
    m->multi = NULL;
    while (m->sockets != NULL) {
        socket_close(m, m->sockets);
    }
    uv_close((uv_handle_t *)&m->timer, on_multi_timer_closed);
}
