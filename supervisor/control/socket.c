/*
 * The control socket: <instance>/control.sock, for processes of this user alone.
 *
 * Listening costs a descriptor. libmicrohttpd, which takes 2 MB and a millisecond, is loaded when
 * somebody connects: until then the loop polls the listening socket, and the first connection, not
 * yet accepted, makes it the listener's.
 *
 * Nobody else can reach the socket: its directory is private, its mode is 0600 from its first
 * moment on, and the listener asks the kernel whose process it is that has connected. A file of the
 * name that is there already was left by a server that was killed, since we hold the instance's
 * lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/base/control_socket.h"
#include "supervisor/control/internal.h"
#include "supervisor/web/http/listener.h"

#define BACKLOG     64
#define CONNECTIONS 256
#define OPERATOR    1 /* all who connect are this user, whom the listener knows by a number */

struct control_socket {
    struct control *control;
    char *path;
    uv_poll_t poll; /* till somebody connects */
    int fd;         /* -1: the listener has it */
    struct web_listener *listener;
    bool polls, quiet, closing;
    uint64_t flush_ms;
    void (*closed)(void *arg);
    void *closed_arg;
};

static int listen_at(const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_copy(address.sun_path, sizeof(address.sun_path), path, err) < 0) {
        return -err->code;
    }
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "socket");
    }
    (void)unlink(path);
    (void)fchmod(fd, 0600); /* before it has a name: so it never has another mode */
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        return err_sys(err, ERR_IO, errno, "%s", path);
    }
    if (chmod(path, 0600) < 0 || listen(fd, BACKLOG) < 0) {
        int sys = errno;
        (void)unlink(path);
        return err_sys(err, ERR_IO, sys, "%s", path);
    }
    return steal_fd(&fd);
}

static void on_control_request(void *arg, struct web_exchange *x)
{
    const struct control_socket *s = arg;
    web_set_known(x, OPERATOR);
    control_handle(s->control, x, web_path(x), web_peer(x));
}

/* ---- from the poll to the listener ---------------------------------------------------------- */

static void free_socket(struct control_socket *s)
{
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    free(s->path);
    free(s);
    closed(arg);
}

static void on_socket_listener_closed(void *arg)
{
    free_socket(arg);
}

static void on_control_poll_closed(uv_handle_t *handle)
{
    struct control_socket *s = handle->data;
    s->polls = false;
    if (s->closing && s->listener != NULL) {
        web_listener_close(s->listener, s->flush_ms, on_socket_listener_closed, s);
    } else if (s->closing) {
        free_socket(s);
    }
}

static void on_first_connection(uv_poll_t *poll, int status, int events)
{
    struct control_socket *s = poll->data;
    struct err err = ERR_INIT;
    (void)status, (void)events;
    const struct web_listener_config config = {
        .unix_fd = s->fd,
        .max_connections = CONNECTIONS,
        .max_body_bytes = LIMIT_LINE_BYTES,
        .handle = on_control_request,
        .arg = s,
    };
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_control_poll_closed);
    if (web_listener_open(s->control->loop, &config, &s->listener, &err) < 0) {
        log_warn("control socket: %s", err.text);
        (void)unlink(s->path); /* so that clients see that there is none */
        close(s->fd);
    }
    s->fd = -1;
}

struct control_socket *control_socket_open(struct control *c)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE char *path = alloc_printf("%s/" CONTROL_SOCKET_NAME, c->dir);
    int fd = listen_at(path, &err);
    if (fd < 0) {
        log_warn("there is no control socket, so `cloister ps` does not see this server: %s",
                 err.text);
        return NULL;
    }
    struct control_socket *s = alloc_one(struct control_socket);
    s->control = c;
    s->path = STEAL_PTR(path);
    s->fd = fd;
    s->polls = true;
    uv_poll_init(c->loop, &s->poll, fd);
    s->poll.data = s;
    uv_poll_start(&s->poll, UV_READABLE, on_first_connection);
    uv_unref((uv_handle_t *)&s->poll);
    return s;
}

/* ---- the end -------------------------------------------------------------------------------- */

void control_socket_quiesce(struct control_socket *s)
{
    if (!s->quiet) {
        s->quiet = true;
        (void)unlink(s->path);
        if (s->listener != NULL) {
            web_listener_quiesce(s->listener);
        }
    }
}

void control_socket_close(struct control_socket *s, uint64_t flush_ms, void (*closed)(void *arg),
                          void *arg)
{
    s->closing = true;
    s->flush_ms = flush_ms;
    s->closed = closed;
    s->closed_arg = arg;
    if (s->fd >= 0) { /* nobody has come */
        uv_poll_stop(&s->poll);
        uv_close((uv_handle_t *)&s->poll, on_control_poll_closed);
        fd_close(&s->fd);
    } else if (!s->polls && s->listener != NULL) {
        web_listener_close(s->listener, flush_ms, on_socket_listener_closed, s);
    } else if (!s->polls) {
        free_socket(s);
    } /* else its poll is being closed, and goes on from there */
}
