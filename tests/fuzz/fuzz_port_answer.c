/*
 * Answers of web servers in sandboxes, as they are passed on to browsers. The first byte is a
 * method; then come head and body. What is accepted has one length, no parts with heads of their
 * own, and leads nowhere else; and its body is the same however it is cut into pieces. Two of its
 * headers are read as what is said of caching, and as what a page asks to send.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/web/ports/body.h"
#include "supervisor/web/ports/head.h"
#include "tests/fuzz/fuzz.h"

struct decoded {
    struct buf out;
    int rc;
    bool whole;
};

static struct decoded decode(struct view body, const struct port_answer *a, size_t piece)
{
    struct decoded d = {.rc = 0};
    struct port_body b;
    struct err err = ERR_INIT;
    buf_init(&d.out, body.len);
    port_body_init(&b, a->has_body, &a->framing);
    for (size_t at = 0; at < body.len && d.rc == 0; at += piece) {
        struct view data =
            view_bytes(body.data + at, body.len - at < piece ? body.len - at : piece);
        while (data.len > 0 && d.rc == 0 && !port_body_is_whole(&b)) {
            struct view part;
            d.rc = port_body_take(&b, &data, &part, &err);
            FUZZ_REQUIRE(d.rc == 0 || d.rc == -ERR_PROTOCOL);
            if (d.rc == 0) {
                FUZZ_REQUIRE(buf_add(&d.out, part.data, part.len, &err) == 0);
            }
        }
    }
    d.whole = port_body_is_whole(&b);
    return d;
}

static void check_body(struct view body, const struct port_answer *a)
{
    struct decoded whole = decode(body, a, body.len + 1);
    for (size_t piece = 1; piece < 4; piece++) {
        struct decoded cut = decode(body, a, piece);
        FUZZ_REQUIRE(cut.rc == whole.rc && cut.whole == whole.whole);
        FUZZ_REQUIRE(cut.out.len == whole.out.len);
        FUZZ_REQUIRE(cut.out.len == 0 || memcmp(cut.out.data, whole.out.data, cut.out.len) == 0);
        buf_finish(&cut.out);
    }
    FUZZ_REQUIRE(a->has_body || (whole.whole && whole.out.len == 0));
    FUZZ_REQUIRE(!a->framing.has_length || whole.out.len <= a->framing.length);
    buf_finish(&whole.out);
}

static void check_caching(const char *said)
{
    char *shown = port_head_caching(said);
    FUZZ_REQUIRE(strncmp(shown, "private, ", 9) == 0 || strcmp(shown, said) == 0);
    FUZZ_REQUIRE(strcasestr(shown, "private") != NULL || strcasestr(shown, "no-store") != NULL);
    FUZZ_REQUIRE(strcasestr(shown, "public") == NULL);
    free(shown);
}

static void check_allowed(const char *asked)
{
    char *none = port_head_allowed(NULL), *some = port_head_allowed(asked);
    size_t len = strlen(none);
    FUZZ_REQUIRE(strncmp(some, none, len) == 0 && strlen(some) <= PORT_NAMES_MAX);
    FUZZ_REQUIRE(some[len] == '\0' || strncmp(some + len, ", ", 2) == 0);
    FUZZ_REQUIRE(strpbrk(some, "\r\n\t\":;") == NULL);
    free(none);
    free(some);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "POST"};
    static const struct port_address address = {.port = 8000, .rest = "/a/b?c"};
    struct http_head head;
    struct port_answer answer;
    struct err err = ERR_INIT;
    if (size == 0) {
        return 0;
    }
    const char *method = methods[data[0] % 3];
    struct view text = view_bytes((const char *)data + 1, size - 1);
    if (http_head_parse(text, &head, &err) != 1) {
        return 0;
    }
    char *caching = alloc_viewdup(http_head_value(head.fields, "Cache-Control"));
    char *asked = alloc_viewdup(http_head_value(head.fields, "Access-Control-Request-Headers"));
    check_caching(caching);
    check_allowed(asked);
    free(caching);
    free(asked);
    if (port_head_answer(&head, method, &address, &answer, &err) < 0) {
        FUZZ_REQUIRE(err.code == ERR_PROTOCOL);
        return 0;
    }
    FUZZ_REQUIRE(answer.status >= 200 && answer.status <= 599);
    FUZZ_REQUIRE(answer.type == NULL || strcasestr(answer.type, "multipart/") == NULL);
    FUZZ_REQUIRE(answer.location == NULL || strncmp(answer.location, "./../", 5) == 0);
    FUZZ_REQUIRE(!(answer.framing.chunked && answer.framing.has_length));
    check_body(view_bytes(text.data + head.size, text.len - head.size), &answer);
    port_answer_finish(&answer);
    return 0;
}
