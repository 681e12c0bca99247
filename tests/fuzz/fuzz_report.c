/*
 * Records from a driver that user code has taken over. The first byte chooses the sender and how
 * the bytes are cut into pieces; the outcome must not depend on the pieces.
 */
#include <string.h>

#include "proto/outcome.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent/link/report.h"

/* Requires that a worker would accept the displays. Returns their size in bytes. */
static size_t require_displays(const struct report *r)
{
    struct err err = ERR_INIT;
    struct view items[LIMIT_DISPLAYS];
    struct view_list list = framed_list(&r->displays, items, LIMIT_DISPLAYS);
    FUZZ_REQUIRE(list.count == r->displays.count);
    FUZZ_REQUIRE(outcome_check_displays(list, &err) == 0);
    return r->displays.bytes.len;
}

/* Feeds all of it; returns how many runs have ended, or -1 if the sender broke the protocol. */
static int feed(struct report *r, const uint8_t *data, size_t size, size_t piece, uint64_t *ret_sum)
{
    int runs = 0;
    size_t at = 0;
    while (at < size) {
        size_t len = size - at < piece ? size - at : piece;
        size_t used = 0;
        struct err err = ERR_INIT;
        int rc = report_feed(r, data + at, len, &used, &err);
        if (rc < 0) {
            FUZZ_REQUIRE(rc == -ERR_PROTOCOL && err.text[0] != '\0');
            return -1;
        }
        FUZZ_REQUIRE(used <= len && (used == len || r->done));
        at += used;
        if (r->done) {
            *ret_sum += r->run + r->result.len + r->message.len + r->traceback.len + r->file_size +
                        r->watches + require_displays(r);
            runs++;
            report_reset(r);
        }
    }
    return runs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    static const char *const senders[] = {REPORT_OF_FILE, REPORT_OF_RUN, REPORT_OF_SCAN,
                                          REPORT_OF_RUN};
    const char *allowed = senders[data[0] % 4];
    size_t piece = (size_t)(data[0] >> 2) + 1;
    struct report whole, pieces;
    report_init(&whole, allowed);
    report_init(&pieces, allowed);
    uint64_t sum = 0, sum_of_pieces = 0;
    int runs = feed(&whole, data + 1, size - 1, size, &sum);
    FUZZ_REQUIRE(feed(&pieces, data + 1, size - 1, piece, &sum_of_pieces) == runs);
    FUZZ_REQUIRE(runs < 0 || sum == sum_of_pieces);
    report_finish(&pieces);
    report_finish(&whole);
    return 0;
}
