#include "tests/unit/supervisor/mcp/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"

/* ---- the application ------------------------------------------------------------------------ */

static cJSON *parse_strictly(const char *json)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    if (json_parse(json, strlen(json), 32u << 20, 60, &tree, NULL, &err) < 0) {
        fail_msg("%s in %s", err.text, json);
    }
    return tree;
}

/* Double quotes may be written as single ones. */
static cJSON *parse(const char *text)
{
    CLEANUP_FREE char *json = alloc_strdup(text);
    for (char *p = json; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    return parse_strictly(json);
}

static void *on_open(void *arg, struct mcp_session *session)
{
    struct lab *l = arg;
    assert_non_null(mcp_session_principal(session));
    l->sessions++;
    return l;
}

static void on_close(void *arg, void *data)
{
    struct lab *l = arg;
    assert_ptr_equal(data, l);
    l->sessions--;
}

static cJSON *items_of(struct lab *l, enum mcp_list list)
{
    cJSON *items = cJSON_CreateArray();
    for (int i = 0; i < l->items; i++) {
        cJSON *item = cJSON_CreateObject();
        char name[40];
        snprintf(name, sizeof(name), "item-%d", i);
        cJSON_AddStringToObject(item, "name", name);
        cJSON_AddStringToObject(item, "title", "Title");
        cJSON_AddItemToObject(item, "icons", parse("[{'src':'https://x'}]"));
        if (list == MCP_LIST_TOOLS) {
            cJSON_AddItemToObject(item, "inputSchema", parse("{'type':'object'}"));
            cJSON_AddItemToObject(item, "outputSchema",
                                  parse(i == 0 ? "{'type':'object'}" : "{'type':'array'}"));
            cJSON_AddItemToObject(item, "annotations", parse("{'readOnlyHint':true}"));
        } else if (list == MCP_LIST_PROMPTS) {
            cJSON_AddItemToObject(item, "arguments", parse("[{'name':'a','title':'A'}]"));
        } else {
            cJSON_AddStringToObject(item, list == MCP_LIST_RESOURCES ? "uri" : "uriTemplate", name);
            cJSON_AddItemToObject(item, "annotations",
                                  parse("{'priority':1,'lastModified':'2026-01-01T00:00:00Z'}"));
        }
        cJSON_AddItemToArray(items, item);
    }
    return items;
}

static void on_list(struct mcp_request *r, enum mcp_list list, const char *cursor)
{
    struct lab *l = mcp_request_app(r);
    l->lists++;
    mcp_answer_items(r, items_of(l, list));
}

static const struct mcp_tool *on_tool_find(void *arg, const char *name)
{
    struct lab *l = arg;
    for (size_t i = 0; i < sizeof(l->tools) / sizeof(l->tools[0]); i++) {
        if (strcmp(l->tools[i].name, name) == 0) {
            return &l->tools[i];
        }
    }
    return NULL;
}

static void answer(struct mcp_request *r)
{
    struct lab *l = mcp_request_app(r);
    mcp_answer(
        r, parse(l->result != NULL ? l->result : "{'content':[{'type':'text','text':'echo'}]}"));
}

static void on_cancel(struct mcp_request *r)
{
    struct lab *l = mcp_request_app(r);
    assert_true(mcp_is_cancelled(r));
    l->cancels++;
    if (l->lose != NULL) {
        mcp_session_sink_gone(l->lose->session, &l->lose->sink);
    }
    if (l->end_on_cancel) {
        struct mcp_request **held = mcp_request_data(r);
        *held = NULL;
        answer(r);
    }
}

static void on_tool_call(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments)
{
    struct lab *l = mcp_request_app(r);
    if (strcmp(tool->name, "hold") == 0) {
        assert_true(l->held_count < LAB_HELD);
        mcp_request_set_data(r, &l->held[l->held_count]);
        l->held[l->held_count++] = r;
        mcp_on_cancel(r, on_cancel);
    } else if (strcmp(tool->name, "needs") == 0 && !mcp_client_can(r, "sampling")) {
        mcp_answer_needs(r, "sampling");
    } else if (strcmp(tool->name, "picky") == 0) {
        mcp_answer_bad_arguments(r, "x: required");
    } else {
        answer(r);
    }
}

static void on_read(struct mcp_request *r, const char *uri)
{
    if (strcmp(uri, "test://none") == 0) {
        mcp_answer_no_resource(r, uri);
    } else {
        answer(r);
    }
}

static void on_prompt(struct mcp_request *r, const char *name, const cJSON *arguments)
{
    answer(r);
}

static void on_complete(struct mcp_request *r, const struct mcp_completion *what)
{
    cJSON *values = cJSON_CreateArray();
    int count = what->arguments != NULL ? 150 : 2;
    for (int i = 0; i < count; i++) {
        cJSON_AddItemToArray(values, cJSON_CreateString(what->value));
    }
    mcp_answer_completion(r, values, count);
}

struct lab *lab_create(void)
{
    struct lab *l = alloc_one(struct lab);
    assert_int_equal(uv_loop_init(&l->loop), 0);
    l->schema = parse("{'type':'object','properties':{"
                      "'region':{'type':'string','x-mcp-header':'Region'},"
                      "'fast':{'type':'boolean','x-mcp-header':'Fast'},"
                      "'where':{'type':'object','properties':{"
                      "'zone':{'type':'integer','x-mcp-header':'Zone'}}}}}");
    static const char *const names[] = {"echo", "hold", "routed", "needs", "picky"};
    for (size_t i = 0; i < 5; i++) {
        l->tools[i] = (struct mcp_tool){.name = names[i], .input_schema = l->schema};
    }
    l->items = 2;
    l->app = (struct mcp_app){
        .arg = l,
        .name = "lab",
        .title = "The lab",
        .version = "1",
        .description = "A test",
        .website = "https://lab.example",
        .icons = "[{\"src\":\"https://lab.example/i.png\"}]",
        .instructions = "Do not.",
        .offers = MCP_OFFER_TOOLS | MCP_OFFER_RESOURCES | MCP_OFFER_PROMPTS | MCP_OFFER_COMPLETIONS,
        .session_open = on_open,
        .session_close = on_close,
        .list = on_list,
        .tool_find = on_tool_find,
        .tool_call = on_tool_call,
        .resource_read = on_read,
        .prompt_get = on_prompt,
        .complete = on_complete,
    };
    const struct principal_limits limits = {0};
    l->me = principal_create("me", &limits);
    l->server = mcp_server_create(&l->loop, &l->app);
    return l;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

void lab_free(struct lab *l)
{
    bool closed = false;
    mcp_server_close(l->server, on_closed, &closed);
    uv_run(&l->loop, UV_RUN_DEFAULT);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&l->loop), 0);
    assert_int_equal(l->sessions, 0);
    assert_int_equal(l->me->refs, 1);
    assert_int_equal(l->me->calls, 0);
    assert_int_equal(l->me->kept, 0);
    principal_release(l->me);
    cJSON_Delete(l->schema);
    free(l->result);
    free(l);
}

void lab_end(struct lab *l, size_t n)
{
    assert_true(n < l->held_count);
    struct mcp_request *r = STEAL_PTR(l->held[n]);
    assert_non_null(r);
    answer(r);
}

/* ---- clients -------------------------------------------------------------------------------- */

static void keep(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    struct peer *p = (struct peer *)sink; /* its first member */
    assert_true(p->count < sizeof(p->got) / sizeof(p->got[0]));
    if (json != NULL) {
        assert_null(strchr(json, '\n'));
        p->got[p->count] = parse_strictly(json);
    }
    p->status[p->count++] = status;
    free(json);
}

static bool on_send(struct mcp_sink *sink, char *json)
{
    const struct peer *p = (const struct peer *)sink;
    if (p->deaf) {
        free(json);
        return false;
    }
    keep(sink, json, 0);
    return true;
}

static void on_answer(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    assert_true(status == 200 || status == 400 || status == 404);
    keep(sink, json, status);
}

static const struct mcp_sink_ops ops = {on_send, on_answer};

struct peer *peer_create(struct lab *l, enum mcp_session_kind kind, const char *revision)
{
    struct peer *p = alloc_one(struct peer);
    p->sink.ops = &ops;
    p->session = mcp_session_create(l->server, kind, l->me);
    if (revision != NULL) {
        peer_send(p, NULL,
                  "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':'%s',"
                  "'capabilities':{},'clientInfo':{'name':'test','version':'1'}}}",
                  revision);
        assert_true(mcp_session_is_initialized(p->session));
    }
    return p;
}

struct peer *peer_beside(struct peer *p)
{
    struct peer *other = alloc_one(struct peer);
    other->sink.ops = &ops;
    other->session = p->session;
    return other;
}

void peer_free(struct peer *p)
{
    for (size_t i = 0; i < p->count; i++) {
        cJSON_Delete(p->got[i]);
    }
    free(p);
}

void peer_end(struct peer *p)
{
    mcp_session_end(p->session);
    peer_free(p);
}

bool peer_send(struct peer *p, const struct mcp_head *head, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    CLEANUP_FREE char *line = NULL;
    assert_true(vasprintf(&line, fmt, args) >= 0);
    va_end(args);
    struct mcp_incoming in = {.message = parse(line),
                              .bytes = p->claims > 0 ? p->claims : strlen(line),
                              .sink = &p->sink,
                              .head = head};
    return mcp_session_take(p->session, &in);
}

bool peer_ask(struct peer *p, bool modern, const char *id, const char *method, const char *params)
{
    return peer_send(p, NULL, "{'jsonrpc':'2.0','id':'%s','method':'%s','params':{%s%s%s}}", id,
                     method, params, modern && params[0] != '\0' ? "," : "",
                     modern ? LAB_META : "");
}

bool peer_cancel(struct peer *p, const char *id)
{
    return peer_send(p, NULL,
                     "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':"
                     "'%s'}}",
                     id);
}

const cJSON *peer_last(const struct peer *p)
{
    assert_true(p->count > 0);
    assert_non_null(p->got[p->count - 1]);
    return p->got[p->count - 1];
}

enum mcp_status peer_status(const struct peer *p)
{
    assert_true(p->count > 0);
    return p->status[p->count - 1];
}

/* ---- values --------------------------------------------------------------------------------- */

int number_at(const cJSON *root, const char *path)
{
    const cJSON *item = at(root, path);
    if (!cJSON_IsNumber(item)) {
        CLEANUP_FREE char *whole = cJSON_PrintUnformatted(root);
        fail_msg("no number at %s in %s", path, whole);
    }
    return item->valueint;
}

void assert_error(const struct peer *p, int code, const char *words)
{
    assert_int_equal(number_at(peer_last(p), "error.code"), code);
    const char *message = text_at(peer_last(p), "error.message");
    if (strstr(message, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, message);
    }
}
