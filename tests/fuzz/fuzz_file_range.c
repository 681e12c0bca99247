/*
 * Range headers from clients: every range that is read from one lies within the file.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/view.h"
#include "supervisor/web/files/headers.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t sizes[] = {0, 1, 10, 4096, (uint64_t)INT64_MAX};
    char *header = alloc_viewdup(view_bytes((const char *)data, size));
    struct file_range r = file_range_parse(header);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t at, end;
        if (file_range_fit(&r, sizes[i], &at, &end)) {
            FUZZ_REQUIRE(at <= end && end <= sizes[i]);
            FUZZ_REQUIRE(r.asked ? at < end : at == 0 && end == sizes[i]);
        } else {
            FUZZ_REQUIRE(r.asked);
        }
    }
    free(header);
    return 0;
}
