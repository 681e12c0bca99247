/*
 * The application is small, while its handlers do everything that handlers can do: answer now or
 * later, ask, become tasks, log. It has no state of a request beside what request.h offers.
 */
#include "tests/unit/supervisor/mcp/talk.h"

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
#include "common/clock.h"
#include "common/io/json.h"

/* ---- the application ------------------------------------------------------------------------- */

static cJSON *parse(const char *text)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    if (json_parse(text, strlen(text), 1u << 20, 30, &tree, NULL, &err) < 0) {
        fail_msg("%s: %s", err.text, text);
    }
    return tree;
}

static void answer_text(struct mcp_request *r, const char *text, bool is_error)
{
    cJSON *result = parse("{\"content\":[{\"type\":\"text\"}]}");
    cJSON_AddStringToObject(cJSON_GetObjectItem(result, "content")->child, "text", text);
    if (is_error) {
        cJSON_AddTrueToObject(result, "isError");
    }
    mcp_answer(r, result);
}

static void on_cancelled(struct mcp_request *r)
{
    struct talk *t = mcp_request_app(r);
    t->cancels++;
    if (t->held == r) {
        t->held = NULL;
    }
    answer_text(r, "cancelled", false);
}

#define FORM(name)                                                                                 \
    "{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\",\"message\":\"" name "?\","  \
    "\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"" name                             \
    "\":{\"type\":\"string\"}}}}}"

static const char *given(struct mcp_request *r, const char *key, const char *member)
{
    return json_get_str(json_get(json_get(mcp_request_inputs(r), key), "content"), member);
}

static void ask(struct mcp_request *r)
{
    const char *name = given(r, "who", "name");
    if (name == NULL) {
        mcp_answer_input(r, parse("{\"who\":" FORM("name") "}"), NULL);
        return;
    }
    CLEANUP_FREE char *text = alloc_printf("Hello, %s!", name);
    answer_text(r, text, false);
}

static void ask_two(struct mcp_request *r)
{
    const char *name = given(r, "who", "name");
    const cJSON *roots = json_get(json_get(mcp_request_inputs(r), "where"), "roots");
    if (name == NULL || roots == NULL) {
        mcp_answer_input(
            r, parse("{\"who\":" FORM("name") ",\"where\":{\"method\":\"roots/list\"}}"), NULL);
        return;
    }
    CLEANUP_FREE char *text = alloc_printf("%s has %d", name, cJSON_GetArraySize(roots));
    answer_text(r, text, false);
}

static void ask_in_rounds(struct mcp_request *r)
{
    const cJSON *state = mcp_request_state(r);
    int round = state != NULL ? json_get(state, "round")->valueint : 0;
    const char *earlier = state != NULL ? json_get_str(state, "text") : "";
    const char *now = given(r, "step", "value");
    CLEANUP_FREE char *text = alloc_printf("%s%s", earlier, now != NULL ? now : "");
    if (round == 2) {
        answer_text(r, text, false);
        return;
    }
    cJSON *next = cJSON_CreateObject();
    cJSON_AddNumberToObject(next, "round", round + 1);
    cJSON_AddStringToObject(next, "text", text);
    mcp_answer_input(r, parse("{\"step\":" FORM("value") "}"), next);
}

static void tool_call(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments)
{
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    struct talk *t = mcp_request_app(r);
    const char *name = tool->name;
    t->runs++;
    if (strncmp(name, "task_", 5) == 0 || strncmp(name, "must_", 5) == 0) {
        name += 5;
        mcp_become_task(r, "at it");
    }
    if (strcmp(name, "hold") == 0) {
        t->held = r;
        mcp_on_cancel(r, on_cancelled);
    } else if (strcmp(name, "ask") == 0) {
        ask(r);
    } else if (strcmp(name, "two") == 0) {
        ask_two(r);
    } else if (strcmp(name, "rounds") == 0) {
        ask_in_rounds(r);
    } else if (strcmp(name, "forever") == 0) {
        mcp_answer_input(r, parse("{\"who\":" FORM("name") "}"), cJSON_CreateNumber(1));
    } else if (strcmp(name, "broken") == 0) {
        mcp_answer_error(r, -32603, "It broke", parse("{\"why\":\"so\"}"));
    } else {
        for (size_t i = 0; strcmp(name, "log") == 0 && i < 8; i++) {
            mcp_log(r, levels[i], "talk", cJSON_CreateString(levels[i]));
        }
        const char *text = json_get_str(arguments, "text");
        answer_text(r, text != NULL ? text : "done", text != NULL && strcmp(text, "bad") == 0);
    }
}

static const struct mcp_tool *tool_find(void *arg, const char *name)
{
    static const struct mcp_tool tools[] = {
        {"plain", NULL, MCP_TASK_NEVER},           {"echo", NULL, MCP_TASK_OPTIONAL},
        {"hold", NULL, MCP_TASK_OPTIONAL},         {"ask", NULL, MCP_TASK_OPTIONAL},
        {"two", NULL, MCP_TASK_OPTIONAL},          {"rounds", NULL, MCP_TASK_OPTIONAL},
        {"forever", NULL, MCP_TASK_OPTIONAL},      {"log", NULL, MCP_TASK_OPTIONAL},
        {"broken", NULL, MCP_TASK_OPTIONAL},       {"task_echo", NULL, MCP_TASK_OPTIONAL},
        {"task_hold", NULL, MCP_TASK_OPTIONAL},    {"task_ask", NULL, MCP_TASK_OPTIONAL},
        {"task_two", NULL, MCP_TASK_OPTIONAL},     {"task_rounds", NULL, MCP_TASK_OPTIONAL},
        {"task_forever", NULL, MCP_TASK_OPTIONAL}, {"task_broken", NULL, MCP_TASK_OPTIONAL},
        {"must_hold", NULL, MCP_TASK_REQUIRED},
    };
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

static void resource_read(struct mcp_request *r, const char *uri)
{
    if (given(r, "who", "name") == NULL) {
        mcp_answer_input(r, parse("{\"who\":" FORM("name") "}"), NULL);
        return;
    }
    mcp_answer(r, parse("{\"contents\":[{\"uri\":\"s://a\",\"text\":\"x\"}]}"));
}

static void prompt_get(struct mcp_request *r, const char *name, const cJSON *arguments)
{
    if (given(r, "who", "name") == NULL) {
        mcp_answer_input(r, parse("{\"who\":" FORM("name") "}"), NULL);
        return;
    }
    mcp_answer(r, parse("{\"messages\":[]}"));
}

static bool may_subscribe(void *arg, const struct principal *principal, const char *uri)
{
    struct talk *t = arg;
    t->mays++;
    CLEANUP_FREE char *own = alloc_printf("s://%s/", principal->name);
    return strncmp(uri, own, strlen(own)) == 0;
}

static void list(struct mcp_request *r, enum mcp_list what, const char *cursor)
{
    mcp_answer_items(r, cJSON_CreateArray());
}

struct talk *talk_create(unsigned offers)
{
    static const struct principal_limits none = {0};
    struct talk *t = alloc_one(struct talk);
    uv_loop_init(&t->loop);
    t->app = (struct mcp_app){
        .arg = t,
        .name = "talk",
        .version = "1",
        .offers = offers,
        .list = list,
        .tool_find = tool_find,
        .tool_call = tool_call,
        .resource_read = resource_read,
        .prompt_get = prompt_get,
        .may_subscribe = may_subscribe,
    };
    t->server = mcp_server_create(&t->loop, &t->app);
    t->anna = principal_create("anna", &none);
    t->berta = principal_create("berta", &none);
    return t;
}

static void on_closed(void *arg)
{
    struct talk *t = arg;
    t->closed = true;
}

void talk_destroy(struct talk *t)
{
    mcp_server_close(t->server, on_closed, t);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    assert_true(t->closed);
    assert_int_equal(uv_loop_close(&t->loop), 0);
    assert_int_equal(t->anna->refs, 1);
    assert_int_equal(t->berta->refs, 1);
    principal_release(t->anna);
    principal_release(t->berta);
    free(t);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void keep(struct talker *c, char *json)
{
    assert_true(c->count < TALK_MESSAGES);
    c->got[c->count++] = parse(json);
    free(json);
    if (c->hang_up) {
        c->hang_up = false;
        struct mcp_session *s = c->session;
        c->session = NULL;
        mcp_session_end(s);
    }
}

static bool on_send(struct mcp_sink *sink, char *json)
{
    struct talker *c = (struct talker *)sink;
    assert_non_null(c->session); /* ended sessions call no sink */
    if (c->behind) {
        free(json);
        return false;
    }
    keep(c, json);
    return true;
}

static void on_answer(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    struct talker *c = (struct talker *)sink;
    assert_non_null(c->session);
    if (json == NULL) {
        c->unanswered++;
    } else {
        keep(c, json);
    }
}

static const struct mcp_sink_ops ops = {on_send, on_answer};

struct talker *talk_join(struct talk *t, struct principal *who, enum mcp_session_kind kind,
                         const char *revision, const char *capabilities)
{
    struct talker *c = alloc_one(struct talker);
    c->sink.ops = &ops;
    c->talk = t;
    c->modern = revision == NULL;
    c->session = mcp_session_create(t->server, kind, who);
    if (revision != NULL) {
        talk_send(c,
                  "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':'%s',"
                  "'capabilities':%s,'clientInfo':{'name':'c','version':'1'}}}",
                  revision, capabilities);
        assert_text_at(talk_last(c), "result.protocolVersion", revision);
        talk_send(c, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
        talk_forget(c);
    }
    return c;
}

void talk_leave(struct talker *c)
{
    struct mcp_session *s = c->session;
    c->session = NULL;
    mcp_session_end(s);
    talk_forget(c);
    free(c);
}

static void take(struct talker *c, char *text)
{
    for (char *p = text; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    struct mcp_incoming in = {
        .message = parse(text),
        .bytes = strlen(text),
        .sink = &c->sink,
    };
    mcp_session_take(c->session, &in);
}

void talk_send(struct talker *c, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    assert_true(vasprintf(&text, fmt, args) >= 0);
    va_end(args);
    take(c, text);
    free(text);
}

int talk_ask(struct talker *c, const char *method, const char *params, ...)
{
    static const char *const meta =
        "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
        "'io.modelcontextprotocol/clientCapabilities':{'elicitation':{},'sampling':{},'roots':{},"
        "'extensions':{'io.modelcontextprotocol/tasks':{}}}}";
    char *text = NULL;
    va_list args;
    va_start(args, params);
    assert_true(vasprintf(&text, params, args) >= 0);
    va_end(args);
    int id = ++c->ids;
    talk_send(c, "{'jsonrpc':'2.0','id':%d,'method':'%s','params':{%s%s%s}}", id, method, text,
              c->modern && text[0] != '\0' ? "," : "", c->modern ? meta : "");
    free(text);
    return id;
}

const cJSON *talk_last(const struct talker *c)
{
    assert_true(c->count > 0);
    return c->got[c->count - 1];
}

const cJSON *talk_answer(const struct talker *c, int id)
{
    for (size_t i = c->count; i > 0; i--) {
        const cJSON *has = json_get(c->got[i - 1], "id");
        if (has != NULL && has->valuedouble == id && json_get(c->got[i - 1], "method") == NULL) {
            return c->got[i - 1];
        }
    }
    return NULL;
}

static bool is_of(const cJSON *message, const char *method)
{
    const char *name = json_get_str(message, "method");
    return name != NULL && strcmp(name, method) == 0;
}

const cJSON *talk_heard(const struct talker *c, const char *method, size_t n)
{
    for (size_t i = c->count; i > 0; i--) {
        if (is_of(c->got[i - 1], method) && n-- == 0) {
            return c->got[i - 1];
        }
    }
    return NULL;
}

size_t talk_count(const struct talker *c, const char *method)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        n += is_of(c->got[i], method);
    }
    return n;
}

void talk_forget(struct talker *c)
{
    while (c->count > 0) {
        cJSON_Delete(c->got[--c->count]);
    }
}

void talk_release(struct talk *t, const char *text, bool is_error)
{
    struct mcp_request *r = STEAL_PTR(t->held);
    assert_non_null(r);
    answer_text(r, text, is_error);
}

static void on_late(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void talk_await(struct talker *c, const char *method, size_t count)
{
    uv_timer_t deadline;
    uv_timer_init(&c->talk->loop, &deadline);
    uv_timer_start(&deadline, on_late, 5000, 0);
    uint64_t end = clock_ms() + 5000;
    while (talk_count(c, method) < count && clock_ms() < end) {
        uv_run(&c->talk->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&deadline, NULL);
    uv_run(&c->talk->loop, UV_RUN_NOWAIT);
    assert_int_equal(talk_count(c, method), count);
}

/* ---- reading messages ------------------------------------------------------------------------ */

const cJSON *at(const cJSON *root, const char *path)
{
    while (root != NULL && *path != '\0') {
        bool quoted = *path == '`';
        path += quoted;
        size_t len = strcspn(path, quoted ? "`" : ".");
        CLEANUP_FREE char *name = alloc_printf("%.*s", (int)len, path);
        root = cJSON_IsArray(root) ? cJSON_GetArrayItem(root, name[0] - '0') : json_get(root, name);
        path += len + (quoted && path[len] == '`');
        path += *path == '.';
    }
    return root;
}

const char *text_at(const cJSON *root, const char *path)
{
    const cJSON *item = at(root, path);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

void assert_text_at(const cJSON *root, const char *path, const char *expected)
{
    const char *text = text_at(root, path);
    CLEANUP_FREE char *all = root != NULL ? cJSON_PrintUnformatted(root) : NULL;
    if (text == NULL || strcmp(text, expected) != 0) {
        fail_msg("%s is not \"%s\" in %s", path, expected, all != NULL ? all : "nothing");
    }
}

void assert_error(const cJSON *message, int code)
{
    const cJSON *is = at(message, "error.code");
    CLEANUP_FREE char *all = message != NULL ? cJSON_PrintUnformatted(message) : NULL;
    if (is == NULL || is->valueint != code) {
        fail_msg("no error %d: %s", code, all != NULL ? all : "nothing");
    }
}
