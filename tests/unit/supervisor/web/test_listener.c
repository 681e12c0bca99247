/*
 * Requests and responses, whole and in pieces, and clients that disconnect, over real sockets.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "tests/unit/supervisor/web/lab.h"

#define CLOSE "Host: x\r\nConnection: close\r\n"

static void begins(struct buf *in, const char *text)
{
    assert_true(in->len >= strlen(text));
    assert_memory_equal(in->data, text, strlen(text));
}

static void ends(struct buf *in, const char *text)
{
    size_t len = strlen(text);
    assert_true(in->len >= len);
    assert_memory_equal(in->data + in->len - len, text, len);
}

static void a_page_comes_back_without_the_name_of_the_server(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_BUF struct buf in = lab_request(lab, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    begins(&in, "HTTP/1.1 200 OK\r\n");
    ends(&in, "\r\n\r\nhello\n");
    assert_true(lab_has(&in, "Content-Type: text/plain\r\n"));
    assert_true(lab_has(&in, "Date: "));
    assert_false(lab_has(&in, "Server:"));
    assert_false(lab_has(&in, "MHD"));
    assert_false(lab_has(&in, "microhttpd"));
}

static void head_query_and_peer_reach_the_handler(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_BUF struct buf in =
        lab_request(lab, "PURGE /head%65rs?a+b=c%20d HTTP/1.1\r\nx-TEST: \t one \t\r\n"
                         "X-Test: two\r\n" CLOSE "\r\n");
    ends(&in, "\r\n\r\nPURGE /headers [one] 2 [c d] 127.0.0.1\n");
    CLEANUP_BUF struct buf whole =
        lab_request(lab, "GET http://x/headers HTTP/1.1\r\n" CLOSE "\r\n");
    ends(&whole, "GET /headers [none] 0 [none] 127.0.0.1\n");
}

static void bodies_arrive_with_a_length_in_chunks_and_empty(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_BUF struct buf in =
        lab_request(lab, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 11\r\n\r\nhello world");
    ends(&in, "\r\n\r\nhello world");
    CLEANUP_BUF struct buf chunked =
        lab_request(lab, "POST /echo HTTP/1.1\r\n" CLOSE "Transfer-Encoding: chunked\r\n\r\n"
                         "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    ends(&chunked, "\r\n\r\nhello world");
    CLEANUP_BUF struct buf none =
        lab_request(lab, "POST /count HTTP/1.1\r\n" CLOSE "Content-Length: 0\r\n\r\n");
    ends(&none, "\r\n\r\n0 bytes\n");
}

static void a_handler_may_answer_later_and_the_connection_stays(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 4096);
    lab_send(lab, fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    web_set_header(lab->held[0], "X-Note", "late");
    web_respond(lab->held[0], 200, "text/plain", view_of("now\n"));
    assert_true(lab_read_until(lab, fd, &in, "now\n"));
    assert_true(lab_has(&in, "X-Note: late\r\n"));
    lab_send(lab, fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"); /* the connection stays open */
    assert_true(lab_read_until(lab, fd, &in, "hello\n"));
    assert_int_equal(lab->gone, 0);
}

static void clients_of_http_1_0_are_served_without_chunks(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_BUF struct buf in = lab_request(lab, "GET /hello HTTP/1.0\r\n\r\n"); /* no Host */
    begins(&in, "HTTP/1.1 200 OK\r\n");
    ends(&in, "\r\n\r\nhello\n");
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf stream;
    buf_init(&stream, 4096);
    lab_send(lab, fd, "GET /stream HTTP/1.0\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    web_stream_write(lab->held[0], alloc_strdup("piece\n"), 6);
    web_stream_end(lab->held[0]);
    assert_false(lab_read_until(lab, fd, &stream, NULL));
    ends(&stream, "\r\n\r\npiece\n"); /* the body ends with the connection, without chunks */
}

static void an_answer_to_head_has_no_body(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 4096);
    lab_send(lab, fd,
             "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\nGET /count HTTP/1.1\r\n" CLOSE "\r\n");
    assert_false(lab_read_until(lab, fd, &in, NULL));
    assert_true(lab_has(&in, "Content-Length: 6\r\n"));
    assert_true(lab_has(&in, "\r\n\r\nHTTP/1.1 200")); /* there is no body between the two */
    ends(&in, "0 bytes\n");
}

/* A stream whose body no client will read: its handler is told, and does not wait. */
static void the_handler_of_a_stream_that_nobody_reads_is_told(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 4096);
    lab_send(lab, fd, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->gone, 1);
    lab_send(lab, fd, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_false(lab_read_until(lab, fd, &in, NULL));
    ends(&in, "hello\n");
}

static void pipelined_requests_are_answered_one_at_a_time_and_in_order(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, fd,
             "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
             "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nsecond"
             "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
             "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    assert_int_equal(lab->handled, 1); /* one at a time, in order */
    web_respond(lab->held[0], 200, "text/plain", view_of("first"));
    lab_until_count(lab, &lab->held_count, 2);
    assert_int_equal(lab->handled, 3);
    web_respond(lab->held[1], 200, "text/plain", view_of("third"));
    assert_false(lab_read_until(lab, fd, &in, NULL));
    assert_int_equal(lab_times(&in, "HTTP/1.1 200 OK\r\n"), 4);
    const char *first = memmem(in.data, in.len, "first", 5);
    const char *second = memmem(in.data, in.len, "second", 6);
    const char *third = memmem(in.data, in.len, "third", 5);
    assert_true(first != NULL && first < second && second < third);
    assert_int_equal(lab->gone, 0);
}

static void a_refusal_comes_before_the_body(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    /* without a body the connection can be used again */
    lab_send(lab, fd, "GET /deny HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(lab_read_until(lab, fd, &in, "\r\n\r\nno\n"));
    begins(&in, "HTTP/1.1 401 ");
    assert_true(lab_has(&in, "WWW-Authenticate: Bearer\r\n"));
    /* after one with a body the response comes first, and closes the connection */
    lab_send(lab, fd, "POST /deny HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    assert_false(lab_read_until(lab, fd, &in, NULL));
    assert_int_equal(lab_times(&in, "HTTP/1.1 401 "), 2);
    assert_int_equal(lab->handled, 0);
}

static void a_body_is_asked_for_only_if_it_is_wanted(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, fd,
             "POST /echo HTTP/1.1\r\n" CLOSE "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_true(lab_read_until(lab, fd, &in, "HTTP/1.1 100 Continue\r\n\r\n"));
    assert_int_equal(lab->admitted, 1);
    lab_send(lab, fd, "body");
    assert_false(lab_read_until(lab, fd, &in, NULL));
    ends(&in, "\r\n\r\nbody");
    /* a refused request gets no 100 Continue */
    CLEANUP_BUF struct buf refused =
        lab_request(lab, "POST /deny HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                         "Content-Length: 4\r\n\r\n");
    begins(&refused, "HTTP/1.1 401 ");
}

/* ---- streams ---- */

static void a_stream_arrives_piece_by_piece(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    lab_send(lab, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(lab_read_until(lab, fd, &in,
                               "\r\n\r\n")); /* the head is sent before any byte of the body */
    assert_true(lab_has(&in, "Transfer-Encoding: chunked\r\n"));
    for (int i = 0; i < 10; i++) {
        char *text = alloc_printf("event %d\n", i);
        web_stream_write(lab->held[0], alloc_strdup(text), strlen(text));
        assert_true(lab_read_until(lab, fd, &in, text));
        free(text);
    }
    assert_int_equal(web_stream_queued(lab->held[0]), 0);
    assert_true(lab->drained >= 10);
    web_stream_end(lab->held[0]);
    assert_true(lab_read_until(lab, fd, &in, "\r\n0\r\n\r\n"));
    lab_send(lab, fd, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
    assert_false(lab_read_until(lab, fd, &in, NULL));
    ends(&in, "hello\n");
    assert_int_equal(lab->gone, 0);
}

/* Runs the loop until the text has arrived. At no time may the kernel hold anything back. */
static void arrives_at_once(struct lab *lab, int fd, const char *text)
{
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    uint64_t since = uv_hrtime();
    while (!lab_has(&in, text)) {
        char piece[4096];
        struct err err = ERR_INIT;
        assert_true((uv_hrtime() - since) / 1000000 < LAB_DEADLINE_MS);
        lab_turn(lab, fd);
        assert_int_equal(lab_held_back(fd), 0);
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        assert_int_equal(buf_add(&in, piece, n > 0 ? (size_t)n : 0, &err), 0);
    }
}

/* Nothing is delayed: neither a head, for the 200 ms in which the kernel waits for more, nor an
 * event until the one before is acknowledged. */
static void no_piece_of_a_stream_is_held_back(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    for (int i = 0; i < 4; i++) {
        CLEANUP_FD int fd = lab_connect(lab);
        lab_send(lab, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
        arrives_at_once(lab, fd, "\r\n\r\n");
        web_stream_write(lab->held[i], alloc_strdup("one\n"), 4);
        while (web_stream_queued(lab->held[i]) > 0) {
            lab_turn(lab, fd);
        }
        web_stream_write(lab->held[i], alloc_strdup("two\n"), 4);
        arrives_at_once(lab, fd, "two\n");
    }
}

/* A client that does not read only fills its own queue; another one is served meanwhile. */
static void a_client_that_does_not_read_fills_its_own_queue_only(void **state)
{
    enum { PIECES = 24, PIECE_BYTES = 1 << 20 };
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_FD int other = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    CLEANUP_BUF struct buf there;
    buf_init(&in, 64 << 20);
    buf_init(&there, 65536);
    lab_send(lab, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    for (int i = 0; i < PIECES; i++) {
        char *piece = alloc_array(1, PIECE_BYTES);
        memset(piece, 'a' + i, PIECE_BYTES);
        web_stream_write(lab->held[0], piece, PIECE_BYTES);
    }
    lab_send(lab, other, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(lab_read_until(lab, other, &there, "hello\n"));
    size_t queued = web_stream_queued(lab->held[0]);
    assert_true(queued > (PIECES / 2) * (size_t)PIECE_BYTES); /* the kernel buffers the rest */
    assert_int_equal(lab->drained, 0);
    web_stream_end(lab->held[0]);
    assert_true(lab_read_until(lab, fd, &in, "\r\n0\r\n\r\n"));
    assert_true(in.len > PIECES * (size_t)PIECE_BYTES);
    for (int i = 0; i < PIECES; i++) {
        const char run[] = {(char)('a' + i), (char)('a' + i), (char)('a' + i), '\0'};
        assert_true(lab_has(&in, run));
    }
    assert_int_equal(lab->gone, 0);
}

/* ---- clients that disconnect ---- */

static void leave(struct lab *lab, const char *request, bool half)
{
    size_t held = lab->held_count, gone = lab->gone;
    int fd = lab_connect(lab);
    lab_send(lab, fd, request);
    lab_until_count(lab, &lab->held_count, held + 1);
    lab_turn(lab, -1);
    assert_int_equal(lab->gone, gone);
    if (half) {
        shutdown(fd, SHUT_WR);
    } else {
        close(fd);
    }
    lab_until_count(lab, &lab->gone, gone + 1); /* all timeouts of the listener are longer */
    if (half) {
        CLEANUP_BUF struct buf in;
        buf_init(&in, 65536);
        assert_false(lab_read_until(lab, fd, &in, NULL)); /* we close, too */
        close(fd);
    }
}

static void a_handler_is_told_that_its_client_is_gone(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    static const char *const requests[] = {
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
        /* with a request after it that will never be served */
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /later HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        leave(lab, requests[i], false);
        leave(lab, requests[i], true);
    }
    assert_int_equal(lab->handled, 8);
}

/* The client disconnects while its response is stuck, because it does not read. */
static void a_client_may_go_while_its_answer_is_stuck(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    int fd = lab_connect(lab);
    lab_send(lab, fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    web_stream_write(lab->held[0], alloc_array(1, 16 << 20), 16 << 20);
    for (int i = 0; i < 4; i++) {
        lab_turn(lab, -1);
    }
    assert_true(web_stream_queued(lab->held[0]) > 0);
    close(fd);
    lab_until_count(lab, &lab->gone, 1);
}

/* A handler that has not asked to be told can still read the request, and its answer is dropped. */
static void what_is_answered_to_nobody_is_dropped(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    for (int i = 0; i < 3; i++) {
        int fd = lab_connect(lab);
        lab_send(lab, fd,
                 "POST /later HTTP/1.1\r\nHost: x\r\nX-Test: y\r\nContent-Length: 3\r\n\r\nabc");
        lab_until_count(lab, &lab->held_count, (size_t)i + 1);
        struct web_exchange *x = lab->held[i];
        web_on_gone(x, NULL, NULL);
        close(fd);
        CLEANUP_BUF struct buf in = lab_request(lab, "GET /hello HTTP/1.1\r\n" CLOSE "\r\n");
        assert_true(in.len > 0); /* other clients are served meanwhile */
        lab_turn(lab, -1);
        assert_string_equal(web_header(x, "X-Test"), "y");
        assert_string_equal(web_path(x), "/later");
        if (i == 0) {
            web_respond(x, 200, "text/plain", view_of("nobody listens\n"));
        } else if (i == 1) {
            web_stream_begin(x, 200, "text/plain");
            web_stream_write(x, alloc_strdup("nobody"), 6);
            web_stream_end(x);
        } else { /* a handler that asks late is told late */
            size_t told = lab->gone;
            web_on_gone(x, lab_on_gone, lab);
            assert_int_equal(lab->gone, told);
            lab_until_count(lab, &lab->gone, told + 1);
        }
    }
}

/* ---- the end ---- */

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void closing_ends_every_connection_and_tells_its_handler(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    enum { CLIENTS = 5 };
    static const char *const requests[CLIENTS] = {
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /later HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", /* incomplete */
        "",                                                                 /* idle */
    };
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = lab_connect(lab);
        lab_send(lab, fds[i], requests[i]);
        lab_until_count(lab, &lab->held_count, i < 3 ? (size_t)i + 1 : 3); /* in this order */
    }
    web_stream_write(lab->held[1], alloc_strdup("last words\n"), 11);
    bool closed = false;
    web_listener_close(lab->listener, 10 * LAB_DEADLINE_MS, on_closed, &closed);
    lab->listener = NULL;
    assert_int_equal(lab->gone, 3);
    lab_until(lab, &closed); /* no client has delayed it */
    struct buf in[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        buf_init(&in[i], 65536);
        assert_false(lab_read_until(lab, fds[i], &in[i], NULL));
        close(fds[i]);
    }
    begins(&in[0], "HTTP/1.1 503 ");
    ends(&in[1], "last words\n\r\n0\r\n\r\n");
    begins(&in[2], "HTTP/1.1 503 ");
    assert_int_equal(lab_times(&in[2], "HTTP/1.1"), 1);
    assert_int_equal(in[3].len, 0);
    assert_int_equal(in[4].len, 0);
    for (int i = 0; i < CLIENTS; i++) {
        buf_finish(&in[i]);
    }
}

/* A client that does not read cannot delay the shutdown. */
static void a_client_that_does_not_read_does_not_hold_up_the_end(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    lab_send(lab, fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->handled, 1);
    bool closed = false;
    uint64_t since = uv_hrtime();
    web_listener_close(lab->listener, 200, on_closed, &closed);
    lab->listener = NULL;
    lab_until(lab, &closed);
    assert_true((uv_hrtime() - since) / 1000000 >= 190);
}

static void before_the_end_what_was_begun_is_answered_and_no_more_is_taken(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    CLEANUP_FD int busy = lab_connect(lab);
    CLEANUP_FD int idle = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    CLEANUP_BUF struct buf none;
    buf_init(&in, 65536);
    buf_init(&none, 65536);
    lab_send(lab, busy, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 1);
    web_listener_quiesce(lab->listener);
    assert_false(lab_read_until(lab, idle, &none, NULL));
    assert_int_equal(none.len, 0);
    web_respond(lab->held[0], 200, "text/plain", view_of("still\n"));
    assert_false(lab_read_until(lab, busy, &in, NULL));
    begins(&in, "HTTP/1.1 200 ");
    assert_true(lab_has(&in, "Connection: close\r\n"));
    ends(&in, "still\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_page_comes_back_without_the_name_of_the_server),
        CASE(head_query_and_peer_reach_the_handler),
        CASE(bodies_arrive_with_a_length_in_chunks_and_empty),
        CASE(a_handler_may_answer_later_and_the_connection_stays),
        CASE(clients_of_http_1_0_are_served_without_chunks),
        CASE(an_answer_to_head_has_no_body),
        CASE(the_handler_of_a_stream_that_nobody_reads_is_told),
        CASE(pipelined_requests_are_answered_one_at_a_time_and_in_order),
        CASE(a_refusal_comes_before_the_body),
        CASE(a_body_is_asked_for_only_if_it_is_wanted),
        CASE(a_stream_arrives_piece_by_piece),
        CASE(no_piece_of_a_stream_is_held_back),
        CASE(a_client_that_does_not_read_fills_its_own_queue_only),
        CASE(a_handler_is_told_that_its_client_is_gone),
        CASE(a_client_may_go_while_its_answer_is_stuck),
        CASE(what_is_answered_to_nobody_is_dropped),
        CASE(closing_ends_every_connection_and_tells_its_handler),
        CASE(a_client_that_does_not_read_does_not_hold_up_the_end),
        CASE(before_the_end_what_was_begun_is_answered_and_no_more_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
