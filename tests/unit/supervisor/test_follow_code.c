/* Progress notifications with the output of running code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/tools/output.h"
#include "tests/unit/supervisor/client.h"

/* ---- the message ---------------------------------------------------------------------------- */

static void check(const char *out, uint64_t out_new, const char *err, uint64_t err_new,
                  const char *expected)
{
    CLEANUP_BUF struct buf message;
    buf_init(&message, 8000);
    const struct fleet_output output = {
        .out = view_of(out), .err = view_of(err), .out_new = out_new, .err_new = err_new};
    output_message(&message, &output);
    assert_string_equal(text_cstr(&message), expected);
}

static void a_message_shows_what_is_new(void **state)
{
    (void)state;
    check("step 1\n", 7, "", 0, "step 1\n");
    check("step 1\n", 5007, "", 0, "[5000 bytes left out]\nstep 1\n");
    check("", 0, "oh", 2, "[stderr]\noh");
    check("a", 1, "b", 3, "a\n[stderr]\n[2 bytes left out]\nb");
    check("a\n", 2, "b", 1, "a\n[stderr]\nb");
    check("\xff", 1, "", 0, "\xef\xbf\xbd");
}

/* Whatever is written, the message is UTF-8, within its limit, and contains the end of the
 * output. */
static void a_message_is_never_longer_than_it_may_be(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "x", "\x01", "\"", "\xff", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc3\xa9z"};
    for (size_t i = 0; i < 7 * 7; i++) {
        char out[FLEET_OUTPUT_BYTES];
        char err[FLEET_OUTPUT_BYTES];
        size_t n = strlen(pieces[i % 7]);
        size_t m = strlen(pieces[i / 7]);
        for (size_t k = 0; k < sizeof(out); k++) {
            out[k] = pieces[i % 7][k % n];
            err[k] = pieces[i / 7][k % m];
        }
        CLEANUP_BUF struct buf message;
        buf_init(&message, 8000);
        struct fleet_output output = {.out = view_bytes(out, sizeof(out) / n * n),
                                      .err = view_bytes(err, sizeof(err) / m * m),
                                      .out_new = UINT64_MAX / 2,
                                      .err_new = UINT64_MAX / 2};
        for (unsigned streams = 1; streams <= 3; streams++) {
            struct fleet_output some = output;
            some.out.len = streams & 1 ? output.out.len : 0;
            some.err.len = streams & 2 ? output.err.len : 0;
            message.len = 0;
            output_message(&message, &some);
            struct view made = view_bytes(message.data, message.len);
            assert_true(utf8_valid(made.data, made.len));
            assert_int_equal(text_fit(made, OUTPUT_MESSAGE_BYTES), made.len);
            assert_true(made.len > 100);
            const char *last = pieces[streams & 2 ? i / 7 : i % 7];
            const char *shown = last[0] == '\xff' ? "\xef\xbf\xbd" : last;
            assert_memory_equal(made.data + made.len - strlen(shown), shown, strlen(shown));
        }
    }
}

/* ---- the way to the client ------------------------------------------------------------------ */

static void call_with_token(struct client *c, const char *tool, const char *arguments)
{
    client_send(c,
                "{'jsonrpc':'2.0','id':'call-%zu','method':'tools/call','params':{'name':'%s',"
                "'arguments':%s,'_meta':{'progressToken':'t'}}}",
                c->calls++, tool, arguments);
}

static void output_reaches_the_client_while_code_runs(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    call_with_token(c, "execute_code", "{'code':'1','sandbox_id':'a'}");
    assert_true(c->fleet->pending[0]->every_ms >= 500);
    assert_true(fake_write(c->fleet, 0, "step 1\n", ""));
    assert_string_equal(text_at(client_last(c), "method"), "notifications/progress");
    assert_string_equal(text_at(client_last(c), "params.message"), "step 1\n");
    assert_string_equal(text_at(client_last(c), "params.progressToken"), "t");
    assert_int_equal(number_at(client_last(c), "params.progress"), 7);
    size_t before = c->count;
    assert_false(fake_write(c->fleet, 0, "step 2\n", "")); /* rate limited: the fleet keeps it */
    assert_int_equal(c->count, before);
    fake_answer(c->fleet, 0);
    assert_non_null(at(client_last(c), "result"));
}

static void who_gives_no_token_has_nobody_listen(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_call(c, false, "execute_code", "{'code':'1','sandbox_id':'a'}");
    assert_null(c->fleet->pending[0]->output);
    fake_settle(c->fleet);
}

static void a_cancelled_call_is_told_nothing_more(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    size_t before = c->count;
    call_with_token(c, "execute_code", "{'code':'1','sandbox_id':'a'}");
    client_send(c,
                "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':"
                "'call-%zu'}}",
                c->calls - 1);
    assert_true(fake_write(c->fleet, 0, "x", "")); /* taken, and dropped */
    fake_settle(c->fleet);
    assert_int_equal(c->count, before);
}

static void other_calls_follow_code_as_well(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    call_with_token(c, "get_execution", "{'execution_id':'ex-1'}");
    assert_true(fake_write(c->fleet, 0, "", "warning"));
    assert_string_equal(text_at(client_last(c), "params.message"), "[stderr]\nwarning");
    fake_settle(c->fleet);
    call_with_token(c, "create_run_close", "{'code':'1'}");
    fake_answer(c->fleet, 0);
    assert_true(fake_write(c->fleet, 0, "x", ""));
    assert_string_equal(text_at(client_last(c), "params.message"), "x");
    fake_settle(c->fleet);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_shows_what_is_new),
        cmocka_unit_test(a_message_is_never_longer_than_it_may_be),
        TEST(output_reaches_the_client_while_code_runs),
        TEST(who_gives_no_token_has_nobody_listen),
        TEST(a_cancelled_call_is_told_nothing_more),
        TEST(other_calls_follow_code_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
