/*
 * Limits of a listener: refused requests, and timeouts.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "tests/unit/supervisor/web/lab.h"

static void answers(struct lab *lab, const char *request, const char *status)
{
    CLEANUP_BUF struct buf in = lab_request(lab, request);
    if (in.len < strlen(status) + 9 || memcmp(in.data + 9, status, strlen(status)) != 0) {
        fail_msg("%s\n... was answered %.*s", request, (int)in.len, (char *)in.data);
    }
    assert_false(lab_has(&in, "microhttpd"));
    assert_false(lab_has(&in, "MHD"));
    assert_false(lab_has(&in, "Server:"));
}

static void what_is_no_request_is_refused(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    static const char *const bad[][2] = {
        {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\n\r\n", "400"}, /* no Host */
        {"GET hello HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"GET /he%00llo HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX-A : blank\r\n\r\n", "400"},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX-A: bell\a\r\n\r\n", "400"},
        {"GET /hello HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         "400"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
         "413"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "99999999999999999999\r\n",
         "413"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        answers(lab, bad[i][0], bad[i][1]);
    }
    assert_int_equal(lab->handled, 0);
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
}

static void heads_have_a_limit(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    char *filler = alloc_array(1, 100001);
    memset(filler, 'x', 100000);
    char *header = alloc_printf("GET /hello HTTP/1.1\r\nHost: a\r\nX-A: %s\r\n\r\n", filler);
    answers(lab, header, "431");
    char *line = alloc_printf("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", filler);
    answers(lab, line, "414");
    filler[20000] = '\0'; /* a token may be long */
    char *fits = alloc_printf(
        "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: %s\r\n\r\n", filler);
    answers(lab, fits, "200");
    free(header);
    free(line);
    free(fits);
    free(filler);
}

/* ---- bodies ---- */

static void a_body_announced_as_too_large_is_refused_unread(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    /* refused before any byte of the body */
    answers(lab, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", "413");
    /* the same for a client that sends it nevertheless, all at once, and only then reads */
    enum { BYTES = 8 << 20 };
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_FREE char *body = alloc_array(1, BYTES);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
    lab_send_bytes(lab, fd, body, BYTES);
    assert_false(lab_read_until(lab, fd, &in, NULL));
    assert_true(lab_has(&in, "HTTP/1.1 413 "));
    assert_true(lab_has(&in, "the body is larger than 1048576 bytes\n"));
    assert_int_equal(lab->handled, 0);
    assert_int_equal(lab->admitted, 0);
}

static void send_chunks(struct lab *lab, int fd, size_t count)
{
    enum { CHUNK = 64 << 10 };
    CLEANUP_FREE char *body = alloc_array(1, CHUNK);
    for (size_t i = 0; i < count; i++) {
        lab_send(lab, fd, "10000\r\n");
        lab_send_bytes(lab, fd, body, CHUNK);
        lab_send(lab, fd, "\r\n");
    }
}

static void chunks_that_become_too_large_are_refused(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fits = lab_connect(lab);
    CLEANUP_FD int large = lab_connect(lab);
    CLEANUP_FD int endless = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    static const char head[] =
        "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    lab_send(lab, fits, head);
    send_chunks(lab, fits, 16);
    lab_send(lab, fits, "0\r\n\r\n");
    assert_true(lab_read_until(lab, fits, &in, "1048576 bytes\n"));
    buf_reset(&in, 0);
    lab_send(lab, large, head);
    send_chunks(lab, large, 17);
    lab_send(lab, large, "0\r\n\r\n");
    assert_true(lab_read_until(lab, large, &in, "the body is larger than 1048576 bytes\n"));
    assert_true(lab_has(&in, "HTTP/1.1 413 "));
    buf_reset(&in, 0);
    lab_send(lab, endless, head);
    send_chunks(lab, endless, 64);
    assert_false(lab_read_until(lab, endless, &in, NULL)); /* cut off */
    assert_int_equal(lab->handled, 1);
}

static void the_bodies_of_all_clients_share_a_limit(void **state)
{
    struct lab *lab = *state;
    lab->config.max_bodies_bytes = 3 << 20;
    lab_open(lab);
    int fds[3];
    CLEANUP_FREE char *body = alloc_array(1, 1 << 20);
    for (int i = 0; i < 3; i++) {
        fds[i] = lab_connect(lab);
        lab_send(lab, fds[i], "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
        lab_send_bytes(lab, fds[i], body, 1 << 20);
        lab_until_count(lab, &lab->held_count, (size_t)i + 1); /* in this order */
    }
    static const char request[] = "POST /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                  "Content-Length: 1\r\n\r\na";
    CLEANUP_BUF struct buf in = lab_request(lab, request);
    assert_true(lab_has(&in, "HTTP/1.1 503 "));
    assert_true(lab_has(&in, "Retry-After: 1\r\n"));
    /* with chunks it is noticed while reading */
    CLEANUP_BUF struct buf chunked =
        lab_request(lab, "POST /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
    assert_true(lab_has(&chunked, "HTTP/1.1 503 "));
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
    /* a response, and a client that disconnects, release their share */
    web_respond(lab->held[0], 200, "text/plain", view_of("ok\n"));
    close(fds[1]);
    lab_until_count(lab, &lab->gone, 1);
    answers(lab, request, "200");
    close(fds[0]);
    close(fds[2]);
}

static const char BIG[] = "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

static bool has_all(struct lab *lab, int fd)
{
    CLEANUP_BUF struct buf in;
    buf_init(&in, 64 << 20);
    assert_false(lab_read_until(lab, fd, &in, NULL));
    return in.len > 8 << 20;
}

/* Responses that wait for clients share one limit; clients that come meanwhile are not affected. */
static void the_answers_that_wait_share_a_limit_and_newcomers_are_served(void **state)
{
    struct lab *lab = *state;
    lab->config.max_output_bytes = 20 << 20;
    lab_open(lab);
    CLEANUP_FD int stream = lab_connect(lab);
    CLEANUP_FD int first = lab_connect(lab);
    CLEANUP_FD int second = lab_connect(lab);
    lab_send(lab, stream, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->handled, 1);
    web_stream_write(lab->held[0], alloc_array(1, 1 << 20), 1 << 20);
    lab_send(lab, first, BIG);
    lab_send(lab, second, BIG);
    lab_until_count(lab, &lab->handled, 3);
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
    CLEANUP_BUF struct buf whole = lab_request(lab, BIG);
    assert_true(lab_has(&whole, "HTTP/1.1 200 "));
    assert_true(whole.len > 8 << 20);
    assert_int_equal(lab->gone, 0);
    /* One of the two was aborted to make room. */
    assert_int_equal(has_all(lab, first) + has_all(lab, second), 1);
}

static void the_largest_answer_that_waits_makes_room(void **state)
{
    struct lab *lab = *state;
    lab->config.max_output_bytes = 20 << 20;
    lab_open(lab);
    CLEANUP_FD int stream = lab_connect(lab);
    CLEANUP_FD int stalled = lab_connect(lab);
    lab_send(lab, stream, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->handled, 1);
    lab_send(lab, stalled, BIG);
    lab_until_count(lab, &lab->handled, 2);
    web_stream_write(lab->held[0], alloc_array(1, 11 << 20), 11 << 20);
    assert_int_equal(lab->gone, 0);
    web_stream_write(lab->held[0], alloc_array(1, 11 << 20), 11 << 20); /* this one */
    lab_until_count(lab, &lab->gone, 1);
    assert_true(has_all(lab, stalled));
    answers(lab, BIG, "200");
}

/* ---- time ---- */

/* How long the connection lives while the client sends the trickle byte by byte (NULL or "": sends
 * nothing). It must end before the last byte: bytes do not restart the timeout. */
static uint64_t lives_ms(struct lab *lab, int fd, const char *trickle)
{
    struct buf in;
    buf_init(&in, 64 << 20);
    uint64_t since = uv_hrtime(), sent = since;
    bool open = true;
    while (open) {
        lab_turn(lab, fd);
        char piece[4096];
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        open = n > 0 || (n < 0 && errno == EAGAIN);
        if (trickle != NULL && *trickle != '\0' && uv_hrtime() - sent > 60000000) {
            if (send(fd, trickle, 1, MSG_NOSIGNAL) == 1) {
                trickle++;
            }
            sent = uv_hrtime();
        }
        assert_true((uv_hrtime() - since) / 1000000 < LAB_DEADLINE_MS);
    }
    assert_true(trickle == NULL || *trickle != '\0');
    buf_finish(&in);
    return (uv_hrtime() - since) / 1000000;
}

static void a_request_must_arrive_in_time_and_an_answer_need_not(void **state)
{
    struct lab *lab = *state;
    lab->config.input_ms = 400;
    lab->config.output_ms = 2 * LAB_DEADLINE_MS;
    lab_open(lab);
    static const char slow[] = "GET /hello HTTP/1.1\r\nHost: a\r\nX: "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    static const char body[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const struct {
        const char *first, *trickle;
    } cases[] = {
        {"", NULL}, /* sends nothing */
        {"", slow}, /* sends its head byte by byte */
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 70\r\n\r\n", NULL},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 70\r\n\r\n", body},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CLEANUP_FD int fd = lab_connect(lab);
        lab_send(lab, fd, cases[i].first);
        assert_true(lives_ms(lab, fd, cases[i].trickle) >= 300);
    }
    assert_int_equal(lab->handled, 0);
    /* the timeout of a later request on a connection begins with its first line */
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(lab_read_until(lab, fd, &in, "hello\n"));
    lab_send(lab, fd, "POST /echo HTTP/1.1\r\n");
    assert_true(lives_ms(lab, fd, slow + 21) >= 300);
    /* there is no timeout while a handler works, or while an event stream is quiet */
    CLEANUP_FD int later = lab_connect(lab);
    CLEANUP_FD int stream = lab_connect(lab);
    lab_send(lab, later, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_send(lab, stream, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 2);
    CLEANUP_FD int clock = lab_connect(lab);
    assert_true(lives_ms(lab, clock, NULL) >= 300);
    assert_int_equal(lab->gone, 0);
}

/* A head has less time than a whole request, and what was sent in time counts. */
static void a_head_has_less_time_than_a_request(void **state)
{
    struct lab *lab = *state;
    lab->config.head_ms = 400;
    lab->config.input_ms = 10 * LAB_DEADLINE_MS;
    lab->config.output_ms = 10 * LAB_DEADLINE_MS;
    lab_open(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    CLEANUP_FD int body = lab_connect(lab);
    CLEANUP_FD int silent = lab_connect(lab);
    CLEANUP_FD int half = lab_connect(lab);
    CLEANUP_FD int second = lab_connect(lab);
    lab_send(lab, body, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    lab_send(lab, second, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(lab_read_until(lab, second, &in, "hello\n"));
    lab_send(lab, second, "GET /hello HTTP/1.1\r\nHost: a\r\n");
    lab_send(lab, half, "GET /hello HTTP/1.1\r\nHost: a\r\n");
    assert_true(lives_ms(lab, half, NULL) >= 300);
    assert_false(lab_read_until(lab, silent, &in, NULL));
    assert_false(lab_read_until(lab, second, &in, NULL)); /* a later request, too */
    lab_send(lab, body, "cd");
    assert_true(lab_read_until(lab, body, &in, "4 bytes\n"));
    /* the whole head waits in the kernel while the listener stands still for longer than that */
    CLEANUP_FD int late = lab_connect(lab);
    lab_turn(lab, -1);
    lab_send(lab, late, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    uint64_t since = uv_hrtime();
    while ((uv_hrtime() - since) / 1000000 <= lab->config.head_ms) {
    }
    buf_reset(&in, 0);
    assert_true(lab_read_until(lab, late, &in, "hello\n"));
}

static void idle_and_stalled_connections_end_and_quiet_streams_do_not(void **state)
{
    struct lab *lab = *state;
    lab->config.output_ms = 1000;
    lab_open(lab);
    CLEANUP_FD int idle = lab_connect(lab);
    CLEANUP_FD int stalled = lab_connect(lab);
    CLEANUP_FD int event = lab_connect(lab);
    CLEANUP_FD int later = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, idle, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(lab_read_until(lab, idle, &in, "hello\n"));
    lab_send(lab, stalled, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    web_stream_write(lab->held[0], alloc_array(1, 16 << 20),
                     16 << 20); /* the client does not read it */
    lab_send(lab, event, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 2);
    lab_send(lab, later, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 3);
    assert_true(lives_ms(lab, idle, NULL) >= 800);
    lab_until_count(lab, &lab->gone, 1); /* the stalled one is aborted, and its handler told */
    assert_int_equal(web_stream_queued(lab->held[1]), 0);
    web_stream_write(lab->held[1], alloc_strdup("still here\n"), 11);
    assert_true(lab_read_until(lab, event, &in, "still here\n"));
    web_respond(lab->held[2], 200, "text/plain", view_of("took its time\n"));
    assert_true(lab_read_until(lab, later, &in, "took its time\n"));
    assert_int_equal(lab->gone, 1);
}

/* A client whose machine is gone: the connection ends without a packet. */
static void a_client_whose_machine_is_gone_is_noticed(void **state)
{
    struct lab *lab = *state;
    lab->config.output_ms = 1000;
    lab_open(lab);
    int fd = lab_connect(lab);
    lab_send(lab, fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    const int on = 1;
    bool silent = setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) == 0;
    close(fd);
    if (!silent) {
        print_message("# needs CAP_NET_ADMIN: not tested\n");
    }
    uint64_t since = uv_hrtime();
    lab_until_count(lab, &lab->gone, 1);
    assert_true(!silent || (uv_hrtime() - since) / 1000000 > 100); /* keepalive probes ended it */
}

/* ---- connections ---- */

static void more_connections_than_allowed_wait_for_a_place(void **state)
{
    struct lab *lab = *state;
    lab->config.max_connections = 4;
    lab_open(lab);
    int fds[5];
    for (int i = 0; i < 5; i++) {
        fds[i] = lab_connect(lab); /* the fifth waits in the kernel's queue */
        lab_send(lab, fds[i], "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        lab_until_count(lab, &lab->held_count, i < 4 ? (size_t)i + 1 : 4);
    }
    for (int i = 0; i < 3; i++) {
        lab_turn(lab, -1);
    }
    assert_int_equal(lab->held_count, 4);
    close(fds[0]); /* makes room */
    lab_until_count(lab, &lab->held_count, 5);
    assert_int_equal(lab->gone, 1);
    /* an idle connection makes room as well */
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    web_respond(lab->held[1], 200, "text/plain", view_of("idle now\n"));
    assert_true(lab_read_until(lab, fds[1], &in, "idle now\n"));
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
    assert_false(lab_read_until(lab, fds[1], &in, NULL));
    for (int i = 1; i < 5; i++) {
        close(fds[i]);
    }
}

enum { NO_TIMEOUT_MS = 10 * LAB_DEADLINE_MS };

static const char HALF[] = "POST /hello HTTP/1.1\r\nHost: a\r\nX-A: ";

/* Opens as many connections with half a head each, and waits until the listener has accepted the
 * last. */
static void flood(struct lab *lab, int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fds[i] = lab_connect(lab);
        lab_send(lab, fds[i], HALF);
        lab_turn(lab, -1);
    }
}

static bool is_open(struct lab *lab, int fd)
{
    char byte;
    lab_turn(lab, -1);
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Heads that never come whole, from an address that is not counted, as behind a proxy. Nobody waits
 * for their timeouts: there are none here. */
static void heads_that_stay_half_open_give_way(void **state)
{
    enum { FLOOD = 40 };
    struct lab *lab = *state;
    lab->config.max_connections = 8;
    lab->config.head_ms = lab->config.input_ms = lab->config.output_ms = NO_TIMEOUT_MS;
    lab_open(lab);
    int fds[FLOOD];
    flood(lab, fds, FLOOD);
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
    assert_false(is_open(lab, fds[0])); /* the oldest have made room */
    assert_true(is_open(lab, fds[FLOOD - 1]));
    lab_send(lab, fds[FLOOD - 1], "late\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    assert_false(lab_read_until(lab, fds[FLOOD - 1], &in, NULL));
    assert_true(lab_has(&in, "hello\n")); /* a slow stranger is served while there is room */
    for (size_t i = 0; i < FLOOD; i++) {
        close(fds[i]);
    }
}

static void whoever_is_known_keeps_his_place(void **state)
{
    enum { FLOOD = 40 };
    struct lab *lab = *state;
    lab->config.max_connections = 8;
    lab->config.head_ms = lab->config.input_ms = lab->config.output_ms = NO_TIMEOUT_MS;
    lab_open(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    CLEANUP_FD int working = lab_connect(lab);
    CLEANUP_FD int idle = lab_connect(lab);
    CLEANUP_FD int sending = lab_connect(lab);
    CLEANUP_FD int stranger = lab_connect(lab);
    lab_send(lab, working, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    lab_send(lab, idle, "GET /hello HTTP/1.1\r\nHost: a\r\nX-Known: 1\r\n\r\n");
    assert_true(lab_read_until(lab, idle, &in, "hello\n"));
    lab_send(lab, sending,
             "POST /count HTTP/1.1\r\nHost: a\r\nX-Known: 1\r\nContent-Length: 4\r\n\r\nab");
    lab_until_count(lab, &lab->admitted, 3);
    lab_send(lab, stranger, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(lab_read_until(lab, stranger, &in, "hello\n"));
    int fds[FLOOD];
    flood(lab, fds, FLOOD);
    buf_reset(&in, 0);
    assert_false(lab_read_until(lab, stranger, &in, NULL)); /* it was idle, and is not known */
    lab_send(lab, idle, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(lab_read_until(lab, idle, &in, "hello\n"));
    lab_send(lab, sending, "cd");
    assert_true(lab_read_until(lab, sending, &in, "4 bytes\n"));
    web_respond(lab->held[0], 200, "text/plain", view_of("took its time\n"));
    assert_true(lab_read_until(lab, working, &in, "took its time\n"));
    assert_int_equal(lab->gone, 0);
    for (size_t i = 0; i < FLOOD; i++) {
        close(fds[i]);
    }
}

/* When all places are taken by clients that are known, those who keep us waiting give way. */
static void the_known_give_way_only_if_they_are_slow_and_all_places_taken(void **state)
{
    struct lab *lab = *state;
    lab->config.max_connections = 4;
    lab->config.head_ms = lab->config.input_ms = lab->config.output_ms = NO_TIMEOUT_MS;
    lab_open(lab);
    int fds[4];
    for (size_t i = 0; i < 4; i++) {
        fds[i] = lab_connect(lab);
        lab_send(lab, fds[i],
                 "POST /count HTTP/1.1\r\nHost: a\r\nX-Known: 1\r\nContent-Length: 4\r\n\r\nab");
        lab_until_count(lab, &lab->admitted, i + 1);
    }
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nX-Known: 2\r\nConnection: close\r\n\r\n",
            "200");
    assert_false(is_open(lab, fds[0]));
    assert_true(is_open(lab, fds[3]));
    assert_int_equal(lab->crowds, 2); /* the third and the fourth of the same client */
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, fds[3], "cdGET /hello HTTP/1.1\r\nHost: a\r\nX-Known: 1\r\n\r\n");
    assert_true(lab_read_until(lab, fds[3], &in, "hello\n"));
    assert_int_equal(lab->crowds, 2); /* that one is his already */
    for (size_t i = 0; i < 4; i++) {
        close(fds[i]);
    }
}

/* An address of this machine that is not loopback, if it has one. */
static bool own_address(struct sockaddr_in *ret)
{
    CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9)};
    far.sin_addr.s_addr =
        htonl(0xc0000201); /* 192.0.2.1, reserved for documentation; nothing is sent */
    socklen_t len = sizeof(*ret);
    return connect(fd, (struct sockaddr *)&far, sizeof(far)) == 0 &&
           getsockname(fd, (struct sockaddr *)ret, &len) == 0;
}

static void one_address_cannot_take_all_connections(void **state)
{
    struct lab *lab = *state;
    struct sockaddr_in at;
    if (!own_address(&at)) {
        print_message("# no address besides loopback here: not tested\n");
        return;
    }
    lab->config.address = "0.0.0.0";
    lab->config.max_connections = 16;
    lab_open(lab);
    at.sin_port = htons(lab->port);
    int fds[5];
    for (int i = 0; i < 5; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
        lab_send(lab, fds[i], "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        lab_turn(lab, -1);
    }
    lab_until_count(lab, &lab->held_count, 4);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    assert_false(lab_read_until(lab, fds[4], &in, NULL));
    assert_int_equal(in.len, 0);
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
    for (int i = 0; i < 5; i++) {
        close(fds[i]);
    }
}

static uint64_t cpu_us(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Out of descriptors: waiting uses no CPU, and works again when there are some. */
static void without_descriptors_it_waits_without_using_the_processor(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    lab_send(lab, fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    uint64_t since = uv_hrtime(), cpu = cpu_us();
    while (uv_hrtime() - since < 700000000) {
        lab_turn(lab, fd);
    }
    cpu = cpu_us() - cpu;
    uint64_t waited_us = (uv_hrtime() - since) / 1000;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(lab->handled, 0);
    assert_true(cpu < waited_us * 2 / 7);
    assert_true(lab_read_until(lab, fd, &in, "hello\n"));
}

/* This process starts children, which must not inherit descriptors. */
static void children_inherit_no_connection(void **state)
{
    struct lab *lab = *state;
    bool inherited[100];
    for (int i = 0; i < 100; i++) {
        inherited[i] = fcntl(i, F_GETFD) >= 0;
    }
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_FD int early = lab_connect(lab);
    lab_send(lab, fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_send(lab, early, "POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    assert_false(lab_read_until(lab, early, &in, NULL)); /* its socket is kept open for a while */
    size_t open = 0;
    for (int i = 3; i < 100; i++) {
        int flags = fcntl(i, F_GETFD);
        if (flags >= 0 && !inherited[i]) {
            open++;
            assert_true((flags & FD_CLOEXEC) != 0);
        }
    }
    assert_true(open >= 6);
}

/* ---- addresses ---- */

static void an_address_that_cannot_be_used_is_named(void **state)
{
    struct lab *lab = *state;
    struct err err = ERR_INIT;
    struct web_listener *other = NULL;
    lab_open(lab);
    struct web_listener_config config = lab->config;
    config.port = lab->port;
    assert_true(web_listener_open(&lab->loop, &config, &other, &err) < 0);
    assert_non_null(strstr(err.text, "is taken"));
    config.address = "192.0.2.1"; /* reserved for documentation, so no interface has it */
    assert_true(web_listener_open(&lab->loop, &config, &other, &err) < 0);
    assert_non_null(strstr(err.text, "no address of this machine"));
    config.address = "no.such.name.invalid";
    assert_true(web_listener_open(&lab->loop, &config, &other, &err) < 0);
    assert_non_null(strstr(err.text, "no.such.name.invalid"));
    char *url = alloc_printf("http://127.0.0.1:%u", lab->port);
    assert_string_equal(web_listener_url(lab->listener), url);
    free(url);
}

/* A server that ends with open connections can be restarted on the same port at once. */
static void the_next_server_gets_the_same_port_at_once(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    lab_send(lab, fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    lab_close(lab);
    lab->closed = false;
    assert_int_equal(uv_loop_init(&lab->loop), 0);
    lab->config.port = lab->port;
    lab_open(lab);
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
}

static void addresses_of_ip6_are_served(void **state)
{
    struct lab *lab = *state;
    CLEANUP_FD int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
        print_message("# no IPv6 here: not tested\n");
        return;
    }
    lab->config.address = "[::1]";
    lab_open(lab);
    assert_memory_equal(web_listener_url(lab->listener), "http://[::1]:", 13);
    at.sin6_port = htons(lab->port);
    CLEANUP_FD int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(fcntl(client, F_SETFL, O_NONBLOCK), 0);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, client, "GET /headers HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(lab_read_until(lab, client, &in, " ::1\n"));
}

static void a_name_can_be_listened_on(void **state)
{
    struct lab *lab = *state;
    lab->config.address = "localhost";
    lab_open(lab);
    assert_memory_equal(web_listener_url(lab->listener), "http://localhost:", 17);
    answers(lab, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_no_request_is_refused),
        CASE(heads_have_a_limit),
        CASE(a_body_announced_as_too_large_is_refused_unread),
        CASE(chunks_that_become_too_large_are_refused),
        CASE(the_bodies_of_all_clients_share_a_limit),
        CASE(the_answers_that_wait_share_a_limit_and_newcomers_are_served),
        CASE(the_largest_answer_that_waits_makes_room),
        CASE(a_request_must_arrive_in_time_and_an_answer_need_not),
        CASE(a_head_has_less_time_than_a_request),
        CASE(idle_and_stalled_connections_end_and_quiet_streams_do_not),
        CASE(a_client_whose_machine_is_gone_is_noticed),
        CASE(more_connections_than_allowed_wait_for_a_place),
        CASE(heads_that_stay_half_open_give_way),
        CASE(whoever_is_known_keeps_his_place),
        CASE(the_known_give_way_only_if_they_are_slow_and_all_places_taken),
        CASE(one_address_cannot_take_all_connections),
        CASE(without_descriptors_it_waits_without_using_the_processor),
        CASE(children_inherit_no_connection),
        CASE(an_address_that_cannot_be_used_is_named),
        CASE(the_next_server_gets_the_same_port_at_once),
        CASE(addresses_of_ip6_are_served),
        CASE(a_name_can_be_listened_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
