/* Tools for code that outlives its call: started, followed, stopped, read later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "tests/unit/supervisor/client.h"

static void code_that_takes_longer_than_the_budget_is_running(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    fake_set_output(c->fleet, "so far\xe2\x82", 8); /* half a character, which waits for its rest */
    c->fleet->outcome.duration_us = 45000000;
    client_call(c, false, "execute_code", "{'code':'1','sandbox_id':'a'}");
    assert_in_range(c->fleet->pending[0]->wait_ms, 30000,
                    45000); /* some of the budget is used already */
    fake_stand(c->fleet, 0);
    const cJSON *result = at(client_last(c), "result");
    const cJSON *s = at(result, "structuredContent");
    assert_null(at(result, "isError"));
    assert_string_equal(text_at(s, "status"), "running");
    assert_string_equal(text_at(s, "stdout"), "so far");
    assert_int_equal(number_at(s, "next_offset"), 6);
    assert_null(at(s, "truncated"));
    assert_null(at(s, "exit_code"));
    assert_null(at(s, "cpu_ms"));
    assert_text(result, "so far\n[still running after 45.0 s; get_execution with execution_id ex-1 "
                        "tells how it goes on, cancel_execution stops it]");
    assert_int_equal(c->fleet->pending_count, 0);

    fake_set_output(c->fleet, "so far\xe2\x82\xac.", 10);
    result = client_tool(c, "get_execution", "{'execution_id':'ex-1','offset':6}");
    assert_text(result, "\xe2\x82\xac.");
    assert_string_equal(text_at(result, "structuredContent.status"), "ok");
    assert_int_equal(number_at(result, "structuredContent.offset"), 6);
    assert_int_equal(number_at(result, "structuredContent.next_offset"), 10);
    assert_int_equal(number_at(result, "structuredContent.exit_code"), 0);
}

static void code_with_an_open_stdin_is_talked_to(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    fake_set_output(c->fleet, "name? \xe2\x82", 8);
    client_call(c, false, "execute_code",
                "{'code':'1','sandbox_id':'a','stdin_open':true,'stdin':'first'}");
    assert_int_equal(c->fleet->last.op.flags, OP_FLAG_STDIN_OPEN);
    assert_int_equal(c->fleet->last.op.timeout_ms, 3600000); /* a dialogue takes its time */
    assert_int_equal(c->fleet->pending[0]->wait_ms, 3000);
    assert_int_equal(c->fleet->pending[0]->quiet_ms, 500);
    fake_stand(c->fleet, 0);
    assert_int_equal(c->fleet->told_out, 6); /* half a character has not been shown */

    client_call(c, false, "write_stdin",
                "{'execution_id':'ex-1','data':'Ada\\n','stdin_offset':4,'wait_seconds':7}");
    fake_stand(c->fleet, 0);
    assert_string_equal(c->fleet->input_text, "Ada\n");
    assert_true(c->fleet->input.has_at);
    assert_int_equal(c->fleet->input.at, 4);
    assert_int_equal(c->fleet->pending[0]->wait_ms, 7000);
    assert_int_equal(c->fleet->pending[0]->quiet_ms, 500);
    fake_set_output(c->fleet, "name? \xe2\x82\xac Ada", 13);
    c->fleet->outcome.told_out = 6;
    fake_stand(c->fleet, 0);
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "structuredContent.stdout"), "\xe2\x82\xac Ada");
    assert_int_equal(number_at(result, "structuredContent.stdin_bytes"), 4);
}

static void an_execution_is_waited_for_as_long_as_the_call_says(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    client_call(c, false, "get_execution", "{'execution_id':'ex-1'}");
    assert_int_equal(c->fleet->pending[0]->wait_ms, 45000);
    fake_settle(c->fleet);
    client_call(c, false, "get_execution", "{'execution_id':'ex-1','wait_seconds':0}");
    assert_int_equal(c->fleet->pending[0]->wait_ms, 0);
    fake_settle(c->fleet);
    client_call(c, false, "get_execution", "{'execution_id':'ex-1','wait_seconds':1.5}");
    assert_int_equal(c->fleet->pending[0]->wait_ms, 1500);
    fake_settle(c->fleet);
    assert_failure(client_tool(c, "get_execution", "{'execution_id':'ex-1','wait_seconds':46}"),
                   "invalid_argument", "wait_seconds");
}

static void offsets_that_lead_nowhere_are_refused(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    fake_set_output(c->fleet, "12345", 5);
    c->fleet->outcome.out_bytes = 9; /* the rest is not kept */
    const cJSON *result = client_tool(c, "get_execution", "{'execution_id':'ex-1','offset':5}");
    assert_null(at(result, "structuredContent.stdout"));
    assert_true(cJSON_IsTrue(at(result, "structuredContent.truncated")));
    assert_failure(client_tool(c, "get_execution", "{'execution_id':'ex-1','offset':6}"),
                   "invalid_argument", "offset: only the first 5 of 9 bytes of stdout are kept");
    assert_failure(client_tool(c, "get_execution", "{'execution_id':'ex-1','offset':10}"),
                   "invalid_argument", "offset: 10 is behind the 9 bytes of stdout so far");
    assert_failure(client_tool(c, "get_execution", "{'execution_id':'ex-1','stderr_offset':1}"),
                   "invalid_argument", "stderr_offset: 1 is behind");
}

/* Reads from every offset, as a client that counts bytes itself might do. */
static void parts_in_steps_cover(struct client *c, const char *bytes, size_t len)
{
    for (size_t at_byte = 0; at_byte <= len; at_byte++) {
        fake_set_output(c->fleet, bytes, len);
        CLEANUP_FREE char *arguments =
            alloc_printf("{'execution_id':'ex-1','offset':%zu}", at_byte);
        const cJSON *s = at(client_tool(c, "get_execution", arguments), "structuredContent");
        size_t from = (size_t)number_at(s, "offset");
        assert_true(from <= at_byte && at_byte - from < 4);
        CLEANUP_BUF struct buf rest;
        buf_init(&rest, 1000);
        assert_int_equal(utf8_add_lossy(&rest, bytes + from, len - from, NULL), 0);
        if (rest.len > 0) {
            assert_string_equal(text_at(s, "stdout"), buf_cstr(&rest));
        } else {
            assert_null(at(s, "stdout"));
        }
        /* pages end between characters, so none is torn */
        CLEANUP_BUF struct buf all;
        buf_init(&all, 1000);
        assert_int_equal(utf8_add_lossy(&all, bytes, from, NULL), 0);
        assert_int_equal(utf8_add_lossy(&all, bytes + from, len - from, NULL), 0);
        CLEANUP_BUF struct buf whole;
        buf_init(&whole, 1000);
        assert_int_equal(utf8_add_lossy(&whole, bytes, len, NULL), 0);
        assert_string_equal(buf_cstr(&all), buf_cstr(&whole));
    }
}

static void no_offset_tears_a_character(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    static const char *const texts[] = {
        "plain",
        "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z",
        "\xe2\x82x\xff\xfe\xe2\x82\xac",
        "\x80\x80\xf0\x9f\x98\xc3\xa9\xf0\x9f",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        parts_in_steps_cover(c, texts[i], strlen(texts[i]));
    }
}

#define MOST ",'max_output_bytes':204800"

static void output_that_is_too_much_for_a_result_is_fetched_in_parts(void **state)
{
    struct client *c = *state;
    CLEANUP_FREE char *bytes = alloc_array(250000, 1);
    CLEANUP_FREE char *got = alloc_array(250001, 1);
    for (size_t i = 0; i < 250000; i++) {
        bytes[i] = i % 7 == 0 ? '\n' : '"';
    }
    fake_set_output(c->fleet, bytes, 250000);
    const cJSON *s =
        at(client_tool(c, "execute_code", "{'code':'1'" MOST "}"), "structuredContent");
    assert_true(cJSON_IsTrue(at(s, "truncated")));
    assert_string_equal(text_at(client_last(c), "result.content.1.uri"), "execution://ex-1/stdout");
    assert_int_equal(number_at(client_last(c), "result.content.1.size"), 250000);
    const char *shown = text_at(s, "stdout"); /* the head, a line about the gap, the tail */
    size_t len = (size_t)number_at(s, "next_offset");
    assert_memory_equal(shown, bytes, len);
    const char *tail = strstr(shown, "shows them ...]\n") + strlen("shows them ...]\n");
    assert_memory_equal(tail, bytes + 250000 - strlen(tail), strlen(tail));
    CLEANUP_FREE char *left_out = alloc_printf(
        "[... %zu bytes left out; get_execution with execution_id ex-1 and offset %zu shows them",
        250000 - len - strlen(tail), len);
    assert_non_null(strstr(shown, left_out));
    assert_non_null(strstr(text_at(client_last(c), "result.content.0.text"), left_out));
    memcpy(got, shown, len);
    unsigned parts = 1;
    while (cJSON_IsTrue(at(s, "truncated"))) {
        CLEANUP_FREE char *arguments = alloc_printf("{'execution_id':'ex-1','offset':%.0f" MOST "}",
                                                    number_at(s, "next_offset"));
        s = at(client_tool(c, "get_execution", arguments), "structuredContent");
        assert_int_equal(number_at(s, "offset"), len);
        size_t n = strlen(text_at(s, "stdout"));
        assert_true(n > 0 && len + n <= 250000);
        memcpy(got + len, text_at(s, "stdout"), n);
        len += n;
        parts++;
    }
    assert_int_equal(len, 250000);
    assert_memory_equal(got, bytes, 250000);
    assert_int_equal(parts, 3);
}

static void a_stopped_execution_is_no_error_and_an_ended_one_stays(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'a'}");
    client_call(c, false, "execute_code", "{'code':'1','sandbox_id':'a'}");
    fake_stand(c->fleet, 0);
    const cJSON *result = client_tool(c, "cancel_execution", "{'execution_id':'ex-1'}");
    assert_null(at(result, "isError"));
    assert_string_equal(text_at(result, "structuredContent.status"), "cancelled");
    result = client_tool(c, "get_execution", "{'execution_id':'ex-1'}");
    assert_true(cJSON_IsTrue(at(result, "isError")));
    client_tool(c, "execute_code", "{'code':'2','sandbox_id':'a'}");
    result = client_tool(c, "cancel_execution", "{'execution_id':'ex-2'}");
    assert_string_equal(text_at(result, "structuredContent.status"), "ok");
}

static void executions_of_others_are_not_found(void **state)
{
    struct client *c = *state;
    client_tool(c, "execute_code", "{'code':'1'}");
    snprintf(c->fleet->executions[0].owner, sizeof(c->fleet->executions[0].owner), "you");
    assert_failure(client_tool(c, "get_execution", "{'execution_id':'ex-1'}"),
                   "execution_not_found", "no such execution");
    const cJSON *result = client_tool(c, "cancel_execution", "{'execution_id':'ex-1'}");
    assert_failure(result, "execution_not_found", "no such execution");
    assert_non_null(strstr(text_at(result, "structuredContent.error.hint"), "get_sandbox_status"));
}

static void the_status_of_a_sandbox_lists_its_executions(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{'name':'x'}");
    for (int i = 0; i < 22; i++) {
        client_tool(c, "execute_code", "{'code':'1','sandbox_id':'x','language':'bash'}");
    }
    client_call(c, false, "execute_code", "{'code':'1','sandbox_id':'x'}");
    fake_stand(c->fleet, 0);
    const cJSON *one = client_tool(c, "get_sandbox_status", "{'sandbox_id':'x'}");
    const cJSON *list = at(one, "structuredContent.executions_recent");
    assert_int_equal(cJSON_GetArraySize(list), 20);
    assert_string_equal(text_at(list, "0.execution_id"), "ex-23");
    assert_string_equal(text_at(list, "0.status"), "queued");
    assert_string_equal(text_at(list, "1.execution_id"), "ex-22");
    assert_string_equal(text_at(list, "1.status"), "ok");
    assert_string_equal(text_at(list, "1.language"), "bash");
    assert_string_equal(text_at(list, "1.started_at"), "2023-11-14T22:13:20.000Z");
    assert_true(number_at(list, "1.duration_ms") == 1.5);
    assert_non_null(
        strstr(text_at(one, "content.0.text"), "Latest executions: ex-23 queued, ex-22 ok"));
    assert_null(at(client_tool(c, "get_sandbox_status", "{}"),
                   "structuredContent.sandboxes.0.executions_recent"));
}

static void create_run_close_that_takes_long_closes_when_it_is_over(void **state)
{
    struct client *c = *state;
    client_call(c, false, "create_run_close", "{'code':'1'}");
    fake_answer(c->fleet, 0);
    fake_stand(c->fleet, 0);
    const cJSON *result = at(client_last(c), "result");
    assert_string_equal(text_at(result, "structuredContent.status"), "running");
    assert_true(cJSON_IsFalse(at(result, "structuredContent.sandbox_closed")));
    assert_int_equal(c->fleet->closes, 0);
    assert_int_equal(c->fleet->pending_count, 1); /* it belongs to no call */
    assert_true(c->fleet->pending[0]->wait_ms == FLEET_WAIT_FOR_EVER);
    fake_answer(c->fleet, 0);
    assert_int_equal(c->fleet->closes, 1);
    fake_settle(c->fleet);
    result = client_tool(c, "get_execution", "{'execution_id':'ex-1'}");
    assert_string_equal(text_at(result, "structuredContent.status"), "ok");
}

static void a_server_that_leaves_does_not_close_what_goes_on(void **state)
{
    struct client *c = *state;
    client_call(c, false, "create_run_close", "{'code':'1'}");
    fake_answer(c->fleet, 0);
    fake_stand(c->fleet, 0);
    fake_stand(c->fleet, 0);
    assert_int_equal(c->fleet->closes, 0);
    assert_int_equal(c->fleet->pending_count, 0);
}

static void the_default_sandbox_of_an_earlier_server_is_used_again(void **state)
{
    struct client *c = *state;
    client_tool(c, "create_sandbox", "{}");
    c->fleet->sandboxes[0].is_default = true;
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_string_equal(text_at(result, "structuredContent.sandbox_id"), "sb1");
    assert_null(strstr(text_at(result, "content.0.text"), "new one"));
    assert_int_equal(c->fleet->opens, 1);
    fake_lose(c->fleet, "sb1");
    client_tool(c, "execute_code", "{'code':'1'}");
    assert_int_equal(c->fleet->opens, 2);
    assert_true(c->fleet->spec.is_default);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(code_that_takes_longer_than_the_budget_is_running),
        TEST(code_with_an_open_stdin_is_talked_to),
        TEST(an_execution_is_waited_for_as_long_as_the_call_says),
        TEST(offsets_that_lead_nowhere_are_refused),
        TEST(no_offset_tears_a_character),
        TEST(output_that_is_too_much_for_a_result_is_fetched_in_parts),
        TEST(a_stopped_execution_is_no_error_and_an_ended_one_stays),
        TEST(executions_of_others_are_not_found),
        TEST(the_status_of_a_sandbox_lists_its_executions),
        TEST(create_run_close_that_takes_long_closes_when_it_is_over),
        TEST(a_server_that_leaves_does_not_close_what_goes_on),
        TEST(the_default_sandbox_of_an_earlier_server_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
