/*
 * Reads the rest of what a client sends after our last answer on a connection.
 *
 * An answer may come before the request is whole: 413 to a body that is too large. If the socket
 * were closed with bytes unread, the kernel would send a reset, and the client might lose the
 * answer that it has not read yet. So a duplicate of the descriptor stays open without its sending
 * side, and incoming bytes are read and dropped, for a short while and for a few connections at a
 * time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "proto/limits.h"
#include "supervisor/web/http/internal.h"

enum { READ_BYTES = 64 << 10, READS = 8 };

struct web_linger {
    struct web_linger *next, *prev;
    struct web_listener *listener;
    uv_poll_t poll;
    uv_timer_t timer;
    int fd;
    int handles;
};

static void on_linger_closed(uv_handle_t *handle)
{
    struct web_linger *g = handle->data;
    struct web_listener *l = g->listener;
    if (--g->handles == 0) {
        free(g);
    }
    web_listener_handle_closed(l);
}

static void end_linger(struct web_linger *g)
{
    struct web_listener *l = g->listener;
    if (g->next != NULL) {
        g->next->prev = g->prev;
    }
    *(g->prev != NULL ? &g->prev->next : &l->lingers) = g->next;
    l->linger_count--;
    uv_close((uv_handle_t *)&g->poll, on_linger_closed);
    uv_close((uv_handle_t *)&g->timer, on_linger_closed);
    close(g->fd);
}

static void on_linger_readable(uv_poll_t *handle, int status, int events)
{
    struct web_linger *g = handle->data;
    (void)events;
    static char waste[READ_BYTES]; /* read into, never looked at */
    for (int i = 0; status == 0 && i < READS; i++) {
        ssize_t n = recv(g->fd, waste, sizeof(waste), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            end_linger(g);
            return;
        }
    }
    if (status != 0) {
        end_linger(g);
    }
}

static void on_linger_timer(uv_timer_t *timer)
{
    end_linger(timer->data);
}

void web_linger_add(struct web_listener *l, int fd)
{
    int copy = l->linger_count < WEB_LINGER_MAX ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) {
        return; /* the client may see a reset then */
    }
    shutdown(copy, SHUT_WR);
    struct web_linger *g = alloc_one(struct web_linger);
    g->listener = l;
    g->fd = copy;
    if (uv_poll_init(l->loop, &g->poll, copy) < 0) {
        close(copy);
        free(g);
        return;
    }
    uv_timer_init(l->loop, &g->timer);
    g->poll.data = g->timer.data = g;
    g->handles = 2;
    web_listener_handle_made(l);
    web_listener_handle_made(l);
    g->next = l->lingers;
    if (g->next != NULL) {
        g->next->prev = g;
    }
    l->lingers = g;
    l->linger_count++;
    uv_poll_start(&g->poll, UV_READABLE | UV_DISCONNECT, on_linger_readable);
    uv_timer_start(&g->timer, on_linger_timer, TIME_HTTP_LINGER_MS, 0);
}

void web_linger_end(struct web_listener *l)
{
    while (l->lingers != NULL) {
        end_linger(l->lingers);
    }
}
