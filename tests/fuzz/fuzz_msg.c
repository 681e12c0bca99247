/*
 * Messages from a broken or hostile peer. Compiled once per link. A decoded message must encode
 * again, and must then decode to the same message.
 */
#include <string.h>

#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"

/* A frame whose data is written from elsewhere is the same on the wire. */
static void require_around(const struct msg *m)
{
    struct buf whole, around;
    size_t at = 0;
    size_t data = m->start.data.len;
    buf_init(&whole, LIMIT_FRAME + 4);
    buf_init(&around, LIMIT_FRAME + 4);
    FUZZ_REQUIRE(msg_encode_frame(&whole, m, NULL) == 0);
    FUZZ_REQUIRE(msg_encode_frame_around(&around, m, &m->start.data, &at, NULL) == 0);
    FUZZ_REQUIRE(at <= around.len && around.len + data == whole.len);
    FUZZ_REQUIRE(memcmp(whole.data, around.data, at) == 0);
    FUZZ_REQUIRE(data == 0 || memcmp(whole.data + at, m->start.data.data, data) == 0);
    FUZZ_REQUIRE(memcmp(whole.data + at + data, around.data + at, around.len - at) == 0);
    buf_finish(&around);
    buf_finish(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct msg first, second;
    struct err err = ERR_INIT;
    if (msg_decode(FUZZ_LINK, data, size, &first, &err) < 0) {
        FUZZ_REQUIRE(err.code != 0 && err.text[0] != '\0');
        return 0;
    }
    FUZZ_REQUIRE(msg_schema_find((uint64_t)first.type) != NULL);

    struct buf once, twice;
    buf_init(&once, LIMIT_FRAME);
    buf_init(&twice, LIMIT_FRAME);
    FUZZ_REQUIRE(msg_encode(&once, &first, &err) == 0);
    FUZZ_REQUIRE(msg_decode(FUZZ_LINK, once.data, once.len, &second, &err) == 0);
    FUZZ_REQUIRE(msg_encode(&twice, &second, &err) == 0);
    FUZZ_REQUIRE(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    FUZZ_REQUIRE(once.len <= size && once.len <= msg_encode_bound(&first));
    if (first.type == MSG_START) {
        require_around(&first);
    }
    msg_finish(&second);
    msg_finish(&first);
    buf_finish(&twice);
    buf_finish(&once);
    return 0;
}
