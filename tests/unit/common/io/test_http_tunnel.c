/* Connections that become streams, over every kind of transport. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/lib/needs.h"
#include "tests/unit/common/io/lab.h"

enum { PIECE = 24 * 1024 };

/* One end of a tunnel: sends `out`, collects `in`. */
struct pump {
    struct lab *lab;
    struct http_tunnel *tunnel;
    const char *out;
    size_t out_len, sent;
    struct buf in;
    size_t in_wanted;
    bool full;  /* a write took less than was offered */
    bool hold;  /* stop reading */
    bool done;  /* all is sent, and everything expected has been received */
    bool ended; /* the peer closed it, or an error */
    int end_rc;
    int wakeups;
};

static void on_pump(void *arg, bool readable, bool writable);

static void pump_watch(struct pump *p)
{
    http_tunnel_watch(p->tunnel, !p->hold, p->sent < p->out_len, on_pump, p);
}

static void pump_write(struct pump *p)
{
    struct err err = ERR_INIT;
    /* The bytes are copied to fresh memory each time, because callers may move their buffers
     * between writes. */
    size_t len = p->out_len - p->sent;
    char *copy = alloc_array(len + 1, 1);
    memcpy(copy, p->out + p->sent, len);
    int n = http_tunnel_write(p->tunnel, copy, len, &err);
    free(copy);
    if (n < 0) {
        p->ended = true;
        p->end_rc = n;
        return;
    }
    p->full = p->full || (size_t)n < len;
    p->sent += (size_t)n;
}

static void pump_read(struct pump *p)
{
    char piece[PIECE];
    struct err err = ERR_INIT;
    int n;
    while ((n = http_tunnel_read(p->tunnel, piece, sizeof(piece), &err)) > 0) {
        assert_int_equal(buf_add(&p->in, piece, (size_t)n, NULL), 0);
    }
    if (n < 0) {
        assert_string_not_equal(err.text, "");
        p->ended = true;
        p->end_rc = n;
    }
}

static void on_pump(void *arg, bool readable, bool writable)
{
    struct pump *p = arg;
    assert_true(readable || writable);
    p->wakeups++;
    if (readable) {
        assert_false(p->hold);
        pump_read(p);
    }
    if (writable && !p->ended) {
        pump_write(p);
    }
    p->done = p->sent == p->out_len && p->in.len >= p->in_wanted;
    if (p->ended) {
        http_tunnel_watch(p->tunnel, false, false, NULL, NULL);
    } else {
        pump_watch(p);
    }
}

static void pump_init(struct pump *p, struct answer *a, const char *out, size_t out_len,
                      size_t in_wanted)
{
    *p = (struct pump){
        .lab = a->lab, .tunnel = a->tunnel, .out = out, .out_len = out_len, .in_wanted = in_wanted};
    buf_init(&p->in, 64 << 20);
}

static bool pump_has(const struct pump *p, const char *text)
{
    return view_is(view_bytes(p->in.data, p->in.len), text);
}

static void open_tunnel(struct answer *a, struct lab *lab, const char *path)
{
    answer_init(a, lab);
    lab_upgrade(a, path);
    assert_string_equal(a->err.text, "");
    assert_int_equal(a->rc, 0);
    assert_non_null(a->tunnel);
}

/* Sends a word and receives it back; the peer has sent `first` before. */
static void check_echo(struct answer *a, const char *first)
{
    struct pump p;
    CLEANUP_FREE char *expected = alloc_printf("%sping", first);
    pump_init(&p, a, "ping", 4, strlen(expected));
    pump_watch(&p);
    lab_wait_true(a->lab, &p.done);
    assert_true(pump_has(&p, expected));
    /* An idle tunnel causes no wakeups: once drained, the loop only turns for events of the
     * peer. */
    int wakeups = p.wakeups;
    for (int i = 0; i < 10; i++) {
        lab_pass(a->lab);
    }
    assert_true(p.wakeups <= wakeups + 1);
    assert_int_equal(uv_backend_timeout(&a->lab->loop), -1);
    buf_finish(&p.in);
}

static void tunnels_open_everywhere(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_MUTUAL; place++) {
        struct answer a, b;
        lab_connect(lab, place);
        open_tunnel(&a, lab, "/tunnel");
        assert_int_equal(a.status, 101);
        assert_string_equal(a.header, "application/vnd.docker.raw-stream");
        open_tunnel(&b, lab, "/tunnel-200");
        assert_int_equal(b.status, 200);
        check_echo(&a, "");
        check_echo(&b, "");
        http_tunnel_close(a.tunnel);
        lab_close(lab); /* closes the other one */
        answer_finish(&a);
        answer_finish(&b);
    }
}

static void the_request_of_a_tunnel_may_have_a_body(void **state)
{
    struct lab *lab = *state;
    static const char *const headers[] = {"X-More: 1", NULL};
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a;
        answer_init(&a, lab);
        lab_connect(lab, place);
        struct http_request request = lab_request("/tunnel");
        request.method = "POST";
        request.content_type = "application/json";
        request.headers = headers;
        request.body = view_of("{\"Detach\":false}");
        http_tunnel_open(lab->client, &request, on_answer_tunnel, &a);
        lab_wait(lab, &a.times, 1);
        assert_int_equal(a.status, 101);
        check_echo(&a, "{\"Detach\":false}");
        lab_close(lab);
        answer_finish(&a);
    }
}

static void bytes_behind_the_head_are_kept(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a;
        lab_connect(lab, place);
        open_tunnel(&a, lab, "/tunnel-early?n=5");
        check_echo(&a, "eeeee");
        http_tunnel_close(a.tunnel);
        answer_finish(&a);

        open_tunnel(&a, lab, "/tunnel-pieces");
        check_echo(&a, "behind");
        http_tunnel_close(a.tunnel);
        answer_finish(&a);

        struct pump p; /* more than the head's buffer; no other event wakes the reader */
        open_tunnel(&a, lab, "/tunnel-early?n=200000");
        pump_init(&p, &a, NULL, 0, 200000);
        pump_watch(&p);
        lab_wait_true(lab, &p.done);
        assert_int_equal(p.in.len, 200000);
        buf_finish(&p.in);
        lab_close(lab);
        answer_finish(&a);
    }
}

static void the_end_is_seen_after_the_last_byte(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TCP; place++) {
        struct answer a;
        struct pump p;
        lab_connect(lab, place);
        open_tunnel(&a, lab, "/tunnel-bye");
        pump_init(&p, &a, NULL, 0, 3);
        pump_watch(&p);
        lab_wait_true(lab, &p.ended);
        assert_true(pump_has(&p, "bye"));
        assert_int_equal(p.end_rc, -ERR_GONE);
        buf_finish(&p.in);

        /* a later write fails as well */
        pump_init(&p, &a, "more and more", 13, 0);
        p.hold = true;
        for (int i = 0; i < 1000 && !p.ended; i++) {
            p.sent = 0;
            pump_write(&p);
        }
        assert_true(p.ended);
        assert_int_equal(p.end_rc, -ERR_GONE);
        lab_close(lab);
        answer_finish(&a);
    }
}

static void megabytes_both_ways(void **state)
{
    enum { SIZE = 8 << 20 };
    struct lab *lab = *state;
    char *data = alloc_array(SIZE, 1);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)((i * 2654435761u) >> 13);
    }
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a;
        struct pump p;
        lab_connect(lab, place);
        open_tunnel(&a, lab, "/tunnel");
        pump_init(&p, &a, data, SIZE, SIZE);
        if (place == PLACE_UNIX) { /* kernels keep more than this for a connection of TCP */
            struct answer b;
            answer_init(&b, lab);
            p.hold = true; /* the peer echoes and is not read, so that soon neither end can write */
            pump_watch(&p);
            lab_wait_true(lab, &p.full);
            lab_get(&b, "/hello"); /* an ordinary call works meanwhile */
            assert_int_equal(b.rc, 0);
            assert_true(p.sent < SIZE / 2);
            answer_finish(&b);
        }
        p.hold = false;
        pump_watch(&p);
        lab_wait_true(lab, &p.done);
        assert_int_equal(p.in.len, SIZE);
        assert_memory_equal(p.in.data, data, SIZE);
        buf_finish(&p.in);
        lab_close(lab);
        answer_finish(&a);
    }
    free(data);
}

/* Reads in small pieces with pauses; bytes buffered in the TLS library must still be delivered. */
static void a_reader_may_stop_anywhere(void **state)
{
    enum { SIZE = 300000 };
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a;
        struct pump p;
        size_t total = 0;
        lab_connect(lab, place);
        open_tunnel(&a, lab, "/tunnel-flood?n=300000");
        pump_init(&p, &a, NULL, 0, SIZE);
        while (total < SIZE) {
            char piece[1000];
            struct err err = ERR_INIT;
            int n = http_tunnel_read(a.tunnel, piece, sizeof(piece), &err);
            assert_true(n >= 0);
            total += (size_t)n;
            if (n == 0 || total % 7 == 0) { /* the loop reads the rest */
                int before = p.wakeups;
                p.in.len = 0;
                p.done = false;
                p.in_wanted = 1;
                if (total < SIZE) {
                    pump_watch(&p);
                    lab_wait_true(lab, &p.done);
                    assert_true(p.wakeups > before);
                    total += p.in.len;
                    if (!p.ended) {
                        http_tunnel_watch(a.tunnel, false, false, NULL, NULL);
                    }
                }
            }
        }
        assert_int_equal(total, SIZE);
        buf_finish(&p.in);
        lab_close(lab);
        answer_finish(&a);
    }
}

/* ---- failures ---- */

static void check_refused(struct lab *lab, const char *path, int status, const char *text)
{
    struct answer a;
    answer_init(&a, lab);
    lab_upgrade(&a, path);
    assert_int_equal(a.rc, 0);
    assert_null(a.tunnel);
    assert_int_equal(a.status, status);
    assert_true(body_is(&a, text));
    answer_finish(&a);
}

static void refusals_are_told_as_text(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        lab_connect(lab, place);
        check_refused(lab, "/refused-end", 404,
                      "No such container: x"); /* the body ends by closing the connection */
        check_refused(lab, "/missing", 404,
                      "{\"message\":\"No such container: x\"}"); /* the body ends by its length */
        check_refused(lab, "/chunked?status=409%20Conflict", 409, "one two three");
        lab_upgrade(&a, "/refused-big"); /* only its beginning is kept */
        assert_int_equal(a.status, 500);
        assert_in_range(a.body.len, 1000, 16384);
        a.times = 0;
        buf_reset(&a.body, 0);

        struct http_request request = lab_request("/refused-stuck");
        request.total_ms = 200;
        http_tunnel_open(lab->client, &request, on_answer_tunnel, &a);
        lab_wait(lab, &a.times, 1);
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.status, 500);
        assert_true(body_is(&a, "half a reason")); /* the part that arrived before the timeout */
        a.times = 0;
        buf_reset(&a.body, 0);
        lab_close(lab);
    }
    answer_finish(&a);
}

static void check_fails(struct lab *lab, const struct http_request *request, int code,
                        uint64_t after_ms, const char *words)
{
    struct answer a;
    answer_init(&a, lab);
    uint64_t begin_ms = clock_ms();
    http_tunnel_open(lab->client, request, on_answer_tunnel, &a);
    lab_wait(lab, &a.times, 1);
    uint64_t took_ms = clock_ms() - begin_ms;
    assert_int_equal(a.rc, -code);
    assert_int_equal(a.err.code, code);
    assert_null(a.tunnel);
    if (strstr(a.err.text, words) == NULL) {
        fail_msg("not \"%s\" in \"%s\"", words, a.err.text);
    }
    assert_true(took_ms + 1 >= after_ms);
    answer_finish(&a);
}

static void a_tunnel_that_cannot_be_says_why(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        lab_connect(lab, place);
        struct http_request request = lab_request("/tunnel-garbage");
        check_fails(lab, &request, ERR_ENGINE, 0, "not HTTP but begins with \"SSH-2.0");
        request.path = "/close-head";
        check_fails(lab, &request, ERR_ENGINE, 0, "hung up before the answer");
        request.path = "/big-head";
        check_fails(lab, &request, ERR_TOO_BIG, 0, "head is larger than 16384");
        request.path = "/never";
        request.total_ms = 200;
        check_fails(lab, &request, ERR_TIMEOUT, 200,
                    "GET /never: no complete answer within 200 ms");
        request.total_ms = 0;
        request.silence_ms = 150;
        check_fails(lab, &request, ERR_TIMEOUT, 150, "not a byte within 150 ms");
        request = lab_request("/tunnel HTTP/1.1\r\nX-Smuggled: yes");
        check_fails(lab, &request, ERR_INVALID, 0, "cannot be sent");
        lab_close(lab);
    }
    struct http_request request = lab_request("/tunnel");
    request.connect_ms = 200;
    lab_connect(lab, PLACE_MUTE_TLS);
    check_fails(lab, &request, ERR_TIMEOUT, 200, "no connection within 200 ms");
    lab_close(lab);

    struct http_endpoint endpoint = lab_endpoint(lab, PLACE_UNIX);
    endpoint.unix_socket = "/nonexistent/docker.sock";
    lab_connect_to(lab, &endpoint);
    check_fails(lab, &request, ERR_ENGINE, 0, "cannot connect: No such file or directory");
    lab_close(lab);

    CLEANUP_FREE char *other = alloc_printf("%s/other.pem", lab->server.top);
    endpoint = lab_endpoint(lab, PLACE_TLS);
    endpoint.ca_file = other;
    lab_connect_to(lab, &endpoint);
    request.connect_ms = 0;
    check_fails(lab, &request, ERR_ENGINE, 0, "certificate");
}

static void wait_for_hang_up(struct lab *lab)
{
    for (uint64_t begin_ms = clock_ms(); lab_count(lab, "open") > 1;) {
        assert_true(clock_ms() - begin_ms < 10000);
    }
}

static void cancelling_and_closing_are_quiet(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a, b;
        answer_init(&a, lab);
        lab_connect(lab, place);
        struct http_request request = lab_request("/never");
        /* before it begins, while it connects, while it waits for the head */
        for (int turns = 0; turns < 12; turns++) {
            struct http_call *call = http_tunnel_open(lab->client, &request, on_answer_tunnel, &a);
            for (int i = 0; i < turns; i++) {
                lab_pass(lab);
            }
            http_cancel(call);
        }
        wait_for_hang_up(lab);
        assert_int_equal(a.times, 0);

        open_tunnel(&b, lab, "/tunnel"); /* an open tunnel, closed by us */
        http_tunnel_close(b.tunnel);
        wait_for_hang_up(lab);
        answer_finish(&b);

        open_tunnel(&b, lab,
                    "/tunnel-flood?n=1000000"); /* one that is in use, one that is being opened */
        struct pump p;
        pump_init(&p, &b, NULL, 0, SIZE_MAX);
        pump_watch(&p);
        http_tunnel_open(lab->client, &request, on_answer_tunnel, &a);
        lab_pass(lab);
        int wakeups = p.wakeups;
        lab_close(lab);
        assert_int_equal(p.wakeups, wakeups);
        assert_int_equal(a.times, 0);
        buf_finish(&p.in);
        answer_finish(&a);
        answer_finish(&b);
    }
    http_tunnel_close(NULL);
}

static void on_closed(void *arg)
{
    struct lab *lab = arg;
    lab->closed = true;
}

static void on_ready_close_all(void *arg, bool readable, bool writable)
{
    struct lab *lab = arg;
    (void)readable;
    (void)writable;
    http_client_close(STEAL_PTR(lab->client), on_closed, lab);
}

static void on_ready_close(void *arg, bool readable, bool writable)
{
    struct answer *a = arg;
    (void)readable;
    (void)writable;
    http_tunnel_close(STEAL_PTR(a->tunnel));
}

static void on_answer_close(void *arg, int rc, struct http_tunnel *tunnel,
                            const struct http_response *response, const struct err *err)
{
    struct answer *a = arg;
    on_answer_tunnel(arg, rc, tunnel, response, err);
    http_tunnel_close(STEAL_PTR(a->tunnel));
}

static void closing_from_inside_is_fine(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a;
        lab_connect(lab, place);
        open_tunnel(&a, lab, "/tunnel-early?n=5"); /* from its own event */
        http_tunnel_watch(a.tunnel, true, true, on_ready_close, &a);
        wait_for_hang_up(lab);
        assert_null(a.tunnel);
        answer_finish(&a);

        answer_init(&a, lab); /* from the answer that opens it */
        struct http_request request = lab_request("/tunnel-early?n=5");
        http_tunnel_open(lab->client, &request, on_answer_close, &a);
        lab_wait(lab, &a.times, 1);
        wait_for_hang_up(lab);
        answer_finish(&a);

        open_tunnel(&a, lab,
                    "/tunnel-early?n=5"); /* closing the client from an event of a tunnel */
        http_tunnel_watch(a.tunnel, true, true, on_ready_close_all, lab);
        lab_wait_true(lab, &lab->closed);
        lab->closed = false;
        answer_finish(&a);
    }
}

/* Ordinary calls check idle connections and close dead ones: tunnels must not be among them, even
 * with unread bytes. */
static void tunnels_are_left_alone_by_other_calls(void **state)
{
    struct lab *lab = *state;
    struct answer a, b, c;
    answer_init(&c, lab);
    lab_connect(lab, PLACE_TCP);
    open_tunnel(&a, lab, "/tunnel-early?n=5");
    open_tunnel(&b, lab, "/tunnel");
    for (int i = 0; i < 4; i++) {
        lab_get(&c, "/slow?ms=400"); /* libcurl checks once a second */
        lab_get(&c, "/drop");
        struct answer d;
        open_tunnel(&d, lab, "/tunnel");
        http_tunnel_close(d.tunnel);
        answer_finish(&d);
    }
    check_echo(&a, "eeeee");
    check_echo(&b, "");
    answer_finish(&a);
    answer_finish(&b);
    answer_finish(&c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    needs_program("openssl"); /* makes the certificates of its server */
    const struct CMUnitTest tests[] = {
        TEST(tunnels_open_everywhere),
        TEST(the_request_of_a_tunnel_may_have_a_body),
        TEST(bytes_behind_the_head_are_kept),
        TEST(the_end_is_seen_after_the_last_byte),
        TEST(megabytes_both_ways),
        TEST(a_reader_may_stop_anywhere),
        TEST(refusals_are_told_as_text),
        TEST(a_tunnel_that_cannot_be_says_why),
        TEST(cancelling_and_closing_are_quiet),
        TEST(closing_from_inside_is_fine),
        TEST(tunnels_are_left_alone_by_other_calls),
    };
    return cmocka_run_group_tests_name("http tunnels", tests, lab_begin, lab_end);
}
