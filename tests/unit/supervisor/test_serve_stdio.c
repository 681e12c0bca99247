/* MCP on a pipe: clients that do not read, and that nothing is written after the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/front/serve_internal.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/session.h"

enum { PLACES = 7, BUDGET_MB = 900 };
enum { NOTE_BYTES = 1 << 20, NOTES_MAX = 32, LATER_MS = 200 };

struct world {
    uv_loop_t loop;
    struct config config;
    struct mcp_app app;
    struct mcp_server *server;
    struct serve_stdio *stdio;
    int to, from; /* the client's ends */
    struct mcp_request *call;
    size_t told;
    bool closed, later;
};

/* ---- the application ------------------------------------------------------------------------ */

static const struct mcp_tool *tool_find(void *arg, const char *name)
{
    static const struct mcp_tool tool = {.name = "chatter"};
    return &tool;
}

static char *note(void)
{
    char *text = alloc_array(1, NOTE_BYTES + 1);
    memset(text, 'x', NOTE_BYTES);
    cJSON *params = cJSON_CreateObject();
    cJSON_AddItemToObject(params, "x", cJSON_CreateString(text));
    free(text);
    return jsonrpc_notification("notifications/test", params);
}

/* Sends messages as long as the client takes them. */
static void tool_call(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments)
{
    struct world *w = mcp_request_app(r);
    w->call = r;
    while (w->told < NOTES_MAX && mcp_request_send(r, note())) {
        w->told++;
    }
}

static void on_event(void *arg)
{
}

/* ---- the world ------------------------------------------------------------------------------ */

static int setup(void **state)
{
    static const struct serve_stdio_events events = {on_event, on_event, on_event};
    struct world *w = alloc_one(struct world);
    struct err err = ERR_INIT;
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    int own_in = dup(STDIN_FILENO),
        own_out = dup(STDOUT_FILENO); /* cmocka reports there, so both are restored */
    fflush(stdout);
    assert_true(dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0);
    w->stdio = serve_stdio_claim(&err);
    assert_true(dup2(own_in, STDIN_FILENO) >= 0 && dup2(own_out, STDOUT_FILENO) >= 0);
    close(own_in), close(own_out), close(in[0]), close(out[1]);
    assert_non_null(w->stdio);
    w->to = in[1];
    w->from = out[0];
    w->app = (struct mcp_app){
        .arg = w,
        .name = "world",
        .title = "World",
        .version = "1",
        .offers = MCP_OFFER_TOOLS | MCP_OFFER_TOOLS_CHANGED,
        .tool_find = tool_find,
        .tool_call = tool_call,
    };
    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->server = mcp_server_create(&w->loop, &w->app);
    w->config.max_sandboxes = PLACES;
    w->config.memory_budget_mb = BUDGET_MB;
    assert_int_equal(serve_stdio_open(w->stdio, &w->loop, &w->config, w->server, &events, w, &err),
                     0);
    *state = w;
    return 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static int teardown(void **state)
{
    struct world *w = *state;
    bool server_closed = false;
    if (!w->closed) {
        serve_stdio_close(w->stdio, 0, on_closed, &w->closed);
    }
    mcp_server_close(w->server, on_closed, &server_closed);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(w->closed && server_closed);
    serve_stdio_free(w->stdio);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    close(w->to);
    close(w->from);
    free(w);
    return 0;
}

static void say(struct world *w, const char *line)
{
    assert_int_equal(write(w->to, line, strlen(line)), (ssize_t)strlen(line));
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct buf *in = poll->data;
    char piece[4096];
    int fd;
    assert_int_equal(uv_fileno((uv_handle_t *)poll, &fd), 0);
    ssize_t n = read(fd, piece, sizeof(piece));
    assert_true(n > 0);
    assert_int_equal(buf_add(in, piece, (size_t)n, NULL), 0);
}

/* Runs the loop until the client has read so many lines. */
static void read_lines(struct world *w, struct buf *in, size_t lines)
{
    uv_poll_t poll;
    uv_poll_init(&w->loop, &poll, w->from);
    poll.data = in;
    uv_poll_start(&poll, UV_READABLE, on_readable);
    for (size_t seen = 0, at = 0; seen < lines;) {
        uv_run(&w->loop, UV_RUN_ONCE);
        for (; at < in->len; at++) {
            seen += in->data[at] == '\n';
        }
    }
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static void initialize(struct world *w, struct buf *in)
{
    buf_init(in, 64 << 20);
    say(w, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
           "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
           "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n");
    read_lines(w, in, 1);
    buf_reset(in, 0);
}

/* Calls the tool, and runs until it has begun. */
static void call(struct world *w)
{
    say(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
           "\"chatter\",\"arguments\":{}}}\n");
    while (w->call == NULL) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void who_does_not_read_gets_answers_only(void **state)
{
    struct world *w = *state;
    CLEANUP_BUF struct buf in;
    initialize(w, &in);
    call(w);
    assert_in_range(w->told, 4, 8);
    assert_false(mcp_request_send(w->call, note()));
    mcp_answer(w->call, cJSON_CreateObject());
    read_lines(w, &in, w->told + 1);
    assert_non_null(strstr(buf_cstr(&in), "\"id\":1,"));
}

/* Limits of its own count instead of a share. */
static void whoever_has_the_pipe_may_have_everything(void **state)
{
    struct world *w = *state;
    CLEANUP_BUF struct buf in;
    initialize(w, &in);
    call(w);
    const struct principal *principal = mcp_request_principal(w->call);
    assert_int_equal(principal->limits.sandboxes, PLACES);
    assert_int_equal(principal->limits.memory_mb, BUDGET_MB);
    assert_int_equal(principal->limits.calls, 0);
    mcp_answer(w->call, cJSON_CreateObject());
    read_lines(w, &in, w->told + 1);
}

static void on_later(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Timers fire in the order of their due times: when this one has fired, the protocol layer's has,
 * too. */
static void what_changes_at_the_end_is_told_to_nobody(void **state)
{
    struct world *w = *state;
    CLEANUP_BUF struct buf in;
    uv_timer_t timer;
    initialize(w, &in);
    mcp_list_changed(w->server, NULL, MCP_LIST_TOOLS);
    uv_timer_init(&w->loop, &timer);
    timer.data = &w->later;
    uv_timer_start(&timer, on_later, LATER_MS, 0);
    serve_stdio_close(w->stdio, 0, on_closed, &w->closed);
    while (!w->closed || !w->later) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    char byte;
    assert_int_equal(read(w->from, &byte, 1), 0);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_does_not_read_gets_answers_only, setup, teardown),
        cmocka_unit_test_setup_teardown(whoever_has_the_pipe_may_have_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(what_changes_at_the_end_is_told_to_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
