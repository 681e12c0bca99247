/*
 * A progress message shows only the latest output, since the result has all. It has the end of each
 * stream, cut between characters and marked if something precedes it. Budgets count escaped bytes:
 * control characters are six times as long in JSON.
 */
#include "supervisor/tools/output.h"

#include <inttypes.h>

#include "common/text.h"

#define MARKS_BYTES  150 /* for our own text */
#define ERR_BYTES    300 /* for stderr, if stdout needs the rest */
#define STREAM_BYTES (OUTPUT_MESSAGE_BYTES - MARKS_BYTES)

static bool fits_message(struct view v, size_t from, size_t max_cost)
{
    struct view rest = view_bytes(v.data + from, v.len - from);
    return text_fit(rest, max_cost) == rest.len;
}

/* Returns where the longest end of v that costs at most max_cost begins. */
static size_t end_within(struct view v, size_t max_cost)
{
    size_t low = v.len > max_cost ? v.len - max_cost : 0;
    size_t high = v.len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (fits_message(v, middle, max_cost)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    while (low > 0 && low < v.len && ((unsigned char)v.data[low] & 0xc0) == 0x80) {
        low++; /* skip the rest of a character that was cut */
    }
    return low;
}

static size_t stream_cost(struct view v)
{
    size_t cost = 0;
    while (cost < STREAM_BYTES && !fits_message(v, 0, cost)) {
        cost += 50;
    }
    return cost;
}

static void add_stream_tail(struct buf *message, struct view v, uint64_t count, size_t max_cost)
{
    size_t from = end_within(v, max_cost);
    uint64_t left_out = count - (v.len - from);
    if (left_out > 0) {
        text_printf(message, "[%" PRIu64 " bytes left out]\n", left_out);
    }
    text_add(message, view_bytes(v.data + from, v.len - from), max_cost, false);
}

void output_message(struct buf *message, const struct fleet_output *output)
{
    size_t err_cost = stream_cost(output->err);
    size_t out_cost = stream_cost(output->out);
    if (out_cost + err_cost > STREAM_BYTES) {
        size_t err_most = out_cost + ERR_BYTES > STREAM_BYTES ? ERR_BYTES : STREAM_BYTES - out_cost;
        err_cost = err_cost < err_most ? err_cost : err_most;
        out_cost = STREAM_BYTES - err_cost;
    }
    if (output->out.len > 0) {
        add_stream_tail(message, output->out, output->out_new, out_cost);
    }
    if (output->err.len > 0) {
        bool fresh = message->len == 0 || message->data[message->len - 1] == '\n';
        text_printf(message, "%s[stderr]\n", fresh ? "" : "\n");
        add_stream_tail(message, output->err, output->err_new, err_cost);
    }
}
