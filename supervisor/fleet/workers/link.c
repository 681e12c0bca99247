/*
 *                  HELLO
 *     STARTING ────────────▶ READY
 *        │  │ another          │  │
 *        │  │ version          │  │ CLOSE answered, or its link was lost
 *        │  └────────┐   ┌─────┼──┘
 *        │           ▼   ▼     │
 *        │          LEAVING    │ garbage, silence, killed
 *        │             │ late  │
 *        │ no HELLO    ▼       │
 *        └─────────▶ DYING ◀───┘
 *                      │ reaped, as from every other state, or abandoned
 *                      ▼
 *                     DEAD
 *
 * Many signs show that a worker is lost: its process was reaped, its socket closed, a reply was
 * invalid, nothing was received for too long. They come in any order, and several at once. All lead
 * to fail_link(), and the first gives the reason. The owner is told once, when the process has been
 * reaped, so an old life never overlaps with the next one. A closed socket usually means that the
 * process is exiting: it gets a moment to give the reason by its exit code. The other way round,
 * replies that it sent before its exit may still be in nng's threads. We wait for them, since
 * "closed, nothing is left" may be among them. When the link is down, no more can come, and
 * unanswered requests are ended; after the last request has its reply or its end, the owner is told
 * that the worker is dead.
 *
 * A worker of another build is not killed, because only it can remove its sandbox in order. It gets
 * SIGTERM and the time that closing takes.
 */
#include "supervisor/fleet/workers/link.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "proto/version.h"
#include "supervisor/fleet/workers/link_internal.h"

#define HELLO_LOOK_MS 250
#define HELLO_MOST_MS 60000 /* to HELLO by the clock, with all that was waited for */

#define EXIT_MS  100  /* from a closed socket to the exit */
#define LAST_MS  2000 /* from the exit to the last replies, if the link does not go down */
#define STOP_MS  2000 /* from SIGTERM to the exit; a worker needs less */
#define REAP_MS  1000 /* from SIGKILL to the exit; after that we stop waiting */
#define DRAIN_MS (TIME_CLOSE_MS + 2000) /* from SIGTERM to the exit, with a sandbox to remove */

#define LINK_LOST "its link was lost"

const struct sm_state link_states[LINK_STATE_COUNT] = {
    [LINK_STARTING] = {"starting", SM_BIT(LINK_READY) | SM_BIT(LINK_LEAVING) | SM_BIT(LINK_DYING) |
                                       SM_BIT(LINK_DEAD)},
    [LINK_READY] = {"ready", SM_BIT(LINK_LEAVING) | SM_BIT(LINK_DYING) | SM_BIT(LINK_DEAD)},
    [LINK_LEAVING] = {"leaving", SM_BIT(LINK_DYING) | SM_BIT(LINK_DEAD)},
    [LINK_DYING] = {"dying", SM_BIT(LINK_DEAD)},
    [LINK_DEAD] = {"dead", 0},
};

static bool is_alive_and_ours(const void *owner)
{
    const struct worker_link *link = owner;
    return link->process != NULL && !link->reaped && !link->other_version;
}

static bool is_not_reaped(const void *owner)
{
    const struct worker_link *link = owner;
    return !link->reaped;
}

static bool has_reason(const void *owner)
{
    const struct worker_link *link = owner;
    return link->reason[0] != '\0';
}

static const struct sm_invariant link_invariants[] = {
    {"a ready worker lives, and is of our build", SM_BIT(LINK_READY), is_alive_and_ours},
    {"nobody kills what is dead", SM_BIT(LINK_DYING), is_not_reaped},
    {"nobody is killed without a reason", SM_BIT(LINK_DYING), has_reason},
};

static const struct sm_guard link_guard = {"worker link", link_invariants,
                                           sizeof(link_invariants) / sizeof(link_invariants[0])};

/* ---- dying ---- */

static void describe_exit(const struct worker_link *link, char *out, size_t size)
{
    const char *text = link->exit_code >= 0 ? exit_code_text(link->exit_code) : NULL;
    if (link->exit_signal != 0) {
        snprintf(out, size, "killed by signal %d (%s)", link->exit_signal,
                 strsignal(link->exit_signal));
    } else if (text != NULL) {
        snprintf(out, size, "exited: %s", text);
    } else if (link->exit_code >= 0) {
        snprintf(out, size, "exited with code %d", link->exit_code);
    } else {
        snprintf(out, size, "ended, and only the server that started it could know how");
    }
}

static void dead(struct worker_link *link)
{
    sm_move(&link->sm, LINK_DEAD);
    bool by_itself = link->reason[0] == '\0';
    if (by_itself) {
        describe_exit(link, link->reason, sizeof(link->reason));
    }
    log_line(!link->retired ? LOG_WARN
             : by_itself    ? LOG_DEBUG
                            : LOG_INFO,
             "worker ended: %s sandbox=%s pid=%d gen=%llu", link->reason, link->sandbox, link->pid,
             (unsigned long long)link->generation);
    uv_timer_stop(&link->heartbeat);
    uv_timer_stop(&link->patience);
    link_fail_requests(link);
    struct worker_death death = {
        .exit_code = link->exit_code,
        .said_hello = link->said_hello,
        .other_version = link->other_version,
        .reason = link->reason,
    };
    link->events.dead(link->arg, &death);
}

static void fail_link(struct worker_link *link, const char *reason);

void link_drained(struct worker_link *link)
{
    if (link->reaped && link->sm.state == LINK_LEAVING) {
        dead(link);
    } else if (link->overdue && link->sm.state == LINK_LEAVING) {
        fail_link(link, LINK_LOST);
    }
}

static void on_reap_timeout(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    log_error("worker does not die, left to the kernel sandbox=%s pid=%d gen=%llu", link->sandbox,
              link->pid, (unsigned long long)link->generation);
    dead(link);
}

/* All ways to die lead here. The first reason is kept. */
static void fail_link(struct worker_link *link, const char *reason)
{
    if (link->sm.state >= LINK_DYING || link->reaped) {
        return;
    }
    if (link->reason[0] == '\0') {
        snprintf(link->reason, sizeof(link->reason), "%s", reason);
    }
    sm_move(&link->sm, LINK_DYING);
    worker_process_kill(link->process);
    uv_timer_start(&link->patience, on_reap_timeout, REAP_MS, 0);
}

/* Ends the life in order: `late` is called if it takes longer than patience_ms. */
static void leave_link(struct worker_link *link, uint64_t patience_ms, uv_timer_cb late)
{
    if (link->sm.state != LINK_LEAVING) {
        sm_move(&link->sm, LINK_LEAVING);
    }
    uv_timer_start(&link->patience, late, patience_ms, 0);
}

static void on_last_timeout(uv_timer_t *timer)
{
    dead(timer->data);
}

static void on_worker_reaped(void *arg, int exit_code, int signal)
{
    struct worker_link *link = arg;
    if (link->sm.state == LINK_DEAD) {
        return;
    }
    link->reaped = true;
    link->exit_code = exit_code;
    link->exit_signal = signal;
    /* it may have answered a request, even if the loop has not seen yet that it dialled */
    if (link->sm.state < LINK_DYING && !TAILQ_EMPTY(&link->requests) &&
        ipc_client_was_reached(link->ipc)) {
        leave_link(link, LAST_MS, on_last_timeout);
        if (link->down) {
            ipc_client_end_calls(link->ipc); /* link_drained() follows */
        }
    } else {
        dead(link);
    }
}

static void on_lost_timeout(uv_timer_t *timer)
{
    fail_link(timer->data, LINK_LOST);
}

/* What it has said before the link was lost is heard first, as is what a dead one has said. */
static void on_exit_timeout(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    link->overdue = true;
    if (TAILQ_EMPTY(&link->requests)) {
        fail_link(link, LINK_LOST);
    } else {
        leave_link(link, LAST_MS, on_lost_timeout);
        ipc_client_end_calls(link->ipc); /* link_drained() follows */
    }
}

static void on_retire_timeout(uv_timer_t *timer)
{
    fail_link(timer->data, "did not exit after it was closed");
}

static void on_refuse_timeout(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    log_warn("a worker of another build did not end in time sandbox=%s pid=%d", link->sandbox,
             link->pid);
    fail_link(link, "did not end in time"); /* the first reason is kept */
}

/* We do not understand this worker: it ends its sandbox and exits. */
static void refuse_link(struct worker_link *link, const char *why)
{
    if (link->sm.state >= LINK_DYING || link->other_version) {
        return;
    }
    link->other_version = true;
    snprintf(link->reason, sizeof(link->reason), "belongs to another build of cloister: %.150s%s",
             why, link->adopted ? "" : "; reinstall cloister");
    if (!link->reaped) {
        worker_process_stop(link->process);
        leave_link(link, DRAIN_MS, on_refuse_timeout);
    }
}

static void on_ipc_link(void *arg, bool up)
{
    struct worker_link *link = arg;
    link->down = !up;
    if (!up && link->sm.state < LINK_LEAVING) { /* then the process has not been reaped */
        leave_link(link, EXIT_MS, on_exit_timeout);
    } else if (!up && link->reaped && link->sm.state == LINK_LEAVING) {
        ipc_client_end_calls(link->ipc); /* link_drained() follows */
    }
}

void worker_link_kill(struct worker_link *link, const char *fmt, ...)
{
    char reason[sizeof(link->reason)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);
    fail_link(link, reason);
}

void worker_link_retire(struct worker_link *link, uint64_t exit_ms)
{
    link->retired = true;
    if (link->sm.state < LINK_DYING && !link->reaped && !link->other_version) {
        leave_link(link, exit_ms, on_retire_timeout);
    }
}

void worker_link_keep(struct worker_link *link)
{
    link->expendable = false;
}

/* These are asked rather than killed, since a worker that is killed during a trial leaves the
 * runtime behind. One that does not react is killed early enough to sweep after it. */
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
        fail_link(link, reason);
    }
}

/* ---- birth and burial ---- */

static void on_hello(void *arg, int rc, const struct msg *reply, const struct err *err,
                     const char *hint)
{
    struct worker_link *link = arg;
    char why[128];
    (void)hint;
    if (rc < 0) {
        if (rc == -ERR_VERSION && err != NULL) {
            refuse_link(link, err->text);
        } else if (err != NULL) {
            worker_link_kill(link, "refused to work for us: %s", err->text);
        }
        return;
    }
    const struct msg_hello_ok *hello = &reply->hello_ok;
    if (!view_is(hello->protocol, PROTO_WORKER_NAME) || hello->version != PROTO_VERSION) {
        snprintf(why, sizeof(why), "it speaks %.*s version %llu, not %s version %d",
                 VIEW_ARG(hello->protocol), (unsigned long long)hello->version, PROTO_WORKER_NAME,
                 PROTO_VERSION);
        refuse_link(link, why);
        return;
    }
    if (hello->pid != (uint64_t)link->pid) {
        worker_link_kill(link, "another process (pid %llu) answered for it",
                         (unsigned long long)hello->pid);
        return;
    }
    if (link->sm.state != LINK_STARTING) {
        return; /* on its way out already */
    }
    sm_move(&link->sm, LINK_READY);
    uv_timer_stop(&link->patience);
    link->said_hello = true;
    link_start_heartbeat(link);
    log_debug("worker ready sandbox=%s pid=%d gen=%llu", link->sandbox, link->pid,
              (unsigned long long)link->generation);
    link->events.ready(link->arg);
}

/* A worker that waits for a CPU is not blamed for it. */
static void on_hello_look(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    uint64_t limit_ms = link->adopted ? TIME_ADOPT_MS : TIME_HELLO_MS;
    if (waited_look(&link->waited, uv_now(timer->loop), HELLO_LOOK_MS) >= limit_ms) {
        worker_link_kill(link, "did not answer %s in time", msg_name(MSG_HELLO));
    }
}

static int say_hello(struct worker_link *link, struct err *err)
{
    struct msg m = {.type = MSG_HELLO};
    m.hello.protocol = view_of(PROTO_WORKER_NAME);
    m.hello.version = PROTO_VERSION;
    m.hello.build = view_of(CLOISTER_VERSION);
    m.hello.sandbox = view_of(link->sandbox);
    m.hello.generation = link->generation;
    int rc = worker_link_ask(link, &m, HELLO_MOST_MS, on_hello, link, err);
    if (rc == 0) {
        uv_update_time(link->host->loop); /* starting a process takes long on a busy machine */
        link->began_ms = uv_now(link->host->loop);
        waited_begin(&link->waited, "", link->pid, false, link->began_ms);
        uv_timer_start(&link->patience, on_hello_look, HELLO_LOOK_MS, HELLO_LOOK_MS);
    }
    return rc;
}

static void closed_one(struct worker_link *link)
{
    if (--link->closing > 0) {
        return;
    }
    unlink(link->socket);
    free(link->socket);
    fleet_host_release(link->host); /* the host may be freed from now on */
    free(link);
}

static void on_link_timer_closed(uv_handle_t *handle)
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
    uv_close((uv_handle_t *)&link->heartbeat, on_link_timer_closed);
    uv_close((uv_handle_t *)&link->patience, on_link_timer_closed);
}

void worker_link_abandon(struct worker_link *link)
{
    assert(link->sm.state != LINK_DEAD && !link->expendable);
    sm_move(&link->sm, LINK_DEAD);
    log_debug("worker let go of sandbox=%s pid=%d gen=%llu", link->sandbox, link->pid,
              (unsigned long long)link->generation);
    link_fail_requests(link);
    worker_process_abandon(STEAL_PTR(link->process));
    worker_link_destroy(link);
}

/* Makes a link without a process. */
static int create_link(struct fleet_host *host, const struct worker_args *args,
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
    sm_init(&link->sm, link_states, LINK_STATE_COUNT, LINK_STARTING);
    sm_watch(&link->sm, &link_guard, link);
    TAILQ_INIT(&link->requests);
    link->socket = worker_socket_path(args->dir, args->generation);
    int rc =
        ipc_client_open(host->loop, link->socket, LIMIT_FRAME, on_ipc_link, link, &link->ipc, err);
    if (rc < 0) {
        free(link->socket);
        free(link);
        return rc;
    }
    uv_timer_init(host->loop, &link->heartbeat);
    link->heartbeat.data = link;
    uv_timer_init(host->loop, &link->patience);
    link->patience.data = link;
    fleet_host_hold(host);
    TAILQ_INSERT_TAIL(&host->links, link, node);
    *ret = link;
    return 0;
}

/* Completes a link; `rc` is the result of starting or watching the process. */
static int complete_link(struct worker_link *link, int rc, struct worker_link **ret,
                         struct err *err)
{
    if (rc == 0) {
        link->pid = worker_process_pid(link->process);
        log_debug("worker %s sandbox=%s pid=%d gen=%llu", link->adopted ? "found again" : "started",
                  link->sandbox, link->pid, (unsigned long long)link->generation);
        rc = say_hello(link, err);
    }
    if (rc < 0) {
        sm_move(&link->sm, LINK_DEAD);
        worker_link_destroy(link);
        return rc;
    }
    *ret = link;
    return 0;
}

int worker_link_start(struct fleet_host *host, const struct worker_args *args,
                      const struct worker_link_events *events, void *arg, struct worker_link **ret,
                      struct err *err)
{
    struct worker_link *link;
    int rc = create_link(host, args, events, arg, &link, err);
    if (rc < 0) {
        return rc;
    }
    rc = worker_spawn(host, args, on_worker_reaped, link, &link->process, err);
    return complete_link(link, rc, ret, err);
}

int worker_link_adopt(struct fleet_host *host, const struct worker_args *args, int pid,
                      uint64_t start_time, const struct worker_link_events *events, void *arg,
                      struct worker_link **ret, struct err *err)
{
    struct worker_link *link;
    int rc = create_link(host, args, events, arg, &link, err);
    if (rc < 0) {
        return rc;
    }
    link->adopted = true;
    rc = worker_watch(host, pid, start_time, on_worker_reaped, link, &link->process, err);
    return complete_link(link, rc, ret, err);
}

bool worker_link_is_ready(const struct worker_link *link)
{
    return link->sm.state == LINK_READY;
}

bool worker_link_is_ending(const struct worker_link *link)
{
    return link->sm.state >= LINK_LEAVING;
}

int worker_link_pid(const struct worker_link *link)
{
    return link->pid;
}
