/* Which client gets which answer when requests, sinks, sessions and the server end, in every
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "proto/limits.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "tests/unit/supervisor/mcp/lab.h"

#define CALL_HOLD "'name':'hold'"
#define CALL_ECHO "'name':'echo'"

static const char *const legacy[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};

static int setup(void **state)
{
    *state = lab_create();
    return 0;
}

static int teardown(void **state)
{
    lab_free(*state);
    return 0;
}

/* ---- kinds of sessions ---------------------------------------------------------------------- */

static void every_kind_of_session_serves_its_eras(void **state)
{
    struct lab *l = *state;
    for (size_t i = 0; i < 5; i++) {
        bool modern = i == 4;
        static const enum mcp_session_kind kinds[] = {MCP_SESSION_PIPE, MCP_SESSION_LEGACY};
        for (size_t k = 0; k < 2 && !modern; k++) {
            struct peer *p = peer_create(l, kinds[k], legacy[i]);
            assert_int_equal(peer_status(p), 200);
            assert_string_equal(text_at(peer_last(p), "result.protocolVersion"), legacy[i]);
            assert_true(peer_ask(p, false, "a", "tools/call", CALL_ECHO));
            assert_string_equal(text_at(peer_last(p), "result.content.0.text"), "echo");
            assert_int_equal(peer_status(p), 200);
            assert_string_equal(revision_name(mcp_session_revision(p->session)), legacy[i]);
            peer_end(p);
        }
        struct peer *p = peer_create(l, modern ? MCP_SESSION_SINGLE : MCP_SESSION_PIPE, NULL);
        assert_true(peer_ask(p, true, "a", "tools/call", CALL_ECHO));
        assert_string_equal(text_at(peer_last(p), "result.content.0.text"), "echo");
        assert_string_equal(text_at(peer_last(p), "result.resultType"), "complete");
        peer_end(p);
        assert_int_equal(l->sessions, 0);
    }
}

static void a_single_request_is_modern_whatever_it_says(void **state)
{
    static const struct {
        const char *message;
        int code;
    } cases[] = {
        {"{'jsonrpc':'2.0','id':1,'method':'tools/list'}", -32602},
        {"{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':'2025-11-25',"
         "'capabilities':{}}}",
         -32602},
        {"[{'jsonrpc':'2.0','id':1,'method':'ping'}]", -32600},
        {"{'jsonrpc':'2.0','id':1,'result':{}}", -32600},
        {"5", -32600},
    };
    struct lab *l = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct peer *p = peer_create(l, MCP_SESSION_SINGLE, NULL);
        assert_true(peer_send(p, NULL, "%s", cases[i].message));
        assert_int_equal(number_at(peer_last(p), "error.code"), cases[i].code);
        assert_int_equal(peer_status(p), 400);
        peer_end(p);
    }
    struct peer *p = peer_create(l, MCP_SESSION_SINGLE, NULL);
    assert_false(peer_send(p, NULL, "{'jsonrpc':'2.0','method':'notifications/cancelled'}"));
    assert_int_equal(p->count, 0);
    peer_end(p);
}

static void messages_find_their_path(void **state)
{
    static const struct mcp_head now = {.version = "2026-07-28"};
    static const struct mcp_head later = {.version = "2027-01-01"};
    static const struct mcp_head before = {.version = "2025-11-25"};
    static const struct mcp_head none = {.version = NULL};
    static const struct {
        const char *message;
        const struct mcp_head *head;
        enum mcp_path path;
    } cases[] = {
        {"{'method':'tools/list','params':{" LAB_META "}}", &none, MCP_PATH_SINGLE},
        {"{'method':'tools/list','params':{" LAB_META "}}", &before, MCP_PATH_SINGLE},
        {"{'method':'initialize','params':{" LAB_META "}}", &none, MCP_PATH_SINGLE},
        {"{'method':'initialize','params':{}}", &none, MCP_PATH_INITIALIZE},
        {"{'method':'initialize','params':{}}", &before, MCP_PATH_INITIALIZE},
        {"{'method':'initialize','params':{}}", &now, MCP_PATH_SINGLE},
        {"{'method':'tools/list'}", &now, MCP_PATH_SINGLE},
        {"{'method':'tools/list'}", &later, MCP_PATH_SINGLE},
        {"{'method':'notifications/cancelled'}", &now, MCP_PATH_SINGLE},
        {"{'method':'tools/list'}", &before, MCP_PATH_LEGACY},
        {"{'method':'tools/list'}", &none, MCP_PATH_LEGACY},
        {"{'method':'server/discover'}", &none, MCP_PATH_SINGLE},
        {"{'id':1,'result':{}}", &none, MCP_PATH_LEGACY},
        {"[{'method':'ping'}]", &none, MCP_PATH_LEGACY},
        {"[{'method':'ping'},{'params':{" LAB_META "}}]", &none, MCP_PATH_SINGLE},
        {"[]", &none, MCP_PATH_LEGACY},
        {"7", &none, MCP_PATH_LEGACY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *json = alloc_strdup(cases[i].message);
        for (char *p = json; *p != '\0'; p++) {
            *p = *p == '\'' ? '"' : *p;
        }
        cJSON *message = cJSON_Parse(json);
        assert_non_null(message);
        if (mcp_classify(message, cases[i].head) != cases[i].path) {
            fail_msg("case %zu takes another path: %s", i, json);
        }
        cJSON_Delete(message);
        free(json);
    }
}

static void initialize_with_a_header_of_the_latest_is_a_mismatch(void **state)
{
    struct lab *l = *state;
    const struct mcp_head head = {.version = "2026-07-28", .method = "initialize"};
    struct peer *p = peer_create(l, MCP_SESSION_SINGLE, NULL);
    peer_send(p, &head,
              "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':"
              "'2025-11-25','capabilities':{}}}");
    assert_error(p, -32020, "MCP-Protocol-Version");
    assert_int_equal(peer_status(p), 400);
    peer_end(p);
}

/* ---- cancellation --------------------------------------------------------------------------- */

static void a_cancelled_request_is_never_answered(void **state)
{
    struct lab *l = *state;
    for (int modern = 0; modern < 2; modern++) {
        for (int at_once = 0; at_once < 2; at_once++) {
            struct peer *p = peer_create(l, MCP_SESSION_PIPE, modern ? NULL : "2025-11-25");
            size_t before = p->count;
            size_t n = l->held_count;
            l->cancels = 0;
            l->end_on_cancel = at_once;
            assert_true(peer_ask(p, modern, "h", "tools/call", CALL_HOLD));
            assert_int_equal(mcp_session_open_requests(p->session), 1);
            assert_false(peer_cancel(p, "other"));
            assert_int_equal(l->cancels, 0);
            assert_false(peer_cancel(p, "h"));
            assert_int_equal(l->cancels, 1);
            assert_int_equal(mcp_session_open_requests(p->session), 0);
            assert_int_equal(p->count, before + 1); /* "there will be no answer" */
            assert_null(p->got[before]);
            assert_false(peer_cancel(p, "h"));
            assert_int_equal(l->cancels, 1);
            if (!at_once) {
                assert_int_equal(l->me->calls, 1); /* it still counts as work */
                lab_end(l, n);
            }
            assert_int_equal(l->me->calls, 0);
            assert_int_equal(p->count, before + 1);
            peer_end(p);
        }
    }
}

static void an_id_is_free_again_after_a_cancel(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    peer_ask(p, false, "h", "tools/call", CALL_HOLD);
    peer_ask(p, false, "h", "ping", "");
    assert_error(p, -32600, "in flight");
    peer_cancel(p, "h");
    peer_ask(p, false, "h", "tools/call", CALL_HOLD);
    lab_end(l, 0); /* the call without a client */
    assert_null(p->got[p->count - 1]);
    lab_end(l, 1);
    assert_string_equal(text_at(peer_last(p), "id"), "h");
    peer_end(p);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void what_a_lost_connection_means_depends_on_the_era(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-11-25");
    struct peer *other = peer_beside(p);
    peer_ask(other, false, "h", "tools/call", CALL_HOLD);
    mcp_session_sink_gone(p->session, &other->sink);
    assert_int_equal(l->cancels, 0); /* legacy: the call goes on */
    assert_int_equal(mcp_session_open_requests(p->session), 1);
    lab_end(l, 0);
    assert_int_equal(other->count, 0);
    peer_free(other);
    peer_end(p);

    for (int at_once = 0; at_once < 2; at_once++) {
        l->cancels = 0;
        l->end_on_cancel = at_once;
        size_t n = l->held_count;
        p = peer_create(l, MCP_SESSION_SINGLE, NULL);
        peer_ask(p, true, "h", "tools/call", CALL_HOLD);
        mcp_session_sink_gone(p->session, &p->sink);
        assert_int_equal(l->cancels, 1);
        struct mcp_session *session = p->session;
        peer_free(p); /* a later write to it would be found by the sanitizer */
        mcp_session_end(session);
        if (!at_once) {
            assert_int_equal(l->sessions, 1); /* the session lives as long as its request */
            lab_end(l, n);
        }
        assert_int_equal(l->sessions, 0);
    }
}

static void a_sink_may_go_while_a_request_is_cancelled(void **state)
{
    struct lab *l = *state;
    for (int at_once = 0; at_once < 2; at_once++) {
        struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-03-26");
        struct peer *other = peer_beside(p);
        size_t n = l->held_count;
        l->lose = p;
        l->end_on_cancel = at_once;
        peer_ask(p, false, "a", "tools/call", CALL_HOLD);
        peer_send(p, NULL,
                  "[{'jsonrpc':'2.0','id':'b','method':'tools/call','params':{" CALL_HOLD "}}]");
        size_t before = p->count;
        peer_cancel(other, "a");
        peer_cancel(other, "b");
        assert_int_equal(p->count, before);
        assert_int_equal(other->count, 0);
        l->lose = NULL;
        if (!at_once) {
            lab_end(l, n);
            lab_end(l, n + 1);
        }
        peer_free(other);
        peer_end(p);
    }
}

static void a_session_that_ends_cancels_what_it_has_and_says_nothing(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-03-26");
    peer_ask(p, false, "a", "tools/call", CALL_HOLD);
    peer_send(p, NULL,
              "[{'jsonrpc':'2.0','id':'b','method':'tools/call','params':{" CALL_HOLD "}},"
              "{'jsonrpc':'2.0','id':'c','method':'tools/call','params':{" CALL_HOLD "}},"
              "{'jsonrpc':'2.0','id':'d','method':'ping'}]");
    assert_int_equal(p->count, 1);
    struct mcp_session *session = p->session;
    mcp_session_end(session);
    assert_int_equal(l->cancels, 3);
    assert_int_equal(p->count, 1);
    peer_free(p);
    lab_end(l, 1);
    lab_end(l, 0);
    assert_int_equal(l->sessions, 1);
    lab_end(l, 2);
    assert_int_equal(l->sessions, 0);
}

static void a_handler_may_end_inside_its_cancellation_by_the_end_of_the_session(void **state)
{
    struct lab *l = *state;
    l->end_on_cancel = true;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-11-25");
    for (int i = 0; i < 5; i++) {
        char id[12];
        snprintf(id, sizeof(id), "%d", i);
        peer_ask(p, false, id, "tools/call", CALL_HOLD);
    }
    peer_end(p);
    assert_int_equal(l->cancels, 5);
    assert_int_equal(l->sessions, 0);
}

static void a_server_may_be_closed_over_requests_that_will_never_end(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-03-26");
    peer_ask(p, false, "a", "tools/call", CALL_HOLD ",'_meta':{'progressToken':1}");
    peer_send(p, NULL,
              "[{'jsonrpc':'2.0','id':'b','method':'tools/call','params':{" CALL_HOLD "}}]");
    peer_ask(p, true, "c", "tools/call", CALL_HOLD);
    peer_free(p);
}

static void a_server_that_stops_begins_nothing(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    peer_ask(p, false, "a", "tools/call", CALL_HOLD);
    mcp_server_stop(l->server);
    peer_ask(p, false, "b", "tools/call", CALL_ECHO);
    assert_error(p, -32603, "shutting down");
    peer_ask(p, false, "c", "resources/read", "'uri':'x'");
    assert_error(p, -32603, "shutting down");
    peer_ask(p, false, "d", "ping", "");
    assert_non_null(at(peer_last(p), "result"));
    lab_end(l, 0);
    assert_string_equal(text_at(peer_last(p), "id"), "a");
    peer_end(p);
}

/* ---- batches -------------------------------------------------------------------------------- */

static void a_batch_has_one_answer_however_its_parts_end(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-03-26");
    static const char two[] =
        "[{'jsonrpc':'2.0','id':'a','method':'tools/call','params':{" CALL_HOLD
        "}},{'jsonrpc':'2.0','id':'b','method':'tools/call','params':{" CALL_HOLD "}}]";
    assert_true(peer_send(p, NULL, two));
    assert_int_equal(p->count, 1);
    peer_cancel(p, "a");
    assert_int_equal(p->count, 1);
    lab_end(l, 1);
    assert_int_equal(p->count, 2);
    assert_int_equal(cJSON_GetArraySize(peer_last(p)), 1);
    lab_end(l, 0);

    assert_true(peer_send(p, NULL, two));
    peer_cancel(p, "b");
    peer_cancel(p, "a");
    assert_int_equal(p->count, 3);
    assert_null(p->got[2]); /* none of them will be answered */

    assert_false(peer_send(p, NULL, "[{'jsonrpc':'2.0','method':'x'}]"));
    assert_int_equal(p->count, 3);
    assert_true(peer_send(p, NULL, "[]"));
    assert_int_equal(peer_status(p), 400);
    peer_end(p);
}

static void answers_that_do_not_fit_into_a_batch_become_errors(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-03-26");
    char *big = alloc_array((1u << 20) + 1, 1);
    memset(big, 'x', 1u << 20);
    l->result = alloc_printf("{'content':[{'type':'text','text':'%s'}]}", big);
    free(big);
    char *batch = alloc_strdup("");
    for (int i = 0; i < 20; i++) {
        char *more = alloc_printf("%s%s{'jsonrpc':'2.0','id':%d,'method':'%s','params':{%s}}",
                                  batch, i > 0 ? "," : "[", i, i < 18 ? "tools/call" : "ping",
                                  i < 18 ? CALL_ECHO : "");
        free(batch);
        batch = more;
    }
    assert_true(peer_send(p, NULL, "%s]", batch));
    free(batch);
    const cJSON *all = peer_last(p);
    assert_int_equal(cJSON_GetArraySize(all), 20);
    for (int i = 0; i < 20; i++) {
        const cJSON *one = cJSON_GetArrayItem(all, i);
        assert_int_equal(number_at(one, "id"), i);
        assert_int_equal(at(one, "result") != NULL, i < 15 || i >= 18);
        assert_int_equal(at(one, "error.message") != NULL, i >= 15 && i < 18);
    }
    peer_end(p);
}

/* ---- limits --------------------------------------------------------------------------------- */

static void calls_of_a_session_are_bounded(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    for (int i = 0; i < LIMIT_CALLS + 1; i++) {
        char id[12];
        snprintf(id, sizeof(id), "%d", i);
        peer_ask(p, false, id, "tools/call", CALL_HOLD);
    }
    assert_error(p, -32010, "in flight");
    assert_int_equal(l->held_count, LIMIT_CALLS);
    peer_ask(p, false, "p", "ping", "");
    assert_non_null(at(peer_last(p), "result"));
    lab_end(l, 7);
    peer_ask(p, false, "again", "tools/call", CALL_ECHO);
    assert_non_null(at(peer_last(p), "result"));
    peer_end(p);
}

static void how_many_calls_a_session_may_have_is_configured(void **state)
{
    struct lab *l = *state;
    l->app.calls_max = 3;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    for (int i = 0; i < 4; i++) {
        char id[12];
        snprintf(id, sizeof(id), "%d", i);
        peer_ask(p, false, id, "tools/call", CALL_HOLD);
    }
    assert_error(p, -32010, "3 calls of this client are in flight");
    assert_non_null(strstr(at(peer_last(p), "error.data.hint")->valuestring, "--max-calls"));
    assert_int_equal(l->held_count, 3);
    lab_end(l, 1);
    peer_ask(p, false, "again", "tools/call", CALL_ECHO);
    assert_non_null(at(peer_last(p), "result"));
    peer_end(p);
}

static void calls_of_a_principal_are_bounded_over_all_its_sessions(void **state)
{
    struct lab *l = *state;
    l->me->limits.calls = 3;
    struct peer *p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = peer_create(l, MCP_SESSION_LEGACY, "2025-11-25");
        peer_ask(p[i], false, "h", "tools/call", CALL_HOLD);
    }
    struct peer *one = peer_create(l, MCP_SESSION_SINGLE, NULL);
    peer_ask(one, true, "h", "tools/call", CALL_ECHO);
    assert_error(one, -32010, "3 calls of yours are in flight");
    assert_int_equal(peer_status(one), 200);
    lab_end(l, 1);
    peer_ask(one, true, "h", "tools/call", CALL_ECHO);
    assert_non_null(at(peer_last(one), "result"));
    peer_end(one);
    for (size_t i = 0; i < 3; i++) {
        peer_end(p[i]);
    }
    assert_int_equal(l->me->calls, 2); /* cancelled, and still counted */
    lab_end(l, 0);
    lab_end(l, 2);
}

static void what_requests_hold_is_bounded_over_all_sessions_of_a_principal(void **state)
{
    struct lab *l = *state;
    struct peer *p[5];
    for (size_t i = 0; i < 5; i++) {
        p[i] = peer_create(l, MCP_SESSION_SINGLE, NULL);
        p[i]->claims = 16u << 20;
        peer_ask(p[i], true, "h", "tools/call", CALL_HOLD);
    }
    assert_int_equal(l->held_count, 4);
    assert_error(p[4], -32010, "64 MiB");
    assert_int_equal(l->me->kept, 64u << 20);
    p[4]->claims = 0;
    peer_ask(p[4], true, "d", "server/discover",
             ""); /* a request that is answered at once is still answered */
    assert_non_null(at(peer_last(p[4]), "result"));
    lab_end(l, 0);
    peer_ask(p[4], true, "h", "tools/call", CALL_ECHO);
    assert_non_null(at(peer_last(p[4]), "result"));
    for (size_t i = 0; i < 5; i++) {
        peer_end(p[i]);
    }
    assert_int_equal(l->me->kept, 48u << 20); /* cancelled, and still counted */
    for (size_t i = 1; i < 4; i++) {
        lab_end(l, i);
    }
}

static void what_requests_hold_is_bounded_over_all_principals(void **state)
{
    struct lab *l = *state;
    const struct principal_limits limits = {0};
    struct principal *me = l->me;
    struct principal *all[5];
    struct peer *p[17];
    for (size_t i = 0; i < 17; i++) {
        if (i % 4 == 0) {
            l->me = all[i / 4] = principal_create("somebody", &limits);
        }
        p[i] = peer_create(l, MCP_SESSION_SINGLE, NULL);
        p[i]->claims = 16u << 20;
        peer_ask(p[i], true, "h", "tools/call", CALL_HOLD);
    }
    l->me = me;
    assert_int_equal(l->held_count, 16);
    assert_error(p[16], -32010, "all clients");
    for (size_t i = 0; i < 17; i++) {
        peer_end(p[i]);
    }
    for (size_t i = 0; i < 16; i++) {
        lab_end(l, i);
    }
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(all[i]->kept, 0);
        principal_release(all[i]);
    }
}

static void many_values_weigh_more_than_their_text(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    peer_ask(p, false, "h", "tools/call",
             CALL_HOLD ",'arguments':{'a':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}");
    assert_true(l->me->kept > 16 * sizeof(cJSON));
    lab_end(l, 0);
    peer_end(p);
}

static void only_requests_that_carry_content_may_be_large(void **state)
{
    static const char *const methods[] = {"ping",       "initialize", "tools/list",
                                          "tools/call", "nonsense",   "completion/complete"};
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-11-25");
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        p->claims = LIMIT_SMALL_PARAMS + 1;
        peer_ask(p, false, "a", methods[i], CALL_ECHO);
        if (strcmp(methods[i], "tools/call") == 0) {
            assert_non_null(at(peer_last(p), "result"));
        } else if (strcmp(methods[i], "nonsense") == 0) {
            assert_error(p, -32601, "nonsense");
        } else {
            assert_error(p, -32602, "256 KiB");
        }
        p->claims = LIMIT_SMALL_PARAMS;
        peer_ask(p, false, "a", "ping", "");
        assert_non_null(at(peer_last(p), "result"));
    }
    peer_end(p);

    p = peer_create(l, MCP_SESSION_LEGACY, "2025-03-26"); /* a small one beside a large one */
    char *big = alloc_array(300001, 1);
    memset(big, 'x', 300000);
    peer_send(p, NULL,
              "[{'jsonrpc':'2.0','id':1,'method':'ping'},{'jsonrpc':'2.0','id':2,'method':"
              "'tools/call','params':{" CALL_ECHO ",'arguments':{'a':'%s'}}}]",
              big);
    free(big);
    assert_non_null(at(peer_last(p), "0.result"));
    assert_non_null(at(peer_last(p), "1.result"));
    peer_end(p);
}

static void a_huge_initialize_is_refused(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, NULL);
    char *big = alloc_array(70001, 1);
    memset(big, 'x', 70000);
    peer_send(p, NULL,
              "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':"
              "'2025-11-25','capabilities':{'%s':{}}}}",
              big);
    free(big);
    assert_error(p, -32602, "64 KiB");
    assert_false(mcp_session_is_initialized(p->session));
    peer_end(p);
}

static void begin_again(struct peer *p, const char *id, const char *capabilities)
{
    peer_send(p, NULL,
              "{'jsonrpc':'2.0','id':'%s','method':'initialize','params':{'protocolVersion':"
              "'2025-11-25','capabilities':%s}}",
              id, capabilities);
    assert_non_null(at(peer_last(p), "result.capabilities"));
}

static void a_pipe_begins_again_and_its_calls_go_on(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-06-18");
    peer_ask(p, false, "h", "tools/call", CALL_HOLD);
    peer_ask(p, false, "i", "tools/call", CALL_HOLD);
    peer_ask(p, false, "n", "tools/call", "'name':'needs'");
    assert_error(p, -32600, "sampling");
    begin_again(p, "0", "{'sampling':{}}");
    peer_ask(p, false, "n", "tools/call", "'name':'needs'");
    assert_non_null(at(peer_last(p), "result.content"));
    begin_again(p, "0", "{}");
    peer_ask(p, false, "n", "tools/call", "'name':'needs'");
    assert_error(p, -32600, "sampling");
    lab_end(l, 0);
    assert_string_equal(text_at(peer_last(p), "id"), "h");
    /* an id that comes again is that of the new client */
    begin_again(p, "0", "{}");
    peer_ask(p, false, "i", "tools/call", CALL_HOLD);
    peer_ask(p, false, "i", "ping", "");
    assert_error(p, -32600, "still in flight");
    assert_int_equal(mcp_session_open_requests(p->session), 1);
    size_t before = p->count;
    lab_end(l, 1);
    assert_int_equal(p->count, before);
    lab_end(l, 2);
    assert_int_equal(p->count, before + 1);
    assert_string_equal(text_at(peer_last(p), "id"), "i");
    /* also that of initialize itself */
    peer_ask(p, false, "0", "tools/call", CALL_HOLD);
    begin_again(p, "0", "{}");
    before = p->count;
    lab_end(l, 3);
    assert_int_equal(p->count, before);
    assert_int_equal(l->me->calls, 0);
    peer_end(p);
}

/* Who is refused has not begun again, and still waits. */
static void a_refused_initialize_takes_no_answer_away(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, "2025-03-26");
    peer_ask(p, false, "h", "tools/call", CALL_HOLD);
    peer_ask(p, false, "h", "initialize", "'capabilities':{}");
    assert_error(p, -32602, "protocolVersion");
    peer_send(p, NULL,
              "[{'jsonrpc':'2.0','id':'h','method':'initialize','params':{'protocolVersion':"
              "'2025-03-26','capabilities':{}}}]");
    assert_non_null(strstr(text_at(peer_last(p), "0.error.message"), "batch"));
    assert_int_equal(mcp_session_open_requests(p->session), 1);
    size_t before = p->count;
    lab_end(l, 0);
    assert_int_equal(p->count, before + 1);
    assert_string_equal(text_at(peer_last(p), "id"), "h");
    assert_non_null(at(peer_last(p), "result.content"));
    peer_end(p);
}

static void a_session_over_http_does_not_begin_again(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_LEGACY, "2025-11-25");
    peer_ask(p, false, "a", "initialize", "'protocolVersion':'2025-06-18','capabilities':{}");
    assert_error(p, -32600, "initialized already");
    assert_int_equal(mcp_session_revision(p->session), REVISION_2025_11_25);
    peer_end(p);
}

static void what_is_no_message_is_rejected(void **state)
{
    struct lab *l = *state;
    struct peer *p = peer_create(l, MCP_SESSION_PIPE, NULL);
    mcp_session_reject(p->session, &p->sink, JSONRPC_PARSE_ERROR, "it is soup");
    assert_error(p, -32700, "Parse error: it is soup");
    assert_int_equal(peer_status(p), 400);
    static const struct {
        int code;
        const char *words;
    } kinds[] = {
        {JSONRPC_INVALID_REQUEST, "Invalid request: a fork"},
        {JSONRPC_PARSE_ERROR, "Parse error: a fork"},
        {JSONRPC_HEADER_MISMATCH, "Header mismatch: a fork"},
        {JSONRPC_INTERNAL, "Unavailable: a fork"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char *text = mcp_reject_text(i % 2 != 0, kinds[i].code, "a fork");
        assert_non_null(strstr(text, kinds[i].words));
        assert_true((strstr(text, "\"id\":null") != NULL) == (i % 2 != 0));
        assert_true((strstr(text, "\"id\"") != NULL) == (i % 2 != 0));
        free(text);
    }
    peer_ask(p, true, "h", "tools/call", CALL_HOLD); /* the call keeps the session */
    size_t before = p->count;
    mcp_session_end(p->session);
    mcp_session_reject(p->session, &p->sink, JSONRPC_PARSE_ERROR, "nobody is there");
    assert_int_equal(p->count, before);
    peer_free(p);
    lab_end(l, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_session_serves_its_eras),
        TEST(a_single_request_is_modern_whatever_it_says),
        TEST(messages_find_their_path),
        TEST(initialize_with_a_header_of_the_latest_is_a_mismatch),
        TEST(a_cancelled_request_is_never_answered),
        TEST(an_id_is_free_again_after_a_cancel),
        TEST(what_a_lost_connection_means_depends_on_the_era),
        TEST(a_sink_may_go_while_a_request_is_cancelled),
        TEST(a_session_that_ends_cancels_what_it_has_and_says_nothing),
        TEST(a_handler_may_end_inside_its_cancellation_by_the_end_of_the_session),
        TEST(a_server_may_be_closed_over_requests_that_will_never_end),
        TEST(a_server_that_stops_begins_nothing),
        TEST(a_batch_has_one_answer_however_its_parts_end),
        TEST(answers_that_do_not_fit_into_a_batch_become_errors),
        TEST(calls_of_a_session_are_bounded),
        TEST(how_many_calls_a_session_may_have_is_configured),
        TEST(calls_of_a_principal_are_bounded_over_all_its_sessions),
        TEST(what_requests_hold_is_bounded_over_all_sessions_of_a_principal),
        TEST(what_requests_hold_is_bounded_over_all_principals),
        TEST(many_values_weigh_more_than_their_text),
        TEST(only_requests_that_carry_content_may_be_large),
        TEST(a_huge_initialize_is_refused),
        TEST(a_pipe_begins_again_and_its_calls_go_on),
        TEST(a_refused_initialize_takes_no_answer_away),
        TEST(a_session_over_http_does_not_begin_again),
        TEST(what_is_no_message_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
