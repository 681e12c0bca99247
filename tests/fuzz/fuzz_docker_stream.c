/*
 * An engine's hijacked stream, and its answer while it pulls an image. The first byte chooses how
 * the bytes are cut into pieces; the result must not depend on the pieces.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/backend/docker/frames.h"
#include "worker/backend/docker/pull.h"

/* A hash of all pieces with their types, or 0 if the stream is malformed. */
static uint64_t unframe(const uint8_t *data, size_t size, size_t step, uint64_t *ret_bytes)
{
    struct docker_frames frames = DOCKER_FRAMES_INIT;
    struct err err = ERR_INIT;
    uint64_t sum = 1;
    *ret_bytes = 0;
    for (size_t at = 0; at < size; at += step) {
        struct view rest = view_bytes(data + at, size - at < step ? size - at : step);
        struct view piece;
        enum docker_stream_type type;
        int rc;
        while ((rc = docker_frames_next(&frames, &rest, &type, &piece, &err)) > 0) {
            FUZZ_REQUIRE(piece.len > 0 && type <= DOCKER_SYSTEM_ERROR);
            for (size_t i = 0; i < piece.len; i++) {
                sum = sum * 31 + (uint8_t)piece.data[i] + (uint64_t)type * 257;
            }
            *ret_bytes += piece.len;
        }
        if (rc < 0) {
            FUZZ_REQUIRE(rc == -ERR_PROTOCOL && err.text[0] != '\0');
            return 0;
        }
        FUZZ_REQUIRE(rest.len == 0);
    }
    return sum;
}

static void pull(const uint8_t *data, size_t size, size_t step, struct docker_pull *p)
{
    struct err err = ERR_INIT;
    docker_pull_init(p);
    for (size_t at = 0; at < size; at += step) {
        struct view piece = view_bytes(data + at, size - at < step ? size - at : step);
        if (docker_pull_feed(p, piece, &err) < 0) {
            FUZZ_REQUIRE(err.code == ERR_TOO_BIG);
            return;
        }
    }
    FUZZ_REQUIRE(p->layer_count <= DOCKER_PULL_LAYERS && p->done <= p->total);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t step = (size_t)data[0] + 1;
    data++;
    size--;
    uint64_t bytes, bytes_in_pieces;
    uint64_t sum = unframe(data, size, size, &bytes);
    FUZZ_REQUIRE(unframe(data, size, step, &bytes_in_pieces) == sum);
    FUZZ_REQUIRE(sum == 0 || bytes == bytes_in_pieces);

    struct docker_pull whole, pieces;
    pull(data, size, size, &whole);
    pull(data, size, step, &pieces);
    FUZZ_REQUIRE(whole.done == pieces.done && whole.total == pieces.total);
    FUZZ_REQUIRE(strcmp(whole.status, pieces.status) == 0 &&
                 strcmp(whole.error, pieces.error) == 0);
    docker_pull_finish(&pieces);
    docker_pull_finish(&whole);
    return 0;
}
