#include "tests/unit/supervisor/web/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/log.h"
#include "common/str.h"

enum { BIG_BYTES = 8 << 20, IN_MAX_BYTES = 128 << 20 };

void lab_on_gone(void *arg)
{
    ((struct lab *)arg)->gone++;
}

static void on_drain(void *arg)
{
    ((struct lab *)arg)->drained++;
}

static int admit(void *arg, struct web_exchange *x)
{
    struct lab *lab = arg;
    lab->admitted++;
    const char *name = web_header(x, "X-Known");
    uint64_t who = name != NULL ? (unsigned char)name[0] : 0;
    lab->crowds += who != 0 && web_would_crowd(x, who) ? 1 : 0;
    web_set_known(x, who);
    if (strcmp(web_path(x), "/deny") == 0) {
        web_set_header(x, "WWW-Authenticate", "Bearer");
        web_respond(x, 401, "text/plain", view_of("no\n"));
        return -1;
    }
    return 0;
}

static void keep(struct lab *lab, struct web_exchange *x)
{
    assert_true(lab->held_count < 64);
    lab->held[lab->held_count++] = x;
    web_on_gone(x, lab_on_gone, lab);
    web_on_drain(x, on_drain, lab);
}

static void handle(void *arg, struct web_exchange *x)
{
    struct lab *lab = arg;
    const char *path = web_path(x);
    lab->handled++;
    if (strcmp(path, "/hello") == 0) {
        web_respond(x, 200, "text/plain", view_of("hello\n"));
    } else if (strcmp(path, "/echo") == 0) {
        web_respond(x, 200, "application/octet-stream", web_body(x));
    } else if (strcmp(path, "/count") == 0) {
        web_respond_text(x, 200, "text/plain", alloc_printf("%zu bytes\n", web_body(x).len));
    } else if (strcmp(path, "/later") == 0) {
        keep(lab, x);
    } else if (strcmp(path, "/stream") == 0) {
        web_stream_begin(x, 200, "text/event-stream");
        keep(lab, x);
    } else if (strcmp(path, "/big") == 0) {
        char *text = alloc_array(1, BIG_BYTES);
        memset(text, 'b', BIG_BYTES);
        web_respond(x, 200, "text/plain", view_bytes(text, BIG_BYTES));
        free(text);
    } else if (strcmp(path, "/headers") == 0) {
        const char *test = web_header(x, "x-test"), *query = web_query(x, "a b");
        web_respond_text(x, 200, "text/plain",
                         alloc_printf("%s %s [%s] %zu [%s] %s\n", web_method(x), path,
                                      test != NULL ? test : "none", web_header_count(x, "X-Test"),
                                      query != NULL ? query : "none", web_peer(x)));
    } else {
        web_respond(x, 404, "text/plain", view_of("nothing here\n"));
    }
}

void lab_init(struct lab *lab)
{
    memset(lab, 0, sizeof(*lab));
    log_set_level(getenv("LAB_DEBUG") != NULL ? LOG_DEBUG : LOG_ERROR);
    assert_int_equal(uv_loop_init(&lab->loop), 0);
    lab->config = (struct web_listener_config){
        .address = "127.0.0.1",
        .max_connections = 100,
        .max_body_bytes = 1 << 20,
        .admit = admit,
        .handle = handle,
        .arg = lab,
    };
}

void lab_open(struct lab *lab)
{
    struct err err = ERR_INIT;
    if (web_listener_open(&lab->loop, &lab->config, &lab->listener, &err) < 0) {
        fail_msg("%s", err.text);
    }
    uint64_t port;
    assert_int_equal(
        str_to_u64(strrchr(web_listener_url(lab->listener), ':') + 1, 1, 65535, &port, &err), 0);
    lab->port = (uint16_t)port;
}

static void on_closed(void *arg)
{
    ((struct lab *)arg)->closed = true;
}

void lab_close(struct lab *lab)
{
    if (lab->listener != NULL) {
        web_listener_close(lab->listener, 1000, on_closed, lab);
        lab_until(lab, &lab->closed);
    }
    assert_int_equal(uv_loop_close(&lab->loop), 0);
}

void lab_turn(struct lab *lab, int fd)
{
    struct pollfd fds[] = {{uv_backend_fd(&lab->loop), POLLIN, 0}, {fd, POLLIN, 0}};
    uv_run(&lab->loop, UV_RUN_NOWAIT);
    int timeout = uv_backend_timeout(&lab->loop);
    poll(fds, 2, timeout < 0 || timeout > 100 ? 100 : timeout);
    uv_run(&lab->loop, UV_RUN_NOWAIT);
}

static void check_deadline(struct lab *lab, uint64_t since)
{
    uv_update_time(&lab->loop);
    if (uv_now(&lab->loop) - since > LAB_DEADLINE_MS) {
        fail_msg("nothing happened in time");
    }
}

int lab_setup(void **state)
{
    struct lab *lab = alloc_one(struct lab);
    lab_init(lab);
    *state = lab;
    return 0;
}

int lab_teardown(void **state)
{
    struct lab *lab = *state;
    lab_close(lab);
    free(lab);
    return 0;
}

void lab_until(struct lab *lab, const bool *flag)
{
    uv_update_time(&lab->loop);
    uint64_t since = uv_now(&lab->loop);
    while (!*flag) {
        lab_turn(lab, -1);
        check_deadline(lab, since);
    }
}

void lab_until_count(struct lab *lab, const size_t *count, size_t n)
{
    uv_update_time(&lab->loop);
    uint64_t since = uv_now(&lab->loop);
    while (*count < n) {
        lab_turn(lab, -1);
        check_deadline(lab, since);
    }
}

int lab_connect(struct lab *lab)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(lab->port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

void lab_send_bytes(struct lab *lab, int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            return; /* the other side has closed; data received before can still be read */
        }
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else {
            lab_turn(lab, -1);
        }
    }
}

void lab_send(struct lab *lab, int fd, const char *text)
{
    lab_send_bytes(lab, fd, text, strlen(text));
}

bool lab_has(struct buf *in, const char *text)
{
    return in->len > 0 && memmem(in->data, in->len, text, strlen(text)) != NULL;
}

size_t lab_times(struct buf *in, const char *text)
{
    size_t count = 0, len = strlen(text);
    for (size_t at = 0; at + len <= in->len; at++) {
        count += memcmp(in->data + at, text, len) == 0;
    }
    return count;
}

bool lab_read_until(struct lab *lab, int fd, struct buf *in, const char *text)
{
    uv_update_time(&lab->loop);
    uint64_t since = uv_now(&lab->loop);
    size_t len = text != NULL ? strlen(text) : 0, from = 0; /* earlier text does not count */
    while (text == NULL || in->len == 0 ||
           memmem(in->data + from, in->len - from, text, len) == NULL) {
        char piece[65536];
        from = in->len >= len ? in->len - len : 0;
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            return false;
        }
        if (n > 0) {
            struct err err = ERR_INIT;
            assert_int_equal(buf_add(in, piece, (size_t)n, &err), 0);
        } else {
            lab_turn(lab, fd);
            check_deadline(lab, since);
        }
    }
    return true;
}

int lab_held_back(int fd)
{
    struct sockaddr_in at, peer;
    socklen_t len = sizeof(at);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    for (int other = 0; other < 1024; other++) { /* the listener's end is in this process as well */
        len = sizeof(peer);
        if (getpeername(other, (struct sockaddr *)&peer, &len) == 0 && len == sizeof(at) &&
            peer.sin_family == AF_INET && peer.sin_port == at.sin_port) {
            int bytes = -1;
            assert_int_equal(ioctl(other, SIOCOUTQNSD, &bytes), 0);
            return bytes;
        }
    }
    fail_msg("the connection has no other end");
    return -1;
}

struct buf lab_request(struct lab *lab, const char *text)
{
    struct buf in;
    buf_init(&in, IN_MAX_BYTES);
    int fd = lab_connect(lab);
    lab_send(lab, fd, text);
    assert_false(lab_read_until(lab, fd, &in, NULL));
    close(fd);
    return in;
}
