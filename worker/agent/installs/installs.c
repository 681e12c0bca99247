/*
 * An answer is text, and at its end a NUL and the exit code in digits; a socket that ends without
 * these has lost its answer. Text that its reader does not take is kept up to LIMIT_INSTALL_TEXT;
 * what comes then is left out, but never the end.
 *
 * A place is never refused for long: a client that only asks, or only leaves, gives way to a new
 * one, and of those that wait there are fewer than places.
 */
#include "worker/agent/installs/installs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define END_BYTES     16u /* NUL and an exit code */
#define ENCODED_BYTES (2u * WISH_BYTES)
#define READ_BYTES    4096
#define ACCEPTS       4 /* in one round of the loop, which has others to serve */

#define MANY_TEXT                                                                                  \
    "too many installations are waited for in this sandbox at once: wait for one to end\n"
#define LATE_TEXT                                                                                  \
    "packages are installed while code runs, and nothing runs in this sandbox now: install them "  \
    "in the next run\n"
#define OVER_TEXT                                                                                  \
    "the run that waited for this has ended; an installation that has begun goes on by itself\n"

static void client_init(struct install_client *c)
{
    *c = (struct install_client){.fd = -1};
    wish_init(&c->wish);
    buf_init(&c->encoded, ENCODED_BYTES);
    buf_init(&c->out, LIMIT_INSTALL_TEXT + END_BYTES);
}

static void client_close(struct install_client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    wish_finish(&c->wish);
    buf_finish(&c->encoded);
    buf_finish(&c->out);
    client_init(c);
}

void installs_init(struct installs *s, int listen_fd)
{
    *s = (struct installs){.listen_fd = listen_fd};
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        client_init(&s->clients[i]);
    }
}

void installs_finish(struct installs *s)
{
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        client_close(&s->clients[i]);
    }
    if (s->listen_fd >= 0) {
        close(s->listen_fd);
    }
    s->listen_fd = -1;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void client_flush(struct install_client *c)
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
            client_close(c);
            return;
        }
        at += (size_t)n;
    }
    buf_consume(&c->out, at);
    if (c->out.len == 0 && c->phase == INSTALL_LEAVING) {
        client_close(c);
    }
}

/* Text is everything but NUL, which marks the end. */
static void add_text(struct install_client *c, struct view text)
{
    size_t room = LIMIT_INSTALL_TEXT - c->out.len;
    size_t len = text.len < room ? text.len : room;
    size_t at = c->out.len;
    if (buf_add(&c->out, text.data, len, NULL) < 0) {
        return;
    }
    for (; at < c->out.len; at++) {
        c->out.data[at] = c->out.data[at] == '\0' ? '?' : c->out.data[at];
    }
}

static void client_end(struct install_client *c, struct view text, unsigned exit_code)
{
    char end[END_BYTES];
    int n = snprintf(end, sizeof(end), "%c%u", '\0', exit_code);
    add_text(c, text);
    err_ignore(buf_add(&c->out, end, (size_t)n, NULL)); /* there is room for it */
    buf_finish(&c->encoded);
    wish_finish(&c->wish);
    c->phase = INSTALL_LEAVING;
    client_flush(c);
}

static void client_refuse(struct install_client *c, const char *text)
{
    client_end(c, view_of(text), 1);
}

void installs_tell(struct installs *s, uint64_t id, struct view text, bool last, unsigned exit_code)
{
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        struct install_client *c = &s->clients[i];
        if (c->phase != INSTALL_WAITING || c->id != id) {
            continue;
        }
        if (last) {
            client_end(c, text, exit_code);
        } else {
            add_text(c, text);
            client_flush(c);
        }
        return;
    }
}

void installs_end(struct installs *s)
{
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        if (s->clients[i].phase == INSTALL_WAITING) {
            client_refuse(&s->clients[i], OVER_TEXT);
        }
    }
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static size_t count_waiting(const struct installs *s)
{
    size_t n = 0;
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        n += s->clients[i].phase == INSTALL_WAITING;
    }
    return n;
}

static void take_wish(struct installs *s, struct install_client *c, bool running)
{
    struct err err = ERR_INIT;
    char text[256];
    if (!running) {
        client_refuse(c, LATE_TEXT);
    } else if (count_waiting(s) == LIMIT_INSTALLS) {
        client_refuse(c, MANY_TEXT);
    } else if (wish_encode(&c->wish, s->last_id + 1, &c->encoded, &err) < 0) {
        snprintf(text, sizeof(text), "%.200s\n", err.text);
        client_refuse(c, text);
    } else {
        c->id = ++s->last_id;
        c->told = false;
        c->phase = INSTALL_WAITING;
        wish_finish(&c->wish);
    }
}

static void client_read(struct installs *s, struct install_client *c, bool running)
{
    char data[READ_BYTES];
    struct err err = ERR_INIT;
    ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || c->phase != INSTALL_ASKING) { /* nothing is to be said after the wish */
        client_close(c);
        return;
    }
    int rc = wish_feed(&c->wish, data, (size_t)n, &err);
    if (rc < 0) {
        char text[256];
        snprintf(text, sizeof(text), "%.200s\n", err.text);
        client_refuse(c, text);
    } else if (rc > 0) {
        take_wish(s, c, running);
    }
}

bool installs_have_untold(const struct installs *s)
{
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        if (s->clients[i].phase == INSTALL_WAITING && !s->clients[i].told) {
            return true;
        }
    }
    return false;
}

struct view_list installs_take(struct installs *s, struct view ret_items[LIMIT_INSTALLS])
{
    size_t n = 0;
    for (size_t i = 0; i < INSTALL_CLIENTS && n < LIMIT_INSTALLS; i++) {
        struct install_client *c = &s->clients[i];
        if (c->phase == INSTALL_WAITING) {
            c->told = true;
            ret_items[n++] = view_bytes(c->encoded.data, c->encoded.len);
        }
    }
    return (struct view_list){n > 0 ? ret_items : NULL, n};
}

void installs_untell(struct installs *s)
{
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        s->clients[i].told = false;
    }
}

/* ---- the socket ------------------------------------------------------------------------------ */

static struct install_client *place_for_client(struct installs *s)
{
    struct install_client *oldest = NULL;
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        struct install_client *c = &s->clients[i];
        if (c->phase == INSTALL_NONE) {
            return c;
        }
        if (c->phase != INSTALL_WAITING && (oldest == NULL || c->number < oldest->number)) {
            oldest = c;
        }
    }
    client_close(oldest); /* at most LIMIT_INSTALLS wait, so there is one */
    return oldest;
}

static void accept_clients(struct installs *s)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        struct install_client *c = place_for_client(s);
        c->phase = INSTALL_ASKING;
        c->fd = fd;
        c->number = ++s->came;
    }
}

void installs_poll(struct installs *s, struct poll_set *set)
{
    s->listen_slot = poll_set_add(set, s->listen_fd, POLLIN);
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        struct install_client *c = &s->clients[i];
        int events = (c->phase != INSTALL_LEAVING ? POLLIN : 0) | (c->out.len > 0 ? POLLOUT : 0);
        c->slot = poll_set_add(set, c->fd, (short)events);
    }
}

void installs_handle(struct installs *s, const struct poll_set *set, bool running)
{
    for (size_t i = 0; i < INSTALL_CLIENTS; i++) {
        struct install_client *c = &s->clients[i];
        short got = poll_set_got(set, c->slot);
        if (got & POLLOUT) {
            client_flush(c);
        }
        if (c->phase == INSTALL_LEAVING && (got & (POLLHUP | POLLERR))) {
            client_close(c);
        } else if (c->phase != INSTALL_NONE && c->phase != INSTALL_LEAVING &&
                   (got & (POLLIN | POLLHUP | POLLERR))) {
            client_read(s, c, running);
        }
    }
    /* last: accepting may reuse a place, which must have been handled by then */
    if (poll_set_got(set, s->listen_slot) != 0) {
        accept_clients(s);
    }
}
