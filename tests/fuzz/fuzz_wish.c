/*
 * What a process of the sandbox may say to the socket for packages. The first byte chooses how the
 * bytes are cut up; whatever the pieces, the same must come out, and what comes out is what a
 * worker takes.
 */
#include <string.h>

#include "proto/codec.h"
#include "proto/outcome.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent/installs/wish.h"

/* As wish_feed(), for all of it. */
static int feed_wish(struct wish *w, const uint8_t *data, size_t size, size_t piece)
{
    int rc = 0;
    for (size_t at = 0; at < size && rc >= 0; at += piece) {
        struct err err = ERR_INIT;
        size_t len = size - at < piece ? size - at : piece;
        rc = wish_feed(w, data + at, len, &err);
        FUZZ_REQUIRE(rc >= 0 || (rc == -ERR_INVALID && err.text[0] != '\0'));
        FUZZ_REQUIRE(w->text.len <= WISH_BYTES);
    }
    return rc;
}

static void require_same(const struct buf *a, const struct buf *b)
{
    FUZZ_REQUIRE(a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wish whole, pieces;
    struct buf one, other;
    struct err err = ERR_INIT;
    if (size < 1) {
        return 0;
    }
    wish_init(&whole);
    wish_init(&pieces);
    buf_init(&one, 2 * (size_t)WISH_BYTES);
    buf_init(&other, 2 * (size_t)WISH_BYTES);
    int rc = feed_wish(&whole, data + 1, size - 1, size);
    FUZZ_REQUIRE(feed_wish(&pieces, data + 1, size - 1, (size_t)data[0] + 1) == rc);
    if (rc == 1) {
        rc = wish_encode(&whole, 1, &one, &err);
        FUZZ_REQUIRE(rc == 0 || (rc == -ERR_INVALID && err.text[0] != '\0'));
        FUZZ_REQUIRE(wish_encode(&pieces, 1, &other, &err) == rc);
        require_same(&one, &other);
        struct view item = view_bytes(one.data, one.len);
        FUZZ_REQUIRE(rc < 0 || outcome_check_installs((struct view_list){&item, 1}, &err) == 0);
    }
    buf_finish(&other);
    buf_finish(&one);
    wish_finish(&pieces);
    wish_finish(&whole);
    return 0;
}
