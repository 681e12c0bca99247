/*
 * Code as models send it. The code that runs is at most as long as what was sent, plus the end of
 * the last line. It is a part of what was sent, except for Python, whose lines lose common
 * indentation. Removing escape sequences never makes text longer, and leaves none in it.
 */
#include <string.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "supervisor/tools/cell.h"
#include "tests/fuzz/fuzz.h"

static void check(const char *language, struct view code)
{
    CLEANUP_BUF struct buf room;
    struct view cell = cell_code(language, code, &room);
    bool part = cell.data >= code.data && cell.data + cell.len <= code.data + code.len;
    FUZZ_REQUIRE(cell.len <= code.len + 1);
    FUZZ_REQUIRE(cell.len == 0 || part || cell.data == (const char *)room.data);
    FUZZ_REQUIRE(part || strcmp(language, "python") == 0 || cell.len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view code = view_bytes((const char *)data, size);
    check("python", code);
    check("bash", code);
    CLEANUP_BUF struct buf text;
    buf_init(&text, size + 1);
    FUZZ_REQUIRE(buf_add(&text, data, size, NULL) == 0);
    text_strip_escapes(&text);
    FUZZ_REQUIRE(text.len <= size);
    FUZZ_REQUIRE(text.len == 0 || memchr(text.data, 0x1b, text.len) == NULL);
    return 0;
}
