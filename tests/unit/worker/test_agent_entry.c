/* Requests to the agent that are kept until they are answered: what is on the wire, and that code
 * is not copied for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/codec.h"
#include "worker/agent_entry.h"

#define CODE_BYTES (300u << 10)

/* Stands for the message that the code is in; nothing in this test frees it. */
static struct ipc_message *const message = (struct ipc_message *)(uintptr_t)16;

static struct msg start_of(char *code, size_t len)
{
    struct msg m = {.type = MSG_START};
    memset(code, 'c', len);
    m.start.op = view_of("op1");
    m.start.kind = OP_EVAL;
    m.start.language = view_of("python");
    m.start.data = view_bytes(code, len);
    m.start.timeout_ms = 5000;
    m.start.wait_ms = 3000;
    return m;
}

static void expect_frame(const struct agent_entry *e, const struct msg *m)
{
    CLEANUP_BUF struct buf whole;
    CLEANUP_BUF struct buf parts;
    buf_init(&whole, LIMIT_FRAME + 4);
    buf_init(&parts, LIMIT_FRAME + 4);
    assert_int_equal(msg_encode_frame(&whole, m, NULL), 0);
    assert_int_equal(buf_add(&parts, e->frame.data, e->data_at, NULL), 0);
    assert_int_equal(buf_add(&parts, e->data.data, e->data.len, NULL), 0);
    assert_int_equal(buf_add(&parts, e->frame.data + e->data_at, e->frame.len - e->data_at, NULL),
                     0);
    assert_int_equal(parts.len, whole.len);
    assert_memory_equal(parts.data, whole.data, whole.len);
}

static void forget(struct agent_entries *all, struct agent_entry *e)
{
    assert_ptr_equal(agent_entries_take(all, e->seq), e);
    e->message = NULL;
    agent_entry_free(e);
    assert_int_equal(all->bytes, 0);
}

static void code_is_written_from_the_message_that_brought_it(void **state)
{
    struct agent_entries all;
    struct agent_entry *e;
    char *code = alloc_array(CODE_BYTES, 1);
    struct msg m = start_of(code, CODE_BYTES);
    agent_entries_init(&all);
    assert_int_equal(agent_entries_add(&all, &m, message, &e, NULL), 0);
    assert_ptr_equal(e->message, message);
    assert_ptr_equal(e->data.data, code);
    assert_true(e->frame.cap < 4096); /* there is no room for a copy */
    assert_true(all.bytes > CODE_BYTES);
    m.seq = e->seq;
    expect_frame(e, &m);
    agent_entry_refresh(&all, e); /* for the next stream */
    m.start.wait_ms = 0;
    assert_ptr_equal(e->data.data, code);
    assert_true(e->frame.cap < 4096);
    expect_frame(e, &m);
    forget(&all, e);
    free(code);
}

static void without_data_or_a_message_the_frame_is_whole(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct agent_entries all;
        struct agent_entry *e;
        char code[10];
        struct msg m = start_of(code, i == 0 ? 0 : sizeof(code));
        agent_entries_init(&all);
        assert_int_equal(agent_entries_add(&all, &m, i == 0 ? message : NULL, &e, NULL), 0);
        assert_int_equal(e->data.len, 0);
        m.seq = e->seq;
        expect_frame(e, &m);
        agent_entry_refresh(&all, e);
        m.start.wait_ms = 0;
        expect_frame(e, &m);
        forget(&all, e);
    }
}

static void what_is_too_long_is_refused(void **state)
{
    struct agent_entries all;
    struct agent_entry *e;
    char *code = alloc_array(LIMIT_CODE + 1, 1);
    struct msg m = start_of(code, LIMIT_CODE + 1);
    agent_entries_init(&all);
    assert_int_equal(agent_entries_add(&all, &m, message, &e, NULL), -ERR_TOO_BIG);
    assert_int_equal(all.count, 0);
    assert_null(all.first);
    free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_written_from_the_message_that_brought_it),
        cmocka_unit_test(without_data_or_a_message_the_frame_is_whole),
        cmocka_unit_test(what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
