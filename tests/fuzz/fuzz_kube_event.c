/*
 * What an API server says in a watch, in pieces as the network has them: each line is an event or
 * is refused, and what the next watch is asked with can be part of a path.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/backend/kubernetes/event.h"
#include "worker/backend/lines.h"

static void check_line(struct view line)
{
    struct kube_event event;
    struct err err = ERR_INIT;
    if (kube_event_read(line, &event, &err) < 0) {
        FUZZ_REQUIRE(err.code == ERR_PROTOCOL && err.text[0] != '\0');
        return;
    }
    bool has_pod = event.kind == KUBE_EVENT_POD || event.kind == KUBE_EVENT_DELETED;
    FUZZ_REQUIRE(has_pod == (event.pod != NULL));
    FUZZ_REQUIRE((event.kind == KUBE_EVENT_ERROR) == (event.err.code != 0));
    for (const char *p = event.version; *p != '\0'; p++) {
        FUZZ_REQUIRE(strchr("/?&=%# ", *p) == NULL && (unsigned char)*p > ' ');
    }
    kube_event_finish(&event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines lines;
    size_t step = size > 0 ? 1 + data[0] : 1;
    lines_init(&lines, 1u << 16);
    for (size_t at = 0; at < size; at += step) {
        struct view piece = view_bytes(data + at, size - at < step ? size - at : step);
        struct view line;
        int rc;
        while ((rc = lines_next(&lines, &piece, &line, NULL)) > 0) {
            FUZZ_REQUIRE(line.len > 0 && memchr(line.data, '\n', line.len) == NULL);
            check_line(line);
        }
        if (rc < 0) {
            break;
        }
        FUZZ_REQUIRE(piece.len == 0);
    }
    lines_finish(&lines);
    return 0;
}
