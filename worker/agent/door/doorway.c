/*
 * A connection becomes a channel with its first byte, so those that say nothing cost the worker
 * nothing. Bytes of a program are read only while the link has room and the worker has given credit
 * for them, and bytes of the worker are bounded by the credit that it gets: nothing is gathered,
 * and a slow end slows down the other.
 *
 * While all places are taken, or there is no link, the next connection waits in the kernel's queue:
 * none is cut for another. Only those that the worker has closed give way.
 *
 * What the worker has closed is written to the end, and read on without use, since a connection
 * that is closed with bytes unread is reset, and then the program may lose an answer that it has
 * not read yet.
 */
#include "worker/agent/door/doorway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define ACCEPTS      4 /* in one round of the loop, which has others to serve */
#define BACKLOG      128
#define CREDIT_BYTES (LIMIT_DOOR_WINDOW / 4) /* told at once, or when nothing is left to write */

static void doorway_client_init(struct doorway_client *c)
{
    *c = (struct doorway_client){.fd = -1};
    buf_init(&c->out, LIMIT_DOOR_WINDOW);
}

static void doorway_client_close(struct doorway_client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    buf_finish(&c->out);
    doorway_client_init(c);
}

int doorway_listen(uint16_t port, int *ret_fd, struct err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0) {
        int rc = err_sys(err, ERR_INTERNAL, errno, "cannot listen at port %u of loopback", port);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

void doorway_init(struct doorway *d, int listen_fd, struct doorway_link link)
{
    *d = (struct doorway){.listen_fd = listen_fd, .link = link};
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        doorway_client_init(&d->clients[i]);
    }
}

void doorway_cut(struct doorway *d)
{
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        doorway_client_close(&d->clients[i]);
    }
    d->last_channel = 0;
}

void doorway_finish(struct doorway *d)
{
    doorway_cut(d);
    if (d->listen_fd >= 0) {
        close(d->listen_fd);
    }
    d->listen_fd = -1;
}

/* ---- to the worker --------------------------------------------------------------------------- */

static void send_close(struct doorway *d, const struct doorway_client *c, bool whole)
{
    struct msg m = {.type = MSG_DOOR_CLOSE};
    m.door_close.channel = c->channel;
    m.door_close.whole = whole;
    d->link.send(d->link.arg, &m);
}

/* The program's end is broken. */
static void end_client(struct doorway *d, struct doorway_client *c)
{
    if (c->phase == DOORWAY_OPEN) {
        send_close(d, c, true);
    }
    doorway_client_close(c);
}

static bool begin_channel(struct doorway *d, struct doorway_client *c)
{
    struct msg m = {.type = MSG_DOOR_OPEN};
    if (d->last_channel == UINT32_MAX) {
        doorway_client_close(c); /* after as many, the next link begins anew */
        return false;
    }
    c->phase = DOORWAY_OPEN;
    c->channel = ++d->last_channel;
    c->may_send = LIMIT_DOOR_WINDOW;
    c->may_come = LIMIT_DOOR_WINDOW;
    m.door_open.channel = c->channel;
    d->link.send(d->link.arg, &m);
    return c->phase == DOORWAY_OPEN;
}

static void read_program(struct doorway *d, struct doorway_client *c)
{
    char data[LIMIT_DOOR_CHUNK];
    uint64_t most = c->phase == DOORWAY_OPEN ? c->may_send : sizeof(data);
    ssize_t n = recv(c->fd, data, most < sizeof(data) ? most : sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < 0 || (n == 0 && c->phase != DOORWAY_OPEN)) {
        end_client(d, c);
        return;
    }
    if (c->phase == DOORWAY_LEAVING) {
        return; /* it is not listened to any more */
    }
    if (n == 0) {
        c->said_all = true;
        send_close(d, c, false);
        return;
    }
    if (c->phase == DOORWAY_SILENT && !begin_channel(d, c)) {
        return;
    }
    c->may_send -= (uint64_t)n;
    struct msg m = {.type = MSG_DOOR_DATA};
    m.door_data.channel = c->channel;
    m.door_data.data = view_bytes(data, (size_t)n);
    d->link.send(d->link.arg, &m);
}

/* ---- to the program -------------------------------------------------------------------------- */

static void give_credit(struct doorway *d, struct doorway_client *c)
{
    struct msg m = {.type = MSG_DOOR_CREDIT};
    if (c->phase != DOORWAY_OPEN || c->taken == 0 || (c->taken < CREDIT_BYTES && c->out.len > 0)) {
        return;
    }
    m.door_credit.channel = c->channel;
    m.door_credit.bytes = c->taken;
    c->may_come += c->taken;
    c->taken = 0;
    d->link.send(d->link.arg, &m);
}

static void write_program(struct doorway *d, struct doorway_client *c)
{
    size_t at = 0;
    while (at < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + at, c->out.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            end_client(d, c);
            return;
        }
        at += (size_t)n;
    }
    buf_consume(&c->out, at);
    c->taken += at;
    if (c->phase == DOORWAY_LEAVING && c->out.len == 0 && !c->shut) {
        c->shut = true;
        shutdown(c->fd, SHUT_WR);
    }
    give_credit(d, c);
}

/* ---- from the worker ------------------------------------------------------------------------- */

static struct doorway_client *find_channel(struct doorway *d, uint64_t channel)
{
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        if (d->clients[i].phase == DOORWAY_OPEN && d->clients[i].channel == channel) {
            return &d->clients[i];
        }
    }
    return NULL;
}

static int take_data(struct doorway *d, struct doorway_client *c, struct view data, struct err *err)
{
    if (data.len > c->may_come) {
        return err_set(err, ERR_PROTOCOL, "more for a channel than it takes");
    }
    c->may_come -= data.len;
    if (buf_add(&c->out, data.data, data.len, err) < 0) {
        end_client(d, c); /* no memory: its program hears of it */
        return 0;
    }
    write_program(d, c);
    return 0;
}

/* What is said of a channel that is closed here has crossed the message that says so. */
int doorway_take(struct doorway *d, const struct msg *m, struct err *err)
{
    struct doorway_client *c = NULL;
    switch (m->type) {
    case MSG_DOOR_DATA:
        c = find_channel(d, m->door_data.channel);
        return c != NULL ? take_data(d, c, m->door_data.data, err) : 0;
    case MSG_DOOR_CREDIT:
        c = find_channel(d, m->door_credit.channel);
        if (c != NULL && m->door_credit.bytes > LIMIT_DOOR_WINDOW - c->may_send) {
            return err_set(err, ERR_PROTOCOL, "more credit for a channel than there can be");
        }
        if (c != NULL) {
            c->may_send += m->door_credit.bytes;
        }
        return 0;
    case MSG_DOOR_CLOSE:
        c = find_channel(d, m->door_close.channel);
        if (c != NULL) { /* the worker's end is the server's, and closed as a whole */
            c->phase = DOORWAY_LEAVING;
            write_program(d, c);
        }
        return 0;
    default:
        return err_set(err, ERR_PROTOCOL, "%s is nothing for a door", msg_name(m->type));
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static struct doorway_client *doorway_place(struct doorway *d)
{
    struct doorway_client *leaving = NULL;
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        struct doorway_client *c = &d->clients[i];
        if (c->phase == DOORWAY_NONE) {
            return c;
        }
        if (c->phase == DOORWAY_LEAVING && c->shut &&
            (leaving == NULL || c->channel < leaving->channel)) {
            leaving = c;
        }
    }
    return leaving;
}

static void accept_programs(struct doorway *d)
{
    struct doorway_client *c;
    for (int i = 0; i < ACCEPTS && (c = doorway_place(d)) != NULL; i++) {
        int on = 1;
        int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* else it is only slower */
        doorway_client_close(c);
        c->phase = DOORWAY_SILENT;
        c->fd = fd;
    }
}

/* A program may be read: what it says can be sent on, or is for nobody. */
static bool may_read(const struct doorway_client *c, bool room)
{
    switch (c->phase) {
    case DOORWAY_SILENT:
        return room;
    case DOORWAY_OPEN:
        return room && c->may_send > 0 && !c->said_all;
    case DOORWAY_LEAVING:
        return true;
    default:
        return false;
    }
}

void doorway_poll(struct doorway *d, struct poll_set *set)
{
    bool room = d->listen_fd >= 0 && d->link.has_room(d->link.arg);
    bool place = room && doorway_place(d) != NULL;
    d->listen_slot = poll_set_add(set, place ? d->listen_fd : -1, POLLIN);
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        struct doorway_client *c = &d->clients[i];
        int events = (may_read(c, room) ? POLLIN : 0) | (c->out.len > 0 ? POLLOUT : 0);
        c->slot = poll_set_add(set, c->fd, (short)events);
    }
}

void doorway_handle(struct doorway *d, const struct poll_set *set)
{
    for (size_t i = 0; i < LIMIT_DOOR_CHANNELS; i++) {
        struct doorway_client *c = &d->clients[i];
        short got = poll_set_got(set, c->slot);
        c->slot = (struct poll_slot){0}; /* what comes to this place is of another round */
        if (got & POLLOUT) {
            write_program(d, c);
        }
        if (c->phase == DOORWAY_NONE) {
            continue;
        }
        if ((got & POLLIN) != 0 && may_read(c, d->link.has_room(d->link.arg))) {
            read_program(d, c);
        } else if ((got & (POLLHUP | POLLERR)) != 0 && (got & POLLIN) == 0) {
            end_client(d, c);
        }
    }
    /* last: accepting may reuse a place, which must have been handled by then */
    if (poll_set_got(set, d->listen_slot) != 0) {
        accept_programs(d);
    }
}
