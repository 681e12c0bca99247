/*
 * Frames that arrive in pieces must be read as if all bytes had come at once. The first byte
 * chooses the size of the pieces.
 */
#include <string.h>

#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"

enum { FRAME_MAX_BYTES = 4096 };

/* Removes all whole frames from the start of data; returns bytes used, or -1 if the stream is
 * malformed. */
static long take_frames(const uint8_t *data, size_t size, struct buf *payloads)
{
    size_t at = 0;
    for (;;) {
        struct view payload;
        size_t used = 0;
        struct err err = ERR_INIT;
        int rc = frame_next(data + at, size - at, FRAME_MAX_BYTES, &payload, &used, &err);
        if (rc < 0) {
            FUZZ_REQUIRE(rc == -ERR_PROTOCOL);
            return -1;
        }
        if (rc == 0) {
            return (long)at;
        }
        FUZZ_REQUIRE(used == payload.len + 4 && used <= size - at);
        FUZZ_REQUIRE(payload.len <= FRAME_MAX_BYTES);
        FUZZ_REQUIRE(buf_add(payloads, payload.data, payload.len, &err) == 0);
        at += used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1;
    data++;
    size--;

    struct buf whole, pieces, stream;
    buf_init(&whole, size);
    buf_init(&pieces, size);
    buf_init(&stream, size);
    long used = take_frames(data, size, &whole);

    long used_in_pieces = 0;
    for (size_t at = 0; at < size && used_in_pieces >= 0; at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        struct err err = ERR_INIT;
        FUZZ_REQUIRE(buf_add(&stream, data + at, len, &err) == 0);
        long taken = take_frames(stream.data, stream.len, &pieces);
        if (taken > 0) {
            buf_consume(&stream, (size_t)taken);
        }
        used_in_pieces = taken < 0 ? -1 : used_in_pieces + taken;
    }
    FUZZ_REQUIRE(used == used_in_pieces);
    FUZZ_REQUIRE(whole.len == pieces.len);
    FUZZ_REQUIRE(whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0);
    buf_finish(&stream);
    buf_finish(&pieces);
    buf_finish(&whole);
    return 0;
}
