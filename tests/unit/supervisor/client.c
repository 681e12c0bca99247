#include "tests/unit/supervisor/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/base/principal.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/mcp/wire/raw_id.h"

#define META                                                                                       \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{}}"

static void keep(struct mcp_sink *sink, char *json)
{
    struct client *c = (struct client *)((char *)sink - offsetof(struct client, sink));
    struct err err = ERR_INIT;
    assert_true(c->count < CLIENT_ANSWERS);
    assert_null(strchr(json, '\n'));
    c->texts[c->count] = json;
    if (json_parse(json, strlen(json), 8u << 20, 64, &c->answers[c->count], NULL, &err) < 0) {
        fail_msg("answer is no JSON: %s: %.200s", err.text, json);
    }
    c->count++;
}

static bool on_send(struct mcp_sink *sink, char *json)
{
    keep(sink, json);
    return true;
}

static void on_answer(struct mcp_sink *sink, char *json, enum mcp_status status)
{
    if (json != NULL) {
        keep(sink, json);
    }
}

static const struct mcp_sink_ops sink_ops = {on_send, on_answer};

struct client *client_create(void)
{
    struct client *c = alloc_one(struct client);
    struct err err = ERR_INIT;
    int used;
    assert_int_equal(config_load(&c->config, 0, NULL, &used, &err), 0);
    free(c->config.results); /* most cases check fields */
    c->config.results = alloc_strdup("structured");
    c->fleet = fake_fleet();
    assert_int_equal(languages_load("", &c->languages, &err), 0);
    assert_int_equal(uv_loop_init(&c->loop), 0);
    c->app = app_create(&c->loop, &c->config, c->languages, c->fleet, NULL);
    c->server = mcp_server_create(&c->loop, app_mcp(c->app));
    app_announce(c->app, c->server);
    c->sink.ops = &sink_ops;
    const struct principal_limits limits = {0};
    struct principal *me = principal_create("me", &limits);
    c->session = mcp_session_create(c->server, MCP_SESSION_PIPE, me);
    principal_release(me);
    return c;
}

void client_free(struct client *c)
{
    app_announce(c->app, NULL);
    app_close(c->app);
    mcp_server_close(c->server, NULL, NULL);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&c->loop), 0);
    app_destroy(c->app);
    languages_destroy(c->languages);
    fake_fleet_free(c->fleet);
    config_finish(&c->config);
    for (size_t i = 0; i < c->count; i++) {
        free(c->texts[i]);
        cJSON_Delete(c->answers[i]);
    }
    free(c);
}

static void take(struct client *c, cJSON *message, size_t bytes, bool has_nul)
{
    const struct mcp_incoming in = {
        .message = message, .bytes = bytes, .has_nul = has_nul, .sink = &c->sink};
    mcp_session_take(c->session, &in);
}

void client_send(struct client *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    CLEANUP_FREE char *line = NULL;
    assert_true(vasprintf(&line, fmt, args) >= 0);
    va_end(args);
    for (char *p = line; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    struct err err = ERR_INIT;
    cJSON *message = NULL;
    bool has_nul = false;
    if (json_parse(line, strlen(line), LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &message, &has_nul,
                   &err) < 0) {
        CLEANUP_FREE char *id = raw_id_of(line, strlen(line));
        mcp_session_reject_id(c->session, &c->sink, id, JSONRPC_PARSE_ERROR, err.text);
        return;
    }
    take(c, message, strlen(line), has_nul);
}

void client_take(struct client *c, cJSON *message, size_t bytes)
{
    take(c, message, bytes, false);
}

void client_initialize(struct client *c, const char *revision)
{
    client_send(c,
                "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':'%s',"
                "'capabilities':{},'clientInfo':{'name':'test','version':'1'}}}",
                revision);
    client_send(c, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
}

void client_call(struct client *c, bool modern, const char *tool, const char *arguments)
{
    client_send(c,
                "{'jsonrpc':'2.0','id':'call-%zu','method':'tools/call','params':{'name':'%s',"
                "'arguments':%s%s%s}}",
                c->calls++, tool, arguments, modern ? "," : "", modern ? META : "");
}

const cJSON *client_tool(struct client *c, const char *tool, const char *arguments)
{
    size_t before = c->count;
    client_call(c, false, tool, arguments);
    fake_settle(c->fleet);
    assert_int_equal(c->count, before + 1);
    const cJSON *result = at(client_last(c), "result");
    assert_non_null(result);
    return result;
}

const cJSON *client_last(const struct client *c)
{
    assert_true(c->count > 0);
    return c->answers[c->count - 1];
}

double number_at(const cJSON *root, const char *path)
{
    const cJSON *item = at(root, path);
    if (!cJSON_IsNumber(item)) {
        fail_msg("no number at %s", path);
    }
    return item->valuedouble;
}

void assert_error(const struct client *c, int code, const char *words)
{
    const cJSON *last = client_last(c);
    assert_int_equal((int)number_at(last, "error.code"), code);
    if (strstr(text_at(last, "error.message"), words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, text_at(last, "error.message"));
    }
}

void assert_failure(const cJSON *result, const char *code, const char *words)
{
    assert_true(cJSON_IsTrue(at(result, "isError")));
    assert_string_equal(text_at(result, "structuredContent.error.code"), code);
    const char *message = text_at(result, "structuredContent.error.message");
    if (strstr(message, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, message);
    }
    assert_non_null(strstr(text_at(result, "content.0.text"), message));
}

void assert_text(const cJSON *result, const char *expected)
{
    assert_string_equal(text_at(result, "content.0.text"), expected);
}

int client_setup(void **state)
{
    struct client *c = client_create();
    client_initialize(c, "2025-11-25");
    *state = c;
    return 0;
}

int client_teardown(void **state)
{
    client_free(*state);
    return 0;
}
