/*
 * Text from user code for a client: whatever the bytes are, the result is UTF-8 without NUL, and
 * valid text stays unchanged.
 */
#include <string.h>

#include "common/str.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    size_t prefix = utf8_valid_prefix(text, size);
    FUZZ_REQUIRE(prefix <= size && utf8_valid(text, prefix));
    FUZZ_REQUIRE(utf8_valid(text, size) == (prefix == size));

    struct buf out;
    buf_init(&out, 3 * size + 3);
    struct err err = ERR_INIT;
    FUZZ_REQUIRE(utf8_add_lossy(&out, text, size, &err) == 0);
    const char *made = (const char *)out.data;
    FUZZ_REQUIRE(out.len == 0 || utf8_valid(made, out.len));
    FUZZ_REQUIRE(out.len == 0 || memchr(made, '\0', out.len) == NULL);
    if (prefix == size && (size == 0 || memchr(text, '\0', size) == NULL)) {
        FUZZ_REQUIRE(out.len == size && (size == 0 || memcmp(made, text, size) == 0));
    }
    buf_finish(&out);
    return 0;
}
