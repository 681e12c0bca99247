/*
 * What a program may ask a door for, and what a server is told of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "worker/door/request.h"
#include "worker/door/response.h"

static int read_text(const char *text, struct door_request *r)
{
    struct err err = ERR_INIT;
    int rc = door_request_read(view_of(text), r, &err);
    assert_int_equal(rc < 0, err.text[0] != '\0');
    return rc;
}

static void is_told(const char *text, bool by_proxy, const char *auth, const char *expected)
{
    struct door_request r;
    struct buf out;
    buf_init(&out, DOOR_REQUEST_BYTES);
    assert_int_equal(read_text(text, &r), 1);
    assert_int_equal(door_request_write(&r, by_proxy, auth, &out, NULL), 0);
    assert_string_equal(buf_cstr(&out), expected);
    buf_finish(&out);
}

static void a_tunnel_is_the_servers_own_affair(void **state)
{
    struct door_request r;
    (void)state;
    const char *text = "CONNECT PyPI.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\nbytes";
    assert_int_equal(read_text(text, &r), 1);
    assert_true(r.tunnel);
    assert_string_equal(r.to.host, "pypi.org");
    assert_int_equal(r.to.port, 443);
    assert_int_equal(r.head.size, strlen(text) - strlen("bytes"));
    is_told(text, false, "Basic x", "");
    is_told(text, true, NULL, "CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n");
    is_told(text, true, "Basic x",
            "CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n"
            "Proxy-Authorization: Basic x\r\n\r\n");
    is_told("CONNECT [FE80::0:1]:443 HTTP/1.1\r\n\r\n", true, "",
            "CONNECT [fe80::1]:443 HTTP/1.1\r\nHost: [fe80::1]:443\r\n\r\n");
}

static void a_plain_request_is_the_only_one_of_its_connection(void **state)
{
    (void)state;
    const char *text = "GET http://Index.Example:8080/simple/a/?b=c HTTP/1.1\r\n"
                       "Host: elsewhere.example\r\n"
                       "User-Agent: pip\r\n"
                       "Connection: keep-alive\r\n"
                       "proxy-connection: keep-alive\r\n"
                       "Proxy-Authorization: Basic mine\r\n"
                       "Authorization: Basic theirs\r\n"
                       "\r\n";
    is_told(text, false, "Basic x",
            "GET /simple/a/?b=c HTTP/1.1\r\n"
            "Host: index.example:8080\r\n"
            "Connection: close\r\n"
            "User-Agent: pip\r\n"
            "Authorization: Basic theirs\r\n"
            "\r\n");
    is_told(text, true, "Basic x",
            "GET http://index.example:8080/simple/a/?b=c HTTP/1.1\r\n"
            "Host: index.example:8080\r\n"
            "Connection: close\r\n"
            "Proxy-Authorization: Basic x\r\n"
            "User-Agent: pip\r\n"
            "Authorization: Basic theirs\r\n"
            "\r\n");
    is_told("GET http://a HTTP/1.1\r\n\r\n", false, NULL,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    is_told("GET http://a?b HTTP/1.0\r\n\r\n", false, NULL,
            "GET /?b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
}

static void a_body_is_as_long_as_it_says(void **state)
{
    struct door_request r;
    (void)state;
    assert_int_equal(read_text("GET http://a/ HTTP/1.1\r\n\r\n", &r), 1);
    assert_int_equal(r.body, 0);
    assert_int_equal(read_text("POST http://a/ HTTP/1.1\r\nContent-Length: 12\r\n\r\n", &r), 1);
    assert_int_equal(r.body, 12);
    assert_int_equal(read_text("POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", &r),
                     -ERR_PROTOCOL);
    assert_int_equal(read_text("POST http://a/ HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", &r),
                     -ERR_PROTOCOL);
}

static void what_a_proxy_does_not_take_is_refused(void **state)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "GET https://a/ HTTP/1.1\r\n\r\n",
        "GET ftp://a/ HTTP/1.1\r\n\r\n",
        "GET http:///a HTTP/1.1\r\n\r\n",
        "GET http://u:p@a/ HTTP/1.1\r\n\r\n",
        "GET http://a/#b HTTP/1.1\r\n\r\n",
        "GET http://a:0/ HTTP/1.1\r\n\r\n",
        "GET http://[fe80::1%25eth0]/ HTTP/1.1\r\n\r\n",
        "CONNECT a HTTP/1.1\r\n\r\n",
        "CONNECT http://a:1 HTTP/1.1\r\n\r\n",
        "CONNECT a:1/ HTTP/1.1\r\n\r\n",
        "connect a:1 HTTP/1.1\r\n\r\n",
        "GET  http://a/ HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/2.0\r\n\r\n",
        "GET http://a/ HTTP/1.1 \r\n\r\n",
        "GET http://a/\r\n\r\n",
        "GET http://a/ HTTP/1.1\n\n",
        "GET http://a/ HTTP/1.1\r\n bad: x\r\n\r\n",
        " GET http://a/ HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02",
        "\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct door_request r;
        if (read_text(bad[i], &r) >= 0) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static void each_beginning_of_a_request_waits_for_more(void **state)
{
    const char *text = "CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\nA: b\r\n\r\n";
    (void)state;
    for (size_t len = 0; len < strlen(text); len++) {
        struct door_request r;
        struct err err = ERR_INIT;
        assert_int_equal(door_request_read(view_bytes(text, len), &r, &err), 0);
    }
}

static void an_answer_says_why_in_its_first_line(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 1024);
    assert_int_equal(door_answer_write(403, "cloister: no", &out, NULL), 0);
    assert_string_equal(buf_cstr(&out), "HTTP/1.1 403 cloister: no\r\n"
                                        "Content-Type: text/plain\r\n"
                                        "Content-Length: 13\r\n"
                                        "Connection: close\r\n\r\n"
                                        "cloister: no\n");
    buf_finish(&out);
}

/* In pieces of that many bytes. */
static void is_said_on(const char *text, size_t piece, const char *expected)
{
    struct door_response r;
    struct buf out;
    size_t len = strlen(text);
    door_response_init(&r);
    buf_init(&out, 1u << 20);
    for (size_t at = 0; at < len; at += piece) {
        struct view part = view_bytes(text + at, len - at < piece ? len - at : piece);
        assert_int_equal(door_response_pass(&r, part, &out, NULL), 0);
        assert_true(out.len + r.head.len <= at + part.len + DOOR_RESPONSE_MORE);
    }
    assert_string_equal(buf_cstr(&out), expected);
    buf_finish(&out);
    door_response_finish(&r);
}

static void an_answer_says_that_its_connection_ends(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 200; piece += 13) {
        is_said_on("HTTP/1.1 200 OK\r\nServer: x\r\nconnection: keep-alive\r\n"
                   "Keep-Alive: 5\r\nContent-Length: 4\r\n\r\nbody",
                   piece,
                   "HTTP/1.1 200 OK\r\nConnection: close\r\nServer: x\r\n"
                   "Content-Length: 4\r\n\r\nbody");
        is_said_on("HTTP/1.0 204\r\n\r\n", piece, "HTTP/1.0 204\r\nConnection: close\r\n\r\n");
        is_said_on("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\nA: b\r\n\r\nHTTP/1.1 200",
                   piece,
                   "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\nConnection: close\r\n"
                   "A: b\r\n\r\nHTTP/1.1 200");
        is_said_on("no HTTP at all", piece, "no HTTP at all");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tunnel_is_the_servers_own_affair),
        cmocka_unit_test(a_plain_request_is_the_only_one_of_its_connection),
        cmocka_unit_test(a_body_is_as_long_as_it_says),
        cmocka_unit_test(what_a_proxy_does_not_take_is_refused),
        cmocka_unit_test(each_beginning_of_a_request_waits_for_more),
        cmocka_unit_test(an_answer_says_why_in_its_first_line),
        cmocka_unit_test(an_answer_says_that_its_connection_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
