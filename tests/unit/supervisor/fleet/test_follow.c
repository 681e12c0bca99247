/* Output of running code, for callers that follow it. */
#include "tests/unit/supervisor/fleet/call_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/log.h"

/* Collects what a follower is told. */
struct heard {
    struct told told; /* first: the `arg` of the wait */
    unsigned times, refuse;
    char out[FLEET_OUTPUT_BYTES + 1], err[FLEET_OUTPUT_BYTES + 1];
    uint64_t out_new, err_new, out_bytes;
};

static bool on_output(void *arg, const struct fleet_output *o)
{
    struct heard *h = arg;
    assert_int_equal(h->told.times, 0);
    h->times++;
    if (h->refuse > 0) {
        h->refuse--;
        return false;
    }
    snprintf(h->out, sizeof(h->out), "%.*s", VIEW_ARG(o->out));
    snprintf(h->err, sizeof(h->err), "%.*s", VIEW_ARG(o->err));
    h->out_new = o->out_new;
    h->err_new = o->err_new;
    h->out_bytes = o->out_bytes;
    return true;
}

static struct fleet_await *follow(char id[FLEET_ID_SIZE], struct heard *h, uint64_t every_ms)
{
    memset(h, 0, sizeof(*h));
    struct fleet_await *await = begin(id, &h->told);
    executions_await_output(await, every_ms, on_output);
    return await;
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
}

/* Runs the loop until `times` is reached, or for that long. */
static void wait_heard(const struct heard *h, unsigned times, uint64_t ms)
{
    static uv_timer_t guard;
    uv_timer_init(&w.loop, &guard);
    uv_timer_start(&guard, on_guard, ms, 0);
    while (h->times < times && uv_is_active((uv_handle_t *)&guard)) {
        uv_run(&w.loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&guard, NULL);
    turn();
}

static void output_is_told_as_it_comes_and_once_a_turn(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard h;
    follow(id, &h, 0);
    reply(OP_RUNNING, "one ");
    assert_int_equal(h.times, 0);
    reply(OP_RUNNING, "two");
    turn();
    assert_int_equal(h.times, 1);
    assert_string_equal(h.out, "one two");
    assert_int_equal(h.out_new, 7);
    turn();
    reply(OP_RUNNING, "");
    turn();
    assert_int_equal(h.times, 1);
    struct msg m = output(OP_RUNNING, ".", w.out_from);
    m.output.err = view_of("oh");
    reply_with(0, &m, NULL);
    turn();
    assert_int_equal(h.times, 2);
    assert_string_equal(h.out, ".");
    assert_string_equal(h.err, "oh");
    assert_int_equal(h.err_new, 2);
    assert_int_equal(h.out_bytes, 8);
    m = output(OP_DONE, " the end", w.out_from);
    m.output.err_from = 2;
    reply_with(0, &m, NULL);
    turn();
    assert_int_equal(h.times, 2);
    assert_string_equal(h.told.out, "one two. the end");
}

static void it_is_told_no_more_often_than_wanted(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard h;
    follow(id, &h, 60);
    reply(OP_RUNNING, "a");
    turn();
    assert_int_equal(h.times, 1);
    uint64_t begin_ms = uv_now(&w.loop);
    reply(OP_RUNNING, "b");
    reply(OP_RUNNING, "c");
    turn();
    assert_int_equal(h.times, 1);
    wait_heard(&h, 2, 5000);
    assert_int_equal(h.times, 2);
    assert_true(uv_now(&w.loop) - begin_ms >= 60);
    assert_string_equal(h.out, "bc");
    reply(OP_DONE, "");
}

static void what_was_not_wanted_comes_again_with_more(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard h;
    follow(id, &h, 10);
    h.refuse = 1;
    reply(OP_RUNNING, "a");
    turn();
    assert_int_equal(h.times, 1);
    assert_string_equal(h.out, "");
    reply(OP_RUNNING, "b");
    wait_heard(&h, 2, 5000);
    assert_int_equal(h.times, 2);
    assert_string_equal(h.out, "ab");
    assert_int_equal(h.out_new, 2);
    reply(OP_DONE, "");
}

static void of_much_output_the_end_is_told_and_how_much_it_was(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard h;
    follow(id, &h, 0);
    char *text = alloc_array(10001, 1);
    for (size_t i = 0; i < 10000; i++) {
        text[i] = (char)('a' + i % 26);
    }
    reply(OP_RUNNING, text);
    reply(OP_RUNNING, "THE END");
    turn();
    assert_int_equal(h.times, 1);
    assert_int_equal(h.out_new, 10007);
    assert_int_equal(strlen(h.out), FLEET_OUTPUT_BYTES);
    assert_memory_equal(h.out, text + 10007 - FLEET_OUTPUT_BYTES, FLEET_OUTPUT_BYTES - 7);
    assert_string_equal(h.out + FLEET_OUTPUT_BYTES - 7, "THE END");
    free(text);
    reply(OP_DONE, "");
}

static void characters_are_told_whole(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard h;
    follow(id, &h, 0);
    reply(OP_RUNNING, "\xe2\x82");
    turn();
    assert_int_equal(h.times, 0); /* half a character is not reported */
    reply(OP_RUNNING, "\xac!\xc3");
    turn();
    assert_int_equal(h.times, 1);
    assert_string_equal(h.out, "\xe2\x82\xac!");
    assert_int_equal(h.out_new, 4);
    char text[FLEET_OUTPUT_BYTES + 2];
    memset(text, '-', sizeof(text) - 1);
    text[0] = (char)0xa9; /* together with the byte before it this is the first character */
    text[sizeof(text) - 1] = '\0';
    reply(OP_RUNNING, text);
    turn();
    assert_int_equal(h.out_new, FLEET_OUTPUT_BYTES + 2);
    assert_int_equal(strlen(h.out), FLEET_OUTPUT_BYTES);
    assert_int_equal(h.out[0], '-');
    memset(text, 'y', sizeof(text) - 1);
    memcpy(text, "\xf0\x9f\x98\x80", 4); /* its remaining bytes are left out */
    reply(OP_RUNNING, text);
    turn();
    assert_int_equal(strlen(h.out), FLEET_OUTPUT_BYTES - 3);
    assert_int_equal(h.out[0], 'y');
    reply(OP_DONE, "");
}

static void each_follower_has_progress_of_its_own(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard first;
    struct heard second;
    memset(&second, 0, sizeof(second));
    follow(id, &first, 0);
    reply(OP_RUNNING, "a");
    turn();
    struct fleet_await *later =
        executions_await(w.host.executions, "me", id, FLEET_WAIT_FOR_EVER, on_told, &second.told);
    executions_await_output(later, 0, on_output);
    reply(OP_RUNNING, "b");
    turn();
    assert_int_equal(first.times, 2);
    assert_string_equal(first.out, "b");
    assert_int_equal(second.times, 1);
    assert_string_equal(second.out, "b");
    executions_await_end(later);
    turn();
    assert_int_equal(second.told.times, 1);
    reply(OP_RUNNING, "c");
    turn();
    assert_int_equal(second.times, 1);
    assert_int_equal(first.times, 3);
    reply(OP_DONE, "");
}

static void an_execution_that_turns_up_later_is_followed(void **state)
{
    (void)state;
    struct heard h;
    memset(&h, 0, sizeof(h));
    w.host.adopting = true;
    struct fleet_await *await =
        executions_await(w.host.executions, "me", "early", FLEET_WAIT_FOR_EVER, on_told, &h.told);
    executions_await_output(await, 0, on_output);
    const struct msg_op_info info = {.kind = OP_EVAL,
                                     .op = view_of("early"),
                                     .language = view_of("python"),
                                     .state = OP_RUNNING};
    executions_adopt(w.host.executions, &w.s, &info);
    w.host.adopting = false;
    executions_adopted(w.host.executions);
    reply(OP_RUNNING, "old and new");
    turn();
    assert_int_equal(h.times, 1);
    assert_string_equal(h.out, "old and new");
    reply(OP_DONE, "");
    assert_int_equal(h.told.times, 1);
}

static void what_is_over_or_unknown_has_no_progress(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct heard h;
    follow(id, &h, 0);
    reply(OP_DONE, "all");
    turn();
    assert_int_equal(h.times, 0);
    struct heard late;
    memset(&late, 0, sizeof(late));
    executions_await_output(executions_await(w.host.executions, "me", id, 0, on_told, &late.told),
                            0, on_output);
    turn();
    assert_int_equal(late.told.times, 1);
    memset(&late, 0, sizeof(late));
    executions_await_output(
        executions_await(w.host.executions, "me", "nothing", 0, on_told, &late.told), 0, on_output);
    turn();
    assert_int_equal(late.told.rc, -ERR_EXECUTION_NOT_FOUND);
    assert_int_equal(late.times, 0);
}

int main(void)
{
    log_set_level(LOG_ERROR);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(output_is_told_as_it_comes_and_once_a_turn),
        TEST(it_is_told_no_more_often_than_wanted),
        TEST(what_was_not_wanted_comes_again_with_more),
        TEST(of_much_output_the_end_is_told_and_how_much_it_was),
        TEST(characters_are_told_whole),
        TEST(each_follower_has_progress_of_its_own),
        TEST(an_execution_that_turns_up_later_is_followed),
        TEST(what_is_over_or_unknown_has_no_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
