/* Sessions of older revisions whose server has ended: the next server resumes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "tests/unit/supervisor/web/web_world.h"

#define HOUR_MS 3600000
#define PING    "{'jsonrpc':'2.0','id':1,'method':'ping'}"
#define LIST    "{'jsonrpc':'2.0','id':1,'method':'tools/list'}"
#define BOB     "Authorization: Bearer bob\n" TYPE ACCEPT

/* Starts the next server; the session ids are still those of the last one. */
static struct world *restart(struct world *w, uint8_t key)
{
    struct world *next = world_create_named(4, HOUR_MS, key);
    memcpy(next->id, w->id, sizeof(next->id));
    world_free(w);
    return next;
}

static int ping(struct world *w)
{
    return world_send(w, "POST", "/mcp", BASE SESSION, PING)->status;
}

static void a_session_goes_on_with_the_next_server(void **state)
{
    static const char *const revisions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
    struct world *w = world_create_named(4, HOUR_MS, 1);
    for (size_t i = 0; i < 4; i++) {
        world_initialize(w, revisions[i]);
        w = restart(w, 1);
        assert_int_equal(w->sessions, 0);
        assert_int_equal(ping(w), 200);
        struct web_exchange *x = world_send(w, "POST", "/mcp", BASE SESSION, CALL(2, "echo"));
        assert_non_null(strstr(x->text, "echo"));
        assert_int_equal(w->sessions, 1); /* one session for both requests */
        x = world_send(w, "POST", "/mcp", BASE SESSION, INITIALIZE("2025-06-18"));
        assert_string_not_equal(fake_sent(x, "Mcp-Session-Id"),
                                w->id); /* a client that initializes again */
        /* the resumed session has the revision that was agreed on */
        x = world_send(w, "POST", "/mcp", BASE SESSION,
                       "[{'jsonrpc':'2.0','id':1,'method':'ping'}]");
        assert_int_equal(x->status, i == 1 ? 200 : 400);
    }
    world_free(w);
}

static void the_form_of_results_goes_on_as_well(void **state)
{
    struct world *w = world_create_named(4, HOUR_MS, 1);
    struct web_exchange *x =
        world_send(w, "POST", "/mcp?results=structured", BASE, INITIALIZE("2025-11-25"));
    snprintf(w->id, sizeof(w->id), "%s", fake_sent(x, "Mcp-Session-Id"));
    w = restart(w, 1);
    world_send(w, "POST", "/mcp", BASE SESSION, LIST);
    assert_int_equal(w->results, RESULT_FORM_STRUCTURED);
    world_free(w);
}

static void a_stream_is_opened_again_with_the_next_server(void **state)
{
    struct world *w = world_create_named(4, HOUR_MS, 1);
    world_initialize(w, "2025-11-25");
    w = restart(w, 1);
    struct web_exchange *x =
        world_send(w, "GET", "/mcp", BASE SESSION "Last-Event-ID: 0-7\n", NULL);
    assert_int_equal(x->status, 200);
    assert_false(x->ended);
    world_free(w);
}

static void an_id_is_good_for_its_principal_and_instance_only(void **state)
{
    struct world *w = world_create_named(4, HOUR_MS, 1);
    world_initialize(w, "2025-11-25");
    w = restart(w, 1);
    assert_int_equal(world_send(w, "POST", "/mcp", BOB SESSION, PING)->status, 404);
    assert_int_equal(world_send(w, "GET", "/sse", BASE "Last-Event-ID: $\n", NULL)->status, 200);
    assert_int_equal(w->sessions,
                     1); /* a new session, because the id belongs to the other transport */
    w = restart(w, 2);
    assert_int_equal(ping(w), 404);
    w = restart(w, 1);
    w->no_key = true;
    assert_int_equal(ping(w), 404);
    w->no_key = false;
    assert_int_equal(ping(w), 200);
    world_free(w);
}

static void a_forged_id_is_no_session(void **state)
{
    struct world *w = world_create_named(4, HOUR_MS, 1);
    char good[512];
    world_initialize(w, "2025-11-25");
    w = restart(w, 1);
    snprintf(good, sizeof(good), "%s", w->id);
    for (size_t i = 0; good[i] != '\0'; i++) {
        snprintf(w->id, sizeof(w->id), "%s", good);
        w->id[i] = (char)(good[i] == 'a' ? 'b' : 'a');
        assert_int_equal(world_send(w, "DELETE", "/mcp", BASE SESSION, NULL)->status, 404);
        w->id[i] = '\0'; /* cut */
        assert_int_equal(world_send(w, "DELETE", "/mcp", BASE SESSION, NULL)->status, 404);
        w->exchange_count -= 2;
        fake_free(w->exchanges[w->exchange_count]);
        fake_free(w->exchanges[w->exchange_count + 1]);
    }
    size_t len = strlen(good);
    memcpy(w->id, good, len);
    memcpy(w->id + len, "a", 2);
    assert_int_equal(ping(w), 404);
    assert_int_equal(w->sessions, 0);
    world_free(w);
}

static void a_session_that_its_client_ended_does_not_come_back(void **state)
{
    struct world *w = world_create_named(4, HOUR_MS, 1);
    world_initialize(w, "2025-11-25");
    assert_int_equal(world_send(w, "DELETE", "/mcp", BASE SESSION, NULL)->status, 204);
    assert_int_equal(ping(w), 404);
    world_initialize(w, "2025-11-25");
    w = restart(w, 1); /* one of the last server's sessions, as well */
    assert_int_equal(world_send(w, "DELETE", "/mcp", BASE SESSION, NULL)->status, 204);
    assert_int_equal(ping(w), 404);
    assert_int_equal(w->sessions, 0);
    world_free(w);
}

static void a_session_that_was_idle_goes_on_when_its_client_comes_back(void **state)
{
    struct world *w = world_create_named(2, 20, 1);
    world_initialize(w, "2025-11-25");
    world_until_sessions(w, 0);
    assert_int_equal(ping(w), 200);
    assert_int_equal(w->sessions, 1);
    world_free(w);
}

static void a_session_that_was_evicted_evicts_no_other(void **state)
{
    struct world *w = world_create_named(2, HOUR_MS, 1);
    char first[512], second[512];
    world_initialize(w, "2025-11-25");
    snprintf(first, sizeof(first), "%s", w->id);
    world_initialize(w, "2025-11-25");
    snprintf(second, sizeof(second), "%s", w->id);
    world_initialize(w, "2025-11-25");
    assert_int_equal(ping(w), 200);
    snprintf(w->id, sizeof(w->id), "%s", first);
    assert_int_equal(ping(w), 404);
    snprintf(w->id, sizeof(w->id), "%s", second);
    assert_int_equal(ping(w), 200);
    snprintf(w->id, sizeof(w->id), "%s", first);
    w = restart(w, 1); /* this server has room */
    assert_int_equal(ping(w), 200);
    world_free(w);
}

/* The URL to which the client of a stream of /sse posts. */
static char *place_of(const struct web_exchange *x)
{
    const char *at = strstr(x->text, "data: /base");
    assert_non_null(at);
    at += strlen("data: /base");
    return alloc_printf("%.*s", (int)strcspn(at, "\n"), at);
}

static void a_client_of_sse_that_opens_its_stream_again_need_not_begin_anew(void **state)
{
    struct world *w = world_create_named(4, HOUR_MS, 1);
    struct web_exchange *stream = world_send(w, "GET", "/sse", BASE, NULL);
    char *place = place_of(stream);
    assert_null(strstr(stream->text, "id: ")); /* there are no events to resume yet */
    world_send(w, "POST", place, BASE, INITIALIZE("2024-11-05"));
    const char *at = strstr(stream->text, "id: ");
    assert_non_null(at);
    snprintf(w->id, sizeof(w->id), "%.*s", (int)strcspn(at + 4, "\n"), at + 4);
    free(place);

    w = restart(w, 1);
    stream = world_send(w, "GET", "/sse", BASE "Last-Event-ID: $\n", NULL);
    place = place_of(stream);
    world_send(w, "POST", place, BASE, CALL(2, "echo"));
    assert_non_null(strstr(stream->text, "\"id\":2"));
    assert_non_null(strstr(stream->text, "echo"));

    /* The connection is lost, and the server has not noticed yet. */
    struct web_exchange *again = world_send(w, "GET", "/sse", BASE "Last-Event-ID: $\n", NULL);
    assert_true(stream->ended);
    world_send(w, "POST", place, BASE, CALL(3, "echo"));
    assert_non_null(strstr(again->text, "\"id\":3"));
    assert_int_equal(w->sessions, 1);
    free(place);

    /* Some clients do not send the id. */
    stream = world_send(w, "GET", "/sse", BASE, NULL);
    place = place_of(stream);
    world_send(w, "POST", place, BASE, PING);
    world_send(w, "POST", place, BASE, CALL(4, "echo"));
    assert_null(strstr(stream->text, "echo")); /* this client has sent other messages before */
    free(place);
    stream = world_send(w, "GET", "/sse", BASE, NULL);
    place = place_of(stream);
    world_send(w, "POST", place, BASE, CALL(5, "echo"));
    assert_non_null(strstr(stream->text, "\"id\":5"));
    assert_non_null(strstr(stream->text, "echo"));
    free(place);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_goes_on_with_the_next_server),
        cmocka_unit_test(the_form_of_results_goes_on_as_well),
        cmocka_unit_test(a_stream_is_opened_again_with_the_next_server),
        cmocka_unit_test(an_id_is_good_for_its_principal_and_instance_only),
        cmocka_unit_test(a_forged_id_is_no_session),
        cmocka_unit_test(a_session_that_its_client_ended_does_not_come_back),
        cmocka_unit_test(a_session_that_was_idle_goes_on_when_its_client_comes_back),
        cmocka_unit_test(a_session_that_was_evicted_evicts_no_other),
        cmocka_unit_test(a_client_of_sse_that_opens_its_stream_again_need_not_begin_anew),
    };
    return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
