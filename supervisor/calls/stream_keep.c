/*
 * Head and tail share a buffer, which is simply the stream as long as everything fits:
 *
 *     0 ......... head_max .................................. head_max + 2 * tail_max
 *     [ head     ][ window: the latest bytes                 ]
 *
 * When the window is full, its older half is dropped and the younger one moved to the front. So
 * each byte is moved at most once, and the tail is always contiguous, unlike in a ring. Most
 * programs write little, and then the buffer is small.
 */
#include "supervisor/calls/stream_keep.h"

#include <string.h>

void stream_keep_init(struct stream_keep *k, size_t head_max, size_t tail_max)
{
    *k = (struct stream_keep){.head_max = head_max, .tail_max = tail_max};
    buf_init(&k->bytes, head_max + 2 * tail_max);
}

void stream_keep_finish(struct stream_keep *k)
{
    buf_finish(&k->bytes);
}

static size_t head_of(const struct stream_keep *k)
{
    size_t most = k->head_ended ? k->head_bytes : k->head_max;
    return k->bytes.len < most ? k->bytes.len : most;
}

/* Notes a gap: the next bytes do not follow the present ones. */
static void miss(struct stream_keep *k)
{
    k->head_bytes = head_of(k);
    k->head_ended = true;
    k->bytes.len = k->head_bytes;
}

/* Makes room in the window by dropping all of it except the last tail_max bytes. */
static void slide(struct stream_keep *k)
{
    size_t head = head_of(k);
    if (k->bytes.len - head > k->tail_max) {
        memmove(k->bytes.data + head, k->bytes.data + k->bytes.len - k->tail_max, k->tail_max);
        k->bytes.len = head + k->tail_max;
    }
}

void stream_keep_add(struct stream_keep *k, uint64_t from, struct view bytes)
{
    if (from != k->total) {
        miss(k);
    }
    k->total = from + bytes.len;
    while (bytes.len > 0) {
        size_t most = (k->head_ended ? k->head_bytes : k->head_max) + 2 * k->tail_max;
        if (k->bytes.len == most) {
            slide(k);
        }
        size_t room = most - k->bytes.len;
        size_t n = bytes.len < room ? bytes.len : room;
        if (n == 0) {
            return; /* only the head is wanted, and it is full */
        }
        if (buf_add(&k->bytes, bytes.data, n, NULL) < 0) {
            miss(k); /* out of memory: counts as output that is not kept */
        }
        bytes = view_bytes(bytes.data + n, bytes.len - n);
    }
}

struct stream_view stream_keep_look(const struct stream_keep *k)
{
    const uint8_t *data = k->bytes.data;
    size_t head = head_of(k);
    size_t window = k->bytes.len - head;
    bool whole = k->total == k->bytes.len && k->total <= k->head_max + k->tail_max;
    if (whole || window == 0) {
        return (struct stream_view){view_bytes(data, k->bytes.len), view_bytes(NULL, 0)};
    }
    size_t tail = window < k->tail_max ? window : k->tail_max;
    return (struct stream_view){view_bytes(data, head),
                                view_bytes(data + k->bytes.len - tail, tail)};
}
