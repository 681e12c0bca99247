#include "tests/unit/supervisor/web/web_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define PATIENCE_MS 10000

/* ---- the application ------------------------------------------------------------------------ */

static const struct mcp_tool *tool_find(void *arg, const char *name)
{
    static const struct mcp_tool tools[] = {{.name = "echo"}, {.name = "wait"}};
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

static cJSON *text_result(const char *text)
{
    cJSON *result = cJSON_CreateObject();
    cJSON *content = cJSON_AddArrayToObject(result, "content");
    cJSON *block = cJSON_CreateObject();
    cJSON_AddStringToObject(block, "type", "text");
    cJSON_AddStringToObject(block, "text", text);
    cJSON_AddItemToArray(content, block);
    return result;
}

static void on_cancel(struct mcp_request *r)
{
    struct world *w = mcp_request_app(r);
    for (size_t i = 0; i < w->calls; i++) {
        if (w->waiting[i] == r) {
            w->waiting[i] = NULL;
        }
    }
    w->cancelled++;
    mcp_answer(r, text_result("cancelled"));
    if (w->on_cancelled != NULL) {
        w->on_cancelled(w);
    }
}

static void tool_call(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments)
{
    struct world *w = mcp_request_app(r);
    if (strcmp(tool->name, "echo") == 0 || w->calls == WORLD_MAX) {
        mcp_answer(r, text_result("echo"));
        return;
    }
    w->waiting[w->calls++] = r;
    mcp_on_cancel(r, on_cancel);
}

static void list(struct mcp_request *r, enum mcp_list what, const char *cursor)
{
    struct world *w = mcp_request_app(r);
    bool known = mcp_request_results(r, &w->results);
    assert(known);
    mcp_answer_items(r, cJSON_CreateArray());
}

static void *session_open(void *arg, struct mcp_session *session)
{
    struct world *w = arg;
    w->sessions++;
    return w;
}

static void session_close(void *arg, void *data)
{
    struct world *w = arg;
    w->sessions--;
}

/* ---- the world ------------------------------------------------------------------------------ */

static int get_key(void *arg, unsigned char *ret, struct err *err)
{
    struct world *w = arg;
    if (w->no_key) {
        return err_set(err, ERR_IO, "no key");
    }
    memcpy(ret, w->key, sizeof(w->key));
    return 0;
}

static struct world *make_world(size_t max_sessions, uint64_t session_idle_ms, bool named,
                                uint8_t key)
{
    struct world *w = alloc_one(struct world);
    assert(uv_loop_init(&w->loop) == 0);
    w->app = (struct mcp_app){
        .arg = w,
        .name = "world",
        .title = "World",
        .version = "1",
        .offers = MCP_OFFER_TOOLS | MCP_OFFER_TOOLS_CHANGED | MCP_OFFER_LOGGING,
        .session_open = session_open,
        .session_close = session_close,
        .list = list,
        .tool_find = tool_find,
        .tool_call = tool_call,
    };
    w->server = mcp_server_create(&w->loop, &w->app);
    w->auth = fake_auth();
    struct mcp_endpoint_config config = {
        .server = w->server,
        .auth = w->auth,
        .base_path = "/base",
        .max_sessions = max_sessions,
        .session_idle_ms = session_idle_ms,
        .heartbeat_ms = HEARTBEAT_MS,
        .key = named ? get_key : NULL,
        .key_arg = w,
    };
    memset(w->key, key, sizeof(w->key));
    w->endpoint = mcp_endpoint_create(&w->loop, &config);
    return w;
}

struct world *world_create(size_t max_sessions, uint64_t session_idle_ms)
{
    return make_world(max_sessions, session_idle_ms, false, 0);
}

struct world *world_create_named(size_t max_sessions, uint64_t session_idle_ms, uint8_t key)
{
    return make_world(max_sessions, session_idle_ms, true, key);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

void world_free(struct world *w)
{
    bool endpoint_closed = false;
    bool server_closed = false;
    mcp_endpoint_close(w->endpoint, on_closed, &endpoint_closed);
    for (size_t i = 0; i < w->calls; i++) { /* answers the calls that were not cancelled */
        if (w->waiting[i] != NULL) {
            world_answer(w, i);
        }
    }
    mcp_server_close(w->server, on_closed, &server_closed);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert(endpoint_closed && server_closed && w->sessions == 0);
    for (size_t i = 0; i < w->exchange_count; i++) {
        assert(w->exchanges[i]->ended);
        fake_free(w->exchanges[i]);
    }
    fake_auth_free(w->auth);
    assert(uv_loop_close(&w->loop) == 0);
    free(w);
}

int world_setup(void **state)
{
    *state = world_create(4, 3600000);
    return 0;
}

int world_teardown(void **state)
{
    world_free(*state);
    return 0;
}

static char *with_id(const struct world *w, const char *text)
{
    size_t at = strcspn(text, "$");
    return text[at] == '$' ? alloc_printf("%.*s%s%s", (int)at, text, w->id, text + at + 1)
                           : alloc_strdup(text);
}

struct web_exchange *world_send(struct world *w, const char *method, const char *target,
                                const char *headers, const char *body)
{
    char *real_target = with_id(w, target);
    char *real_headers = with_id(w, headers);
    struct web_exchange *x = fake_exchange(method, real_target, real_headers, body);
    free(real_target);
    free(real_headers);
    assert(w->exchange_count < WORLD_MAX);
    w->exchanges[w->exchange_count++] = x;
    mcp_endpoint_handle(w->endpoint, x);
    return x;
}

void world_initialize(struct world *w, const char *revision)
{
    char *body = alloc_printf("{'jsonrpc':'2.0','id':0,'method':'initialize','params':{"
                              "'protocolVersion':'%s','capabilities':{},"
                              "'clientInfo':{'name':'t','version':'1'}}}",
                              revision);
    struct web_exchange *x = world_send(w, "POST", "/mcp", BASE, body);
    free(body);
    assert(x->status == 200 && fake_sent(x, "Mcp-Session-Id") != NULL);
    snprintf(w->id, sizeof(w->id), "%s", fake_sent(x, "Mcp-Session-Id"));
    x = world_send(w, "POST", "/mcp", BASE SESSION,
                   "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    assert(x->status == 202);
}

void world_answer(struct world *w, size_t n)
{
    struct mcp_request *r = w->waiting[n];
    char *text = alloc_printf("answer %zu", n);
    w->waiting[n] = NULL;
    mcp_answer(r, text_result(text));
    free(text);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void on_patience(uv_timer_t *timer)
{
    (void)timer;
    fputs("this did not happen in time\n", stderr);
    abort();
}

static void until(struct world *w, bool (*is_so)(const void *what, const void *which),
                  const void *what, const void *which)
{
    uv_timer_t patience;
    uv_timer_init(&w->loop, &patience);
    uv_timer_start(&patience, on_patience, PATIENCE_MS, 0);
    while (!is_so(what, which)) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&patience, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static bool has_sent(const void *x, const void *words)
{
    return strstr(((const struct web_exchange *)x)->text, words) != NULL;
}

static bool has_ended(const void *x, const void *none)
{
    return ((const struct web_exchange *)x)->ended;
}

static bool has_sessions(const void *w, const void *count)
{
    return ((const struct world *)w)->sessions == *(const size_t *)count;
}

void world_until_sent(struct world *w, const struct web_exchange *x, const char *words)
{
    until(w, has_sent, x, words);
}

void world_until_ended(struct world *w, const struct web_exchange *x)
{
    until(w, has_ended, x, NULL);
}

void world_until_sessions(struct world *w, size_t count)
{
    until(w, has_sessions, w, &count);
}
