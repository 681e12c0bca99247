/* Event streams over HTTP: which responses are streams, lost connections, and slow readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/web/http/event_stream.h"
#include "tests/unit/supervisor/web/web_world.h"

static size_t count_of(const char *text, const char *words)
{
    size_t count = 0;
    for (const char *p = text; (p = strstr(p, words)) != NULL; p++) {
        count++;
    }
    return count;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static void only_ids_that_we_have_given_are_read(void **state)
{
    struct event_id id;
    assert_true(event_id_parse("12-345", &id));
    assert_int_equal(id.stream, 12);
    assert_int_equal(id.event, 345);
    static const char *const bad[] = {"",
                                      "-",
                                      "1",
                                      "1-",
                                      "-1",
                                      "1-2-3",
                                      "a-1",
                                      "1-a",
                                      " 1-1",
                                      "1-99999999999999999999",
                                      "99999999999999999999-1",
                                      "111111111111111111111111111111-1",
                                      "1--1",
                                      "+1-1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(event_id_parse(bad[i], &id));
    }
}

/* ---- the latest revision -------------------------------------------------------------------- */

static void a_response_becomes_a_stream_with_the_first_notification(void **state)
{
    struct world *w = *state;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(5, "wait"));
    assert_int_equal(x->status, 0);
    mcp_progress_step(w->waiting[0], 1, 2, "half");
    assert_int_equal(x->status, 200);
    assert_string_equal(x->content_type, "text/event-stream");
    assert_string_equal(fake_sent(x, "Cache-Control"), "no-cache");
    assert_string_equal(fake_sent(x, "X-Accel-Buffering"), "no");
    assert_non_null(
        strstr(x->text, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress"));
    world_answer(w, 0);
    assert_true(x->ended);
    assert_non_null(strstr(x->text, "answer 0"));
    assert_null(strstr(x->text, "id: ")); /* this revision cannot resume streams */
    assert_null(strstr(x->text, "retry"));
    assert_int_equal(w->sessions, 0);
}

static void without_event_streams_it_stays_json(void **state)
{
    struct world *w = *state;
    struct web_exchange *x = world_send(
        w, "POST", "/mcp",
        AUTH TYPE MODERN "Accept: application/json\nMcp-Method: tools/call\nMcp-Name: wait\n",
        MODERN_CALL(5, "wait"));
    mcp_progress_step(w->waiting[0], 1, 2, "half");
    assert_int_equal(x->status, 0);
    world_answer(w, 0);
    assert_string_equal(x->content_type, "application/json");
    assert_non_null(strstr(x->text, "answer 0"));
}

static void a_silent_call_is_kept_alive_by_comments(void **state)
{
    struct world *w = *state;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(5, "wait"));
    world_until_sent(w, x, ":\n\n:\n\n");
    world_answer(w, 0);
    assert_non_null(strstr(x->text, "data: "));
    assert_true(x->ended);
}

static void hanging_up_cancels(void **state)
{
    struct world *w = *state;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(5, "wait"));
    fake_hang_up(x);
    assert_int_equal(w->cancelled, 1);
    x = world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(5, "wait"));
    mcp_progress_step(w->waiting[1], 1, 2, "half");
    fake_hang_up(x);
    assert_int_equal(w->cancelled, 2);
    assert_int_equal(w->sessions, 0);
}

static void listening_is_a_stream_from_the_first_moment(void **state)
{
    struct world *w = *state;
    struct web_exchange *x = world_send(
        w, "POST", "/mcp", AUTH TYPE MODERN "Mcp-Method: subscriptions/listen\n",
        "{'jsonrpc':'2.0','id':9,'method':'subscriptions/listen','params':{'notifications':"
        "{'toolsListChanged':true}," META "}}");
    assert_string_equal(x->content_type, "text/event-stream");
    assert_non_null(strstr(x->text, "notifications/subscriptions/acknowledged"));
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
    world_until_sent(w, x, "notifications/tools/list_changed");
    fake_hang_up(x);
    assert_int_equal(w->sessions, 0);
}

/* ---- older ones ----------------------------------------------------------------------------- */

static void hanging_up_does_not_cancel_older_requests(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-06-18");
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
    fake_hang_up(x);
    assert_int_equal(w->cancelled, 0);
    assert_int_equal(mcp_endpoint_open_requests(w->endpoint), 1);
    world_answer(w, 0); /* the answer has no stream */
    x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(6, "wait"));
    world_send(w, "POST", "/mcp", BASE SESSION,
               "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':6}}");
    assert_int_equal(w->cancelled, 1);
    assert_true(x->ended);
    assert_string_equal(x->text, "");
}

static void a_lost_stream_is_continued_where_it_broke(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-06-18");
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
    mcp_progress_step(w->waiting[0], 1, 9, "one");
    assert_null(strstr(x->text, "retry:")); /* older clients cannot read a priming event */
    mcp_progress_step(w->waiting[0], 2, 9, "two");
    fake_hang_up(x);
    mcp_progress_step(w->waiting[0], 3, 9, "three");
    char *seen = strstr(x->text, "id: ");
    assert_non_null(seen);
    char *head =
        alloc_printf(BASE SESSION "Last-Event-ID: %.*s\n", (int)strcspn(seen + 4, "\n"), seen + 4);
    x = world_send(w, "GET", "/mcp", head, NULL);
    assert_null(strstr(x->text, "\"one\""));
    assert_non_null(strstr(x->text, "\"two\""));
    assert_non_null(strstr(x->text, "\"three\""));
    mcp_progress_step(w->waiting[0], 4, 9, "four");
    assert_non_null(strstr(x->text, "\"four\""));
    fake_hang_up(x);
    world_answer(w, 0);
    /* The answer is kept, and can be requested more than once, because it may be lost again. */
    for (size_t i = 0; i < 2; i++) {
        x = world_send(w, "GET", "/mcp", head, NULL);
        assert_true(x->ended);
        assert_int_equal(count_of(x->text, "answer 0"), 1);
        assert_non_null(strstr(x->text, "\"four\""));
    }
    free(head);
}

static void another_principal_cannot_continue_it(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
    mcp_progress_step(w->waiting[0], 1, 9, "one");
    fake_hang_up(x);
    x = world_send(w, "GET", "/mcp",
                   "Authorization: Bearer bob\n" TYPE ACCEPT SESSION "Last-Event-ID: 3-0\n", NULL);
    assert_int_equal(x->status, 404);
}

static void a_long_call_of_2025_11_25_can_be_resumed_before_it_said_anything(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
    world_until_sent(w, x, "\nretry: 1000\ndata: \n\n");
    assert_ptr_equal(strstr(x->text, "id: "), x->text);
    char *head = alloc_printf(BASE SESSION "Last-Event-ID: %.*s\n", (int)strcspn(x->text + 4, "\n"),
                              x->text + 4);
    fake_hang_up(x);
    world_answer(w, 0);
    x = world_send(w, "GET", "/mcp", head, NULL);
    assert_non_null(strstr(x->text, "answer 0"));
    assert_true(x->ended);
    free(head);
}

/* Clients reconnect to a stream that has ended without an answer. */
static void who_comes_back_for_a_cancelled_call_is_told_to_stop(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    for (int lost = 0; lost < 2; lost++) {
        struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
        mcp_progress_step(w->waiting[lost], 1, 9, "one");
        CLEANUP_FREE char *head = alloc_printf(BASE SESSION "Last-Event-ID: %.*s\n",
                                               (int)strcspn(x->text + 4, "\n"), x->text + 4);
        if (lost) {
            fake_hang_up(x);
        }
        world_send(w, "POST", "/mcp", BASE SESSION,
                   "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':5}}");
        assert_true(lost || x->ended);
        for (int i = 0; i < 3; i++) {
            x = world_send(w, "GET", "/mcp", head, NULL);
            assert_int_equal(x->status, 204);
            assert_true(x->ended);
        }
    }
    struct web_exchange *x =
        world_send(w, "GET", "/mcp", BASE SESSION "Last-Event-ID: 77-0\n", NULL);
    assert_int_equal(x->status, 400);
}

static void what_is_kept_is_bounded(void **state)
{
    struct world *w = *state;
    char *words = alloc_array(1, 10001);
    memset(words, 'x', 10000);
    world_initialize(w, "2025-11-25");
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
    mcp_progress_step(w->waiting[0], 1, 0, "first");
    char *head = alloc_printf(BASE SESSION "Last-Event-ID: %.*s\n", (int)strcspn(x->text + 4, "\n"),
                              x->text + 4);
    fake_hang_up(x);
    for (size_t i = 0; i < 100; i++) {
        mcp_progress_step(w->waiting[0], (double)i + 2, 0, words);
    }
    world_answer(w, 0);
    x = world_send(w, "GET", "/mcp", head, NULL);
    assert_true(strlen(x->text) < 80000);
    assert_null(strstr(x->text, "\"first\""));
    assert_non_null(strstr(x->text, "\"progress\":101"));
    assert_non_null(strstr(x->text, "answer 0"));
    free(head);
    free(words);
}

static void the_standing_stream_has_what_nobody_asked_for(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS); /* before there is a stream */
    struct web_exchange *x = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    assert_string_equal(x->content_type, "text/event-stream");
    assert_non_null(strstr(x->text, "\nretry: 1000\ndata: \n\n"));
    world_until_sent(w, x, "notifications/tools/list_changed");
    fake_hang_up(x);
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
    x = world_send(w, "GET", "/mcp", BASE SESSION "Last-Event-ID: 0-1\n", NULL);
    world_until_sent(w, x, "notifications/tools/list_changed");
    assert_int_equal(count_of(x->text, "list_changed"), 1); /* repeated changes are sent once */
    world_until_sent(w, x, ":\n\n");
}

static void the_newest_of_two_standing_streams_stays(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-06-18");
    struct web_exchange *first = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    struct web_exchange *second = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    assert_true(first->ended);
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
    world_until_sent(w, second, "list_changed");
    assert_null(strstr(first->text, "list_changed"));
}

static void ending_a_session_ends_its_streams(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    struct web_exchange *stream = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    struct web_exchange *call = world_send(w, "POST", "/mcp", BASE SESSION, CALL(5, "wait"));
    struct web_exchange *told = world_send(w, "POST", "/mcp", BASE SESSION, CALL(6, "wait"));
    mcp_progress_step(w->waiting[1], 1, 9, "one");
    world_send(w, "DELETE", "/mcp", BASE SESSION, NULL);
    assert_true(stream->ended && told->ended);
    assert_int_equal(call->status, 404);
    assert_int_equal(w->cancelled, 2);
    assert_int_equal(w->sessions, 0);
}

/* ---- slow readers --------------------------------------------------------------------------- */

static void a_slow_reader_misses_notifications_but_no_answer(void **state)
{
    struct world *w = *state;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(5, "wait"));
    mcp_progress_step(w->waiting[0], 1, 9, "one");
    x->queued = 1 << 20;
    mcp_progress_step(w->waiting[0], 2, 9, "two");
    x->queued = 0;
    mcp_progress_step(w->waiting[0], 3, 9, "three");
    x->queued = 1 << 20;
    world_answer(w, 0);
    assert_null(strstr(x->text, "\"two\""));
    assert_non_null(strstr(x->text, "\"three\""));
    assert_non_null(strstr(x->text, "answer 0"));
}

static void a_standing_stream_that_nobody_reads_is_closed(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    struct web_exchange *x = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    x->queued = 1 << 20;
    world_until_ended(w, x);
    assert_int_equal(w->sessions, 1); /* it may resume later */
    x = world_send(w, "GET", "/sse", BASE, NULL);
    x->queued = 1 << 20;
    world_until_ended(w, x);
    assert_int_equal(w->sessions, 1);
}

/* ---- the transport of 2024-11-05 ------------------------------------------------------------ */

static struct web_exchange *old_open(struct world *w)
{
    struct web_exchange *x = world_send(w, "GET", "/sse", BASE, NULL);
    static const char endpoint[] = "event: endpoint\ndata: /base/messages?sessionId=";
    assert_ptr_equal(strstr(x->text, endpoint), x->text);
    snprintf(w->id, sizeof(w->id), "%.*s", (int)strcspn(x->text + strlen(endpoint), "\n"),
             x->text + strlen(endpoint));
    return x;
}

static void the_old_transport_answers_on_its_stream(void **state)
{
    struct world *w = *state;
    struct web_exchange *x = old_open(w);
    struct web_exchange *post =
        world_send(w, "POST", "/messages?sessionId=$", BASE, INITIALIZE("2024-11-05"));
    assert_int_equal(post->status, 202);
    assert_string_equal(post->text, "Accepted");
    assert_non_null(strstr(x->text, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":0"));
    world_send(w, "POST", "/messages?sessionId=$", BASE,
               "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    post = world_send(w, "POST", "/messages?sessionId=$", BASE, CALL(5, "wait"));
    assert_int_equal(post->status, 202);
    mcp_progress_step(w->waiting[0], 1, 9, "one");
    assert_non_null(strstr(x->text, "notifications/progress"));
    world_answer(w, 0);
    assert_non_null(strstr(x->text, "answer 0"));
    assert_false(x->ended);
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
    world_until_sent(w, x, "list_changed");
    world_until_sent(w, x, ":\n\n");
    assert_null(strstr(x->text, "id: ")); /* nothing to resume */
    fake_hang_up(x);
    assert_int_equal(w->sessions, 0);
    post = world_send(w, "POST", "/messages?sessionId=$", BASE, CALL(6, "echo"));
    assert_int_equal(post->status, 404);
}

static void the_old_transport_refuses(void **state)
{
    struct world *w = *state;
    struct web_exchange *x = old_open(w);
    assert_int_equal(world_send(w, "POST", "/messages", BASE, "{}")->status, 400);
    assert_int_equal(world_send(w, "POST", "/messages?sessionId=x", BASE, "{}")->status, 404);
    assert_int_equal(world_send(w, "POST", "/messages?sessionId=$", BASE, "{")->status, 400);
    assert_int_equal(world_send(w, "POST", "/messages?sessionId=$", AUTH, "{}")->status, 415);
    assert_int_equal(
        world_send(w, "POST", "/messages?sessionId=$", "Authorization: Bearer bob\n" TYPE, "{}")
            ->status,
        404);
    /* ids of one transport are unknown to the other */
    assert_int_equal(world_send(w, "POST", "/mcp", BASE SESSION, CALL(1, "echo"))->status, 404);
    x->queued = 1 << 20;
    struct web_exchange *post =
        world_send(w, "POST", "/messages?sessionId=$", BASE, CALL(1, "echo"));
    assert_int_equal(post->status, 503);
    x->queued = 0;
}

static void revisions_of_later_can_be_spoken_over_the_old_transport(void **state)
{
    struct world *w = *state;
    struct web_exchange *x = old_open(w);
    world_send(w, "POST", "/messages?sessionId=$", BASE, INITIALIZE("2025-11-25"));
    assert_non_null(strstr(x->text, "\"protocolVersion\":\"2025-11-25\""));
    assert_null(strstr(x->text, "id: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_ids_that_we_have_given_are_read),
        WORLD_TEST(a_response_becomes_a_stream_with_the_first_notification),
        WORLD_TEST(without_event_streams_it_stays_json),
        WORLD_TEST(a_silent_call_is_kept_alive_by_comments),
        WORLD_TEST(hanging_up_cancels),
        WORLD_TEST(listening_is_a_stream_from_the_first_moment),
        WORLD_TEST(hanging_up_does_not_cancel_older_requests),
        WORLD_TEST(a_lost_stream_is_continued_where_it_broke),
        WORLD_TEST(another_principal_cannot_continue_it),
        WORLD_TEST(a_long_call_of_2025_11_25_can_be_resumed_before_it_said_anything),
        WORLD_TEST(who_comes_back_for_a_cancelled_call_is_told_to_stop),
        WORLD_TEST(what_is_kept_is_bounded),
        WORLD_TEST(the_standing_stream_has_what_nobody_asked_for),
        WORLD_TEST(the_newest_of_two_standing_streams_stays),
        WORLD_TEST(ending_a_session_ends_its_streams),
        WORLD_TEST(a_slow_reader_misses_notifications_but_no_answer),
        WORLD_TEST(a_standing_stream_that_nobody_reads_is_closed),
        WORLD_TEST(the_old_transport_answers_on_its_stream),
        WORLD_TEST(the_old_transport_refuses),
        WORLD_TEST(revisions_of_later_can_be_spoken_over_the_old_transport),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
