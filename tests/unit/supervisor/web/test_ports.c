/*
 * The parts of the ports of sandboxes: addresses, redirects, heads of answers, bodies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/web/ports/body.h"
#include "supervisor/web/ports/handshake.h"
#include "supervisor/web/ports/head.h"

#define SIGNATURE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BEGIN     "/ports/box_1-a/8000/1790000000/" SIGNATURE

/* ---- addresses ---- */

static void an_address_is_taken_apart(void **state)
{
    struct port_address a;
    assert_true(port_address_parse(BEGIN "/a/%2e%2e//b?c=/d", &a));
    assert_string_equal(a.sandbox, "box_1-a");
    assert_int_equal(a.port, 8000);
    assert_string_equal(a.expires, "1790000000");
    assert_string_equal(a.signature, SIGNATURE);
    assert_string_equal(a.rest, "/a/%2e%2e//b?c=/d");
    assert_true(port_address_parse(BEGIN, &a));
    assert_string_equal(a.rest, "");
    assert_true(port_address_parse(BEGIN "?q", &a));
    assert_string_equal(a.rest, "");
}

static void what_is_no_address_is_not_taken(void **state)
{
    static const char *const wrong[] = {
        "",
        "/",
        "/ports/",
        "/ports/a/1/1",
        "/files/a/8000/1/" SIGNATURE "/",
        "/ports//8000/1/" SIGNATURE "/",
        "/ports/a//1/" SIGNATURE "/",
        "/ports/a/08000/1/" SIGNATURE "/",
        "/ports/a/0/1/" SIGNATURE "/",
        "/ports/a/65536/1/" SIGNATURE "/",
        "/ports/a/80x/1/" SIGNATURE "/",
        "/ports/a/+80/1/" SIGNATURE "/",
        "/ports/a/8000/1x/" SIGNATURE "/",
        "/ports/a/8000/1/" SIGNATURE "0/",
        "/ports/a%2f/8000/1/" SIGNATURE "/",
        "/ports/a\n/8000/1/" SIGNATURE "/",
        "/ports/a/8000/1/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef/",
        BEGIN "/a b",
        BEGIN "/a\r\nX: y",
        BEGIN "/\xc3\xa4",
        BEGIN "/#f",
    };
    struct port_address a;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (port_address_parse(wrong[i], &a)) {
            fail_msg("\"%s\" was taken", wrong[i]);
        }
    }
}

static void a_redirect_leads_below_its_address(void **state)
{
    static const struct {
        const char *rest, *location, *to;
    } cases[] = {
        {"/", "/x", "./x"},
        {"/", "x", "./x"},
        {"/", "/", "./"},
        {"/a/b", "/x?y=/..#z", "./../x?y=/..#z"},
        {"/a/b/", "x", "./../../a/b/x"},
        {"/a/b", "../x", "./../x"},
        {"/a/b", "../../../../x", "./../x"},
        {"/a/b?c/d", "?e", "./../a/b?e"},
        {"/", "/..//../%2E%2e/.%2e/x", "./x"},
        {"/a", "/./y/./z", "./y/z"},
        {"/a", "//evil.example/", NULL},
        {"/a", "http://evil.example/", NULL},
        {"/a", "https://127.0.0.1:8000/", NULL},
        {"/a", "http://127.0.0.1:8000/b", "./b"},
        {"/a/", "http://LOCALHOST:8000", "./../"},
        {"/a", "http://[::1]:8000?q", "./?q"},
        {"/a", "http://127.0.0.1:80000/", NULL},
        {"/a", "http://127.0.0.1:8000@evil/", NULL},
        {"/a", "http://127.0.0.1:8001/", NULL},
        {"/a", "http://127.0.0.1/", NULL},
        {"/a", "javascript:x", NULL},
        {"/a", "x:y", NULL},
        {"/a", "./x:y", "./x:y"},
        {"/a", "/\\evil", NULL},
        {"/a", "", NULL},
        {"/a", "/b c", NULL},
        {"/a/../b/c", "/x", NULL},
        {"/a\\..\\b/c", "x", NULL},
        {"/a\\b", "?x", NULL},
        {"/a", "///evil", NULL},
        {"/a", "/x//y", "./x//y"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *to = port_address_location(cases[i].rest, 8000, view_of(cases[i].location));
        if (cases[i].to == NULL ? to != NULL : to == NULL || strcmp(to, cases[i].to) != 0) {
            fail_msg("%s to \"%s\" gives \"%s\"", cases[i].rest, cases[i].location,
                     to != NULL ? to : "nothing");
        }
        free(to);
    }
    char *to = port_address_location("/", 80, view_of("http://localhost/x"));
    assert_string_equal(to, "./x");
    free(to);
}

/* ---- heads ---- */

static int read_answer(const char *text, const char *method, struct port_answer *ret)
{
    static const struct port_address address = {.port = 8000, .rest = "/a/b"};
    struct http_head head;
    struct err err = ERR_INIT;
    assert_int_equal(http_head_parse(view_of(text), &head, &err), 1);
    return port_head_answer(&head, method, &address, ret, &err);
}

static void an_answer_says_how_long_it_is(void **state)
{
    struct port_answer a;
    assert_int_equal(
        read_answer("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Type: a/b\r\n\r\n", "GET", &a),
        0);
    assert_true(a.has_body && a.framing.has_length);
    assert_int_equal(a.framing.length, 7);
    assert_string_equal(a.type, "a/b");
    port_answer_finish(&a);
    assert_int_equal(read_answer("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "HEAD", &a), 0);
    assert_false(a.has_body);
    for (int i = 0; i < 3; i++) {
        static const char *const bodiless[] = {"204", "205", "304"};
        char *text = alloc_printf("HTTP/1.1 %s x\r\nContent-Length: 7\r\n\r\n", bodiless[i]);
        assert_int_equal(read_answer(text, "GET", &a), 0);
        assert_false(a.has_body);
        free(text);
    }
    assert_int_equal(read_answer("HTTP/1.1 302 x\r\nLocation: /c\r\n\r\n", "GET", &a), 0);
    assert_string_equal(a.location, "./../c");
    port_answer_finish(&a);
}

static void an_answer_with_two_meanings_is_refused(void **state)
{
    static const char *const fields[] = {
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: gzip, chunked",
        "Content-Length: +1",
        "Content-Length:",
        "Content-Type: a/b\r\ncontent-type: c/d",
        "Content-Type: Multipart/x-mixed-replace; boundary=x",
        "Content-Type: text/html, multipart/mixed",
        "Location: /a\r\nLocation: /b",
        "Location: https://evil.example/",
    };
    struct port_answer a;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char *text = alloc_printf("HTTP/1.1 200 OK\r\n%s\r\n\r\n", fields[i]);
        if (read_answer(text, "GET", &a) == 0) {
            fail_msg("%s was taken", fields[i]);
        }
        free(text);
    }
    assert_true(read_answer("HTTP/1.1 101 x\r\n\r\n", "GET", &a) < 0);
}

static void nobody_but_the_browser_keeps_an_answer(void **state)
{
    static const struct {
        const char *said, *shown;
    } cases[] = {
        {NULL, "private, no-cache"},
        {"public, max-age=60", "private, no-cache"},
        {"s-maxage=60", "private, no-cache"},
        {"max-age=60", "private, max-age=60"},
        {"max-age=31536000, immutable", "private, max-age=31536000, immutable"},
        {"no-cache", "private, no-cache"},
        {"no-store", "no-store"},
        {" max-age=60 ,Private", " max-age=60 ,Private"},
        {"private=\"ETag\", max-age=60", "private, private=\"ETag\", max-age=60"},
        {"x=\"a, private, b\"", "private, x=\"a, private, b\""},
        {"privately", "private, privately"},
        {"max-age=60 private", "private, max-age=60 private"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *shown = port_head_caching(cases[i].said);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
}

/* ---- bodies ---- */

/* Feeds pieces of this size; returns the body, with "!" behind it if it is whole and "?" if it is
 * malformed. */
static char *decoded(const struct http_framing *framing, const char *text, size_t piece)
{
    struct port_body b;
    struct err err = ERR_INIT;
    struct buf out;
    int rc = 0;
    buf_init(&out, 4096);
    port_body_init(&b, true, framing);
    for (size_t at = 0; at < strlen(text) && rc == 0; at += piece) {
        size_t left = strlen(text) - at;
        struct view data = view_bytes(text + at, left < piece ? left : piece);
        while (rc == 0 && data.len > 0 && !port_body_is_whole(&b)) {
            struct view part;
            rc = port_body_take(&b, &data, &part, &err);
            err_ignore(rc == 0 ? buf_add(&out, part.data, part.len, NULL) : 0);
        }
    }
    err_ignore(buf_add_str(&out, rc < 0 ? "?" : port_body_is_whole(&b) ? "!" : "", NULL));
    char *all = alloc_viewdup(view_bytes(out.data, out.len));
    buf_finish(&out);
    return all;
}

static void expect_decoded(struct http_framing framing, const char *text, const char *wanted)
{
    for (size_t piece = 1; piece < 6; piece++) {
        char *got = decoded(&framing, text, piece);
        assert_string_equal(got, wanted);
        free(got);
    }
}

static void a_body_ends_where_it_says(void **state)
{
    const struct http_framing chunked = {.chunked = true};
    const struct http_framing five = {.has_length = true, .length = 5};
    const struct http_framing none = {.has_length = true}, open = {0};
    expect_decoded(five, "hello, and more", "hello!");
    expect_decoded(five, "hell", "hell");
    expect_decoded(none, "more", "!");
    expect_decoded(open, "all of it", "all of it");
    expect_decoded(chunked, "5\r\nhello\r\n0\r\n\r\nmore", "hello!");
    expect_decoded(chunked, "005;a=\"b\"\r\nhello\r\n1 \r\n \r\n000\r\nT: 1\r\nU: 2\r\n\r\n",
                   "hello !");
    expect_decoded(chunked, "5\r\nhello\r\n", "hello");
    expect_decoded(chunked, "0\r\n", "");
}

/* Only data makes the reader wait, so what is around it must not be much more. */
static void extensions_are_no_longer_than_the_data(void **state)
{
    static const char begin[] = "8000\r\n", chunk[] = "\r\n1;";
    const struct http_framing chunked = {.chunked = true};
    for (int more = 0; more < 2; more++) {
        struct port_body b;
        struct err err = ERR_INIT;
        struct buf text;
        buf_init(&text, 1 << 20);
        assert_int_equal(buf_add_str(&text, begin, &err), 0);
        for (int i = 0; i < 0x8000; i++) {
            assert_int_equal(buf_add_str(&text, "d", &err), 0);
        }
        for (int i = 0; i < 8; i++) { /* 8 * 5120 are what 32768 of data and 8192 allow */
            assert_int_equal(buf_add_str(&text, chunk, &err), 0);
            for (int j = 0; j < 5120 + more; j++) {
                assert_int_equal(buf_add_str(&text, "x", &err), 0);
            }
            assert_int_equal(buf_add_str(&text, "\r\nd", &err), 0);
        }
        port_body_init(&b, true, &chunked);
        struct view data = view_bytes(text.data, text.len), part;
        int rc = 0;
        while (rc == 0 && data.len > 0) {
            rc = port_body_take(&b, &data, &part, &err);
        }
        assert_int_equal(rc, more ? -ERR_PROTOCOL : 0);
        buf_finish(&text);
    }
}

static void a_malformed_chunk_is_seen(void **state)
{
    static const char *const wrong[] = {
        "\r\n",          "g\r\n",        "-1\r\n",          "1\n",
        "1\rx",          "0x1\r\n",      "1\r\nab",         "1\r\na\rb",
        "0\r\nT: 1\n\n", "0\r\nT: 1\rx", "0\r\n\rx",        "1000000000000000\r\n",
        ";\r\n",         "0\r\n\n",      "1;a\nb\r\nx\r\n", " 1\r\n",
    };
    const struct http_framing chunked = {.chunked = true};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *got = decoded(&chunked, wrong[i], 3);
        if (strchr(got, '?') == NULL) {
            fail_msg("case %zu was taken as \"%s\"", i, got);
        }
        free(got);
    }
}

/* ---- the handshake of WebSocket ---- */

#define KEY    "dGhlIHNhbXBsZSBub25jZQ==" /* RFC 6455, section 1.3 */
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define AGREED                                                                                     \
    "HTTP/1.1 101 Yes\r\nUpgrade: foo, WebSocket\r\nConnection: keep-alive,  upgrade\r\n"          \
    "Sec-WebSocket-Accept: " ACCEPT "\r\n"

static void a_key_has_one_answer(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char accept[HANDSHAKE_ACCEPT_SIZE];
    assert_int_equal(handshake_accept(KEY, accept, &err), 0);
    assert_string_equal(accept, ACCEPT);
    assert_true(handshake_is_key(KEY));
    static const char *const none[] = {"",
                                       "AAAA",
                                       KEY "AAAA",
                                       "dGhlIHNhbXBsZSBub25jZQAA",
                                       "dGhlIHNhbXBsZSBub25jZQ  ",
                                       "=====================A=="};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_false(handshake_is_key(none[i]));
    }
}

/* What a program agreed to, or why that is no answer; to be freed. */
static char *agreed(const char *text, const char *offered)
{
    struct err err = ERR_INIT;
    struct http_head head;
    struct handshake_answer a;
    assert_int_equal(http_head_parse(view_of(text), &head, &err), 1);
    if (handshake_answer(&head, KEY, offered, &a, &err) < 0) {
        assert_int_equal(err.code, ERR_PROTOCOL);
        return alloc_strdup(err.text);
    }
    assert_string_equal(a.accept, ACCEPT);
    char *said = alloc_printf("yes %s", a.protocol != NULL ? a.protocol : "-");
    handshake_answer_finish(&a);
    return said;
}

static void only_the_answer_to_the_key_is_one(void **state)
{
    (void)state;
    static const struct {
        const char *text, *offered, *wanted;
    } rows[] = {
        {AGREED "\r\n", "", "yes -"},
        {AGREED "\r\n", "chat", "yes -"},
        {AGREED "Sec-WebSocket-Protocol: chat\r\n\r\n", "soap , chat", "yes chat"},
        {AGREED "Sec-WebSocket-Protocol: Chat\r\n\r\n", "chat", "subprotocol"},
        {AGREED "Sec-WebSocket-Protocol: cha\r\n\r\n", "chat", "subprotocol"},
        {AGREED "Sec-WebSocket-Protocol: chat, soap\r\n\r\n", "chat, soap", "subprotocol"},
        {AGREED "Sec-WebSocket-Protocol:\r\n\r\n", "chat,,soap", "subprotocol"},
        {AGREED "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n", "a, b",
         "subprotocol"},
        {AGREED "Sec-WebSocket-Extensions: x\r\n\r\n", "", "extension"},
        {AGREED "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\n", "", "answer to the key"},
        {AGREED "Upgrade: websocket\r\n\r\n", "", "another protocol"},
        {"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "",
         "answer to the key"},
        {"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Accept: " ACCEPT "x\r\n\r\n",
         "", "answer to the key"},
        {"HTTP/1.1 101 Yes\r\nUpgrade: websockets\r\nConnection: Upgrade\r\n\r\n", "",
         "another protocol"},
        {"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: close\r\n\r\n", "",
         "another protocol"},
        {"HTTP/1.1 101 Yes\r\n\r\n", "", "another protocol"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CLEANUP_FREE char *said = agreed(rows[i].text, rows[i].offered);
        if (strstr(said, rows[i].wanted) == NULL) {
            fail_msg("row %zu: %s", i, said);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_taken_apart),
        cmocka_unit_test(what_is_no_address_is_not_taken),
        cmocka_unit_test(a_redirect_leads_below_its_address),
        cmocka_unit_test(an_answer_says_how_long_it_is),
        cmocka_unit_test(an_answer_with_two_meanings_is_refused),
        cmocka_unit_test(nobody_but_the_browser_keeps_an_answer),
        cmocka_unit_test(a_body_ends_where_it_says),
        cmocka_unit_test(extensions_are_no_longer_than_the_data),
        cmocka_unit_test(a_malformed_chunk_is_seen),
        cmocka_unit_test(a_key_has_one_answer),
        cmocka_unit_test(only_the_answer_to_the_key_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
