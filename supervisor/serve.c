/*
 * The order of life and death of a stdio server.
 *
 *   SERVING ──end of input──▶ DRAINING ──calls answered, or time──▶ STOPPING ──▶ FLUSHING ──▶ exit
 *      └──────────────── signal, output broken ────────────────────────┘
 *
 * DRAINING lets calls that are nearly done be answered, since whoever pipes a few requests in
 * closes the pipe behind them: a moment for a pipe, whose end usually means that the client is
 * gone, and as long as it takes for a file. STOPPING ends operations and removes sandboxes, or
 * leaves those of a named instance to the next server; what is answered then still goes out in
 * FLUSHING. From the end of a pipe's input to our exit 5 s pass at
 * most.
 */
#include "supervisor/serve.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/io/json.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "proto/limits.h"
#include "supervisor/fleet.h"
#include "supervisor/jsonrpc.h"
#include "supervisor/mcp.h"
#include "supervisor/stdio_transport.h"

#define DRAIN_MS     300
#define FLUSH_MS     100 /* after the fleet's 4.5 s; a client that still reads needs none of it */
#define LAST_WAIT_MS 50
#define OWNER        "stdio"

enum serve_state { SERVE_SERVING, SERVE_DRAINING, SERVE_STOPPING, SERVE_FLUSHING };

struct serve {
    uv_loop_t loop;
    enum serve_state state;
    struct fleet *fleet;
    struct mcp_server *server;
    struct mcp_session *session;
    struct stdio *stdio;
    uv_signal_t on_term, on_int;
    uv_timer_t drain;
};

static void set_state(struct serve *s, enum serve_state state, const char *why)
{
    static const char *const names[] = {"serving", "draining", "stopping", "flushing"};
    log_debug("%s -> %s: %s", names[s->state], names[state], why);
    s->state = state;
}

/* ---- messages ------------------------------------------------------------------------------- */

static void on_line(void *arg, const char *line, size_t len)
{
    struct serve *s = arg;
    struct err err = ERR_INIT;
    cJSON *message = NULL;
    bool has_nul = false;
    int rc = json_parse(line, len, LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &message, &has_nul, &err);
    if (rc < 0) {
        mcp_session_reject(s->session, JSONRPC_PARSE_ERROR, err.text);
        return;
    }
    mcp_session_take(s->session, message, len, has_nul);
}

static void on_too_long(void *arg)
{
    struct serve *s = arg;
    mcp_session_reject(s->session, JSONRPC_INVALID_REQUEST, "line over 16 MiB");
}

/* ---- the way down --------------------------------------------------------------------------- */

/* The fleet gave up on something that will not end, and so must we. */
static void on_last_wait(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void on_stdio_closed(void *arg)
{
    struct serve *s = arg;
    uv_close((uv_handle_t *)&s->on_term, NULL);
    uv_close((uv_handle_t *)&s->on_int, NULL);
    uv_timer_start(&s->drain, on_last_wait, LAST_WAIT_MS, 0);
    uv_unref((uv_handle_t *)&s->drain);
}

static void on_fleet_down(void *arg)
{
    struct serve *s = arg;
    set_state(s, SERVE_FLUSHING, "no sandbox is ours any more");
    stdio_close(s->stdio, FLUSH_MS, on_stdio_closed, s);
}

/* The client or whoever runs us ends this server; only a person at a terminal, with ^C, means the
 * sandboxes as well. */
static void stop(struct serve *s, enum fleet_end end, const char *why)
{
    if (s->state >= SERVE_STOPPING) {
        return;
    }
    set_state(s, SERVE_STOPPING, why);
    uv_timer_stop(&s->drain);
    mcp_server_stop(s->server);
    fleet_shutdown(s->fleet, end, on_fleet_down, s);
}

static void on_drained(uv_timer_t *timer)
{
    stop(timer->data, FLEET_END_LEAVE, "input has ended");
}

static void drain_if_idle(struct serve *s)
{
    if (s->state == SERVE_DRAINING && mcp_session_open_calls(s->session) == 0) {
        /* by the loop: this may be a callback of the fleet */
        uv_timer_start(&s->drain, on_drained, 0, 0);
    }
}

static void on_send(void *arg, char *json)
{
    struct serve *s = arg;
    stdio_send(s->stdio, json);
    drain_if_idle(s);
}

static void on_end(void *arg, bool broken)
{
    struct serve *s = arg;
    if (broken) {
        stop(s, FLEET_END_LEAVE, "nobody reads our output");
    } else if (s->state == SERVE_SERVING) {
        set_state(s, SERVE_DRAINING, "end of input");
        if (!stdio_input_is_file(s->stdio)) {
            uv_timer_start(&s->drain, on_drained, DRAIN_MS, 0);
        }
        drain_if_idle(s);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    /* Clients close our input first and send SIGTERM when that takes a while; stopping has a
     * deadline of its own, so a signal on top of it changes nothing. */
    if (number == SIGTERM) {
        stop(s, FLEET_END_LEAVE, "SIGTERM");
    } else {
        stop(s, FLEET_END_CLOSE, "SIGINT");
    }
}

/* ---- start ---------------------------------------------------------------------------------- */

/* A client that hangs up must cost a write, not the process. */
static int ignore_sigpipe(struct err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGPIPE, &ignore, NULL) != 0) {
        return err_set(err, ERR_INTERNAL, "cannot ignore SIGPIPE");
    }
    return 0;
}

static int start(struct serve *s, const struct config *config, int in_fd, int out_fd,
                 struct err *err)
{
    static const struct stdio_events events = {on_line, on_too_long, on_end};
    uv_signal_init(&s->loop, &s->on_term);
    uv_signal_init(&s->loop, &s->on_int);
    uv_timer_init(&s->loop, &s->drain);
    s->on_term.data = s->on_int.data = s->drain.data = s;
    uv_signal_start(&s->on_term, on_signal, SIGTERM);
    uv_signal_start(&s->on_int, on_signal, SIGINT);
    s->fleet = fleet_create(&s->loop, config);
    fleet_adopt(s->fleet);
    s->server = mcp_server_create(config, s->fleet);
    s->session = mcp_session_create(s->server, OWNER, on_send, s);
    return stdio_open(&s->loop, in_fd, out_fd, &events, s, &s->stdio, err);
}

int serve_stdio(const struct config *config)
{
    struct err err = ERR_INIT;
    struct serve s;
    int in_fd;
    int out_fd;
    memset(&s, 0, sizeof(s));
    /* First of all: whatever opens a descriptor before could be given one of the standard ones. */
    if (stdio_claim(&in_fd, &out_fd, &err) < 0 || ignore_sigpipe(&err) < 0) {
        log_error("%s", err.text);
        return EXIT_CODE_SETUP;
    }
    int rc = uv_loop_init(&s.loop);
    if (rc < 0) {
        log_error("cannot make an event loop: %s", uv_strerror(rc));
        return EXIT_CODE_SETUP;
    }
    if (start(&s, config, in_fd, out_fd, &err) < 0) {
        log_error("%s", err.text);
        return EXIT_CODE_SETUP;
    }
    uv_run(&s.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&s.drain, NULL);
    uv_run(&s.loop, UV_RUN_NOWAIT);
    if (uv_loop_close(&s.loop) == 0) {
        mcp_session_destroy(s.session);
        mcp_server_destroy(s.server);
        fleet_destroy(s.fleet);
    } /* else something in there still points at them */
    return EXIT_CODE_OK;
}
