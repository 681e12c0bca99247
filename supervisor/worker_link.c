/*
 *                 HELLO                    killed, lost, silent, garbage
 *     STARTING ──────────▶ READY ──────────────┐
 *        │                   │ CLOSE answered  ▼            reaped
 *        │                   └──────────▶ LEAVING ──▶ DYING ────────▶ DEAD
 *        └── no HELLO in time, wrong version ─────────▶
 *
 * There are many signs that a worker is lost: its process was reaped, its socket closed, a reply
 * made no sense, nothing at all was heard. They come in any order and several at once. All of them
 * lead to one place, fail(), the first one gives the reason, and the owner hears of it once, when
 * the process has been reaped, so that an old life never overlaps with the next one. A closed
 * socket usually means that the process is exiting: it gets a moment to tell why by its exit code.
 * The other way round, answers that it gave before it exited may still be on their way through
 * nng's threads: they are waited for, since "closed, nothing is left" may be among them.
 *
 * A worker is hung if it answers nothing for TIME_SILENCE_MS. It is pinged once a second, but only
 * while requests are unanswered: nobody waits for an idle worker, and an idle sandbox must not wake
 * this process up. If the timer itself comes late, it was we who were stopped or suspended, and
 * nothing is held against the worker.
 */
#include "supervisor/worker_link.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/io/ipc.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "proto/version.h"
#include "supervisor/fleet.h"
#include "supervisor/fleet_host.h"

#define EXIT_MS      100  /* from a closed socket to the exit, or from that to the last answers */
#define STOP_MS      2000 /* from SIGTERM to the exit; a worker gives itself less */
#define REAP_MS      1000 /* from SIGKILL to the exit; then the process is left to the kernel */
#define SCRATCH_KEEP 4096 /* encoding buffer kept between requests */

enum link_state { LINK_STARTING, LINK_READY, LINK_LEAVING, LINK_DYING, LINK_DEAD };

struct link_request {
    TAILQ_ENTRY(link_request) node;
    struct worker_link *link;
    enum msg_type type;
    uint64_t seq;
    worker_reply_fn done; /* NULL: has been failed already */
    void *arg;
};

struct worker_link {
    TAILQ_ENTRY(worker_link) node; /* host->links */
    struct fleet_host *host;
    struct worker_link_events events;
    void *arg;
    enum link_state state;
    char sandbox[FLEET_ID_SIZE];
    char *socket;
    uint64_t generation;
    int pid;
    struct ipc_client *ipc;
    struct worker_process *process;
    struct buf scratch;
    uint64_t seq;
    TAILQ_HEAD(, link_request) requests;
    size_t unanswered; /* of them, without PINGs */
    bool pinging;
    bool said_hello;
    bool retired; /* it was told to go */
    bool reaped;
    int exit_code; /* -1 until it has exited by itself */
    bool expendable;
    uint64_t heard_ms;
    uint64_t beat_ms;
    uv_timer_t beat;     /* heartbeat */
    uv_timer_t patience; /* the state's own time limit */
    char reason[256];    /* of the death; "" while alive */
    unsigned closing;    /* handles and ipc that are still to close */
};

/* Which reply answers which request. */
static enum msg_type answer_to(enum msg_type request)
{
    switch (request) {
    case MSG_HELLO:
        return MSG_HELLO_OK;
    case MSG_OPEN:
        return MSG_OPENED;
    case MSG_PROBE:
        return MSG_PROBED;
    case MSG_START:
    case MSG_WAIT:
        return MSG_OUTPUT;
    case MSG_PING:
        return MSG_PONG;
    case MSG_PROGRESS:
        return MSG_PROGRESS_OK;
    case MSG_STATUS:
        return MSG_STATUS_OK;
    default:
        return MSG_OK;
    }
}

/* ---- dying ---- */

static void dead(struct worker_link *link)
{
    link->state = LINK_DEAD;
    log_line(link->retired ? LOG_INFO : LOG_WARN, "worker ended: %s sandbox=%s pid=%d gen=%llu",
             link->reason, link->sandbox, link->pid, (unsigned long long)link->generation);
    uv_timer_stop(&link->beat);
    uv_timer_stop(&link->patience);
    struct link_request *request;
    TAILQ_FOREACH(request, &link->requests, node)
    {
        worker_reply_fn done = request->done;
        request->done = NULL; /* the record itself belongs to ipc until its own callback */
        if (done != NULL) {
            done(request->arg, -ERR_IO, NULL, NULL, "");
        }
    }
    struct worker_death death = {
        .exit_code = link->exit_code, .said_hello = link->said_hello, .reason = link->reason};
    link->events.dead(link->arg, &death);
}

static void on_reap_timeout(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    log_error("worker does not die, left to the kernel sandbox=%s pid=%d gen=%llu", link->sandbox,
              link->pid, (unsigned long long)link->generation);
    dead(link);
}

/* Every way to die comes through here. The first reason stays. */
static void fail(struct worker_link *link, const char *reason)
{
    if (link->state >= LINK_DYING || link->reaped) {
        return;
    }
    link->state = LINK_DYING;
    if (link->reason[0] == '\0') {
        snprintf(link->reason, sizeof(link->reason), "%s", reason);
    }
    worker_process_kill(link->process);
    uv_timer_start(&link->patience, on_reap_timeout, REAP_MS, 0);
}

static void describe_exit(char *out, size_t size, int exit_code, int signal)
{
    const char *text = exit_code >= 0 ? exit_code_text(exit_code) : NULL;
    if (signal != 0) {
        snprintf(out, size, "killed by signal %d (%s)", signal, strsignal(signal));
    } else if (text != NULL) {
        snprintf(out, size, "exited: %s", text);
    } else {
        snprintf(out, size, "exited with code %d", exit_code);
    }
}

static void on_drain_timeout(uv_timer_t *timer)
{
    dead(timer->data);
}

static void on_reaped(void *arg, int exit_code, int signal)
{
    struct worker_link *link = arg;
    if (link->state == LINK_DEAD) {
        return;
    }
    link->reaped = true;
    link->exit_code = exit_code;
    if (link->reason[0] == '\0') {
        describe_exit(link->reason, sizeof(link->reason), exit_code, signal);
    }
    if (link->said_hello && link->state < LINK_DYING && !TAILQ_EMPTY(&link->requests)) {
        link->state = LINK_LEAVING;
        uv_timer_start(&link->patience, on_drain_timeout, EXIT_MS, 0);
    } else {
        dead(link);
    }
}

static void on_exit_timeout(uv_timer_t *timer)
{
    fail(timer->data, "its link was lost");
}

static void on_retire_timeout(uv_timer_t *timer)
{
    fail(timer->data, "did not exit after it was closed");
}

static void on_ipc_link(void *arg, bool up)
{
    struct worker_link *link = arg;
    if (!up && link->state < LINK_LEAVING) { /* the process has not been reaped, then */
        link->state = LINK_LEAVING;
        uv_timer_start(&link->patience, on_exit_timeout, EXIT_MS, 0);
    }
}

void worker_link_kill(struct worker_link *link, const char *fmt, ...)
{
    char reason[sizeof(link->reason)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);
    fail(link, reason);
}

void worker_link_retire(struct worker_link *link, uint64_t exit_ms)
{
    link->retired = true;
    if (link->state < LINK_DYING && !link->reaped) {
        link->state = LINK_LEAVING;
        uv_timer_start(&link->patience, on_retire_timeout, exit_ms, 0);
    }
}

void worker_link_keep(struct worker_link *link)
{
    link->expendable = false;
}

/* Asked, not killed: a worker that is killed in the middle of a trial leaves the runtime behind.
 * One that does not listen is killed while there is still time to sweep after it. */
void worker_link_stop_expendable(struct fleet_host *host)
{
    struct worker_link *link;
    TAILQ_FOREACH(link, &host->links, node)
    {
        if (link->expendable && link->process != NULL) {
            worker_process_stop(link->process);
            worker_link_retire(link, STOP_MS);
        }
    }
}

void worker_link_kill_all(struct fleet_host *host, const char *reason)
{
    struct worker_link *link;
    TAILQ_FOREACH(link, &host->links, node)
    {
        fail(link, reason);
    }
}

/* ---- heartbeat ---- */

static void on_pong(void *arg, int rc, const struct msg *reply, const struct err *err,
                    const char *hint)
{
    struct worker_link *link = arg;
    (void)rc, (void)reply, (void)err, (void)hint;
    link->pinging = false;
}

static void ping(struct worker_link *link)
{
    struct msg m = {.type = MSG_PING};
    m.ping.value = link->seq;
    link->pinging = true;
    if (worker_link_ask(link, &m, 2 * TIME_SILENCE_MS, on_pong, link, NULL) < 0) {
        link->pinging = false; /* the next beat tries again, silence decides */
    }
}

static void on_beat(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    if (link->unanswered == 0 || link->state != LINK_READY) {
        uv_timer_stop(timer);
        return;
    }
    if (now_ms - link->beat_ms > 2 * TIME_HEARTBEAT_MS) {
        link->heard_ms = now_ms;
    }
    link->beat_ms = now_ms;
    if (now_ms - link->heard_ms >= TIME_SILENCE_MS - TIME_HEARTBEAT_MS / 10) {
        worker_link_kill(link, "no sign of life for %llu ms",
                         (unsigned long long)(now_ms - link->heard_ms));
        return;
    }
    if (!link->pinging) {
        ping(link);
    }
    if (link->events.tick != NULL) {
        link->events.tick(link->arg);
    }
}

static void start_beat(struct worker_link *link)
{
    uint64_t now_ms = uv_now(link->host->loop);
    if (link->unanswered == 1) {
        link->heard_ms = now_ms; /* silence counts from when somebody waits */
    }
    if (!uv_is_active((uv_handle_t *)&link->beat)) {
        link->beat_ms = now_ms;
        uv_timer_start(&link->beat, on_beat, TIME_HEARTBEAT_MS, TIME_HEARTBEAT_MS);
    }
}

/* ---- requests ---- */

/* Reads and checks a reply; what is wrong costs the worker its life. */
static bool accept_reply(struct worker_link *link, const struct link_request *request,
                         const void *data, size_t len, struct msg *ret)
{
    struct err err = ERR_INIT;
    if (msg_decode(MSG_LINK_W, data, len, ret, &err) < 0) {
        worker_link_kill(link, "sent garbage: %s", err.text);
        return false;
    }
    bool matches = ret->seq == request->seq &&
                   (ret->type == MSG_FAILED || ret->type == answer_to(request->type));
    if (!matches) {
        worker_link_kill(link, "answered %s with %s out of turn", msg_name(request->type),
                         msg_name(ret->type));
        msg_finish(ret);
    }
    return matches;
}

static void tell_failed(const struct link_request *request, const struct msg_failed *failed)
{
    struct err err = ERR_INIT;
    enum err_code code = err_known(failed->code) ? (enum err_code)failed->code : ERR_INTERNAL;
    err_set(&err, code, "%.*s", VIEW_ARG(failed->message));
    char *hint = alloc_viewdup(failed->hint);
    request->done(request->arg, -(int)code, NULL, &err, hint);
    free(hint);
}

static void on_reply(void *arg, int rc, const void *data, size_t len)
{
    struct link_request *request = arg;
    struct worker_link *link = request->link;
    TAILQ_REMOVE(&link->requests, request, node);
    if (request->type != MSG_PING) {
        link->unanswered--;
    }
    struct msg reply = {.type = MSG_NONE};
    if (request->done == NULL) {
        free(request); /* failed when the worker died */
        return;
    }
    if (rc == -ERR_TIMEOUT && request->type != MSG_PING && request->type != MSG_STATUS) {
        worker_link_kill(link, "did not answer %s in time", msg_name(request->type));
    }
    if (rc == 0 && link->state < LINK_DYING && accept_reply(link, request, data, len, &reply)) {
        link->heard_ms = uv_now(link->host->loop);
        if (reply.type == MSG_FAILED) {
            tell_failed(request, &reply.failed);
        } else {
            request->done(request->arg, 0, &reply, NULL, "");
        }
        msg_finish(&reply);
    } else {
        request->done(request->arg, rc < 0 ? rc : -ERR_IO, NULL, NULL, "");
    }
    free(request);
    if (link->reaped && link->state < LINK_DYING && TAILQ_EMPTY(&link->requests)) {
        dead(link);
    }
}

int worker_link_ask(struct worker_link *link, struct msg *m, uint64_t timeout_ms,
                    worker_reply_fn done, void *arg, struct err *err)
{
    if (link->state >= LINK_LEAVING) {
        return err_set(err, ERR_IO, "the worker is going away");
    }
    m->seq = ++link->seq;
    link->scratch.len = 0;
    int rc = msg_encode(&link->scratch, m, err);
    if (rc < 0) {
        return rc;
    }
    struct link_request *request = alloc_one(struct link_request);
    request->link = link;
    request->type = m->type;
    request->seq = m->seq;
    request->done = done;
    request->arg = arg;
    rc = ipc_client_ask(link->ipc, link->scratch.data, link->scratch.len, timeout_ms, on_reply,
                        request, err);
    buf_reset(&link->scratch, SCRATCH_KEEP);
    if (rc < 0) {
        free(request);
        return rc;
    }
    TAILQ_INSERT_TAIL(&link->requests, request, node);
    if (m->type != MSG_PING) {
        link->unanswered++;
    }
    if (link->state == LINK_READY) {
        start_beat(link);
    }
    return 0;
}

/* ---- birth and burial ---- */

static void on_hello(void *arg, int rc, const struct msg *reply, const struct err *err,
                     const char *hint)
{
    struct worker_link *link = arg;
    (void)hint;
    if (rc < 0) {
        if (err != NULL) {
            worker_link_kill(link, "refused to work for us: %s", err->text);
        }
        return;
    }
    const struct msg_hello_ok *hello = &reply->hello_ok;
    if (!view_is(hello->protocol, PROTO_WORKER_NAME) || hello->version != PROTO_VERSION) {
        worker_link_kill(link, "speaks %.*s version %llu, not %s version %d: reinstall cloister",
                         VIEW_ARG(hello->protocol), (unsigned long long)hello->version,
                         PROTO_WORKER_NAME, PROTO_VERSION);
        return;
    }
    if (hello->pid != (uint64_t)link->pid) {
        worker_link_kill(link, "another process (pid %llu) answered for it",
                         (unsigned long long)hello->pid);
        return;
    }
    if (link->state != LINK_STARTING) {
        return; /* dying already */
    }
    link->state = LINK_READY;
    link->said_hello = true;
    log_info("worker ready sandbox=%s pid=%d gen=%llu", link->sandbox, link->pid,
             (unsigned long long)link->generation);
    link->events.ready(link->arg);
}

static int say_hello(struct worker_link *link, struct err *err)
{
    struct msg m = {.type = MSG_HELLO};
    m.hello.protocol = view_of(PROTO_WORKER_NAME);
    m.hello.version = PROTO_VERSION;
    m.hello.build = view_of(CLOISTER_VERSION);
    m.hello.sandbox = view_of(link->sandbox);
    m.hello.generation = link->generation;
    return worker_link_ask(link, &m, TIME_HELLO_MS, on_hello, link, err);
}

static void closed_one(struct worker_link *link)
{
    if (--link->closing > 0) {
        return;
    }
    fleet_host_release(link->host);
    unlink(link->socket);
    free(link->socket);
    buf_finish(&link->scratch);
    free(link);
}

static void on_timer_closed(uv_handle_t *handle)
{
    closed_one(handle->data);
}

static void on_ipc_closed(void *arg)
{
    closed_one(arg);
}

void worker_link_destroy(struct worker_link *link)
{
    if (link == NULL) {
        return;
    }
    TAILQ_REMOVE(&link->host->links, link, node);
    worker_process_release(link->process);
    link->closing = 3;
    ipc_client_close(link->ipc, on_ipc_closed, link);
    uv_close((uv_handle_t *)&link->beat, on_timer_closed);
    uv_close((uv_handle_t *)&link->patience, on_timer_closed);
}

int worker_link_start(struct fleet_host *host, const struct worker_args *args,
                      const struct worker_link_events *events, void *arg, struct worker_link **ret,
                      struct err *err)
{
    if (host->forcing) {
        return err_set(err, ERR_SHUTTING_DOWN, "no time left to start a worker");
    }
    struct worker_link *link = alloc_one(struct worker_link);
    link->host = host;
    link->events = *events;
    link->arg = arg;
    snprintf(link->sandbox, sizeof(link->sandbox), "%s", args->sandbox);
    link->generation = args->generation;
    link->expendable = args->expendable;
    link->exit_code = -1;
    buf_init(&link->scratch, LIMIT_FRAME);
    TAILQ_INIT(&link->requests);
    int rc =
        ipc_client_open(host->loop, args->socket, LIMIT_FRAME, on_ipc_link, link, &link->ipc, err);
    if (rc < 0) {
        free(link);
        return rc;
    }
    link->socket = alloc_strdup(args->socket);
    uv_timer_init(host->loop, &link->beat);
    link->beat.data = link;
    uv_timer_init(host->loop, &link->patience);
    link->patience.data = link;
    fleet_host_hold(host);
    TAILQ_INSERT_TAIL(&host->links, link, node);
    rc = worker_spawn(host, args, on_reaped, link, &link->process, err);
    if (rc == 0) {
        link->pid = worker_process_pid(link->process);
        log_info("worker started sandbox=%s pid=%d gen=%llu", link->sandbox, link->pid,
                 (unsigned long long)link->generation);
        rc = say_hello(link, err);
    }
    if (rc < 0) {
        link->state = LINK_DEAD;
        worker_link_destroy(link);
        return rc;
    }
    *ret = link;
    return 0;
}

bool worker_link_is_ready(const struct worker_link *link)
{
    return link->state == LINK_READY;
}

bool worker_link_is_ending(const struct worker_link *link)
{
    return link->state >= LINK_LEAVING;
}

int worker_link_pid(const struct worker_link *link)
{
    return link->pid;
}
