/*
 * Messages from a broken or hostile peer. Compiled once per link. A decoded message must encode
 * again, and must then decode to the same message.
 */
#include <string.h>

#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"

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
    FUZZ_REQUIRE(once.len <= size);
    msg_finish(&second);
    msg_finish(&first);
    buf_finish(&twice);
    buf_finish(&once);
    return 0;
}
