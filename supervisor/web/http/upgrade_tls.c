/*
 * TLS below another protocol.
 *
 * libmicrohttpd would do it: it hands out one end of a pair of sockets, and encrypts what goes
 * through. But it does so with what its memory of the connection has left, which is nothing once a
 * head has been sent: four bytes each way, and a record for each (0.9.75: 65 KB took 5 s). So we
 * use the session ourselves, and that end of the pair not at all.
 *
 * libmicrohttpd goes on to look at the client's socket, and to read the session whenever there is
 * something. It must not get any of it, so the session reads by a function of ours, which has
 * nothing for anybody else. A record is always taken whole, so that nothing of it is left in the
 * session either.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/alloc.h"
#include "supervisor/web/http/internal.h"

struct web_cipher {
    const struct tls_lib *lib;
    gnutls_session_t session;
    int fd;       /* the client's; libmicrohttpd's */
    bool reading; /* it is us */
    bool blocked; /* a record waits, and has to be sent first */
};

static ssize_t pull(gnutls_transport_ptr_t arg, void *data, size_t size)
{
    const struct web_cipher *c = arg;
    if (c->reading) {
        return recv(c->fd, data, size, MSG_DONTWAIT);
    }
    errno = EAGAIN;
    return -1;
}

static ssize_t pull_nothing(gnutls_transport_ptr_t arg, void *data, size_t size)
{
    (void)arg, (void)data, (void)size;
    errno = EAGAIN;
    return -1;
}

static void read_by(struct web_cipher *c, gnutls_pull_func how, void *arg)
{
    c->lib->transport_set_ptr2(c->session, arg, (gnutls_transport_ptr_t)(intptr_t)c->fd);
    c->lib->transport_set_pull_function(c->session, how);
}

struct web_cipher *web_cipher_begin(const struct web_connection *connection)
{
    const struct web_listener *l = connection->listener;
    const union MHD_ConnectionInfo *info =
        l->mhd.get_connection_info(connection->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info == NULL) {
        return NULL;
    }
    struct web_cipher *c = alloc_one(struct web_cipher);
    c->lib = &l->gnutls;
    c->session = info->tls_session;
    c->fd = connection->fd;
    read_by(c, pull, c);
    return c;
}

void web_cipher_end(struct web_cipher *c)
{
    if (c != NULL) {
        read_by(c, pull_nothing, NULL);
        free(c);
    }
}

bool web_cipher_holds(const struct web_cipher *c)
{
    return c->lib->record_check_pending(c->session) > 0;
}

ssize_t web_cipher_read(struct web_cipher *c, char *out, size_t size)
{
    c->reading = true;
    ssize_t n = c->lib->record_recv(c->session, out, size);
    c->reading = false;
    if (n > 0) {
        return n;
    }
    errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EPROTO;
    return n == 0 ? 0 : -1;
}

ssize_t web_cipher_write(struct web_cipher *c, const char *data, size_t size)
{
    ssize_t n = c->lib->record_send(c->session, c->blocked ? NULL : data, c->blocked ? 0 : size);
    c->blocked = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
    if (n > 0) {
        return n;
    }
    errno = c->blocked ? EAGAIN : EPROTO;
    return -1;
}
