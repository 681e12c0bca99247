/*
 * Clients of the protocol layer, which send any lines, with a fleet that answers late and in every
 * possible way. Everything sent to them must be one line of JSON-RPC, and every request must be
 * answered, or its client told that there will be no answer.
 *
 * Lines that begin with these are commands, the others are messages:
 *   .            the oldest pending callback of the fleet runs
 *   @p @l @s     messages go to the pipe; to a legacy session; each to a session of its own
 *   @g @e        the sink of the latest message is gone; its session is ended
 *   #v #m #n #r  sets a header for later messages: version, method, name, parameter ("-": none)
 */
#include <string.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/front/app.h"
#include "supervisor/languages/languages.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/session.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/mcp/wire/raw_id.h"
#include "tests/fuzz/fake_fleet.h"
#include "tests/fuzz/fuzz.h"

#define ROUNDS 2000 /* turns of the loop until everything is answered */

enum { ANSWER_MAX_BYTES = 64 << 20, ANSWER_DEPTH = 200 };

static void check_message(const cJSON *message)
{
    FUZZ_REQUIRE(cJSON_IsObject(message));
    const char *version = json_get_str(message, "jsonrpc");
    FUZZ_REQUIRE(version != NULL && strcmp(version, "2.0") == 0);
    const cJSON *error = json_get(message, "error");
    if (json_get(message, "method") == NULL) {
        FUZZ_REQUIRE((json_get(message, "result") != NULL) != (error != NULL));
    }
    if (error != NULL) {
        FUZZ_REQUIRE(json_is_int(json_get(error, "code")));
        FUZZ_REQUIRE(json_get_str(error, "message") != NULL);
    }
}

static void check(char *text)
{
    size_t len = strlen(text);
    FUZZ_REQUIRE(memchr(text, '\n', len) == NULL);
    cJSON *message = NULL;
    struct err err = ERR_INIT;
    /* output of user code may contain NUL characters, which the transport passes on */
    bool has_nul = false;
    int rc = json_parse(text, len, ANSWER_MAX_BYTES, ANSWER_DEPTH, &message, &has_nul, &err);
    if (rc == -ERR_NO_MEMORY) { /* it was sent, and this test cannot read it */
        free(text);
        return;
    }
    FUZZ_REQUIRE(rc == 0);
    if (cJSON_IsArray(message)) {
        const cJSON *item;
        cJSON_ArrayForEach(item, message)
        {
            check_message(item);
        }
    } else {
        check_message(message);
    }
    cJSON_Delete(message);
    free(text);
}

/* ---- who listens ---------------------------------------------------------------------------- */

enum { PEERS_MAX = 64 };

struct peer {
    struct mcp_sink sink; /* first */
    struct mcp_session *session;
    size_t due, answered;
    bool gone; /* sink or session; nothing more may come */
};

struct world {
    struct fleet *fleet;
    struct mcp_server *server;
    struct principal *principal;
    struct peer peers[PEERS_MAX];
    size_t count;
    size_t current;
    bool single; /* each message gets a session of its own */
    char head[4][200];
    struct mcp_head of_http;
    bool has_head;
};

static bool on_send(struct mcp_sink *to, char *text)
{
    const struct peer *p = (const struct peer *)to;
    FUZZ_REQUIRE(!p->gone);
    check(text);
    return true;
}

static void on_answer(struct mcp_sink *to, char *text, enum mcp_status status)
{
    struct peer *p = (struct peer *)to;
    FUZZ_REQUIRE(!p->gone);
    FUZZ_REQUIRE(status == MCP_STATUS_OK || status == MCP_STATUS_BAD_REQUEST ||
                 status == MCP_STATUS_NOT_FOUND);
    p->answered++;
    if (text != NULL) {
        check(text);
    }
}

static const struct mcp_sink_ops sink_ops = {on_send, on_answer};

static void add_peer(struct world *w, enum mcp_session_kind kind)
{
    if (w->count < PEERS_MAX) {
        struct peer *p = &w->peers[w->count];
        p->sink.ops = &sink_ops;
        p->session = mcp_session_create(w->server, kind, w->principal);
        w->current = w->count++;
    }
}

/* ---- what they say -------------------------------------------------------------------------- */

static void take_message(struct world *w, const char *line, size_t len)
{
    cJSON *message = NULL;
    bool has_nul = false;
    struct err err = ERR_INIT;
    int rc = json_parse(line, len, LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &message, &has_nul, &err);
    if (w->single) {
        add_peer(w, MCP_SESSION_SINGLE);
    }
    struct peer *p = &w->peers[w->current];
    if (p->gone) {
        cJSON_Delete(message);
    } else if (rc < 0) {
        p->due++;
        CLEANUP_FREE char *id = raw_id_of(line, len);
        mcp_session_reject_id(p->session, &p->sink, id, JSONRPC_PARSE_ERROR, err.text);
    } else {
        const struct mcp_head *head = w->has_head ? &w->of_http : NULL;
        const struct mcp_incoming in = {
            .message = message, .bytes = len, .has_nul = has_nul, .sink = &p->sink, .head = head};
        (void)mcp_classify(message, head);
        p->due += mcp_session_take(p->session, &in);
    }
}

static const char *on_param(void *arg, const char *name)
{
    const struct world *w = arg;
    return w->head[3][0] != '\0' ? w->head[3] : NULL;
}

static void set_head(struct world *w, const char *line, size_t len)
{
    static const char which[] = "vmnr";
    const char *found = len > 1 ? memchr(which, line[1], 4) : NULL;
    if (found == NULL) {
        return;
    }
    char *to = w->head[found - which];
    size_t skip = len > 2 ? 3 : 2;
    size_t n = len > skip ? len - skip : 0;
    n = n < sizeof(w->head[0]) ? n : sizeof(w->head[0]) - 1;
    memcpy(to, line + len - n, n);
    to[n] = '\0';
    bool none = strcmp(to, "-") == 0;
    const char **member[] = {&w->of_http.version, &w->of_http.method, &w->of_http.name};
    if (found - which < 3) {
        *member[found - which] = none ? NULL : to;
    } else if (none) {
        to[0] = '\0';
    }
    w->has_head = true;
}

static void direct(struct world *w, char what)
{
    struct peer *p = &w->peers[w->current];
    switch (what) {
    case 'p':
        w->current = 0;
        w->single = false;
        break;
    case 'l':
        add_peer(w, MCP_SESSION_LEGACY);
        w->single = false;
        break;
    case 's':
        w->single = true;
        break;
    case 'g':
        if (!p->gone) {
            p->gone = true;
            mcp_session_sink_gone(p->session, &p->sink);
        }
        break;
    case 'e':
        p->gone = true;
        mcp_session_end(STEAL_PTR(p->session));
        break;
    default:
        break;
    }
}

static void take_line(struct world *w, const char *line, size_t len)
{
    if (line[0] == '.') {
        fake_fleet_step(w->fleet);
    } else if (line[0] == '@') {
        direct(w, len > 1 ? line[1] : ' ');
    } else if (line[0] == '#') {
        set_head(w, line, len);
    } else {
        take_message(w, line, len);
    }
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Listeners, which only the server and their clients end. */
static size_t listeners(const struct peer *p)
{
    size_t n = 0;
    for (const struct mcp_request *r = p->session->requests; r != NULL; r = r->next) {
        n += !r->cancelled && r->method->endless;
    }
    return n;
}

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

/* An argument of every type that a header can carry. */
static void route_by(const struct mcp_tool *tool, const char *argument)
{
    cJSON *property = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(tool->input_schema, "properties"), argument);
    FUZZ_REQUIRE(property != NULL);
    cJSON_AddStringToObject(property, "x-mcp-header", argument);
}

/* Tools and schemas are made once, because they hold no state of a session. */
static struct mcp_server *the_server(struct fleet **ret_fleet, uv_loop_t **ret_loop)
{
    static uv_loop_t loop;
    static struct config config;
    static struct fleet *fleet;
    static struct mcp_server *server;
    if (server == NULL) {
        struct err err = ERR_INIT;
        int used;
        FUZZ_REQUIRE(config_load(&config, 0, NULL, &used, &err) == 0);
        fleet = fleet_create(NULL, &config);
        FUZZ_REQUIRE(uv_loop_init(&loop) == 0);
        static struct languages *languages;
        FUZZ_REQUIRE(languages_load("", &languages, &err) == 0);
        struct app *whole = app_create(&loop, &config, languages, fleet, NULL);
        const struct mcp_app *app = app_mcp(whole);
        const struct mcp_tool *tool = app->tool_find(app->arg, "execute_code");
        route_by(tool, "code");
        route_by(tool, "timeout_seconds");
        route_by(tool, "env");
        server = mcp_server_create(&loop, app);
        app_announce(whole, server);
    }
    *ret_fleet = fleet;
    *ret_loop = &loop;
    return server;
}

static bool has_open_requests(const struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct peer *p = &w->peers[i];
        if (p->session != NULL && mcp_session_open_requests(p->session) > 0) {
            return true;
        }
    }
    return false;
}

/* Runs everything that is due in the fleet and the loop. */
static void turn(struct world *w, uv_loop_t *loop)
{
    bool stopped = false;
    fleet_shutdown(w->fleet, FLEET_END_CLOSE, on_stopped, &stopped);
    FUZZ_REQUIRE(stopped);
    uv_run(loop, UV_RUN_NOWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w;
    memset(&w, 0, sizeof(w));
    uv_loop_t *loop;
    w.server = the_server(&w.fleet, &loop);
    const struct principal_limits limits = {.calls = 40};
    w.principal = principal_create("fuzz", &limits);
    w.of_http.param = on_param;
    w.of_http.arg = &w;
    add_peer(&w, MCP_SESSION_PIPE);

    const char *at = (const char *)data;
    size_t left = size;
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        size_t len = end != NULL ? (size_t)(end - at) : left;
        if (len > 0) {
            take_line(&w, at, len);
        }
        size_t taken = len + (end != NULL);
        at += taken;
        left -= taken;
    }

    turn(&w, loop);
    /* installations take several rounds */
    for (int i = 0; i < ROUNDS && has_open_requests(&w); i++) {
        turn(&w, loop);
    }
    for (size_t i = 0; i < w.count; i++) {
        struct peer *p = &w.peers[i];
        FUZZ_REQUIRE(p->gone || p->due == p->answered + listeners(p));
        FUZZ_REQUIRE(p->session == NULL || mcp_session_open_requests(p->session) == 0);
        p->gone = true;
        mcp_session_end(p->session);
    }
    /* a cancelled operation ends later */
    for (int i = 0; i < ROUNDS && w.principal->refs > 1; i++) {
        turn(&w, loop);
    }
    FUZZ_REQUIRE(w.principal->refs == 1 && w.principal->calls == 0);
    principal_release(w.principal);
    return 0;
}
