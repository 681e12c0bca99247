/*
 * Handlers that ask, wait and become tasks, and clients that answer, listen, hang up and stop
 * reading, in any order. Every request must be answered, or its client told that there will be no
 * answer; no sink is used after it is gone; nothing is left when the server is closed.
 *
 * Lines that begin with these are commands, the others are messages:
 *   .             the oldest waiting handler answers
 *   @p @l @s @n   messages go to the pipe; to a new legacy session; each to a session of its own;
 *                 to the session before
 *   @g @e @b @h   the sink of the session is gone; the session is ended; the sink stops taking
 *                 messages (or takes them again); the next message ends the session
 *   * + - !       everything changes; ten minutes pass; a day passes; the server stops
 * Messages may contain values that were seen last: $t a task, $s a state, $k a key, $q a question.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/mcp/input.h"
#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/session.h"
#include "supervisor/mcp/subscribers.h"
#include "supervisor/mcp/task_registry.h"
#include "supervisor/mcp/tasks.h"
#include "tests/fuzz/fuzz.h"

enum { PEERS_MAX = 32, HELD_MAX = 256, SEEN_BYTES = 64, LINE_BYTES = 4096 };

struct peer {
    struct mcp_sink sink; /* first */
    struct world *world;
    struct mcp_session *session; /* NULL: ended */
    bool gone;                   /* the sink; nothing more may come */
    bool behind, hang_up;
    size_t due, answered;
};

struct world {
    uv_loop_t loop;
    struct mcp_app app;
    struct mcp_server *server;
    struct principal *principals[2];
    struct mcp_request *held[HELD_MAX];
    size_t held_count;
    struct peer peers[PEERS_MAX];
    size_t count, current;
    bool single, closed;
    char task[SEEN_BYTES], state[SEEN_BYTES], key[SEEN_BYTES];
    int question;
};

/* ---- the application ------------------------------------------------------------------------ */

static void answer(struct mcp_request *r)
{
    cJSON *result = cJSON_CreateObject();
    cJSON_AddArrayToObject(result, "content");
    mcp_answer(r, result);
}

static void on_cancelled(struct mcp_request *r)
{
    struct world *w = mcp_request_app(r);
    for (size_t i = 0; i < w->held_count; i++) {
        if (w->held[i] == r) {
            memmove(&w->held[i], &w->held[i + 1], (w->held_count - i - 1) * sizeof(w->held[0]));
            w->held_count--;
            break;
        }
    }
    mcp_answer_error(r, -32603, "cancelled", NULL);
}

static void hold(struct mcp_request *r)
{
    struct world *w = mcp_request_app(r);
    if (w->held_count == HELD_MAX) {
        answer(r);
        return;
    }
    w->held[w->held_count++] = r;
    mcp_on_cancel(r, on_cancelled); /* the callback may run at once */
}

static cJSON *form(void)
{
    cJSON *question = cJSON_CreateObject();
    cJSON_AddStringToObject(question, "method", "elicitation/create");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(question, "params"), "mode", "form");
    return question;
}

/* Asks until the form is answered. Letters of the name choose: r asks for roots as well, s keeps
 * state, h holds the answer back. */
static void ask(struct mcp_request *r, const char *name)
{
    const cJSON *inputs = mcp_request_inputs(r);
    const cJSON *state = mcp_request_state(r);
    FUZZ_REQUIRE(state == NULL || cJSON_IsNumber(state));
    if (json_get_str(json_get(inputs, "form"), "action") != NULL) {
        strchr(name, 'h') != NULL ? hold(r) : answer(r);
        return;
    }
    cJSON *requests = cJSON_CreateObject();
    cJSON_AddItemToObject(requests, "form", form());
    if (strchr(name, 'r') != NULL) {
        cJSON *roots = cJSON_AddObjectToObject(requests, "roots");
        cJSON_AddStringToObject(roots, "method", "roots/list");
    }
    bool keeps = strchr(name, 's') != NULL;
    mcp_answer_input(r, requests, keeps ? cJSON_CreateNumber(1) : NULL);
}

static void tool_call(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments)
{
    const char *name = tool->name;
    mcp_log(r, "info", NULL, cJSON_CreateString(name));
    if (strchr(name, 't') != NULL) {
        mcp_become_task(r, name);
        mcp_task_status(r, "begun");
    }
    if (strchr(name, 'a') != NULL) {
        ask(r, name);
    } else if (strchr(name, 'e') != NULL) {
        mcp_answer_error(r, -32603, "wrong", NULL);
    } else {
        hold(r);
    }
}

static const struct mcp_tool tools[] = {
    {"h", NULL, MCP_TASK_OPTIONAL},   {"a", NULL, MCP_TASK_OPTIONAL},
    {"ar", NULL, MCP_TASK_OPTIONAL},  {"ars", NULL, MCP_TASK_OPTIONAL},
    {"ah", NULL, MCP_TASK_NEVER},     {"th", NULL, MCP_TASK_REQUIRED},
    {"ta", NULL, MCP_TASK_OPTIONAL},  {"tars", NULL, MCP_TASK_OPTIONAL},
    {"tah", NULL, MCP_TASK_OPTIONAL}, {"te", NULL, MCP_TASK_OPTIONAL},
};

#define TOOLS (sizeof(tools) / sizeof(tools[0]))

static const struct mcp_tool *tool_find(void *arg, const char *name)
{
    for (size_t i = 0; i < TOOLS; i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

/* All tools, and no resources. */
static void list(struct mcp_request *r, enum mcp_list list, const char *cursor)
{
    cJSON *items = cJSON_CreateArray();
    for (size_t i = 0; list == MCP_LIST_TOOLS && i < TOOLS; i++) {
        cJSON *tool = cJSON_CreateObject();
        cJSON_AddStringToObject(tool, "name", tools[i].name);
        cJSON_AddItemToArray(items, tool);
    }
    mcp_answer_items(r, items);
}

static void resource_read(struct mcp_request *r, const char *uri)
{
    ask(r, "ars");
}

/* ---- who listens ---------------------------------------------------------------------------- */

static void remember(char *seen, const char *text)
{
    if (text != NULL && strlen(text) < SEEN_BYTES) {
        memcpy(seen, text, strlen(text) + 1);
    }
}

static void look_at(struct world *w, const cJSON *message)
{
    const cJSON *result = json_get(message, "result");
    const cJSON *open = json_get(result, "inputRequests");
    remember(w->task, json_get_str(result, "taskId"));
    remember(w->task, json_get_str(json_get(result, "task"), "taskId"));
    remember(w->state, json_get_str(result, "requestState"));
    remember(w->key, open != NULL && open->child != NULL ? open->child->string : NULL);
    if (json_get(message, "method") != NULL && json_is_int(json_get(message, "id"))) {
        w->question = json_get(message, "id")->valueint;
    }
}

static void get(struct peer *p, char *text)
{
    struct err err = ERR_INIT;
    cJSON *message = NULL;
    int rc = json_parse(text, strlen(text), 1u << 26, 200, &message, NULL, &err);
    FUZZ_REQUIRE(rc == 0 || rc == -ERR_NO_MEMORY); /* without memory this test cannot read it */
    look_at(p->world, message);
    cJSON_Delete(message);
    free(text);
    if (p->hang_up && p->session != NULL) {
        p->hang_up = false;
        p->gone = true;
        mcp_session_end(STEAL_PTR(p->session));
    }
}

static bool on_send(struct mcp_sink *to, char *text)
{
    struct peer *p = (struct peer *)to;
    FUZZ_REQUIRE(!p->gone);
    if (p->behind) {
        free(text);
        return false;
    }
    get(p, text);
    return true;
}

static void on_answer(struct mcp_sink *to, char *text, enum mcp_status status)
{
    struct peer *p = (struct peer *)to;
    FUZZ_REQUIRE(!p->gone);
    p->answered++;
    if (text != NULL) {
        get(p, text);
    }
}

static const struct mcp_sink_ops sink_ops = {on_send, on_answer};

static void add_peer(struct world *w, enum mcp_session_kind kind)
{
    if (w->count < PEERS_MAX) {
        struct peer *p = &w->peers[w->count];
        p->sink.ops = &sink_ops;
        p->world = w;
        p->session = mcp_session_create(w->server, kind, w->principals[w->count % 8 == 7]);
        w->current = w->count++;
    }
}

/* ---- what they say -------------------------------------------------------------------------- */

/* Replaces the variables by what was seen; *ret_len is 0 if the result does not fit. */
static void expand(const struct world *w, const char *line, size_t len, char *out, size_t *ret_len)
{
    CLEANUP_FREE char *question = alloc_printf("%d", w->question);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char what = line[i] == '$' && i + 1 < len ? line[i + 1] : ' ';
        const char *seen = what == 't'   ? w->task
                           : what == 's' ? w->state
                           : what == 'k' ? w->key
                           : what == 'q' ? question
                                         : NULL;
        size_t more = seen != NULL ? strlen(seen) : 1;
        if (n + more > LINE_BYTES) {
            n = 0;
            break;
        }
        memcpy(out + n, seen != NULL ? seen : &line[i], more);
        n += more;
        i += seen != NULL;
    }
    *ret_len = n;
}

static void take_message(struct world *w, const char *line, size_t len)
{
    char text[LINE_BYTES];
    cJSON *message = NULL;
    bool has_nul = false;
    struct err err = ERR_INIT;
    expand(w, line, len, text, &len);
    if (w->single) {
        add_peer(w, MCP_SESSION_SINGLE);
    }
    struct peer *p = &w->peers[w->current];
    if (p->gone || p->session == NULL || len == 0 ||
        json_parse(text, len, LINE_BYTES, LIMIT_JSON_DEPTH, &message, &has_nul, &err) < 0) {
        cJSON_Delete(message);
        return;
    }
    const struct mcp_incoming in = {
        .message = message, .bytes = len, .has_nul = has_nul, .sink = &p->sink};
    p->due += mcp_session_take(p->session, &in);
}

static void direct(struct world *w, char what)
{
    struct peer *p = &w->peers[w->current];
    if (what == 'p' || what == 'n') {
        w->current = what == 'p' || w->current == 0 ? 0 : w->current - 1;
        w->single = false;
    } else if (what == 'l') {
        add_peer(w, MCP_SESSION_LEGACY);
        w->single = false;
        p = &w->peers[w->current]; /* reuses an older peer when the table is full */
        if (p->session != NULL) {
            mcp_session_set_stream(p->session, p->gone ? NULL : &p->sink);
        }
    } else if (what == 's') {
        w->single = true;
    } else if (what == 'b') {
        p->behind = !p->behind;
    } else if (what == 'h') {
        p->hang_up = true;
    } else if (what == 'g' && p->session != NULL && !p->gone) {
        p->gone = true;
        mcp_session_sink_gone(p->session, &p->sink);
    } else if (what == 'e') {
        p->gone = true;
        mcp_session_end(STEAL_PTR(p->session));
    }
}

static void pass(struct world *w, uint64_t ms)
{
    uint64_t now = clock_ms() + ms;
    mcp_inputs_look(w->server, now);
    mcp_tasks_look(w->server, now);
}

static void take_line(struct world *w, const char *line, size_t len)
{
    switch (line[0]) {
    case '.':
        if (w->held_count > 0) {
            struct mcp_request *r = w->held[0];
            memmove(w->held, w->held + 1, --w->held_count * sizeof(w->held[0]));
            answer(r);
        }
        break;
    case '@':
        direct(w, len > 1 ? line[1] : ' ');
        break;
    case '*':
        mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
        mcp_list_changed(w->server, "b", MCP_LIST_RESOURCES);
        mcp_resource_updated(w->server, "a", "s://a/");
        subscribers_tell(w->server->subscriptions);
        break;
    case '+':
        pass(w, INPUT_TIME_MS);
        break;
    case '-':
        pass(w, TASK_TTL_MAX_MS + TASK_OVERTIME_MS);
        break;
    case '!':
        mcp_server_stop(w->server);
        break;
    default:
        take_message(w, line, len);
    }
}

/* ---- the run -------------------------------------------------------------------------------- */

static void on_closed(void *arg)
{
    struct world *w = arg;
    w->closed = true;
}

static void begin(struct world *w)
{
    static const struct principal_limits limits = {.calls = 60};
    FUZZ_REQUIRE(uv_loop_init(&w->loop) == 0);
    w->app = (struct mcp_app){
        .arg = w,
        .name = "asking",
        .version = "1",
        .offers = MCP_OFFER_TOOLS | MCP_OFFER_TOOLS_CHANGED | MCP_OFFER_RESOURCES |
                  MCP_OFFER_RESOURCES_CHANGED | MCP_OFFER_SUBSCRIBE | MCP_OFFER_LOGGING |
                  MCP_OFFER_TASKS,
        .list = list,
        .tool_find = tool_find,
        .tool_call = tool_call,
        .resource_read = resource_read,
    };
    w->server = mcp_server_create(&w->loop, &w->app);
    w->principals[0] = principal_create("a", &limits);
    w->principals[1] = principal_create("b", &limits);
    add_peer(w, MCP_SESSION_PIPE);
}

/* Counts the requests that will still be answered, including those that last until the server
 * stops. */
static size_t waiting(const struct peer *p)
{
    size_t n = 0;
    for (const struct mcp_request *r = p->session->requests; r != NULL; r = r->next) {
        n += !r->cancelled && r->task == NULL;
    }
    return n;
}

static void end(struct world *w, bool in_order)
{
    while (in_order && w->held_count > 0) {
        take_line(w, ".", 1);
    }
    for (size_t i = 0; i < w->count; i++) {
        struct peer *p = &w->peers[i];
        FUZZ_REQUIRE(p->gone || p->due - p->answered == waiting(p));
        if (in_order) {
            p->gone = true;
            mcp_session_end(STEAL_PTR(p->session));
        }
        p->gone = true;
    }
    mcp_server_close(w->server, on_closed, w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    FUZZ_REQUIRE(w->closed && uv_loop_close(&w->loop) == 0);
    for (size_t i = 0; i < 2; i++) {
        FUZZ_REQUIRE(w->principals[i]->refs == 1 && w->principals[i]->calls == 0);
        principal_release(w->principals[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = alloc_one(struct world);
    begin(w);
    const char *at = (const char *)data;
    size_t left = size;
    while (left > 0) {
        const char *line_end = memchr(at, '\n', left);
        size_t len = line_end != NULL ? (size_t)(line_end - at) : left;
        if (len > 0) {
            take_line(w, at, len);
        }
        size_t taken = len + (line_end != NULL);
        at += taken;
        left -= taken;
    }
    end(w, size % 2 == 0);
    free(w);
    return 0;
}
