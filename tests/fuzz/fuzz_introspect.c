/*
 * An issuer's answer about a token. Whatever the bytes are, an accepted client's name differs from
 * all names in the file of tokens, and an answer is only accepted if it names our URL.
 */
#include <string.h>

#include "supervisor/web/auth/introspect_answer.h"
#include "supervisor/web/auth/tokens.h"
#include "tests/fuzz/fuzz.h"

#define AUDIENCE "http://us/mcp"
#define NOW_S    UINT64_C(1767225600)

static void check_good(const struct introspect_answer *a)
{
    static const char place[] = "@i.s";
    size_t len = strlen(a->name);
    FUZZ_REQUIRE(len > strlen(place));
    FUZZ_REQUIRE(strcmp(a->name + len - strlen(place), place) == 0);
    FUZZ_REQUIRE(!tokens_name_ok(a->name));
    for (const char *p = a->name; *p != '\0'; p++) {
        FUZZ_REQUIRE(*p > ' ' && *p < 0x7f);
    }
    FUZZ_REQUIRE(a->good_s > 0);
    FUZZ_REQUIRE(a->why[0] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct introspect_expect expect = {"https://i.s", "i.s", AUDIENCE, "read"};
    struct introspect_answer a = {.name = NULL};
    struct err err = ERR_INIT;
    struct view body = view_bytes(data, size);
    if (introspect_answer_read(body, &expect, NOW_S, &a, &err) < 0) {
        FUZZ_REQUIRE(err.code == ERR_PROTOCOL && err.text[0] != '\0' && a.name == NULL);
        return 0;
    }
    if (a.verdict == INTROSPECT_GOOD) {
        check_good(&a);
        /* the same answer is not valid for another server */
        const struct introspect_expect other = {"https://i.s", "i.s", "http://them/mcp", "read"};
        struct introspect_answer b = {.name = NULL};
        FUZZ_REQUIRE(introspect_answer_read(body, &other, NOW_S, &b, &err) == 0);
        FUZZ_REQUIRE(b.verdict == INTROSPECT_BAD || memmem(data, size, "them", 4) != NULL ||
                     memchr(data, '\\', size) != NULL);
        free(b.name);
    } else {
        FUZZ_REQUIRE(a.name == NULL && a.why[0] != '\0');
    }
    free(a.name);
    return 0;
}
