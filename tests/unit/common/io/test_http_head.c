/* Heads of responses: valid ones, invalid ones, and ones that exceed a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_head.h"

static int parse(const char *text, struct http_head *head)
{
    struct err err = ERR_INIT;
    int rc = http_head_parse(view_of(text), head, &err);
    assert_int_equal(rc < 0, err.code != 0);
    return rc;
}

static bool value_is(const struct http_head *head, const char *name, const char *value)
{
    return view_is(http_head_value(head->fields, name), value);
}

static const char good_head[] = "HTTP/1.1 101 UPGRADED\r\n"
                                "Content-Type: application/vnd.docker.raw-stream\r\n"
                                "Connection:Upgrade\r\n"
                                "upgrade: \t tcp \r\n"
                                "Upgrade: second\r\n"
                                "X-Empty:\r\n"
                                "\r\n";

static void a_head_is_read(void **state)
{
    (void)state;
    struct http_head head;
    CLEANUP_FREE char *more = alloc_printf("%s%s", good_head, "HTTP/1.1 stream bytes\n\n");
    assert_int_equal(parse(more, &head), 1);
    assert_int_equal(head.status, 101);
    assert_int_equal(head.size, sizeof(good_head) - 1);
    assert_true(value_is(&head, "content-TYPE", "application/vnd.docker.raw-stream"));
    assert_true(value_is(&head, "Connection", "Upgrade"));
    assert_true(value_is(&head, "Upgrade", "tcp"));
    assert_true(value_is(&head, "X-Empty", ""));
    assert_true(value_is(&head, "Content", ""));
    assert_true(value_is(&head, "absent", ""));
    assert_int_equal(parse("HTTP/1.0 200\r\n\r\n", &head), 1); /* without a reason phrase */
    assert_int_equal(head.status, 200);
    assert_true(value_is(&head, "absent", ""));
    assert_int_equal(parse("HTTP/1.1 404 Nicht gefunden: \xc3\xa4\r\nA: \xff\r\n\r\n", &head), 1);
    assert_true(value_is(&head, "a", "\xff"));
}

static void every_beginning_of_a_head_waits_for_more(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(good_head) - 1; len++) {
        struct http_head head;
        CLEANUP_FREE char *part = alloc_viewdup(view_bytes(good_head, len));
        assert_int_equal(parse(part, &head), 0);
    }
}

/* An invalid head is refused at its first wrong byte, without waiting for its end. */
static void what_is_no_head_is_refused_at_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "S",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2.0 200 OK",
        "HTTP/1.1  200",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000",
        "HTTP/1.1 099 x",
        "HTTP/1.1 600",
        "HTTP/1.1 20\r\n",
        "\r\n",
        "HTTP/1.1 200 OK\n",
        "HTTP/1.1 200 O\001K",
        "HTTP/1.1 200 OK\rX",
        "HTTP/1.1 200 OK\r\n: value",
        "HTTP/1.1 200 OK\r\nno colon",
        "HTTP/1.1 200 OK\r\nno-colon\r\n",
        "HTTP/1.1 200 OK\r\nName : value",
        "HTTP/1.1 200 OK\r\n folded",
        "HTTP/1.1 200 OK\r\nA: b\r\n\tfolded",
        "HTTP/1.1 200 OK\r\nA: b\nB: c",
        "HTTP/1.1 200 OK\r\nA: \x7f",
        "HTTP/1.1 200 OK\r\n\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct http_head head;
        if (parse(texts[i], &head) != -ERR_PROTOCOL) {
            fail_msg("taken: \"%s\"", texts[i]);
        }
    }
    struct err err = ERR_INIT;
    struct http_head head;
    static const char nul[] = "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n";
    assert_int_equal(http_head_parse(view_bytes(nul, sizeof(nul) - 1), &head, &err), -ERR_PROTOCOL);
}

static void size_and_number_are_bounded(void **state)
{
    (void)state;
    struct http_head head;
    CLEANUP_BUF struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(buf_add_str(&text, "HTTP/1.1 200 OK\r\n", NULL), 0);
    for (int i = 0; i < HTTP_HEAD_MAX_FIELDS; i++) {
        assert_int_equal(buf_printf(&text, NULL, "A%d: b\r\n", i), 0);
    }
    size_t fields = text.len;
    assert_int_equal(buf_add_str(&text, "\r\n", NULL), 0);
    assert_int_equal(parse(buf_cstr(&text), &head), 1);
    text.len = fields;
    assert_int_equal(buf_add_str(&text, "One: more\r\n\r\n", NULL), 0);
    assert_int_equal(parse(buf_cstr(&text), &head), -ERR_TOO_BIG);

    for (int over = 0; over <= 1; over++) { /* exactly as large as allowed, and a byte more */
        buf_reset(&text, 0);
        assert_int_equal(buf_add_str(&text, "HTTP/1.1 200 OK\r\nA: ", NULL), 0);
        while (text.len < (size_t)(HTTP_HEAD_MAX_BYTES - 4 + over)) {
            assert_int_equal(buf_add_str(&text, "x", NULL), 0);
        }
        assert_int_equal(buf_add_str(&text, "\r\n\r\nstream", NULL), 0);
        assert_int_equal(parse(buf_cstr(&text), &head), over == 0 ? 1 : -ERR_TOO_BIG);
    }
    assert_int_equal(buf_add_str(&text, "x", NULL), 0);
    memset(text.data + 20, 'x', text.len - 20); /* a head without an end */
    assert_int_equal(parse(buf_cstr(&text), &head), -ERR_TOO_BIG);
}

static int framing_of(const char *fields, struct http_framing *framing)
{
    struct http_head head;
    struct err err = ERR_INIT;
    CLEANUP_FREE char *text = alloc_printf("HTTP/1.1 404 Not Found\r\n%s\r\n", fields);
    assert_int_equal(parse(text, &head), 1);
    return http_head_framing(&head, framing, &err);
}

static void the_end_of_a_body_is_known(void **state)
{
    (void)state;
    struct http_framing f;
    assert_int_equal(framing_of("", &f), 0);
    assert_true(!f.chunked && !f.has_length);
    assert_int_equal(framing_of("Content-Length: 120\r\n", &f), 0);
    assert_true(!f.chunked && f.has_length && f.length == 120);
    assert_int_equal(framing_of("Content-Length: 5\r\nTransfer-Encoding: Chunked\r\n", &f), 0);
    assert_true(f.chunked && !f.has_length);
    assert_int_equal(framing_of("Content-Length: -1\r\n", &f), -ERR_PROTOCOL);
    assert_int_equal(framing_of("Content-Length:\r\n", &f), -ERR_PROTOCOL);
    assert_int_equal(framing_of("Content-Length: 99999999999999999999\r\n", &f), -ERR_PROTOCOL);
    assert_int_equal(framing_of("Transfer-Encoding: gzip\r\n", &f), -ERR_PROTOCOL);
}

static int dechunk(const char *text, size_t max, const char *expected)
{
    CLEANUP_BUF struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, max);
    int rc = http_head_dechunk(view_of(text), &out, &err);
    if (rc >= 0) {
        assert_true(view_is(view_bytes(out.data, out.len), expected));
    }
    return rc;
}

static void chunks_are_joined(void **state)
{
    (void)state;
    assert_int_equal(dechunk("4\r\none \r\n3;x=y\r\ntwo\r\n0\r\n\r\n", 100, "one two"), 1);
    assert_int_equal(dechunk("A\r\n0123456789\r\na\r\nabc", 100, "0123456789abc"), 0);
    assert_int_equal(dechunk("A\r\n0123456789\r\n", 5, "01234"), 1);
    assert_int_equal(dechunk("", 5, ""), 0);
    assert_int_equal(dechunk("4", 5, ""), 0);
    assert_int_equal(dechunk("4\r\nfour", 5, "four"), 0);
    assert_int_equal(dechunk("4\r\nfour\r", 5, "four"), 0);
    assert_int_equal(dechunk("4\r\nfourXX", 5, ""), -ERR_PROTOCOL);
    assert_int_equal(dechunk("x\r\n", 5, ""), -ERR_PROTOCOL);
    assert_int_equal(dechunk("\r\n", 5, ""), -ERR_PROTOCOL);
    assert_int_equal(dechunk("4\nfour", 5, ""), -ERR_PROTOCOL);
    assert_int_equal(dechunk("fffffffffffffffff\r\n", 5, ""), -ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_read),
        cmocka_unit_test(every_beginning_of_a_head_waits_for_more),
        cmocka_unit_test(what_is_no_head_is_refused_at_once),
        cmocka_unit_test(size_and_number_are_bounded),
        cmocka_unit_test(the_end_of_a_body_is_known),
        cmocka_unit_test(chunks_are_joined),
    };
    return cmocka_run_group_tests_name("http heads", tests, NULL, NULL);
}
