/*
 * A client's traceparent. Whatever is read as one has ids of hexadecimal digits that are not all
 * zero, as they stand in the text; anything else leaves the result alone.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/traces/traceparent.h"
#include "tests/fuzz/fuzz.h"

#define TRACE_AT 3
#define SPAN_AT  (TRACE_AT + TRACE_ID_CHARS + 1)

static void check_id(const char *id, size_t chars, const char *in_text)
{
    FUZZ_REQUIRE(strlen(id) == chars && strspn(id, "0123456789abcdef") == chars);
    FUZZ_REQUIRE(strspn(id, "0") < chars && memcmp(id, in_text, chars) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = alloc_viewdup(view_bytes((const char *)data, size));
    struct traceparent p = {.trace_id = "untouched"};
    if (traceparent_read(text, &p)) {
        check_id(p.trace_id, TRACE_ID_CHARS, text + TRACE_AT);
        check_id(p.span_id, SPAN_ID_CHARS, text + SPAN_AT);
    } else {
        FUZZ_REQUIRE(strcmp(p.trace_id, "untouched") == 0);
    }
    free(text);
    return 0;
}
