/*
 * The life of a server.
 *
 *   SERVING ──SIGTERM with HTTP, or end of input──▶ DRAINING ──calls answered, or time──▶ STOPPING
 *      └──────────────── SIGINT, output broken ────────────────────────────────────────────┘ │
 *                                                                       exit ◀── FLUSHING ◀──┘
 *
 * DRAINING lets calls that are nearly done be answered. On stdio, programs that pipe a few requests
 * into us close the pipe after them. With a pipe such calls get a moment, since its end usually
 * means that the client is gone; with a file they get as long as they take. Over HTTP nothing new
 * is accepted, and calls in flight get a moment. STOPPING ends operations, and removes sandboxes or
 * leaves those of a named instance to the next server; late answers are still sent in FLUSHING. We
 * exit at most 5 s after the end of a pipe's input, and at most 6 s after SIGTERM with HTTP.
 *
 * With both fronts, the end of stdio ends the server: the client that started us expects that, and
 * would find the port in use when it starts the next server.
 */
#include "supervisor/front/serve.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "supervisor/audit/audit.h"
#include "supervisor/compat/profile.h"
#include "supervisor/control/control.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/front/app.h"
#include "supervisor/front/file_source.h"
#include "supervisor/front/own_ports.h"
#include "supervisor/front/port_source.h"
#include "supervisor/front/serve_internal.h"
#include "supervisor/languages/languages.h"
#include "supervisor/links/links.h"
#include "supervisor/mcp/session.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/traces/traces.h"

#define PIPE_DRAIN_MS 300
#define HTTP_DRAIN_MS 1000
#define HTTP_LOOK_MS  20   /* interval of checks whether all calls are answered */
#define FLUSH_MS      100  /* at least, after the fleet's 4.5 s */
#define FLUSH_END_MS  2000 /* the client may be slow: until then, if the fleet ended earlier */
#define LAST_WAIT_MS  50

enum serve_state { SERVE_SERVING, SERVE_DRAINING, SERVE_STOPPING, SERVE_FLUSHING };

struct serve {
    uv_loop_t loop;
    enum serve_state state;
    struct languages *languages;
    struct fleet *fleet;
    struct app *app;
    struct audit *audit;             /* NULL: none */
    struct traces *traces;           /* NULL: none */
    struct links *links;             /* NULL: neither HTTP nor ports */
    struct file_source *file_source; /* NULL: no HTTP */
    struct port_source *port_source; /* NULL: neither HTTP nor ports */
    struct own_ports *own_ports;     /* NULL: HTTP, or no ports */
    struct mcp_server *server;
    struct control *control;
    struct serve_stdio *stdio; /* NULL: not used */
    struct serve_http *http;   /* NULL: not used */
    unsigned open_fronts;
    bool has_ended; /* stdin */
    uv_signal_t on_term, on_int, on_hup;
    uv_timer_t drain;       /* of the pipe; at the very end, of the loop */
    uv_timer_t look;        /* checks whether HTTP has drained */
    uint64_t http_until_ms; /* time limit of that */
    uint64_t stopping_ms;   /* time of the loop when STOPPING began */
};

static void set_state(struct serve *s, enum serve_state state, const char *why)
{
    static const char *const names[] = {"serving", "draining", "stopping", "flushing"};
    log_debug("%s -> %s: %s", names[s->state], names[state], why);
    s->state = state;
}

/* ---- stop ------------------------------------------------------------------------------------ */

/* The fleet gave up something that does not end, so the loop is left without it. */
static void on_last_wait(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void on_front_closed(void *arg)
{
    struct serve *s = arg;
    if (--s->open_fronts > 0) {
        return;
    }
    uv_close((uv_handle_t *)&s->on_term, NULL);
    uv_close((uv_handle_t *)&s->on_int, NULL);
    uv_close((uv_handle_t *)&s->on_hup, NULL);
    uv_close((uv_handle_t *)&s->look, NULL);
    uv_timer_start(&s->drain, on_last_wait, LAST_WAIT_MS, 0);
    uv_unref((uv_handle_t *)&s->drain);
}

static void on_traces_closed(void *arg)
{
    struct serve *s = arg;
    s->traces = NULL;
    app_set_traces(s->app, NULL);
    on_front_closed(s);
}

static void on_fleet_down(void *arg)
{
    struct serve *s = arg;
    uint64_t passed_ms = uv_now(&s->loop) - s->stopping_ms;
    uint64_t flush_ms = passed_ms + FLUSH_MS < FLUSH_END_MS ? FLUSH_END_MS - passed_ms : FLUSH_MS;
    set_state(s, SERVE_FLUSHING, "no sandbox is ours any more");
    s->open_fronts = 2 + (s->stdio != NULL ? 1u : 0u) + (s->http != NULL ? 1u : 0u);
    control_close(s->control, flush_ms, on_front_closed,
                  s); /* before HTTP, which has its streams */
    own_ports_close(s->own_ports, flush_ms, on_front_closed, s);
    if (s->traces != NULL) {
        s->open_fronts++;
        traces_close(s->traces, on_traces_closed, s);
    }
    if (s->stdio != NULL) {
        serve_stdio_close(s->stdio, flush_ms, on_front_closed, s);
    }
    if (s->http != NULL) {
        serve_http_close(s->http, flush_ms, on_front_closed, s);
    }
}

/* Usually the client or the service manager ends this server; only a person at a terminal, with ^C,
 * means the sandboxes as well. */
static void stop_serve(struct serve *s, enum fleet_end end, const char *why)
{
    if (s->state >= SERVE_STOPPING) {
        return;
    }
    set_state(s, SERVE_STOPPING, why);
    s->stopping_ms = uv_now(&s->loop);
    uv_timer_stop(&s->drain);
    uv_timer_stop(&s->look);
    if (s->http != NULL) {
        serve_http_quiesce(s->http);
    }
    control_quiesce(s->control);
    own_ports_quiesce(s->own_ports);
    mcp_server_stop(s->server);
    app_stop(s->app);
    fleet_shutdown(s->fleet, end, on_fleet_down, s);
}

/* ---- the end of the pipe -------------------------------------------------------------------- */

static void on_drained(uv_timer_t *timer)
{
    stop_serve(timer->data, FLEET_END_LEAVE, "input has ended");
}

static void on_answered(void *arg)
{
    struct serve *s = arg;
    if (s->state == SERVE_DRAINING && s->has_ended && serve_stdio_open_requests(s->stdio) == 0) {
        /* from the loop, as this may be a callback of the fleet */
        uv_timer_start(&s->drain, on_drained, 0, 0);
    }
}

static void on_ended(void *arg)
{
    struct serve *s = arg;
    if (s->state != SERVE_SERVING) {
        return;
    }
    s->has_ended = true;
    set_state(s, SERVE_DRAINING, "end of input");
    if (!serve_stdio_is_file(s->stdio)) {
        uv_timer_start(&s->drain, on_drained, PIPE_DRAIN_MS, 0);
    }
    on_answered(s);
}

static void on_transport_broken(void *arg)
{
    stop_serve(arg, FLEET_END_LEAVE, "nobody reads our output");
}

/* ---- signals -------------------------------------------------------------------------------- */

static void on_serve_look(uv_timer_t *timer)
{
    struct serve *s = timer->data;
    size_t open = serve_http_open_requests(s->http);
    if (open == 0 || uv_now(&s->loop) >= s->http_until_ms) {
        log_debug("%zu requests are still open", open);
        stop_serve(s, FLEET_END_LEAVE, "SIGTERM");
    }
}

static void drain_http(struct serve *s)
{
    set_state(s, SERVE_DRAINING, "SIGTERM");
    serve_http_quiesce(s->http);
    mcp_server_stop(s->server);
    s->http_until_ms = uv_now(&s->loop) + HTTP_DRAIN_MS;
    uv_timer_start(&s->look, on_serve_look, 0, HTTP_LOOK_MS);
}

static int on_reload(void *arg, struct err *err)
{
    struct serve *s = arg;
    audit_reopen(s->audit);
    return s->http != NULL ? serve_http_reload(s->http, err) : 0;
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    struct err unread = ERR_INIT; /* it has been logged */
    /* Clients close our input first and send SIGTERM if that takes too long. Stopping has its own
     * deadline, so a second signal changes nothing. */
    if (number == SIGINT) {
        stop_serve(s, FLEET_END_CLOSE, "SIGINT");
    } else if (number == SIGHUP) {
        err_ignore(on_reload(s, &unread));
    } else if (s->http != NULL && s->state == SERVE_SERVING) {
        drain_http(s);
    } else if (!uv_is_active((uv_handle_t *)&s->look)) {
        stop_serve(s, FLEET_END_LEAVE, "SIGTERM");
    }
}

/* ---- start ---------------------------------------------------------------------------------- */

/* A write to a client that has hung up must fail, not kill the process. */
static int ignore_sigpipe(struct err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGPIPE, &ignore, NULL) != 0) {
        return err_set(err, ERR_INTERNAL, "cannot ignore SIGPIPE");
    }
    return 0;
}

static void watch_signals(struct serve *s)
{
    uv_signal_init(&s->loop, &s->on_term);
    uv_signal_init(&s->loop, &s->on_int);
    uv_signal_init(&s->loop, &s->on_hup);
    s->on_term.data = s->on_int.data = s->on_hup.data = s;
    uv_signal_start(&s->on_term, on_signal, SIGTERM);
    uv_signal_start(&s->on_int, on_signal, SIGINT);
    if (s->http != NULL) { /* stdio has nothing to reload: a hang-up of its terminal ends it */
        uv_signal_start(&s->on_hup, on_signal, SIGHUP);
    }
}

/* A server over HTTP is no throw-away copy, and can be steered before its first sandbox. If this
 * fails, the first session tells why. */
static void open_instance_early(struct fleet *fleet)
{
    struct err err = ERR_INIT;
    if (fleet_open_instance(fleet, &err) < 0) {
        log_debug("no instance yet: %s", err.text);
    }
}

static int start_serve(struct serve *s, const struct config *config, struct err *err)
{
    static const struct serve_stdio_events events = {on_ended, on_transport_broken, on_answered};
    uv_timer_init(&s->loop, &s->drain);
    uv_timer_init(&s->loop, &s->look);
    s->drain.data = s->look.data = s;
    watch_signals(s);
    if (config->otlp_endpoint[0] != '\0' &&
        traces_create(&s->loop, config->otlp_endpoint, &s->traces, err) < 0) {
        return -err->code;
    }
    s->fleet = fleet_create(&s->loop, config);
    CLEANUP_FREE char *url = s->http != NULL ? serve_http_url(s->http) : NULL;
    if (s->http != NULL) {
        s->links = links_create(s->fleet, url, config->link_s);
        s->file_source = file_source_create(s->fleet, s->links, config);
        s->port_source = port_source_create(s->fleet, s->links, config);
    }
    if (s->http == NULL && config->ports) {
        s->links = links_create(s->fleet, "", config->link_s);
        s->port_source = port_source_create(s->fleet, s->links, config);
        const struct ports_source ports = port_source_table(s->port_source);
        s->own_ports = own_ports_create(&s->loop, config, s->links, &ports);
    }
    fleet_set_runners(s->fleet, languages_runners(s->languages));
    s->app =
        app_create(&s->loop, config, s->languages, s->fleet, s->http != NULL ? s->links : NULL);
    if (s->own_ports != NULL) {
        app_set_ports(s->app, s->links, own_ports_open, s->own_ports);
    }
    app_set_audit(s->app, s->audit);
    app_set_traces(s->app, s->traces);
    s->server = mcp_server_create(&s->loop, app_mcp(s->app));
    app_announce(s->app, s->server); /* before the first sandbox, which may be adopted */
    const struct control_setup setup = {
        .loop = &s->loop,
        .config = config,
        .fleet = s->fleet,
        .audit = s->audit,
        .url = url,
        .reload = on_reload,
        .reload_arg = s,
    };
    s->control = control_create(&setup);
    fleet_adopt(s->fleet);
    if (s->http != NULL) {
        open_instance_early(s->fleet);
        const struct files_source files = file_source_table(s->file_source);
        const struct ports_source ports = port_source_table(s->port_source);
        serve_http_start(s->http, s->server, s->fleet, s->app, s->control, &files, &ports);
    }
    return s->stdio != NULL
               ? serve_stdio_open(s->stdio, &s->loop, config, s->server, &events, s, err)
               : 0;
}

static int prepare_serve(struct serve *s, const struct config *config, struct err *err)
{
    bool http = config->http[0] != '\0';
    /* This comes first: any earlier open() could return a standard descriptor. */
    if (!http || config->stdio) {
        s->stdio = serve_stdio_claim(err);
        if (s->stdio == NULL) {
            return -err->code;
        }
    }
    if (ignore_sigpipe(err) < 0) {
        return -err->code;
    }
    if (languages_load(config->languages, &s->languages, err) < 0) {
        return -err->code;
    }
    if (config->audit_log[0] != '\0' &&
        audit_open(config->audit_log, config->audit_code, &s->audit, err) < 0) {
        return -err->code;
    }
    int rc = uv_loop_init(&s->loop);
    if (rc < 0) {
        return err_set(err, ERR_INTERNAL, "cannot make an event loop: %s", uv_strerror(rc));
    }
    if (http) {
        s->http = serve_http_open(&s->loop, config, err);
        if (s->http == NULL) {
            uv_loop_close(&s->loop);
            return -err->code;
        }
    }
    return 0;
}

static void run_serve(struct serve *s)
{
    uv_run(&s->loop, UV_RUN_DEFAULT);
    bool over = uv_loop_alive(&s->loop) == 0; /* otherwise handles still refer to us */
    uv_close((uv_handle_t *)&s->drain, NULL);
    if (over) {
        app_announce(s->app, NULL);
        app_close(s->app);
        mcp_server_close(s->server, NULL, NULL);
    }
    uv_run(&s->loop, UV_RUN_NOWAIT);
    app_set_audit(s->app, NULL);
    audit_close(STEAL_PTR(s->audit));
    if (over && uv_loop_close(&s->loop) == 0) {
        app_destroy(s->app);
        control_destroy(s->control);
        fleet_destroy(s->fleet);
        languages_destroy(s->languages);
        serve_http_free(s->http);
        own_ports_destroy(s->own_ports);
        file_source_destroy(s->file_source);
        port_source_destroy(s->port_source);
        links_destroy(s->links);
        serve_stdio_free(s->stdio);
    } else if (fleet_gave_up(s->fleet)) {
        /* The sweeper or the next server goes on, while threads of libraries still work on what is
         * not done: exit handlers would take it apart under them, and a sanitizer would call it
         * leaked. */
        _exit(EXIT_CODE_OK);
    }
}

int serve_check(const struct config *config, struct err *err)
{
    if (config->audit_code && config->audit_log[0] == '\0') {
        return err_set(err, ERR_CONFIG, "--audit-code needs --audit-log FILE, where the code goes");
    }
    if (config->otlp_endpoint[0] != '\0' && traces_check(config->otlp_endpoint, err) < 0) {
        return -err->code;
    }
    return profiles_check(config, err);
}

int serve_run(const struct config *config)
{
    metrics_set(METRIC_PROCESS_START, 0, 0, clock_wall_ms() * 1000);
    struct err err = ERR_INIT;
    struct serve s;
    memset(&s, 0, sizeof(s));
    if (prepare_serve(&s, config, &err) < 0) {
        languages_destroy(s.languages);
        audit_close(s.audit);
        serve_stdio_free(s.stdio);
        log_error("%s", err.text);
        return err.code == ERR_CONFIG ? EXIT_CODE_USAGE : EXIT_CODE_SETUP;
    }
    if (start_serve(&s, config, &err) < 0) {
        audit_close(s.audit);
        log_error("%s", err.text);
        return EXIT_CODE_SETUP;
    }
    run_serve(&s);
    return EXIT_CODE_OK;
}
