/* The kept beginning and end of a stream, compared with a plain copy of all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/calls/stream_keep.h"

static char byte_at(uint64_t at)
{
    return (char)((at * 2654435761u) >> 7);
}

static void add(struct stream_keep *k, uint64_t from, size_t len)
{
    CLEANUP_FREE char *bytes = alloc_array(len + 1, 1);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = byte_at(from + i);
    }
    stream_keep_add(k, from, view_bytes(bytes, len));
}

static void check_bytes(struct view v, uint64_t from)
{
    for (size_t i = 0; i < v.len; i++) {
        assert_int_equal(v.data[i], byte_at(from + i));
    }
}

static void head_and_tail_are_what_was_written(void **state)
{
    (void)state;
    for (size_t head = 0; head <= 20; head += 5) {
        for (size_t tail = 0; tail <= 14; tail += 7) {
            for (size_t step = 1; step < 60; step += 3) {
                struct stream_keep k;
                stream_keep_init(&k, head, tail);
                for (uint64_t total = 0; total < 200; total += step) {
                    struct stream_view v = stream_keep_look(&k);
                    assert_int_equal(k.total, total);
                    check_bytes(v.head, 0);
                    check_bytes(v.tail, total - v.tail.len);
                    assert_true(k.bytes.len <= head + 2 * tail);
                    if (total <= head + tail) {
                        assert_int_equal(v.head.len, total);
                        assert_int_equal(v.tail.len, 0);
                    } else {
                        assert_int_equal(v.head.len, head);
                        assert_int_equal(v.tail.len, tail);
                    }
                    add(&k, total, step);
                }
                stream_keep_finish(&k);
            }
        }
    }
}

static void what_was_missed_is_a_gap(void **state)
{
    (void)state;
    for (size_t before = 0; before < 40; before += 3) {
        for (size_t after = 1; after < 40; after += 5) {
            struct stream_keep k;
            stream_keep_init(&k, 10, 8);
            add(&k, 0, before);
            add(&k, 1000, after); /* the part that another server has read is missing */
            struct stream_view v = stream_keep_look(&k);
            assert_int_equal(k.total, 1000 + after);
            assert_int_equal(v.head.len, before < 10 ? before : 10);
            assert_int_equal(v.tail.len, after < 8 ? after : 8);
            check_bytes(v.head, 0);
            check_bytes(v.tail, k.total - v.tail.len);
            add(&k, 1000 + after, 5);
            v = stream_keep_look(&k);
            assert_int_equal(v.tail.len, after + 5 < 8 ? after + 5 : 8);
            check_bytes(v.tail, k.total - v.tail.len);
            stream_keep_finish(&k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_and_tail_are_what_was_written),
        cmocka_unit_test(what_was_missed_is_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
