/* Ordinary calls, against a real server that misbehaves on request. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/http_lib.h"
#include "tests/lib/needs.h"
#include "tests/unit/common/io/lab.h"

/* Sends the request, expecting an error, but not sooner than after_ms. */
static void check_fails(struct lab *lab, const struct http_request *request, int code,
                        uint64_t after_ms, const char *words)
{
    struct answer a;
    answer_init(&a, lab);
    uint64_t begin_ms = clock_ms();
    lab_ask(&a, request);
    uint64_t took_ms = clock_ms() - begin_ms;
    assert_int_equal(a.rc, -code);
    assert_int_equal(a.err.code, code);
    if (strstr(a.err.text, words) == NULL) {
        fail_msg("not \"%s\" in \"%s\"", words, a.err.text);
    }
    assert_true(took_ms + 1 >= after_ms);
    answer_finish(&a);
}

static void check_path_fails(struct lab *lab, const char *path, int code, const char *words)
{
    struct http_request request = lab_request(path);
    check_fails(lab, &request, code, 0, words);
}

static void every_kind_of_place_answers(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_MUTUAL; place++) {
        struct answer a;
        answer_init(&a, lab);
        lab_connect(lab, place);
        lab_get(&a, "/hello?a=b%20c");
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.status, 200);
        assert_true(body_is(&a, "hello"));
        assert_string_equal(a.header, "yes");
        answer_finish(&a);
        lab_close(lab);
    }
}

static void requests_are_as_asked(void **state)
{
    struct lab *lab = *state;
    static const char *const headers[] = {"X-Registry-Auth: abc", "X-Empty:", NULL};
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    struct http_request request = lab_request("/head?filters=%7B%7D");
    request.method = "POST";
    request.content_type = "application/json";
    request.headers = headers;
    request.body = view_of("{}");
    lab_ask(&a, &request);
    const char *head = buf_cstr(&a.body);
    assert_ptr_equal(strstr(head, "POST /head?filters=%7B%7D HTTP/1.1\r\nHost: localhost\r\n"),
                     head);
    assert_non_null(strstr(head, "\r\nContent-Type: application/json"));
    assert_non_null(strstr(head, "\r\nContent-Length: 2"));
    assert_non_null(strstr(head, "\r\nX-Registry-Auth: abc"));
    assert_non_null(strstr(head, "\r\nUser-Agent: cloister/"));
    assert_null(strstr(head, "Expect"));
    assert_null(strstr(head, "Transfer-Encoding"));

    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        CLEANUP_FREE char *line = alloc_printf("%s /head HTTP/1.1\r\n", methods[i]);
        request = lab_request("/head");
        request.method = methods[i];
        lab_ask(&a, &request);
        assert_ptr_equal(strstr(buf_cstr(&a.body), line), a.body.data);
        assert_null(strstr(buf_cstr(&a.body), "Content-Type"));
        bool has_length = strstr(buf_cstr(&a.body), "Content-Length: 0") != NULL;
        assert_int_equal(has_length, methods[i][0] == 'P');
    }
    request = lab_request("/hello");
    request.method = "HEAD";
    lab_ask(&a, &request);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.header, "yes");
    assert_true(body_is(&a, ""));
    answer_finish(&a);
}

static void large_bodies_go_and_come(void **state)
{
    struct lab *lab = *state;
    enum { SIZE = 6 << 20 };
    char *data = alloc_array(SIZE, 1);
    memset(data, 'b', SIZE);
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct answer a;
        answer_init(&a, lab);
        lab_connect(lab, place);
        struct http_request request = lab_request("/echo");
        request.method = "PUT";
        request.body = view_bytes(data, SIZE);
        request.max_bytes = SIZE;
        request.total_ms = 9000;
        lab_ask(&a, &request);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body.len, SIZE);
        assert_memory_equal(a.body.data, data, SIZE);
        answer_finish(&a);
        lab_close(lab);
    }
    free(data);
}

struct giver {
    size_t left, largest;
    int end; /* what the callback returns when nothing is left */
};

static int give(void *arg, char *out, size_t cap)
{
    struct giver *g = ((struct answer *)arg)->giver;
    size_t n = g->left < cap ? g->left : cap;
    g->largest = n > g->largest ? n : g->largest;
    memset(out, 'p', n);
    g->left -= n;
    return n > 0 ? (int)n : g->end;
}

static void bodies_go_in_pieces(void **state)
{
    struct lab *lab = *state;
    enum { SIZE = 3 << 20 };
    struct http_request request = lab_request("/echo");
    request.method = "PUT";
    request.fill = give;
    request.max_bytes = SIZE;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        struct giver giver = {.left = SIZE};
        struct answer a;
        answer_init(&a, lab);
        a.giver = &giver;
        lab_connect(lab, place);
        lab_ask(&a, &request);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body.len, SIZE);
        assert_int_equal(a.body.data[SIZE - 1], 'p');
        assert_in_range(giver.largest, 1, 1 << 20);
        answer_finish(&a);

        /* A caller that fails to provide the body ends the call, and the server never sees a
         * complete body. */
        answer_init(&a, lab);
        a.giver = &giver;
        giver = (struct giver){.left = 100000, .end = -ERR_IO};
        lab_ask(&a, &request);
        assert_int_equal(a.rc, -ERR_IO);
        answer_finish(&a);
        lab_close(lab);
    }
}

static void any_status_is_an_answer(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    lab_get(&a, "/missing");
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.status, 404);
    assert_true(body_is(&a, "{\"message\":\"No such container: x\"}"));
    assert_string_equal(a.header, "application/json");
    lab_get(&a, "/moved"); /* is not followed */
    assert_int_equal(a.status, 302);
    assert_true(body_is(&a, "elsewhere"));
    lab_get(&a, "/chunked");
    assert_int_equal(a.status, 200);
    assert_true(body_is(&a, "one two three"));
    answer_finish(&a);
}

static void time_is_bounded(void **state)
{
    struct lab *lab = *state;
    lab_connect(lab, PLACE_UNIX);
    struct http_request request = lab_request("/never");
    request.total_ms = 200;
    check_fails(lab, &request, ERR_TIMEOUT, 200, "GET /never: no complete answer within 200 ms");

    request.total_ms = 0;
    request.silence_ms = 150;
    check_fails(lab, &request, ERR_TIMEOUT, 150, "not a byte within 150 ms");

    request.path = "/stall";
    check_fails(lab, &request, ERR_TIMEOUT, 150, "not a byte within 150 ms");

    request.path =
        "/drip?n=100&ms=20"; /* never silent, but slower than the timeout of the whole call */
    request.total_ms = 300;
    check_fails(lab, &request, ERR_TIMEOUT, 300, "no complete answer within 300 ms");
    lab_close(lab);

    lab_connect(lab, PLACE_MUTE); /* the kernel accepts, but no server reads */
    request = lab_request("/hello");
    request.total_ms = 0;
    request.silence_ms = 150;
    check_fails(lab, &request, ERR_TIMEOUT, 150, "not a byte");
    lab_close(lab);

    lab_connect(lab, PLACE_MUTE_TLS); /* connecting includes the handshake */
    request = lab_request("/hello");
    request.connect_ms = 200;
    check_fails(lab, &request, ERR_TIMEOUT, 200, "no connection within 200 ms");
}

static void slow_answers_within_the_bounds_are_fine(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_TCP);
    struct http_request request = lab_request("/drip?n=24&ms=50");
    request.total_ms = 0;
    request.silence_ms = 1000; /* the whole call takes longer */
    lab_ask(&a, &request);
    assert_int_equal(a.rc, 0);
    assert_true(body_is(&a, "xxxxxxxxxxxxxxxxxxxxxxxx"));
    lab_get(&a, "/slow?ms=200");
    assert_true(body_is(&a, "late"));
    answer_finish(&a);
}

static void broken_answers_are_the_engines_fault(void **state)
{
    struct lab *lab = *state;
    for (enum place place = PLACE_UNIX; place <= PLACE_TLS; place++) {
        lab_connect(lab, place);
        check_path_fails(lab, "/close-head", ERR_ENGINE, "GET /close-head: ");
        check_path_fails(lab, "/close-body", ERR_ENGINE, "GET /close-body: ");
        check_path_fails(lab, "/tunnel-garbage", ERR_ENGINE, "GET /tunnel-garbage: ");
        lab_close(lab);
    }
}

static void size_is_bounded(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    struct http_request request = lab_request("/big?n=5000");
    request.max_bytes = 5000;
    lab_ask(&a, &request);
    assert_int_equal(a.body.len, 5000);
    request.max_bytes = 4999;
    check_fails(lab, &request, ERR_TOO_BIG, 0, "larger than");
    check_path_fails(lab, "/endless", ERR_TOO_BIG, "larger than"); /* the default is one MiB */
    check_path_fails(lab, "/big-head", ERR_TOO_BIG, "larger than 16384 (head)");
    answer_finish(&a);
}

static void what_cannot_be_reached_is_named(void **state)
{
    struct lab *lab = *state;
    struct http_endpoint endpoint = lab_endpoint(lab, PLACE_UNIX);
    endpoint.unix_socket = "/nonexistent/docker.sock";
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE,
                     "the engine: cannot connect: No such file or directory; is it running?");
    lab_close(lab);

    endpoint = lab_endpoint(lab, PLACE_TCP);
    endpoint.base_url = "http://127.0.0.1:1";
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "cannot connect: Connection refused");
    lab_close(lab);

    endpoint.base_url = "http://name.invalid:80"; /* uses the proxy, which does not exist */
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "the engine");
}

static void bad_requests_never_leave(void **state)
{
    struct lab *lab = *state;
    static const char *const split[] = {"X-A: b\r\nX-C: d", NULL};
    static const char *const nameless[] = {"no colon", NULL};
    lab_connect(lab, PLACE_UNIX);
    check_path_fails(lab, "no-slash", ERR_INVALID, "cannot be sent");
    check_path_fails(lab, "/hello HTTP/1.1\r\nX: y", ERR_INVALID, "cannot be sent");
    check_path_fails(lab, "/hello#part", ERR_INVALID, "cannot be sent");
    struct http_request request = lab_request("/hello");
    request.method = "get";
    check_fails(lab, &request, ERR_INVALID, 0, "cannot be sent");
    request = lab_request("/hello");
    request.headers = split;
    check_fails(lab, &request, ERR_INVALID, 0, "cannot be sent");
    request.headers = nameless;
    check_fails(lab, &request, ERR_INVALID, 0, "cannot be sent");

    static const char *const urls[] = {"ftp://h", "http://", "http://u@h", "http://h?q", "h:1"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct http_endpoint endpoint = {.name = "the engine", .base_url = urls[i]};
        struct http_client *none = NULL;
        struct err err = ERR_INIT;
        assert_int_equal(http_client_create(&lab->loop, &endpoint, &none, &err), -ERR_INVALID);
        assert_non_null(strstr(err.text, urls[i]));
    }
}

static void connections_are_used_again(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    int accepted = lab_count(lab, "accepted");
    for (int i = 0; i < 5; i++) {
        lab_get(&a, "/hello");
    }
    assert_int_equal(lab_count(lab, "accepted"), accepted);
    /* An idle connection does not keep the loop running. */
    lab_pass(lab);
    assert_false(uv_loop_alive(&lab->loop));
    answer_finish(&a);
}

static void a_dropped_idle_connection_is_replaced(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    struct http_request request = lab_request("/echo");
    request.method = "POST";
    request.body = view_of("sent again if need be");
    for (int i = 0; i < 20; i++) {
        lab_get(&a, "/drop");
        assert_int_equal(a.status, 200);
        lab_pass(lab);
        assert_false(uv_loop_alive(&lab->loop)); /* its end does not wake the loop either */
        lab_ask(&a, &request);
        assert_int_equal(a.rc, 0);
        assert_true(body_is(&a, "sent again if need be"));
    }
    answer_finish(&a);
}

static void what_must_not_be_done_twice_is_sent_once(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    struct http_request request = lab_request("/swallow");
    request.method = "POST";
    request.body = view_of("whatever");
    for (int i = 0; i < 2; i++) {
        request.once = i > 0;
        lab_get(&a, "/hello"); /* so that there is a connection which is used again */
        a.times = 0;
        lab_ask(&a, &request);
        assert_int_equal(a.rc, -ERR_ENGINE);
        a.times = 0;
        /* where it may be, libcurl has sent it a second time */
        assert_int_equal(lab_count(lab, "swallowed"), i > 0 ? 3 : 2);
    }
    answer_finish(&a);
}

static void a_hundred_at_once(void **state)
{
    enum { COUNT = 100 };
    struct lab *lab = *state;
    static struct answer answers[COUNT];
    for (enum place place = PLACE_UNIX; place <= PLACE_TCP; place++) {
        lab_connect(lab, place);
        struct http_request request = lab_request("/slow?ms=50");
        for (int i = 0; i < COUNT; i++) {
            answer_init(&answers[i], lab);
            http_send(lab->client, &request, on_answer, &answers[i]);
        }
        for (int i = 0; i < COUNT; i++) {
            if (answers[i].times == 0) {
                lab_wait(lab, &answers[i].times, 1);
            }
            assert_int_equal(answers[i].times, 1);
            assert_int_equal(answers[i].status, 200);
            assert_true(body_is(&answers[i], "late"));
            answer_finish(&answers[i]);
        }
        /* Only a few of the hundred connections are kept; the server sees the others close. */
        for (int tries = 0; lab_count(lab, "open") > 8; tries++) {
            assert_true(tries < 1000);
        }
        lab_close(lab);
    }
}

/* ---- streams and cancelling ---- */

static bool on_piece(void *arg, struct view piece)
{
    struct answer *a = arg;
    assert_int_equal(a->times, 0);
    assert_true(piece.len > 0);
    a->streamed += piece.len;
    a->largest_piece = piece.len > a->largest_piece ? piece.len : a->largest_piece;
    if (a->cancel_in_data) {
        http_cancel(a->call);
    }
    if (a->other != NULL) {
        http_cancel(a->other->call);
        a->other = NULL;
    }
    return !a->refuse_data;
}

static struct http_request stream_request(const char *path)
{
    struct http_request request = lab_request(path);
    request.on_data = on_piece;
    return request;
}

static void bodies_stream(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    lab_connect(lab, PLACE_UNIX);
    struct http_request request =
        stream_request("/big?n=3000000"); /* more than the limit of collected bodies */
    lab_ask(&a, &request);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.streamed, 3000000);
    assert_true(a.largest_piece <= 16384);
    assert_true(body_is(&a, ""));

    request = stream_request("/missing"); /* the body of an error is collected as usual */
    a.streamed = 0;
    a.times = 0;
    lab_ask(&a, &request);
    assert_int_equal(a.status, 404);
    assert_int_equal(a.streamed, 0);
    assert_non_null(strstr(buf_cstr(&a.body), "No such container"));

    request = stream_request("/endless");
    request.total_ms = 0;
    request.silence_ms = 1000;
    a.refuse_data = true;
    a.times = 0;
    lab_ask(&a, &request);
    assert_int_equal(a.rc, -ERR_INVALID);
    answer_finish(&a);
}

/* A reader who is slow: takes a piece, and nothing more till a timer lets it go on. */
struct slow_reader {
    struct answer answer;
    uv_timer_t timer;
    bool held;
    size_t pieces;
};

static void on_slow_turn(uv_timer_t *timer)
{
    struct slow_reader *r = timer->data;
    r->held = false;
    http_hold(r->answer.call, false);
}

static bool on_slow_piece(void *arg, struct view piece)
{
    struct slow_reader *r = arg; /* its first member is the answer */
    assert_false(r->held);
    r->answer.streamed += piece.len;
    r->pieces++;
    r->held = true;
    http_hold(r->answer.call, true);
    uv_timer_start(&r->timer, on_slow_turn, 1, 0);
    return true;
}

static void a_slow_reader_gets_all_of_it_and_no_timeout_of_silence(void **state)
{
    struct lab *lab = *state;
    struct slow_reader r = {.held = false};
    answer_init(&r.answer, lab);
    lab_connect(lab, PLACE_UNIX);
    uv_timer_init(&lab->loop, &r.timer);
    r.timer.data = &r;
    struct http_request request = lab_request("/big?n=1000000");
    request.on_data = on_slow_piece;
    request.total_ms = 0;
    request.silence_ms = 2000;
    r.answer.call = http_send(lab->client, &request, on_answer, &r);
    lab_wait(lab, &r.answer.times, 1);
    assert_int_equal(r.answer.rc, 0);
    assert_int_equal(r.answer.streamed, 1000000);
    assert_true(r.pieces > 10);
    uv_close((uv_handle_t *)&r.timer, NULL);
    lab_pass(lab);
    answer_finish(&r.answer);
}

static void pass_until(struct lab *lab, const size_t *number)
{
    for (uint64_t begin_ms = clock_ms(); *number == 0;) {
        uv_run(&lab->loop, UV_RUN_ONCE);
        assert_true(clock_ms() - begin_ms < 10000);
    }
}

/* The server's view: only the connection that asks is left. */
static void wait_for_hang_up(struct lab *lab)
{
    for (uint64_t begin_ms = clock_ms(); lab_count(lab, "open") > 1;) {
        assert_true(clock_ms() - begin_ms < 10000);
    }
}

static void cancelling_is_quiet(void **state)
{
    struct lab *lab = *state;
    struct answer a, b, c;
    answer_init(&a, lab);
    answer_init(&b, lab);
    answer_init(&c, lab);
    lab_connect(lab, PLACE_UNIX);

    /* before it began */
    struct http_request request = lab_request("/hello");
    http_cancel(http_send(lab->client, &request, on_answer, &a));

    /* while it waits for an answer, with a body that is freed right after */
    char *body = alloc_array(8 << 20, 1);
    request = lab_request("/never");
    request.method = "POST";
    request.body = view_bytes(body, 8 << 20);
    b.call = http_send(lab->client, &request, on_answer, &b);
    lab_get(&c, "/hello");
    http_cancel(b.call);
    free(body);

    /* from inside on_data: this call, and another one that waits */
    request = stream_request("/endless");
    a.cancel_in_data = true;
    a.call = http_send(lab->client, &request, on_answer, &a);
    request = lab_request("/never");
    b.call = http_send(lab->client, &request, on_answer, &b);
    a.other = &b;
    pass_until(lab, &a.streamed);
    size_t streamed = a.streamed;
    wait_for_hang_up(lab);
    assert_int_equal(a.streamed, streamed); /* no further piece arrives */
    assert_int_equal(a.times, 0);
    assert_int_equal(b.times, 0);
    answer_finish(&a);
    answer_finish(&b);
    answer_finish(&c);
}

static void on_closed(void *arg)
{
    struct lab *lab = arg;
    lab->closed = true;
}

static bool on_piece_close(void *arg, struct view piece)
{
    struct answer *a = arg;
    assert_int_equal(a->streamed, 0);
    a->streamed = piece.len;
    http_client_close(STEAL_PTR(a->lab->client), on_closed, a->lab);
    return true;
}

static void on_answer_close(void *arg, int rc, const struct http_response *response,
                            const struct err *err)
{
    struct answer *a = arg;
    on_answer(arg, rc, response, err);
    http_client_close(STEAL_PTR(a->lab->client), on_closed, a->lab);
}

static void closing_drops_everything(void **state)
{
    struct lab *lab = *state;
    struct answer a, b, c;
    answer_init(&a, lab);
    answer_init(&b, lab);
    answer_init(&c, lab);
    struct http_request never = lab_request("/never");
    struct http_request stream = stream_request("/endless");

    lab_connect(lab, PLACE_UNIX); /* begun, streaming, and not yet begun */
    http_send(lab->client, &never, on_answer, &a);
    http_send(lab->client, &stream, on_answer, &b);
    pass_until(lab, &b.streamed);
    http_send(lab->client, &never, on_answer, &c);
    lab_close(lab);

    b.streamed = 0; /* inside a piece */
    lab_connect(lab, PLACE_TCP);
    stream.on_data = on_piece_close;
    http_send(lab->client, &never, on_answer, &a);
    http_send(lab->client, &stream, on_answer, &b);
    lab_wait_true(lab, &lab->closed);
    assert_int_equal(a.times + b.times + c.times, 0);

    lab->closed = false; /* in the answer of another call */
    lab_connect(lab, PLACE_UNIX);
    struct http_request hello = lab_request("/hello");
    http_send(lab->client, &never, on_answer, &a);
    http_send(lab->client, &hello, on_answer_close, &c);
    lab_wait_true(lab, &lab->closed);
    assert_int_equal(a.times, 0);
    assert_int_equal(c.times, 1);
    lab->closed = false;

    lab_connect(lab, PLACE_TLS); /* in the middle of a handshake */
    http_send(lab->client, &hello, on_answer, &a);
    lab_pass(lab);
    lab_pass(lab);
    lab_close(lab);
    assert_int_equal(a.times, 0);
    answer_finish(&a);
    answer_finish(&b);
    answer_finish(&c);
}

static void names_are_looked_up_without_blocking(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    struct http_endpoint endpoint = lab_endpoint(lab, PLACE_TCP);
    CLEANUP_FREE char *url = alloc_printf("http://localhost:%u", lab->tcp);
    endpoint.base_url = url;
    lab_connect_to(lab, &endpoint);
    lab_get(&a, "/hello");
    assert_true(body_is(&a, "hello"));
    lab_close(lab);
    lab_connect_to(lab, &endpoint); /* closing while the resolver's thread may still be running */
    struct http_request request = lab_request("/hello");
    a.times = 0;
    http_send(lab->client, &request, on_answer, &a);
    lab_pass(lab);
    lab_close(lab);
    assert_int_equal(a.times, 0);
    answer_finish(&a);
}

/* ---- TLS ---- */

static void certificates_are_checked(void **state)
{
    struct lab *lab = *state;
    struct answer a;
    answer_init(&a, lab);
    CLEANUP_FREE char *other = alloc_printf("%s/other.pem", lab->server.top);
    CLEANUP_FREE char *absent = alloc_printf("%s/absent.pem", lab->server.top);

    struct http_endpoint endpoint = lab_endpoint(lab, PLACE_TLS);
    endpoint.ca_file = other;
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "certificate");
    lab_close(lab);

    endpoint.ca_file = NULL; /* the system's authorities have not signed it */
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "certificate");
    lab_close(lab);

    endpoint.verify = false;
    lab_connect_to(lab, &endpoint);
    lab_get(&a, "/hello");
    assert_int_equal(a.status, 200);
    lab_close(lab);

    endpoint.verify = true;
    endpoint.ca_file = absent;
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "absent.pem");
    lab_close(lab);

    endpoint = lab_endpoint(lab, PLACE_TLS); /* right authority, wrong name */
    CLEANUP_FREE char *url = alloc_printf("https://127.0.0.2:%u", lab->tls);
    endpoint.base_url = url;
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "the engine");
    lab_close(lab);

    endpoint = lab_endpoint(lab, PLACE_MUTUAL); /* the server asks for a client certificate */
    endpoint.cert_file = NULL;
    endpoint.key_file = NULL;
    lab_connect_to(lab, &endpoint);
    check_path_fails(lab, "/hello", ERR_ENGINE, "certificate");
    answer_finish(&a);
}

static void a_missing_library_is_named(void **state)
{
    (void)state;
    static const char *const absent[] = {"libcurl-that-is-not-there.so.4", NULL};
    static const char *const other[] = {"libuv.so.1", NULL};
    struct http_lib lib;
    struct err err = ERR_INIT;
    assert_int_equal(http_lib_open_from(absent, &lib, &err), -ERR_ENGINE);
    assert_non_null(strstr(err.text, "libcurl-that-is-not-there.so.4"));
    assert_non_null(strstr(err.text, "libcurl4"));
    assert_int_equal(http_lib_open_from(other, &lib, &err), -ERR_ENGINE);
    assert_non_null(strstr(err.text, "has no curl_global_init"));
    assert_non_null(strstr(err.text, "libcurl4"));
}

/* Only users of HTTP pay for loading it. */
static void libcurl_is_not_loaded_before_it_is_needed(void **state)
{
    struct lab *lab = *state;
    assert_null(dlopen("libcurl.so.4", RTLD_NOW | RTLD_NOLOAD));
    lab_connect(lab, PLACE_UNIX);
}

static void text_is_escaped(void **state)
{
    (void)state;
    CLEANUP_FREE char *plain = http_escape("aZ09-._~");
    CLEANUP_FREE char *odd = http_escape("{\"a b\":[/]}\xc3\xa9");
    assert_string_equal(plain, "aZ09-._~");
    assert_string_equal(odd, "%7B%22a%20b%22%3A%5B%2F%5D%7D%C3%A9");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    needs_program("openssl"); /* makes the certificates of its server */
    const struct CMUnitTest tests[] = {
        TEST(libcurl_is_not_loaded_before_it_is_needed), /* first, because later ones load it */
        TEST(every_kind_of_place_answers),
        TEST(requests_are_as_asked),
        TEST(large_bodies_go_and_come),
        TEST(bodies_go_in_pieces),
        TEST(any_status_is_an_answer),
        TEST(time_is_bounded),
        TEST(slow_answers_within_the_bounds_are_fine),
        TEST(broken_answers_are_the_engines_fault),
        TEST(size_is_bounded),
        TEST(what_cannot_be_reached_is_named),
        TEST(bad_requests_never_leave),
        TEST(connections_are_used_again),
        TEST(a_dropped_idle_connection_is_replaced),
        TEST(what_must_not_be_done_twice_is_sent_once),
        TEST(a_hundred_at_once),
        TEST(bodies_stream),
        TEST(a_slow_reader_gets_all_of_it_and_no_timeout_of_silence),
        TEST(cancelling_is_quiet),
        TEST(closing_drops_everything),
        TEST(names_are_looked_up_without_blocking),
        TEST(certificates_are_checked),
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(text_is_escaped),
    };
    return cmocka_run_group_tests_name("http", tests, lab_begin, lab_end);
}
