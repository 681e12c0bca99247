/*
 * What a sandbox's daemon sends on a process stream: envelopes, and the events in them. The first
 * byte says after how many more bytes the reader looks again; what it finds must not depend on it.
 * What is told to people is on one line and has no secret.
 */
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "tests/fuzz/fuzz.h"
#include "worker/backend/e2b/envelope.h"
#include "worker/backend/e2b/event.h"

static char key[] = "5ecre7";
static char token[] = "70ken";
static const struct e2b_secrets secrets = {.key = key, .token = token};

static uint64_t mix(uint64_t sum, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) {
        sum = sum * 31 + bytes[i];
    }
    return sum * 31 + len;
}

static void check_line(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        FUZZ_REQUIRE((unsigned char)*p >= ' ' && *p != 0x7f);
    }
    FUZZ_REQUIRE(strstr(text, key) == NULL && strstr(text, token) == NULL);
}

static uint64_t read_message(uint64_t sum, struct view message, bool last, struct err *err)
{
    struct buf out;
    struct e2b_event event;
    struct err said = ERR_INIT;
    buf_init(&out, ENVELOPE_MESSAGE_MAX);
    int rc = last ? e2b_event_last(message, &secrets, &said)
                  : e2b_event_read(message, &secrets, &out, &event, err);
    FUZZ_REQUIRE(!last || (rc < 0 && said.text[0] != '\0'));
    if (last) {
        check_line(said.text);
    } else if (rc == 0) {
        check_line(event.kind == E2B_EVENT_ENDED ? event.words : "");
        FUZZ_REQUIRE(event.kind != E2B_EVENT_STARTED || event.pid > 0);
        sum = mix(sum, out.data, out.len) + (uint64_t)event.kind;
    } else {
        FUZZ_REQUIRE(rc == -ERR_NO_MEMORY || err->text[0] != '\0');
    }
    buf_finish(&out);
    return rc < 0 && !last ? 0 : sum + 1;
}

/* A hash of all that was said, 0 if it made no sense. */
static uint64_t read_stream(const uint8_t *data, size_t size, size_t step)
{
    uint64_t sum = 1;
    size_t at = 0;
    for (size_t end = step < size ? step : size; sum != 0;
         end = size - end > step ? end + step : size) {
        struct view message;
        struct err err = ERR_INIT;
        size_t used;
        bool last;
        int rc;
        while (sum != 0 && (rc = envelope_next(view_bytes(data + at, end - at), &message, &used,
                                               &last, &err)) != 0) {
            FUZZ_REQUIRE(rc == 1 || rc == -ERR_PROTOCOL || rc == -ERR_TOO_BIG);
            sum = rc < 0 ? 0 : read_message(sum, message, last, &err);
            at += rc > 0 ? used : 0;
            FUZZ_REQUIRE(at <= end);
        }
        if (end == size) {
            break;
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t step = (size_t)data[0] + 1;
    FUZZ_REQUIRE(read_stream(data + 1, size - 1, size) == read_stream(data + 1, size - 1, step));
    return 0;
}
