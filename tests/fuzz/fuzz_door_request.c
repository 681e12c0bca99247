/*
 * The head of a request to a door, from hostile code. Whatever is taken names one host and port,
 * and what a server is told of it is again one request with one target, of the same host. The same
 * bytes are read as an answer, of which the same is said on whatever the pieces are.
 */
#include <string.h>

#include "proto/limits.h"
#include "tests/fuzz/fuzz.h"
#include "worker/door/request.h"
#include "worker/door/response.h"

static bool is_line_of(struct view target, const char *scheme)
{
    return target.len >= strlen(scheme) && memcmp(target.data, scheme, strlen(scheme)) == 0;
}

/* One head, and nothing behind it that would be another. */
static void require_told(const struct door_request *r, bool by_proxy)
{
    struct buf out;
    struct http_head head;
    struct err err = ERR_INIT;
    buf_init(&out, DOOR_REQUEST_BYTES);
    int rc = door_request_write(r, by_proxy, "Basic eA==", &out, &err);
    FUZZ_REQUIRE(rc == 0 || rc == -ERR_TOO_BIG);
    if (rc == 0 && r->tunnel && !by_proxy) {
        FUZZ_REQUIRE(out.len == 0);
    } else if (rc == 0 && out.len <= HTTP_HEAD_MAX_BYTES) {
        struct view told = view_bytes(out.data, out.len);
        rc = http_head_parse_request(told, &head, &err);
        FUZZ_REQUIRE(rc == 1 || rc == -ERR_TOO_BIG); /* one field more than there may be */
        if (rc == 1) {
            char host[AUTHORITY_TEXT_SIZE];
            struct authority to;
            FUZZ_REQUIRE(head.size == out.len);
            FUZZ_REQUIRE(view_same(head.method, r->head.method));
            FUZZ_REQUIRE(r->tunnel || is_line_of(head.target, by_proxy ? "http://" : "/"));
            FUZZ_REQUIRE(authority_parse(http_head_value(head.fields, "Host"), &to));
            to.port = to.port != 0 ? to.port : 80;
            FUZZ_REQUIRE(authority_same(&to, &r->to));
            authority_print(&r->to, host);
            FUZZ_REQUIRE(!r->tunnel || view_is(head.target, host));
            FUZZ_REQUIRE(r->tunnel || view_is(http_head_value(head.fields, "Connection"), "close"));
        }
    }
    buf_finish(&out);
}

/* Returns what door_response_pass() does, at the first error. */
static int pass_in_pieces(struct view text, size_t piece, struct buf *out)
{
    struct door_response r;
    int rc = 0;
    door_response_init(&r);
    for (size_t at = 0; at < text.len && rc == 0; at += piece) {
        size_t len = text.len - at < piece ? text.len - at : piece;
        rc = door_response_pass(&r, view_bytes(text.data + at, len), out, NULL);
    }
    rc = rc < 0 ? rc : buf_add(out, r.head.data, r.head.len, NULL); /* as at its end */
    door_response_finish(&r);
    return rc;
}

static void require_said_on(struct view text)
{
    struct buf whole, pieces;
    buf_init(&whole, LIMIT_DOOR_CHUNK + DOOR_RESPONSE_MORE);
    buf_init(&pieces, LIMIT_DOOR_CHUNK + DOOR_RESPONSE_MORE);
    int rc = pass_in_pieces(text, LIMIT_DOOR_CHUNK, &whole);
    int same = pass_in_pieces(text, 7, &pieces);
    bool equal = whole.len == pieces.len &&
                 (whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0);
    buf_finish(&pieces);
    buf_finish(&whole);
    FUZZ_REQUIRE(rc == 0 && same == 0 && equal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = view_bytes(data, size);
    struct door_request r;
    struct err err = ERR_INIT;
    if (size <= LIMIT_DOOR_CHUNK) {
        require_said_on(text);
    }
    int rc = door_request_read(text, &r, &err);
    FUZZ_REQUIRE(rc == 1 || rc == 0 || rc == -ERR_PROTOCOL || rc == -ERR_TOO_BIG);
    FUZZ_REQUIRE((rc < 0) == (err.text[0] != '\0'));
    if (rc != 1) {
        return 0;
    }
    FUZZ_REQUIRE(r.to.host[0] != '\0' && r.to.port != 0);
    FUZZ_REQUIRE(r.head.size <= size && r.head.size <= HTTP_HEAD_MAX_BYTES);
    FUZZ_REQUIRE(r.tunnel == (r.body == UINT64_MAX));
    for (size_t len = 0; len < r.head.size; len += 1 + r.head.size / 16) {
        struct door_request part;
        FUZZ_REQUIRE(door_request_read(view_bytes(text.data, len), &part, &err) == 0);
    }
    require_told(&r, false);
    require_told(&r, true);
    return 0;
}
