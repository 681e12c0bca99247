/*
 * The head of a request to a door, from hostile code. Whatever is taken names one host and port,
 * and what a server is told of it is again one request with one target, of the same host.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/door/request.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = view_bytes(data, size);
    struct door_request r;
    struct err err = ERR_INIT;
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
