/* Handlers that ask the client questions, in all revisions and sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/mcp/input.h"
#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/task_registry.h"
#include "supervisor/mcp/tasks.h"
#include "tests/unit/supervisor/mcp/talk.h"

#define CAPS    "{'elicitation':{},'sampling':{},'roots':{}}"
#define ELICIT  "elicitation/create"
#define RELATED "_meta.`io.modelcontextprotocol/related-task`.taskId"
#define META(caps)                                                                                 \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':" caps "}"

static int setup(void **state)
{
    *state =
        talk_create(MCP_OFFER_TOOLS | MCP_OFFER_TASKS | MCP_OFFER_RESOURCES | MCP_OFFER_PROMPTS);
    return 0;
}

static int teardown(void **state)
{
    talk_destroy(*state);
    return 0;
}

static struct talker *older(struct talk *t, const char *revision)
{
    return talk_join(t, t->anna, MCP_SESSION_LEGACY, revision, CAPS);
}

static struct talker *latest(struct talk *t)
{
    return talk_join(t, t->anna, MCP_SESSION_PIPE, NULL, NULL);
}

/* ---- the latest revision --------------------------------------------------------------------- */

static void the_questions_are_the_answer_and_the_request_is_repeated(void **state)
{
    static const struct {
        const char *method, *params, *there;
    } rows[] = {
        {"tools/call", "'name':'ask'", "result.content"},
        {"prompts/get", "'name':'p'", "result.messages"},
        {"resources/read", "'uri':'s://a'", "result.contents"},
    };
    struct talk *t = *state;
    struct talker *c = latest(t);
    for (size_t i = 0; i < 3; i++) {
        const cJSON *asked = talk_answer(c, talk_ask(c, rows[i].method, "%s", rows[i].params));
        assert_text_at(asked, "result.resultType", "input_required");
        assert_text_at(asked, "result.inputRequests.who.method", ELICIT);
        assert_null(at(asked, "result.inputRequests.who.jsonrpc"));
        assert_null(at(asked, "result.requestState"));
        assert_null(at(asked, "result.ttlMs"));
        const cJSON *answer =
            talk_answer(c, talk_ask(c, rows[i].method,
                                    "%s,'inputResponses':{'more':{},'who':{'action':'accept',"
                                    "'content':{'name':'Ada'}}}",
                                    rows[i].params));
        assert_text_at(answer, "result.resultType", "complete");
        assert_non_null(at(answer, rows[i].there));
    }
    const cJSON *hello = talk_answer(c, talk_ask(c, "tools/call",
                                                 "'name':'ask','inputResponses':{'who':{'content':{"
                                                 "'name':'Ada'}}}"));
    assert_text_at(hello, "result.content.0.text", "Hello, Ada!");
    const cJSON *again =
        talk_answer(c, talk_ask(c, "tools/call",
                                "'name':'ask','inputResponses':{'wrong':{'action':'accept'}}"));
    assert_text_at(again, "result.resultType", "input_required");
    talk_leave(c);
}

static void malformed_input_is_refused_before_the_handler_runs(void **state)
{
    static const char *const rows[] = {
        "'inputResponses':null",
        "'inputResponses':[]",
        "'inputResponses':{'who':12345}",
        "'inputResponses':{'who':{},'x':null}",
        "'requestState':7",
        "'requestState':null",
        "'requestState':'made up'",
    };
    struct talk *t = *state;
    struct talker *c = latest(t);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_error(talk_answer(c, talk_ask(c, "tools/call", "'name':'ask',%s", rows[i])), -32602);
    }
    assert_int_equal(t->runs, 0);
    talk_leave(c);
}

/* Begins `rounds`; returns its state, to be freed. */
static char *begin_rounds(struct talker *c, const char *arguments)
{
    const cJSON *asked =
        talk_answer(c, talk_ask(c, "tools/call", "'name':'rounds','arguments':%s", arguments));
    assert_text_at(asked, "result.resultType", "input_required");
    return alloc_strdup(text_at(asked, "result.requestState"));
}

static const cJSON *go_on(struct talker *c, const char *arguments, const char *state,
                          const char *value)
{
    return talk_answer(
        c, talk_ask(c, "tools/call",
                    "'name':'rounds','arguments':%s,'requestState':'%s','inputResponses':{'step':"
                    "{'action':'accept','content':{'value':'%s'}}}",
                    arguments, state, value));
}

static void a_state_comes_back_and_cannot_be_changed_or_used_elsewhere(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    struct talker *other = talk_join(t, t->berta, MCP_SESSION_PIPE, NULL, NULL);
    CLEANUP_FREE char *first = begin_rounds(c, "{'x':1}");
    const cJSON *second = go_on(c, "{'x':1}", first, "a");
    assert_text_at(second, "result.resultType", "input_required");
    CLEANUP_FREE char *name = alloc_strdup(text_at(second, "result.requestState"));
    assert_string_not_equal(name, first);
    CLEANUP_FREE char *tampered = alloc_printf("%s-TAMPERED", name);
    assert_error(go_on(c, "{'x':1}", tampered, "b"), -32602);
    assert_error(go_on(c, "{'x':2}", name, "b"), -32602);     /* another request */
    assert_error(go_on(other, "{'x':1}", name, "b"), -32602); /* another principal */
    const cJSON *stolen = talk_answer(
        c, talk_ask(c, "tools/call", "'name':'ask','arguments':{'x':1},'requestState':'%s'", name));
    assert_error(stolen, -32602);
    struct talker *single = talk_join(t, t->anna, MCP_SESSION_SINGLE, NULL, NULL);
    assert_text_at(go_on(single, "{'x':1}", name, "b"), "result.content.0.text", "ab");
    talk_leave(single); /* another connection is fine, and so is a second time */
    assert_text_at(go_on(c, "{'x':1}", name, "c"), "result.content.0.text", "ac");
    talk_leave(c);
    talk_leave(other);
}

static void a_client_is_asked_only_for_what_it_declared(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    c->modern = false; /* prevents talk_ask() from adding members to params */
    int n = talk_ask(c, "tools/call", "'name':'ask'," META("{'sampling':{}}"));
    assert_error(talk_answer(c, n), -32021);
    assert_non_null(at(talk_answer(c, n), "error.data.requiredCapabilities.elicitation"));
    n = talk_ask(c, "tools/call", "'name':'two'," META("{'roots':{}}"));
    assert_null(at(talk_answer(c, n), "result.inputRequests.who"));
    assert_text_at(talk_answer(c, n), "result.inputRequests.where.method", "roots/list");
    talk_leave(c);

    c = talk_join(t, t->anna, MCP_SESSION_LEGACY, "2025-11-25", "{'roots':{}}");
    n = talk_ask(c, "tools/call", "'name':'ask'");
    assert_error(talk_answer(c, n), -32600);
    assert_int_equal(talk_count(c, ELICIT), 0);
    talk_leave(c);
}

/* ---- older revisions ------------------------------------------------------------------------- */

/* Answers the n-th question from the end. */
static void reply(struct talker *c, const char *method, size_t n, const char *what)
{
    const cJSON *asked = talk_heard(c, method, n);
    assert_non_null(asked);
    assert_true(json_is_int(at(asked, "id")));
    talk_send(c, "{'jsonrpc':'2.0','id':%d,%s}", at(asked, "id")->valueint, what);
}

#define ADA "'result':{'action':'accept','content':{'name':'Ada'}}"

static void an_older_client_is_asked_by_requests_inside_the_call(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'two'");
    assert_null(talk_answer(c, n));
    assert_text_at(talk_heard(c, ELICIT, 0), "params.mode", "form");
    assert_null(at(talk_heard(c, ELICIT, 0), "params." RELATED));
    reply(c, "roots/list", 0, "'result':{'roots':[{'uri':'file:///a'}]}");
    assert_null(talk_answer(c, n));
    reply(c, ELICIT, 0, ADA);
    assert_text_at(talk_answer(c, n), "result.content.0.text", "Ada has 1");
    reply(c, ELICIT, 0, ADA); /* too late: the handler no longer waits */
    assert_int_equal(t->runs, 2);
    talk_leave(c);

    c = older(t, "2025-06-18");
    n = talk_ask(c, "tools/call", "'name':'ask'");
    assert_null(at(talk_heard(c, ELICIT, 0), "params.mode"));
    reply(c, ELICIT, 0, ADA);
    assert_text_at(talk_answer(c, n), "result.content.0.text", "Hello, Ada!");
    n = talk_ask(c, "prompts/get", "'name':'p'");
    reply(c, ELICIT, 0, ADA);
    assert_non_null(at(talk_answer(c, n), "result.messages"));
    talk_leave(c);
}

static void rounds_with_an_older_client_keep_their_state_and_end(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'rounds'");
    reply(c, ELICIT, 0, "'result':{'content':{'value':'a'}}");
    reply(c, ELICIT, 0, "'result':{'content':{'value':'b'}}");
    assert_text_at(talk_answer(c, n), "result.content.0.text", "ab");
    talk_forget(c);
    n = talk_ask(c, "tools/call", "'name':'forever'");
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(talk_count(c, ELICIT), i + 1);
        assert_null(talk_answer(c, n));
        reply(c, ELICIT, 0, ADA);
    }
    assert_int_equal(talk_count(c, ELICIT), 8);
    assert_true(cJSON_IsTrue(at(talk_answer(c, n), "result.isError")));
    talk_leave(c);
}

static void an_answer_from_elsewhere_is_none(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    struct talker *other = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'ask'");
    int id = at(talk_heard(c, ELICIT, 0), "id")->valueint;
    talk_send(other, "{'jsonrpc':'2.0','id':%d," ADA "}", id);
    talk_send(c, "{'jsonrpc':'2.0','id':%d," ADA "}", id + 1);
    talk_send(c, "{'jsonrpc':'2.0','id':'%d'," ADA "}", id);
    assert_null(talk_answer(c, n));
    reply(c, ELICIT, 0, ADA);
    assert_non_null(talk_answer(c, n));
    talk_leave(c);
    talk_leave(other);
}

static void a_client_that_will_not_answer_ends_the_call_with_its_reason(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'two'");
    reply(c, ELICIT, 0, "'error':{'code':-1,'message':'User said no'}");
    assert_true(cJSON_IsTrue(at(talk_answer(c, n), "result.isError")));
    assert_non_null(strstr(text_at(talk_answer(c, n), "result.content.0.text"), "User said no"));
    /* the other question is cancelled */
    assert_true(at(talk_heard(c, "notifications/cancelled", 0), "params.requestId")->valueint ==
                at(talk_heard(c, "roots/list", 0), "id")->valueint);
    n = talk_ask(c, "prompts/get", "'name':'p'");
    reply(c, ELICIT, 0, "'error':{'code':-1,'message':'User said no'}");
    assert_error(talk_answer(c, n), -32603);
    n = talk_ask(c, "tools/call", "'name':'ask'");
    reply(c, ELICIT, 0, "'result':3");
    assert_true(cJSON_IsTrue(at(talk_answer(c, n), "result.isError")));
    talk_leave(c);
}

static void who_cannot_be_asked_gets_an_answer(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    c->behind = true;
    int n = talk_ask(c, "tools/call", "'name':'ask'");
    assert_true(cJSON_IsTrue(at(talk_answer(c, n), "result.isError")));
    c->behind = false;
    c->hang_up = true; /* while it is being asked two questions */
    talk_ask(c, "tools/call", "'name':'two'");
    assert_null(c->session);
    talk_leave(c);
}

static void cancelling_while_it_waits_takes_the_questions_back(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    mcp_session_set_stream(c->session, &c->sink);
    int n = talk_ask(c, "tools/call", "'name':'ask'");
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}",
              n);
    assert_int_equal(c->unanswered, 1);
    assert_true(at(talk_heard(c, "notifications/cancelled", 0), "params.requestId")->valueint ==
                at(talk_heard(c, ELICIT, 0), "id")->valueint);
    assert_int_equal(mcp_session_open_requests(c->session), 0);
    mcp_session_set_stream(c->session, NULL); /* answers go to the stream of their request */
    n = talk_ask(c, "tools/call", "'name':'ask'");
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}",
              n);
    assert_int_equal(c->unanswered, 2);
    assert_int_equal(talk_count(c, "notifications/cancelled"), 2);
    assert_true(at(talk_last(c), "params.requestId")->valueint ==
                at(talk_heard(c, ELICIT, 0), "id")->valueint);
    talk_ask(c, "tools/call", "'name':'ask'"); /* a client that leaves is not waited for */
    talk_leave(c);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static const cJSON *get(struct talker *c, const char *task)
{
    return talk_answer(c, talk_ask(c, "tasks/get", "'taskId':'%s'", task));
}

static const cJSON *update(struct talker *c, const char *task, const char *responses)
{
    return talk_answer(
        c, talk_ask(c, "tasks/update", "'taskId':'%s','inputResponses':%s", task, responses));
}

static void a_task_shows_its_questions_and_takes_answers_one_by_one(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    int n = talk_ask(c, "tools/call", "'name':'task_two'");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.taskId"));
    const cJSON *open = at(get(c, id), "result.inputRequests");
    assert_text_at(get(c, id), "result.status", "input_required");
    assert_int_equal(cJSON_GetArraySize(open), 2);
    CLEANUP_FREE char *who = alloc_strdup(open->child->string);
    CLEANUP_FREE char *where = alloc_strdup(open->child->next->string);
    CLEANUP_FREE char *ada =
        alloc_printf("{'%s':{'action':'accept','content':{'name':'Ada'}},'other':{}}", who);
    CLEANUP_FREE char *eve = alloc_printf("{'%s':{'content':{'name':'Eve'}}}", who);
    CLEANUP_FREE char *roots = alloc_printf("{'%s':{'roots':[]}}", where);
    const cJSON *ack = update(c, id, ada);
    assert_text_at(ack, "result.resultType", "complete");
    assert_null(at(ack, "result.taskId"));
    open = at(get(c, id), "result.inputRequests");
    assert_text_at(get(c, id), "result.status", "input_required");
    assert_int_equal(cJSON_GetArraySize(open), 1);
    assert_string_equal(open->child->string, where);
    assert_text_at(update(c, id, eve), "result.resultType",
                   "complete"); /* it has been answered already */
    assert_text_at(update(c, id, roots), "result.resultType", "complete");
    assert_text_at(get(c, id), "result.status", "completed");
    assert_text_at(get(c, id), "result.result.content.0.text", "Ada has 0");
    assert_text_at(update(c, id, roots), "result.resultType", "complete"); /* it has ended */
    assert_error(update(c, id, "null"), -32602);
    assert_error(update(c, id, "{'x':1}"), -32602);
    assert_error(talk_answer(c, talk_ask(c, "tasks/update", "'taskId':'%s'", id)), -32602);
    talk_leave(c);
}

static void rounds_of_a_task_have_keys_of_their_own_and_an_end(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    int n = talk_ask(c, "tools/call", "'name':'task_forever'");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.taskId"));
    CLEANUP_FREE char *last = alloc_strdup("");
    for (int i = 0; i < 8; i++) {
        const cJSON *now = get(c, id);
        assert_text_at(now, "result.status", "input_required");
        const char *key = at(now, "result.inputRequests")->child->string;
        assert_string_not_equal(key, last);
        free(last);
        last = alloc_strdup(key);
        CLEANUP_FREE char *response = alloc_printf("{'%s':{}}", key);
        update(c, id, response);
    }
    assert_text_at(get(c, id), "result.status", "completed");
    assert_true(cJSON_IsTrue(at(get(c, id), "result.result.isError")));

    n = talk_ask(c, "tools/call", "'name':'task_ask'");
    free(id);
    id = alloc_strdup(text_at(talk_answer(c, n), "result.taskId"));
    talk_ask(c, "tasks/cancel", "'taskId':'%s'", id);
    assert_text_at(get(c, id), "result.status", "cancelled");
    assert_null(at(get(c, id), "result.inputRequests"));
    assert_int_equal(mcp_session_open_requests(c->session), 0);
    talk_leave(c);
}

static void a_task_of_an_older_client_asks_whoever_waits_for_it(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'two','task':{}");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.task.taskId"));
    assert_text_at(get(c, id), "result.status", "input_required");
    assert_int_equal(talk_count(c, ELICIT), 0); /* no client waits for them */
    int first = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_int_equal(talk_count(c, ELICIT), 1); /* asked once, though two handlers wait */
    assert_text_at(talk_heard(c, ELICIT, 0), "params." RELATED, id);
    assert_text_at(talk_heard(c, "roots/list", 0), "params." RELATED, id);
    reply(c, ELICIT, 0, ADA);
    mcp_session_sink_gone(c->session, &c->sink); /* the connection with the open question is lost */

    struct talker *again = older(t, "2025-11-25");
    n = talk_ask(again, "tasks/result", "'taskId':'%s'", id);
    assert_int_equal(talk_count(again, ELICIT), 0); /* it has been answered */
    reply(again, "roots/list", 0, "'result':{'roots':[]}");
    assert_text_at(talk_answer(again, n), "result.content.0.text", "Ada has 0");
    assert_text_at(talk_answer(again, n), "result." RELATED, id);
    assert_null(talk_answer(c, first)); /* its connection is gone */
    talk_leave(c);
    talk_leave(again);
}

static void questions_move_on_when_who_was_asked_gives_up_waiting(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    struct talker *other = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'ask','task':{}");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.task.taskId"));
    int first = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    int second = talk_ask(other, "tasks/result", "'taskId':'%s'", id);
    assert_int_equal(talk_count(c, ELICIT), 1);
    assert_int_equal(talk_count(other, ELICIT), 0);
    talk_send(c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}",
              first);
    assert_int_equal(talk_count(other, ELICIT), 1);
    reply(other, ELICIT, 0, ADA);
    assert_text_at(talk_answer(other, second), "result.content.0.text", "Hello, Ada!");
    talk_leave(c);
    talk_leave(other);
}

static void begin_again(struct talker *c, const char *id)
{
    talk_send(c,
              "{'jsonrpc':'2.0','id':%s,'method':'initialize','params':{'protocolVersion':"
              "'2025-11-25','capabilities':" CAPS "}}",
              id);
    assert_text_at(talk_last(c), "result.protocolVersion", "2025-11-25");
}

/* A host that initializes its pipe again has forgotten what it was asked. */
static void calls_that_wait_for_an_earlier_client_are_given_up(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_PIPE, "2025-11-25", CAPS);
    struct talker *other = talk_join(t, t->anna, MCP_SESSION_PIPE, "2025-11-25", CAPS);
    int stays = talk_ask(other, "tools/call", "'name':'ask'");
    int held = talk_ask(c, "tools/call", "'name':'hold'");
    int n = talk_ask(c, "tools/call", "'name':'two'");
    reply(c, ELICIT, 0, ADA);
    int asked = at(talk_heard(c, "roots/list", 0), "id")->valueint;
    assert_int_equal(t->anna->calls, 3);
    begin_again(c, "'new'");
    assert_true(cJSON_IsTrue(at(talk_answer(c, n), "result.isError")));
    assert_non_null(strstr(text_at(talk_answer(c, n), "result.content.0.text"), "again"));
    assert_int_equal(at(talk_heard(c, "notifications/cancelled", 0), "params.requestId")->valueint,
                     asked);
    assert_int_equal(t->anna->calls, 2); /* its place is free */
    assert_null(talk_answer(c, held));
    talk_release(t, "done", false);
    assert_text_at(talk_answer(c, held), "result.content.0.text", "done");
    reply(other, ELICIT, 0, ADA);
    assert_text_at(talk_answer(other, stays), "result.content.0.text", "Hello, Ada!");

    /* nobody waits for one with the id of initialize itself */
    talk_forget(c);
    talk_send(c, "{'jsonrpc':'2.0','id':'i','method':'tools/call','params':{'name':'ask'}}");
    assert_int_equal(talk_count(c, ELICIT), 1);
    begin_again(c, "'i'");
    assert_int_equal(c->count, 3); /* the question, that it is taken back, and the session */
    assert_int_equal(talk_count(c, "notifications/cancelled"), 1);
    assert_int_equal(t->anna->calls, 0);
    talk_leave(c);
    talk_leave(other);
}

static void a_task_asks_the_client_that_has_begun_again(void **state)
{
    struct talk *t = *state;
    struct talker *c = talk_join(t, t->anna, MCP_SESSION_PIPE, "2025-11-25", CAPS);
    int n = talk_ask(c, "tools/call", "'name':'ask','task':{}");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.task.taskId"));
    talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_int_equal(talk_count(c, ELICIT), 1);
    begin_again(c, "'new'");
    assert_text_at(get(c, id), "result.status", "input_required");
    n = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
    assert_int_equal(talk_count(c, ELICIT), 2);
    reply(c, ELICIT, 0, ADA);
    assert_text_at(talk_answer(c, n), "result.content.0.text", "Hello, Ada!");
    talk_leave(c);
}

static void a_question_asked_again_and_again_is_remembered_only_so_often(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    int n = talk_ask(c, "tools/call", "'name':'ask','task':{}");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.task.taskId"));
    for (int i = 0; i < 20; i++) {
        n = talk_ask(c, "tasks/result", "'taskId':'%s'", id);
        talk_send(
            c, "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':%d}}", n);
    }
    assert_int_equal(talk_count(c, ELICIT), 20);
    reply(c, ELICIT, 4, ADA); /* the fifth from the end */
    assert_text_at(get(c, id), "result.status", "input_required");
    reply(c, ELICIT, 3, ADA);
    assert_text_at(get(c, id), "result.status", "completed");
    talk_leave(c);
}

static void input_may_come_before_a_call_becomes_a_task(void **state)
{
    struct talk *t = *state;
    struct talker *c = latest(t);
    int n = talk_ask(c, "tools/call",
                     "'name':'task_ask','inputResponses':{'who':{'content':{'name':'Ada'}}}");
    assert_text_at(talk_answer(c, n), "result.resultType", "task");
    assert_null(at(talk_answer(c, n), "result.requestState"));
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(c, n), "result.taskId"));
    assert_text_at(get(c, id), "result.result.content.0.text", "Hello, Ada!");
    talk_leave(c);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void nobody_is_waited_for_longer_than_ten_minutes(void **state)
{
    struct talk *t = *state;
    struct talker *c = older(t, "2025-11-25");
    struct talker *modern = latest(t);
    uint64_t begin = clock_ms();
    int call = talk_ask(c, "tools/call", "'name':'ask'");
    int old_task = talk_ask(c, "tools/call", "'name':'ask','task':{}");
    CLEANUP_FREE char *old_id =
        alloc_strdup(text_at(talk_answer(c, old_task), "result.task.taskId"));
    int new_task = talk_ask(modern, "tools/call", "'name':'task_ask'");
    CLEANUP_FREE char *id = alloc_strdup(text_at(talk_answer(modern, new_task), "result.taskId"));
    CLEANUP_FREE char *name = begin_rounds(modern, "{}");

    mcp_inputs_look(t->server, begin + INPUT_TIME_MS - 1);
    mcp_tasks_look(t->server, begin + INPUT_TIME_MS - 1);
    assert_null(talk_answer(c, call));
    assert_text_at(get(modern, id), "result.status", "input_required");

    uint64_t later = clock_ms() + INPUT_TIME_MS;
    mcp_inputs_look(t->server, later);
    mcp_tasks_look(t->server, later);
    assert_true(cJSON_IsTrue(at(talk_answer(c, call), "result.isError")));
    assert_int_equal(talk_count(c, "notifications/cancelled"), 1);
    assert_text_at(get(c, old_id), "result.status", "failed");
    assert_text_at(get(modern, id), "result.status", "completed");
    assert_true(cJSON_IsTrue(at(get(modern, id), "result.result.isError")));
    assert_error(go_on(modern, "{}", name, "a"), -32602);

    mcp_tasks_look(t->server, later + TASK_TTL_MS + TASK_OVERTIME_MS);
    assert_error(get(modern, id), -32602);
    assert_error(get(c, old_id), -32602);
    talk_leave(c);
    talk_leave(modern);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_questions_are_the_answer_and_the_request_is_repeated),
        TEST(malformed_input_is_refused_before_the_handler_runs),
        TEST(a_state_comes_back_and_cannot_be_changed_or_used_elsewhere),
        TEST(a_client_is_asked_only_for_what_it_declared),
        TEST(an_older_client_is_asked_by_requests_inside_the_call),
        TEST(rounds_with_an_older_client_keep_their_state_and_end),
        TEST(an_answer_from_elsewhere_is_none),
        TEST(a_client_that_will_not_answer_ends_the_call_with_its_reason),
        TEST(who_cannot_be_asked_gets_an_answer),
        TEST(cancelling_while_it_waits_takes_the_questions_back),
        TEST(a_task_shows_its_questions_and_takes_answers_one_by_one),
        TEST(rounds_of_a_task_have_keys_of_their_own_and_an_end),
        TEST(a_task_of_an_older_client_asks_whoever_waits_for_it),
        TEST(questions_move_on_when_who_was_asked_gives_up_waiting),
        TEST(calls_that_wait_for_an_earlier_client_are_given_up),
        TEST(a_task_asks_the_client_that_has_begun_again),
        TEST(nobody_is_waited_for_longer_than_ten_minutes),
        TEST(a_question_asked_again_and_again_is_remembered_only_so_often),
        TEST(input_may_come_before_a_call_becomes_a_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
