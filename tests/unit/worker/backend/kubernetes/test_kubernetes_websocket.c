/*
 * RFC 6455 from the client's side: the example of its section 1.3, frames that are sent, and frames
 * that come in any pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/backend/kubernetes/websocket.h"

static void the_handshake_is_that_of_the_standard(void **state)
{
    char accept[WEBSOCKET_ACCEPT_SIZE], one[WEBSOCKET_KEY_SIZE], two[WEBSOCKET_KEY_SIZE];
    (void)state;
    websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_int_equal(websocket_key(one, NULL), 0);
    assert_int_equal(websocket_key(two, NULL), 0);
    assert_int_equal(strlen(one), WEBSOCKET_KEY_SIZE - 1);
    assert_string_not_equal(one, two);
}

static void what_is_sent_is_whole_and_masked(void **state)
{
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    uint8_t head[WEBSOCKET_HEAD_MAX];
    uint8_t hello[] = {'H', 'e', 'l', 'l', 'o'};
    (void)state;
    assert_int_equal(websocket_head(WEBSOCKET_TEXT, 5, mask, head), 6);
    assert_memory_equal(head, "\x81\x85\x37\xfa\x21\x3d", 6);
    websocket_mask(mask, hello, sizeof(hello));
    assert_memory_equal(hello, "\x7f\x9f\x4d\x51\x58", 5); /* of section 5.7 */
    assert_int_equal(websocket_head(WEBSOCKET_BINARY, 300, mask, head), 8);
    assert_memory_equal(head, "\x82\xfe\x01\x2c", 4);
    assert_int_equal(websocket_head(WEBSOCKET_BINARY, 70000, mask, head), 14);
    assert_memory_equal(head, "\x82\xff\0\0\0\0\0\1\x11\x70", 10);
}

/* All data of messages, with '|' behind each, and control frames as "<opcode:data>". */
static int read_all(const char *bytes, size_t len, size_t step, char *ret, struct err *err)
{
    struct websocket_reader r = WEBSOCKET_READER_INIT;
    size_t out = 0;
    for (size_t at = 0; at < len; at += step) {
        struct view rest = view_bytes(bytes + at, len - at < step ? len - at : step);
        struct websocket_piece p;
        int rc;
        while ((rc = websocket_next(&r, &rest, &p, err)) > 0) {
            if (p.opcode != WEBSOCKET_BINARY) {
                ret[out++] = '<';
                ret[out++] = (char)('0' + p.opcode);
            }
            if (p.data.len > 0) {
                memcpy(ret + out, p.data.data, p.data.len);
                out += p.data.len;
            }
            if (p.opcode != WEBSOCKET_BINARY || p.ends) {
                ret[out++] = p.opcode != WEBSOCKET_BINARY ? '>' : '|';
            }
        }
        if (rc < 0) {
            return rc;
        }
        assert_int_equal(rest.len, 0);
    }
    ret[out] = '\0';
    return 0;
}

static void frames_come_in_any_pieces(void **state)
{
    static const char stream[] = "\x82\x05hello"
                                 "\x02\x03one"  /* a fragment, */
                                 "\x89\x02hi"   /* with a ping in between, */
                                 "\x80\x04 two" /* and its end */
                                 "\x82\x00"     /* an empty message */
                                 "\x82\x7e\x00\x03"
                                 "abc" /* a longer form of a length */
                                 "\x88\x02\x33\x34";
    char out[128];
    (void)state;
    for (size_t step = 1; step < sizeof(stream); step++) {
        struct err err = ERR_INIT;
        assert_int_equal(read_all(stream, sizeof(stream) - 1, step, out, &err), 0);
        assert_string_equal(out, "hello|one<9hi> two||abc|<834>");
    }
}

static void what_no_server_may_send_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int code;
    } rows[] = {
        {"\x82\x81", 2, -ERR_PROTOCOL}, /* a mask */
        {"\xc2\x01", 2, -ERR_PROTOCOL}, /* a bit of an extension */
        {"\x83\x01", 2, -ERR_PROTOCOL}, /* an unknown opcode */
        {"\x80\x01", 2, -ERR_PROTOCOL}, /* a continuation of nothing */
        {"\x02\x01"
         "a\x82\x01",
         5, -ERR_PROTOCOL},                     /* a message within a message */
        {"\x09\x01", 2, -ERR_PROTOCOL},         /* a ping in parts */
        {"\x89\x7e\x00\x7e", 4, -ERR_PROTOCOL}, /* a long ping */
        {"\x8b\x00", 2, -ERR_PROTOCOL},         /* an unknown control frame */
        {"\x82\x7f\x00\x00\x00\x00\x7f\xff\xff\xff", 10, -ERR_TOO_BIG},
        {"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10, -ERR_TOO_BIG},
    };
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_INIT;
        assert_int_equal(read_all(rows[i].bytes, rows[i].len, 1, out, &err), rows[i].code);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handshake_is_that_of_the_standard),
        cmocka_unit_test(what_is_sent_is_whole_and_masked),
        cmocka_unit_test(frames_come_in_any_pieces),
        cmocka_unit_test(what_no_server_may_send_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
