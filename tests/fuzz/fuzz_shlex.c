/*
 * Command lines from anywhere: all words are within their allocation, and together are no longer
 * than the line.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/compat/shlex.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = alloc_viewdup(view_bytes((const char *)data, size));
    struct shlex *words = alloc_one(struct shlex);
    struct err err = ERR_INIT;
    if (shlex_split(line, words, &err) == 0) {
        size_t total = 0;
        FUZZ_REQUIRE(words->count <= LIMIT_LIST);
        for (size_t i = 0; i < words->count; i++) {
            struct view word = words->items[i];
            FUZZ_REQUIRE(word.data >= words->text);
            FUZZ_REQUIRE(word.len == 0 || memchr(word.data, '\0', word.len) == NULL);
            total += word.len;
        }
        FUZZ_REQUIRE(total <= strlen(line));
    } else {
        FUZZ_REQUIRE(err.text[0] != '\0');
    }
    shlex_finish(words);
    free(words);
    free(line);
    return 0;
}
