/*
 * What a server sends over a WebSocket, and the Status at the end of an exec. The first byte
 * chooses how the bytes are cut into pieces; the result must not depend on the pieces.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/backend/kubernetes/stream.h"
#include "worker/backend/kubernetes/websocket.h"

/* A hash of all data and control frames, or 0 if the stream is malformed. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t step)
{
    struct websocket_reader r = WEBSOCKET_READER_INIT;
    struct err err = ERR_INIT;
    uint64_t sum = 1;
    for (size_t at = 0; at < size; at += step) {
        struct view rest = view_bytes(data + at, size - at < step ? size - at : step);
        struct websocket_piece p;
        int rc;
        while ((rc = websocket_next(&r, &rest, &p, &err)) > 0) {
            bool control = p.opcode != WEBSOCKET_BINARY;
            FUZZ_REQUIRE(!control || p.data.len <= WEBSOCKET_CONTROL_MAX);
            FUZZ_REQUIRE(p.data.len > 0 || p.ends || control);
            for (size_t i = 0; i < p.data.len; i++) {
                sum = sum * 31 + (uint8_t)p.data.data[i] + (uint64_t)p.opcode * 257;
            }
            if (p.ends || control) {
                sum = sum * 31 + 7;
            }
        }
        if (rc < 0) {
            FUZZ_REQUIRE((rc == -ERR_PROTOCOL || rc == -ERR_TOO_BIG) && err.text[0] != '\0');
            return 0;
        }
        FUZZ_REQUIRE(rest.len == 0);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t step = (size_t)data[0] + 1;
    data++;
    size--;
    FUZZ_REQUIRE(read_all(data, size, size) == read_all(data, size, step));
    char *outcome = kube_stream_outcome(view_bytes(data, size));
    for (const char *p = outcome; *p != '\0'; p++) {
        FUZZ_REQUIRE((unsigned char)*p >= ' ' && *p != 0x7f);
    }
    free(outcome);
    return 0;
}
