/*
 * The address is never what somebody says: it is 127.0.0.1 or, if nobody listens there, ::1, in the
 * agent's own network namespace, which is the sandbox's. Only the port comes from outside.
 *
 * Both directions are those of any operation: bytes are read only while there is room in the output
 * stream, and what is to be written waits in the operation's input. So a slow end slows down the
 * other, and nothing is gathered here.
 *
 * A program may answer and close before it has read all that it is told (a refusal of an upload).
 * Then writing fails, but the answer is there to be read, so a failed write does not end the
 * operation. It takes the error off the socket, though, so that reading shows an end like any
 * other. What ends after such a write is reported as broken off: whether it is whole can only be
 * told by what was said.
 */
#include "worker/agent/run/connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/fd.h"

#define CHUNK_BYTES 16384

/* ---- the end -------------------------------------------------------------------------------- */

void connect_drop(struct op *op)
{
    if (op->connect != NULL) {
        fd_close(&op->connect->fd);
        free(op->connect);
        op->connect = NULL;
    }
}

static void fail_connect(struct op_table *t, struct op *op, enum err_code code, const char *text)
{
    connect_drop(op);
    op_fail(t, op, code, text);
}

static void end_connect(struct op_table *t, struct op *op, enum op_status status)
{
    connect_drop(op);
    op->status = status;
    op_done(t, op);
}

void connect_stop(struct op_table *t, struct op *op, enum op_stop reason)
{
    op->stop = reason;
    end_connect(t, op, reason == OP_STOP_TIMEOUT ? OP_STATUS_TIMEOUT : OP_STATUS_CANCELLED);
}

/* ---- the beginning -------------------------------------------------------------------------- */

/* Returns 0 if it is connected or may still be, else an errno. */
static int begin_at(struct connect *c, const struct sockaddr *address, socklen_t len)
{
    int on = 1;
    c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0) {
        return errno;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* else it is only slower */
    int rc = connect(c->fd, address, len);
    return rc < 0 && errno != EINPROGRESS && errno != EINTR ? errno : 0;
}

static int begin_next(struct connect *c, bool v6)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(c->port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(c->port)};
    in4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in6.sin6_addr = in6addr_loopback;
    fd_close(&c->fd);
    c->tried_v6 = v6;
    return v6 ? begin_at(c, (const struct sockaddr *)&in6, sizeof(in6))
              : begin_at(c, (const struct sockaddr *)&in4, sizeof(in4));
}

/* An address did not do; `sys` says why. Only the reason of the first is worth telling: the other
 * may not even exist. */
static void try_next(struct op_table *t, struct op *op, int sys)
{
    struct connect *c = op->connect;
    if (c->tried_v6 || begin_next(c, true) != 0) {
        char text[128];
        snprintf(text, sizeof(text), "nothing listens at port %u of the sandbox's loopback (%s)",
                 (unsigned)c->port, strerror(sys));
        fail_connect(t, op, ERR_FILE_NOT_FOUND, text);
    }
}

void connect_begin(struct op_table *t, struct op *op, const struct msg_start *m)
{
    op_run(t, op);
    if (m->offset == 0 || m->offset > UINT16_MAX) {
        op_fail(t, op, ERR_INVALID, "a port is a number from 1 to 65535");
        return;
    }
    op->connect = alloc_one(struct connect);
    *op->connect = (struct connect){.fd = -1, .port = (uint16_t)m->offset};
    int sys = begin_next(op->connect, false);
    if (sys != 0) {
        try_next(t, op, sys);
    }
}

/* The socket can be written, or has an error: the attempt is over. */
static void settle_connect(struct op_table *t, struct op *op)
{
    struct connect *c = op->connect;
    int sys = 0;
    socklen_t len = sizeof(sys);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0) {
        sys = errno;
    }
    if (sys != 0) {
        try_next(t, op, sys);
        return;
    }
    int writer = fcntl(c->fd, F_DUPFD_CLOEXEC, 0); /* the input closes its own when it is refused */
    if (writer < 0) {
        fail_connect(t, op, ERR_IO, "the sandbox has no descriptor left for a connection");
        return;
    }
    c->is_there = true;
    input_begin(&op->input, writer);
}

/* ---- what it says --------------------------------------------------------------------------- */

/* False if the operation has ended. */
static bool read_once(struct op_table *t, struct op *op, size_t room)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = recv(op->connect->fd, chunk, room < sizeof(chunk) ? room : sizeof(chunk), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n < 0 || (n == 0 && op->input.refused)) {
        fail_connect(t, op, ERR_IO, "the program has broken off the connection");
        return false;
    }
    if (n == 0) {
        end_connect(t, op, OP_STATUS_OK);
        return false;
    }
    if (op_stream_add(&op->out, chunk, (size_t)n, NULL) < 0) {
        fail_connect(t, op, ERR_NO_MEMORY, "the sandbox has no memory for what comes");
        return false;
    }
    return (size_t)n == (room < sizeof(chunk) ? room : sizeof(chunk));
}

void connect_poll(struct op *op, struct poll_set *set)
{
    struct connect *c = op->connect;
    bool wanted = !c->is_there || op_stream_room(&op->out) > 0;
    c->slot = poll_set_add(set, wanted ? c->fd : -1, c->is_there ? POLLIN : POLLOUT);
}

void connect_handle(struct op_table *t, struct op *op, const struct poll_set *set)
{
    struct connect *c = op->connect;
    if (poll_set_got(set, c->slot) == 0) {
        return;
    }
    c->slot = (struct poll_slot){0};
    if (!c->is_there) {
        settle_connect(t, op);
        return;
    }
    size_t room;
    while ((room = op_stream_room(&op->out)) > 0 && read_once(t, op, room)) {
        continue;
    }
}
