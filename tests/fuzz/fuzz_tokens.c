/*
 * The file of tokens. Whatever the bytes are, it is read whole or not at all, an error names a line
 * and quotes nothing of the file, and only clients of the file are found.
 */
#include <string.h>

#include "supervisor/web/auth/tokens.h"
#include "tests/fuzz/fuzz.h"

#define NOW_MS (UINT64_C(1767225600) * 1000)

/* The error consists of these words, so the input cannot have added others. */
static void check_error(const struct err *err, size_t size)
{
    size_t line = 0;
    int end = 0;
    FUZZ_REQUIRE(err->code == ERR_CONFIG);
    FUZZ_REQUIRE(sscanf(err->text, "line %zu: %n", &line, &end) == 1 && end > 0);
    FUZZ_REQUIRE(line >= 1 && line <= size + 1);
    for (const char *p = err->text; *p != '\0'; p++) {
        FUZZ_REQUIRE(*p >= ' ' && *p < 0x7f);
    }
}

static void check_tokens(const struct tokens *t, const uint8_t *data, size_t size)
{
    unsigned char digest[WEB_DIGEST_BYTES] = {0};
    FUZZ_REQUIRE(tokens_count(t) <= TOKENS_MAX && tokens_count(t) <= size / 3);
    memcpy(digest, data, size < sizeof(digest) ? size : sizeof(digest));
    const struct principal *p = tokens_find(t, digest, NOW_MS);
    FUZZ_REQUIRE(p == NULL || tokens_name_ok(p->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct principal_limits limits = {1, 2, 3};
    struct tokens *t = NULL;
    struct err err = ERR_INIT;
    bool plain = false;
    if (tokens_read(view_bytes(data, size), &limits, NOW_MS, &t, &plain, &err) < 0) {
        FUZZ_REQUIRE(t == NULL);
        check_error(&err, size);
        return 0;
    }
    FUZZ_REQUIRE(err.text[0] == '\0');
    check_tokens(t, data, size);
    tokens_destroy(t);
    return 0;
}
