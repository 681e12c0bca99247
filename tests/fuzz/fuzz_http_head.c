/*
 * The head of a response, whose sender may be no engine. Whatever the bytes are, nothing outside
 * them is read, an accepted head is within the limits, and none of its prefixes is refused. The
 * bytes after the head are read as a chunked body.
 */
#include <string.h>

#include "common/io/http_head.h"
#include "tests/fuzz/fuzz.h"

static void check_body(struct view body)
{
    struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, 64);
    int rc = http_head_dechunk(body, &out, &err);
    FUZZ_REQUIRE(out.len <= 64 && out.len <= body.len);
    FUZZ_REQUIRE(rc == 0 || rc == 1 || rc == -ERR_PROTOCOL);
    buf_finish(&out);
}

static void check_head(const char *data, size_t size, const struct http_head *head)
{
    FUZZ_REQUIRE(head->status >= 100 && head->status <= 599);
    FUZZ_REQUIRE(head->size <= size && head->size <= HTTP_HEAD_MAX_BYTES);
    FUZZ_REQUIRE(memcmp(data + head->size - 4, "\r\n\r\n", 4) == 0);
    FUZZ_REQUIRE(head->fields.len <= head->size);
    static const char *const names[] = {"Content-Type", "connection", "A", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct view value = http_head_value(head->fields, names[i]);
        FUZZ_REQUIRE(value.len <= head->fields.len);
        FUZZ_REQUIRE(value.len == 0 || memchr(value.data, '\n', value.len) == NULL);
    }
    struct http_framing framing;
    struct err err = ERR_INIT;
    int rc = http_head_framing(head, &framing, &err);
    FUZZ_REQUIRE(rc == -ERR_PROTOCOL || (rc == 0 && !(framing.chunked && framing.has_length)));
    for (size_t len = 0; len < head->size; len += 1 + head->size / 16) {
        struct http_head part;
        FUZZ_REQUIRE(http_head_parse(view_bytes(data, len), &part, &err) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct http_head head;
    struct err err = ERR_INIT;
    int rc = http_head_parse(view_bytes(text, size), &head, &err);
    FUZZ_REQUIRE(rc >= -ERR_PROTOCOL && rc <= 1);
    FUZZ_REQUIRE((rc < 0) == (err.code != 0));
    if (rc == 1) {
        check_head(text, size, &head);
        check_body(view_bytes(text + head.size, size - head.size));
    }
    /* also without a check of the lines, which is how libcurl's are read */
    struct view value = http_head_value(view_bytes(text, size), "A");
    FUZZ_REQUIRE(value.len <= size);
    return 0;
}
