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
#include "supervisor/jsonrpc.h"

#define META                                                                                       \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{}}"

static void on_send(void *arg, char *json)
{
    struct client *c = arg;
    struct err err = ERR_INIT;
    assert_true(c->count < CLIENT_ANSWERS);
    assert_null(strchr(json, '\n'));
    c->texts[c->count] = json;
    if (json_parse(json, strlen(json), 8u << 20, 64, &c->answers[c->count], NULL, &err) < 0) {
        fail_msg("answer is no JSON: %s: %.200s", err.text, json);
    }
    c->count++;
}

struct client *client_create(void)
{
    struct client *c = alloc_one(struct client);
    struct err err = ERR_INIT;
    int used;
    assert_int_equal(config_load(&c->config, 0, NULL, &used, &err), 0);
    c->fleet = fake_fleet();
    c->server = mcp_server_create(&c->config, c->fleet);
    c->session = mcp_session_create(c->server, "me", on_send, c);
    return c;
}

void client_free(struct client *c)
{
    mcp_session_destroy(c->session);
    mcp_server_destroy(c->server);
    fake_fleet_free(c->fleet);
    config_finish(&c->config);
    for (size_t i = 0; i < c->count; i++) {
        free(c->texts[i]);
        cJSON_Delete(c->answers[i]);
    }
    free(c);
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
        mcp_session_reject(c->session, JSONRPC_PARSE_ERROR, err.text);
        return;
    }
    mcp_session_take(c->session, message, strlen(line), has_nul);
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

const cJSON *at(const cJSON *root, const char *path)
{
    char name[128];
    while (root != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)n, path);
        uint64_t index;
        if (cJSON_IsArray(root) && str_to_u64(name, 0, 100000, &index, NULL) == 0) {
            root = cJSON_GetArrayItem(root, (int)index);
        } else {
            root = json_get(root, name);
        }
        path += n + (path[n] == '.' ? 1 : 0);
    }
    return root;
}

const char *text_at(const cJSON *root, const char *path)
{
    const cJSON *item = at(root, path);
    if (!cJSON_IsString(item)) {
        fail_msg("no text at %s", path);
    }
    return item->valuestring;
}

double number_at(const cJSON *root, const char *path)
{
    const cJSON *item = at(root, path);
    if (!cJSON_IsNumber(item)) {
        fail_msg("no number at %s", path);
    }
    return item->valuedouble;
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
