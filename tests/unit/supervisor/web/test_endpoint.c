/* MCP over HTTP: the status of each request, and the sessions of clients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/supervisor/web/web_world.h"

struct row {
    const char *what, *method, *target, *headers, *body;
    int status;
    const char *words; /* in the body; "" for an empty one */
};

static void check(struct world *w, const struct row *row)
{
    struct web_exchange *x = world_send(w, row->method, row->target, row->headers, row->body);
    if (x->status != row->status ||
        (row->words[0] == '\0' ? x->text[0] != '\0' : strstr(x->text, row->words) == NULL)) {
        fail_msg("%s: %d %s, expected %d %s", row->what, x->status, x->text, row->status,
                 row->words);
    }
}

#define CHECK_ALL(w, rows)                                                                         \
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {                                  \
        check(w, &rows[i]);                                                                        \
    }

#define LIST     "{'jsonrpc':'2.0','id':7,'method':'tools/list','params':{" META "}}"
#define LISTHEAD BASE MODERN "Mcp-Method: tools/list\n"

static const char PING[] = "{'jsonrpc':'2.0','id':1,'method':'ping'}";

/* ---- what is there -------------------------------------------------------------------------- */

static void other_paths_and_methods_get_their_status(void **state)
{
    static const struct row rows[] = {
        {"health", "GET", "/healthz", "", NULL, 200, "ok"},
        {"health by POST", "POST", "/healthz", "", "{}", 405, "error"},
        {"metadata needs no token", "GET", "/.well-known/oauth-protected-resource", "", NULL, 200,
         "{}"},
        {"unknown", "GET", "/", "", NULL, 404, "error"},
        {"unknown below mcp", "POST", "/mcp/x", BASE, "{}", 404, "error"},
        {"no token", "POST", "/mcp", TYPE ACCEPT, "no JSON", 401, ""},
        {"no token, wrong method", "PUT", "/mcp", "", NULL, 401, ""},
        {"no token, sse", "GET", "/sse", "", NULL, 401, ""},
        {"no token, messages", "POST", "/messages", "", NULL, 401, ""},
        {"PUT", "PUT", "/mcp", AUTH, NULL, 405, "error"},
        {"POST to sse", "POST", "/sse", BASE, "{}", 405, "error"},
        {"GET of messages", "GET", "/messages", AUTH, NULL, 405, "error"},
    };
    CHECK_ALL(*state, rows);
    struct web_exchange *x = world_send(*state, "PATCH", "/mcp", AUTH, NULL);
    assert_string_equal(fake_sent(x, "Allow"), "GET, POST, DELETE");
}

/* ---- the latest revision -------------------------------------------------------------------- */

static void what_is_wrong_first_decides_the_answer(void **state)
{
    static const struct row rows[] = {
        {"wrong type", "POST", "/mcp", AUTH ACCEPT "Content-Type: text/plain\n", LIST, 415,
         "-32600"},
        {"no type", "POST", "/mcp", AUTH ACCEPT, LIST, 415, "-32600"},
        {"similar type", "POST", "/mcp", AUTH "Content-Type: application/jsonl\n", LIST, 415,
         "-32600"},
        {"no JSON", "POST", "/mcp", BASE, "{'jsonrpc'", 400, "-32700"},
        {"a slash at the end", "POST", "/mcp/", LISTHEAD, LIST, 200, "tools"},
        {"two slashes at the end", "POST", "/mcp//", BASE, LIST, 404, "error"},
        {"a longer name", "POST", "/mcpx", BASE, LIST, 404, "error"},
        {"nothing", "POST", "/mcp", BASE, NULL, 400, "-32700"},
        {"not JSON, with an id", "POST", "/mcp", BASE, "{'method':'ping','x':NaN,'id':77}", 400,
         "77"},
        {"no JSON, and no request", "POST", "/mcp", BASE, "{'result':NaN,'id':77}", 400, "-32700"},
        {"no message", "POST", "/mcp", BASE, "'text'", 400, "-32600"},
        {"an array", "POST", "/mcp", LISTHEAD, "[" LIST "]", 400, "-32600"},
        {"no _meta", "POST", "/mcp", LISTHEAD,
         "{'jsonrpc':'2.0','id':7,'method':'tools/list','params':{}}", 400, "-32602"},
        {"half of _meta", "POST", "/mcp", LISTHEAD,
         "{'jsonrpc':'2.0','id':7,'method':'tools/list','params':{'_meta':{'" P
         "protocolVersion':'2026-07-28'}}}",
         400, "-32602"},
        {"no version header", "POST", "/mcp", BASE "Mcp-Method: tools/list\n", LIST, 400, "-32020"},
        {"another version header", "POST", "/mcp",
         BASE "MCP-Protocol-Version: 2025-11-25\nMcp-Method: tools/list\n", LIST, 400, "-32020"},
        {"two version headers", "POST", "/mcp", LISTHEAD MODERN, LIST, 400, "-32020"},
        {"version not served", "POST", "/mcp",
         BASE "MCP-Protocol-Version: 2099-01-01\nMcp-Method: tools/list\n",
         "{'jsonrpc':'2.0','id':7,'method':'tools/list','params':{'_meta':{'" P
         "protocolVersion':'2099-01-01','" P "clientCapabilities':{}}}}",
         400, "-32022"},
        {"two parameter headers", "POST", "/mcp",
         MODERN_CALL_HEAD("echo") "Mcp-Param-X: a\nmcp-param-x: a\n", MODERN_CALL(7, "echo"), 400,
         "-32020"},
        {"several parameter headers", "POST", "/mcp",
         MODERN_CALL_HEAD("echo") "Mcp-Param-X: a\nMcp-Param-Y: a\n", MODERN_CALL(7, "echo"), 200,
         "echo"},
        {"no method header", "POST", "/mcp", BASE MODERN, LIST, 400, "-32020"},
        {"another method header", "POST", "/mcp", BASE MODERN "Mcp-Method: TOOLS/LIST\n", LIST, 400,
         "-32020"},
        {"no name header", "POST", "/mcp", BASE MODERN "Mcp-Method: tools/call\n",
         MODERN_CALL(7, "echo"), 400, "-32020"},
        {"another name header", "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(7, "echo"),
         400, "-32020"},
        {"no such method", "POST", "/mcp", BASE MODERN "Mcp-Method: ping\n",
         "{'jsonrpc':'2.0','id':7,'method':'ping','params':{" META "}}", 404, "-32601"},
        {"not offered", "POST", "/mcp", BASE MODERN "Mcp-Method: prompts/list\n",
         "{'jsonrpc':'2.0','id':7,'method':'prompts/list','params':{" META "}}", 404, "-32601"},
        {"no such tool", "POST", "/mcp", MODERN_CALL_HEAD("none"), MODERN_CALL(7, "none"), 200,
         "-32602"},
        {"a list", "POST", "/mcp", LISTHEAD, LIST, 200, "\"tools\""},
        {"with a session id", "POST", "/mcp", LISTHEAD "Mcp-Session-Id: none\n", LIST, 200,
         "\"tools\""},
        {"without Accept", "POST", "/mcp", AUTH TYPE MODERN "Mcp-Method: tools/list\n", LIST, 200,
         "\"tools\""},
        {"type with charset", "POST", "/mcp",
         AUTH ACCEPT MODERN "Mcp-Method: tools/list\nContent-Type: Application/JSON; "
                            "charset=utf-8\n",
         LIST, 200, "\"tools\""},
        {"a call", "POST", "/mcp", MODERN_CALL_HEAD("echo"), MODERN_CALL(7, "echo"), 200, "echo"},
        {"a notification", "POST", "/mcp", BASE MODERN,
         "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':1," META "}}",
         202, ""},
    };
    struct world *w = *state;
    CHECK_ALL(w, rows);
    assert_int_equal(w->sessions, 0);
    for (size_t i = 0; i < w->exchange_count; i++) {
        assert_null(fake_sent(w->exchanges[i], "Mcp-Session-Id"));
        assert_true(w->exchanges[i]->status != 202 || w->exchanges[i]->content_type == NULL);
    }
}

static void errors_before_the_id_is_known_have_none(void **state)
{
    struct world *w = *state;
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE, "{");
    assert_null(strstr(x->text, "\"id\""));
    x = world_send(w, "POST", "/mcp", LISTHEAD MODERN, LIST);
    assert_null(strstr(x->text, "\"id\""));
    x = world_send(w, "POST", "/mcp", BASE "Mcp-Method: tools/list\n", LIST);
    assert_non_null(strstr(x->text, "\"id\":7"));
}

/* Errors of the transport have the form of the session's revision. */
static void errors_without_id_are_those_of_the_revision(void **state)
{
    static const struct {
        const char *revision, *id;
    } revisions[] = {
        {"2024-11-05", "\"id\":null"},
        {"2025-03-26", "\"id\":null"},
        {"2025-06-18", "\"id\":null"},
        {"2025-11-25", NULL},
    };
    static const struct row rows[] = {
        {"no JSON", "POST", "/mcp", BASE SESSION, "{'jsonrpc'", 400, "-32700"},
        {"no message", "POST", "/mcp", BASE SESSION, "{}", 400, "-32600"},
        {"wrong type", "POST", "/mcp", AUTH ACCEPT SESSION "Content-Type: text/plain\n", "{}", 415,
         "-32600"},
        {"Accept", "POST", "/mcp", AUTH TYPE SESSION "Accept: text/html\n", "{'jsonrpc':'2.0'}",
         406, "Accept"},
        {"version", "POST", "/mcp", BASE SESSION "MCP-Protocol-Version: 1999-01-01\n",
         "{'jsonrpc':'2.0','id':1,'method':'ping'}", 400, "1999"},
        {"twice", "POST", "/mcp", BASE SESSION "Mcp-Method: a\nMcp-Method: a\n", "{}", 400,
         "Header mismatch: Mcp-Method is there more than once"},
        {"no such events", "GET", "/mcp", BASE SESSION "Last-Event-ID: 99-1\n", NULL, 400,
         "Last-Event-ID"},
        {"another's", "POST", "/mcp", BASE "Mcp-Session-Id: abc\n", "{", 400, "-32700"},
    };
    struct world *w = *state;
    for (size_t r = 0; r < sizeof(revisions) / sizeof(revisions[0]); r++) {
        world_initialize(w, revisions[r].revision);
        size_t count = sizeof(rows) / sizeof(rows[0]);
        for (size_t i = 0; i < count; i++) {
            check(w, &rows[i]);
            const char *text = w->exchanges[w->exchange_count - 1]->text;
            bool null_id = revisions[r].id != NULL && i + 1 < count;
            assert_true((strstr(text, "\"id\":null") != NULL) == null_id);
            assert_true((strstr(text, "\"id\"") != NULL) == null_id);
        }
        /* … even if the session has ended during a request */
        struct web_exchange *call = world_send(w, "POST", "/mcp", BASE SESSION, CALL(1, "wait"));
        world_send(w, "DELETE", "/mcp", AUTH SESSION, NULL);
        assert_int_equal(call->status, 404);
        assert_true((strstr(call->text, "\"id\":null") != NULL) == (revisions[r].id != NULL));
    }
}

/* ---- older ones ----------------------------------------------------------------------------- */

static void a_session_is_found_by_its_owner_only_and_in_its_version(void **state)
{
    static const struct row rows[] = {
        {"no session", "POST", "/mcp", BASE, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 400,
         "Mcp-Session-Id"},
        {"unknown session", "POST", "/mcp", BASE "Mcp-Session-Id: abc\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 404, "-32600"},
        {"another's session", "POST", "/mcp", "Authorization: Bearer bob\n" TYPE ACCEPT SESSION,
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 404, "-32600"},
        {"two sessions", "POST", "/mcp", BASE SESSION SESSION,
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 400, "more than once"},
        {"a list", "POST", "/mcp", BASE SESSION "MCP-Protocol-Version: 2025-06-18\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 200, "\"tools\""},
        {"no version header", "POST", "/mcp", BASE SESSION,
         "{'jsonrpc':'2.0','id':'a','method':'tools/list'}", 200, "\"tools\""},
        {"unknown version header", "POST", "/mcp",
         BASE SESSION "MCP-Protocol-Version: 1999-01-01\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 400, "1999-01-01"},
        {"Accept of nothing we have", "POST", "/mcp", AUTH TYPE SESSION "Accept: text/html\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 406, "Accept"},
        {"Accept of JSON", "POST", "/mcp", AUTH TYPE SESSION "Accept: application/json\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 200, "{\"jsonrpc\""},
        {"Accept of streams", "POST", "/mcp", AUTH TYPE SESSION "Accept: text/event-stream\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 200, "data: {\"jsonrpc\""},
        {"Accept of anything", "POST", "/mcp", AUTH TYPE SESSION "Accept: */*\n",
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 200, "{\"jsonrpc\""},
        {"params that are none", "POST", "/mcp", BASE SESSION,
         "{'jsonrpc':'2.0','id':1,'method':'tools/list','params':[]}", 200, "-32602"},
        {"a method that is none", "POST", "/mcp", BASE SESSION,
         "{'jsonrpc':'2.0','id':1,'method':1}", 400, "-32600"},
        {"unknown method", "POST", "/mcp", BASE SESSION, "{'jsonrpc':'2.0','id':1,'method':'none'}",
         200, "-32601"},
        {"a notification", "POST", "/mcp", BASE SESSION,
         "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':99}}", 202, ""},
        {"a response", "POST", "/mcp", BASE SESSION, "{'jsonrpc':'2.0','id':1,'result':{}}", 202,
         ""},
        {"an array, in a revision without", "POST", "/mcp", BASE SESSION,
         "[{'jsonrpc':'2.0','id':1,'method':'ping'}]", 400, "-32600"},
        {"GET without session", "GET", "/mcp", AUTH ACCEPT, NULL, 400, "Mcp-Session-Id"},
        {"GET of unknown session", "GET", "/mcp", AUTH ACCEPT "Mcp-Session-Id: abc\n", NULL, 404,
         "-32600"},
        {"GET without stream", "GET", "/mcp", AUTH SESSION "Accept: application/json\n", NULL, 406,
         "Accept"},
        {"GET of unknown events", "GET", "/mcp", BASE SESSION "Last-Event-ID: 99-1\n", NULL, 400,
         "Last-Event-ID"},
        {"GET of no event id", "GET", "/mcp", BASE SESSION "Last-Event-ID: x\n", NULL, 400,
         "Last-Event-ID"},
        {"DELETE without session", "DELETE", "/mcp", AUTH, NULL, 400, "Mcp-Session-Id"},
        {"DELETE of another's", "DELETE", "/mcp", "Authorization: Bearer bob\n" SESSION, NULL, 404,
         "-32600"},
        {"DELETE", "DELETE", "/mcp", AUTH SESSION, NULL, 204, ""},
        {"after the end", "POST", "/mcp", BASE SESSION,
         "{'jsonrpc':'2.0','id':1,'method':'tools/list'}", 404, "-32600"},
        {"DELETE once more", "DELETE", "/mcp", AUTH SESSION, NULL, 404, "-32600"},
    };
    struct world *w = *state;
    world_initialize(w, "2025-06-18");
    CHECK_ALL(w, rows);
    assert_int_equal(w->sessions, 0);
}

static void session_ids_are_visible_and_never_the_same(void **state)
{
    struct world *w = *state;
    char first[512];
    world_initialize(w, "2025-11-25");
    snprintf(first, sizeof(first), "%s", w->id);
    assert_true(strlen(first) >= 22);
    for (const char *p = first; *p != '\0'; p++) {
        assert_true(*p > ' ' && *p < 127);
    }
    world_initialize(w, "2025-11-25");
    assert_string_not_equal(first, w->id);
}

static void batches_are_of_one_revision(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-03-26");
    struct web_exchange *x =
        world_send(w, "POST", "/mcp", BASE SESSION,
                   "[{'jsonrpc':'2.0','id':1,'method':'ping'},"
                   "{'jsonrpc':'2.0','method':'notifications/x'}," CALL(2, "echo") "]");
    assert_int_equal(x->status, 200);
    assert_int_equal(x->text[0], '[');
    assert_non_null(strstr(x->text, "\"id\":1"));
    assert_non_null(strstr(x->text, "\"id\":2"));
    x = world_send(w, "POST", "/mcp", BASE SESSION,
                   "[{'jsonrpc':'2.0','method':'notifications/x'}]");
    assert_int_equal(x->status, 202);
    x = world_send(w, "POST", "/mcp", BASE SESSION, "[]");
    assert_int_equal(x->status, 400);
}

static void initialize_that_fails_leaves_no_session(void **state)
{
    struct world *w = *state;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp", BASE, "{'jsonrpc':'2.0','id':0,'method':'initialize'}");
    assert_non_null(strstr(x->text, "-32602"));
    assert_null(fake_sent(x, "Mcp-Session-Id"));
    assert_int_equal(w->sessions, 0);
}

static void the_url_says_in_which_form_results_are_wanted(void **state)
{
    struct world *w = *state;
    static const struct row bad[] = {
        {"modern", "POST", "/mcp?results=json", LISTHEAD, LIST, 400, "auto text structured"},
        {"legacy", "POST", "/mcp?results=", BASE, INITIALIZE("2025-11-25"), 400, "results="},
        {"sse", "GET", "/sse?results=Text", AUTH, NULL, 400, "results=Text"},
    };
    CHECK_ALL(w, bad);
    assert_int_equal(w->sessions, 0);
    world_send(w, "POST", "/mcp?results=structured", LISTHEAD, LIST);
    assert_int_equal(w->results, RESULT_FORM_STRUCTURED);
    world_send(w, "POST", "/mcp?results=text", LISTHEAD, LIST);
    assert_int_equal(w->results, RESULT_FORM_TEXT);
    world_send(w, "POST", "/mcp", LISTHEAD, LIST);
    assert_int_equal(w->results, RESULT_FORM_AUTO);
    struct web_exchange *x =
        world_send(w, "POST", "/mcp?results=structured", BASE, INITIALIZE("2025-11-25"));
    snprintf(w->id, sizeof(w->id), "%s", fake_sent(x, "Mcp-Session-Id"));
    world_send(w, "POST", "/mcp", BASE SESSION, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}");
    assert_int_equal(w->results, RESULT_FORM_STRUCTURED);
    x = world_send(w, "POST", "/mcp?results=json", BASE SESSION, PING);
    assert_int_equal(x->status, 400);
    assert_int_equal(world_send(w, "GET", "/sse?results=text", AUTH ACCEPT, NULL)->status, 200);
}

/* ---- room ----------------------------------------------------------------------------------- */

static void a_full_table_ends_the_longest_idle_session_of_the_same_principal(void **state)
{
    struct world *w = *state;
    char first[768], second[768];
    world_initialize(w, "2025-11-25");
    snprintf(first, sizeof(first), BASE "Mcp-Session-Id: %s\n", w->id);
    world_initialize(w, "2025-11-25");
    snprintf(second, sizeof(second), BASE "Mcp-Session-Id: %s\n", w->id);
    world_initialize(w, "2025-11-25");
    world_initialize(w, "2025-11-25");
    assert_int_equal(world_send(w, "POST", "/mcp", first, PING)->status, 200);
    world_initialize(w, "2025-11-25");
    assert_int_equal(w->sessions, 4);
    assert_int_equal(world_send(w, "POST", "/mcp", second, PING)->status, 404);
    assert_int_equal(world_send(w, "POST", "/mcp", first, PING)->status, 200);
}

static void sessions_that_were_never_used_go_first(void **state)
{
    struct world *w = *state;
    char first[768];
    world_initialize(w, "2025-11-25");
    snprintf(first, sizeof(first), BASE "Mcp-Session-Id: %s\n", w->id);
    assert_int_equal(world_send(w, "POST", "/mcp", first, PING)->status, 200);
    for (size_t i = 0; i < 20; i++) {
        world_initialize(w, "2025-11-25");
    }
    assert_int_equal(w->sessions, 4);
    assert_int_equal(world_send(w, "POST", "/mcp", first, PING)->status, 200);
}

static void sessions_in_use_make_no_room(void **state)
{
    struct world *w = *state;
    struct web_exchange *stream = NULL;
    for (size_t i = 0; i < 4; i++) {
        world_initialize(w, "2025-11-25");
        if (i % 2 == 0) {
            stream = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
        } else {
            world_send(w, "POST", "/mcp", BASE SESSION, CALL(1, "wait"));
        }
    }
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE, INITIALIZE("2025-11-25"));
    assert_int_equal(x->status, 503);
    assert_non_null(fake_sent(x, "Retry-After"));
    x = world_send(w, "GET", "/sse", BASE, NULL);
    assert_int_equal(x->status, 503);
    world_answer(w, 0); /* that session was used just now */
    x = world_send(w, "POST", "/mcp", BASE, INITIALIZE("2025-11-25"));
    assert_int_equal(x->status, 503);
    fake_hang_up(stream);
    x = world_send(w, "POST", "/mcp", BASE, INITIALIZE("2025-11-25"));
    assert_int_equal(x->status, 200);
}

#define BOB "Authorization: Bearer bob\n" TYPE ACCEPT
#define EVE "Authorization: Bearer eve\n" TYPE ACCEPT

static int begin(struct world *w, const char *headers)
{
    return world_send(w, "POST", "/mcp", headers, INITIALIZE("2025-11-25"))->status;
}

static void a_full_table_is_shared(void **state)
{
    struct world *w = *state;
    char first[768], third[256];
    for (size_t i = 0; i < 4; i++) {
        world_initialize(w, "2025-11-25");
        if (i == 0 || i == 2) {
            snprintf(i == 0 ? first : third, sizeof(first), BASE "Mcp-Session-Id: %s\n", w->id);
        }
        assert_int_equal(world_send(w, "POST", "/mcp", BASE SESSION, PING)->status, 200);
    }
    /* Bob's share is half, and Alice has more than hers, so her least recently used session is
     * evicted. */
    assert_int_equal(begin(w, BOB), 200);
    assert_int_equal(world_send(w, "POST", "/mcp", first, PING)->status, 404);
    assert_int_equal(begin(w, BOB), 200);
    assert_int_equal(world_send(w, "POST", "/mcp", third, PING)->status, 200);
    assert_int_equal(world_send(w, "POST", "/mcp", BASE SESSION, PING)->status, 200);
    /* From then on Bob and Alice only evict sessions of their own. */
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(begin(w, BOB), 200);
    }
    assert_int_equal(world_send(w, "POST", "/mcp", third, PING)->status, 200);
    assert_int_equal(world_send(w, "POST", "/mcp", BASE SESSION, PING)->status, 200);
    assert_int_equal(begin(w, BASE), 503); /* both sessions are in use */
    assert_int_equal(begin(w, EVE), 200);  /* a third client has a share as well */
    assert_int_equal(begin(w, EVE), 200);  /* … of one, so it evicts its own */
    assert_int_equal(w->sessions, 4);
}

static void sessions_in_use_keep_half_of_the_table(void **state)
{
    struct world *w = *state;
    struct web_exchange *streams[4];
    for (size_t i = 0; i < 4; i++) {
        world_initialize(w, "2025-11-25");
        streams[i] = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    }
    assert_int_equal(begin(w, BASE), 503);
    for (size_t i = 0; i < 2; i++) {
        struct web_exchange *x = world_send(w, "GET", "/sse", BOB, NULL);
        assert_int_equal(x->status, 200);
        assert_true(streams[i]->ended);
        assert_false(streams[i + 1]->ended || streams[3]->ended);
    }
    assert_int_equal(begin(w, BOB), 503);
    assert_int_equal(begin(w, EVE), 503);
    assert_false(streams[2]->ended || streams[3]->ended);
    assert_int_equal(w->sessions, 4);
}

static void idle_sessions_end(void **state)
{
    struct world *w = world_create(8, 30);
    world_initialize(w, "2025-11-25");
    struct web_exchange *stream = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    world_initialize(w, "2025-11-25");
    world_initialize(w, "2025-11-25");
    world_until_sessions(w, 1);
    assert_int_equal(world_send(w, "POST", "/mcp", BASE SESSION, PING)->status, 404);
    assert_false(stream->ended); /* a stream is open, so that session is not idle */
    fake_hang_up(stream);
    world_until_sessions(w, 0);
    world_free(w);
}

/* ---- who ------------------------------------------------------------------------------------ */

static void revoking_ends_all_of_a_principal_and_nothing_else(void **state)
{
    struct world *w = *state;
    world_initialize(w, "2025-11-25");
    struct web_exchange *stream = world_send(w, "GET", "/mcp", BASE SESSION, NULL);
    struct web_exchange *call = world_send(w, "POST", "/mcp", BASE SESSION, CALL(1, "wait"));
    struct web_exchange *old = world_send(w, "GET", "/sse", BASE, NULL);
    struct web_exchange *single =
        world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(1, "wait"));
    struct web_exchange *other = world_send(w, "POST", "/mcp",
                                            "Authorization: Bearer bob\n" TYPE ACCEPT MODERN
                                            "Mcp-Method: tools/call\nMcp-Name: wait\n",
                                            MODERN_CALL(1, "wait"));
    mcp_endpoint_revoke(w->endpoint, fake_principal(w->auth, "alice"));
    assert_true(stream->ended && call->ended && old->ended && single->ended);
    assert_int_equal(call->status, 401);
    assert_int_equal(single->status, 401);
    assert_int_equal(w->cancelled, 2);
    assert_false(other->ended);
    assert_int_equal(mcp_endpoint_open_requests(w->endpoint), 1);
    assert_int_equal(world_send(w, "POST", "/mcp", BASE SESSION, PING)->status, 404);
    world_answer(w, 2);
    assert_int_equal(other->status, 200);
}

static void revoke_alice(struct world *w)
{
    mcp_endpoint_revoke(w->endpoint, fake_principal(w->auth, "alice"));
}

static void the_end_of_one_may_be_the_end_of_others(void **state)
{
    for (size_t round = 0; round < 20; round++) { /* the order of sessions in the table is random */
        struct world *w = world_create(16, 3600000);
        w->on_cancelled = revoke_alice;
        for (size_t i = 0; i < 16; i++) {
            world_initialize(w, "2025-11-25");
            world_send(w, "POST", "/mcp", BASE SESSION, CALL(1, "wait"));
            world_send(w, "POST", "/mcp", MODERN_CALL_HEAD("wait"), MODERN_CALL(1, "wait"));
        }
        revoke_alice(w);
        assert_int_equal(w->cancelled, 32);
        assert_int_equal(w->sessions, 0);
        world_free(w);
    }
}

static void who_it_is_may_be_known_later(void **state)
{
    struct world *w = *state;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp",
                   "Authorization: Bearer slow\n" TYPE MODERN "Mcp-Method: tools/list\n", LIST);
    assert_int_equal(x->status, 0);
    fake_auth_decide(w->auth, "alice");
    assert_int_equal(x->status, 200);
    x = world_send(w, "POST", "/mcp", "Authorization: Bearer slow\n" TYPE, LIST);
    fake_auth_decide(w->auth, NULL);
    assert_int_equal(x->status, 401);
    x = world_send(w, "POST", "/mcp", "Authorization: Bearer slow\n" TYPE, LIST);
    fake_hang_up(x);
    assert_int_equal(w->sessions, 0);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void whoever_is_still_being_checked_is_refused_when_all_ends(void **state)
{
    struct world *w = world_create(4, 1000);
    bool closed = false;
    struct web_exchange *x =
        world_send(w, "POST", "/mcp",
                   "Authorization: Bearer slow\n" TYPE MODERN "Mcp-Method: tools/list\n", LIST);
    mcp_endpoint_close(w->endpoint, on_closed, &closed);
    while (!closed) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    fake_auth_decide(w->auth, "alice");
    assert_int_equal(x->status, 503);
    struct mcp_endpoint_config config = {w->server, w->auth, NULL, 4, 1000, 1000};
    w->endpoint = mcp_endpoint_create(&w->loop, &config);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(other_paths_and_methods_get_their_status),
        WORLD_TEST(what_is_wrong_first_decides_the_answer),
        WORLD_TEST(errors_before_the_id_is_known_have_none),
        WORLD_TEST(errors_without_id_are_those_of_the_revision),
        WORLD_TEST(a_session_is_found_by_its_owner_only_and_in_its_version),
        WORLD_TEST(session_ids_are_visible_and_never_the_same),
        WORLD_TEST(batches_are_of_one_revision),
        WORLD_TEST(initialize_that_fails_leaves_no_session),
        WORLD_TEST(the_url_says_in_which_form_results_are_wanted),
        WORLD_TEST(a_full_table_ends_the_longest_idle_session_of_the_same_principal),
        WORLD_TEST(sessions_that_were_never_used_go_first),
        WORLD_TEST(sessions_in_use_make_no_room),
        WORLD_TEST(a_full_table_is_shared),
        WORLD_TEST(sessions_in_use_keep_half_of_the_table),
        cmocka_unit_test(idle_sessions_end),
        WORLD_TEST(revoking_ends_all_of_a_principal_and_nothing_else),
        cmocka_unit_test(the_end_of_one_may_be_the_end_of_others),
        WORLD_TEST(who_it_is_may_be_known_later),
        cmocka_unit_test(whoever_is_still_being_checked_is_refused_when_all_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
