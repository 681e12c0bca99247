/*
 * Requests over a link, and the heartbeat.
 *
 * A request's record belongs to ipc until ipc calls back, whatever happens to the link meanwhile. A
 * request that has failed already only waits for that.
 *
 * A worker hangs if it answers nothing for TIME_SILENCE_MS. It is pinged once a second, but only
 * while a request is unanswered: nobody waits for an idle worker, and an idle sandbox must not wake
 * this process. If the timer itself is late, this process was stopped or suspended, and the worker
 * is not blamed. Nor is it for time in which it waits for a CPU or a disk (waited.h), which is
 * looked at when it has been silent for a while, up to SILENCE_MOST_MS. If its main thread, which
 * answers, has run for WORKED_MS meanwhile, it runs in a circle; other threads may be at work for
 * long while that one waits for a CPU.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "proto/codec.h"
#include "supervisor/fleet/workers/link_internal.h"

#define SUSPECT_MS      (2 * TIME_HEARTBEAT_MS - TIME_HEARTBEAT_MS / 10)
#define SILENCE_MOST_MS 30000 /* by the clock, with all that was waited for */
#define LIMIT_MS        (TIME_SILENCE_MS - TIME_HEARTBEAT_MS / 10) /* a timer may be early */
#define WORKED_MS       1000 /* on a CPU, while suspect: an answer takes a thousandth of that */

/* ---- heartbeat ---- */

static void on_pong(void *arg, int rc, const struct msg *reply, const struct err *err,
                    const char *hint)
{
    struct worker_link *link = arg;
    (void)rc, (void)reply, (void)err, (void)hint;
    link->pinging = false;
}

static void ping_worker(struct worker_link *link)
{
    struct msg m = {.type = MSG_PING};
    m.ping.value = link->seq;
    link->pinging = true;
    if (worker_link_ask(link, &m, 2 * TIME_SILENCE_MS, on_pong, link, NULL) < 0) {
        link->pinging = false; /* the next heartbeat tries again; the silence limit decides */
    }
}

/* Once a heartbeat. What it was silent before it became suspect counts in any case. */
static bool is_silent(struct worker_link *link, uint64_t now_ms)
{
    uint64_t silent_ms = now_ms - link->heard_ms;
    uint64_t counted_ms = 0;
    if (silent_ms < SUSPECT_MS) {
        link->suspect = false;
    } else if (!link->suspect) {
        link->suspect = true;
        waited_begin(&link->waited, "", link->pid, false, now_ms);
        link->waited.counted_ms = silent_ms;
        counted_ms = silent_ms;
    } else {
        counted_ms = waited_look(&link->waited, now_ms, TIME_HEARTBEAT_MS);
    }
    bool circles = link->suspect && link->waited.worked_ms >= WORKED_MS && silent_ms >= LIMIT_MS;
    return counted_ms >= LIMIT_MS || circles || silent_ms >= SILENCE_MOST_MS;
}

static void on_heartbeat(uv_timer_t *timer)
{
    struct worker_link *link = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    if (link->unanswered == 0 || link->sm.state != LINK_READY) {
        uv_timer_stop(timer);
        return;
    }
    if (now_ms - link->heartbeat_ms > 2 * TIME_HEARTBEAT_MS) {
        link->heard_ms = now_ms;
    }
    link->heartbeat_ms = now_ms;
    if (is_silent(link, now_ms)) {
        worker_link_kill(link, "no sign of life for %llu ms",
                         (unsigned long long)(now_ms - link->heard_ms));
        return;
    }
    if (!link->pinging) {
        ping_worker(link);
    }
    if (link->events.tick != NULL) {
        link->events.tick(link->arg);
    }
}

void link_start_heartbeat(struct worker_link *link)
{
    if (link->sm.state == LINK_READY && link->unanswered > 0 &&
        !uv_is_active((uv_handle_t *)&link->heartbeat)) {
        link->heartbeat_ms = uv_now(link->host->loop);
        uv_timer_start(&link->heartbeat, on_heartbeat, TIME_HEARTBEAT_MS, TIME_HEARTBEAT_MS);
    }
}

/* ---- requests ---- */

/* Decodes and checks a reply. An invalid one kills the worker, and so does one that there is no
 * memory for: what it said is lost, and the next worker can be asked again. */
static bool accept_reply(struct worker_link *link, const struct link_request *request,
                         const void *data, size_t len, struct msg *ret)
{
    struct err err = ERR_INIT;
    int rc = msg_decode(MSG_LINK_W, data, len, ret, &err);
    if (rc < 0) {
        worker_link_kill(
            link, rc == -ERR_NO_MEMORY ? "its answer could not be read: %s" : "sent garbage: %s",
            err.text);
        return false;
    }
    bool matches = ret->seq == request->seq && msg_answers(ret->type, request->type);
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

static void on_request_reply(void *arg, int rc, const void *data, size_t len)
{
    struct link_request *request = arg;
    struct worker_link *link = request->link;
    TAILQ_REMOVE(&link->requests, request, node);
    if (request->type != MSG_PING) {
        link->unanswered--;
    }
    struct msg reply = {.type = MSG_NONE};
    if (request->done == NULL) {
        free(request); /* it failed when the worker died */
        return;
    }
    if (rc == -ERR_TIMEOUT && request->type != MSG_PING && request->type != MSG_STATUS) {
        worker_link_kill(link, "did not answer %s in time", msg_name(request->type));
    }
    if (rc == 0 && link->sm.state < LINK_DYING && accept_reply(link, request, data, len, &reply)) {
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
    if (TAILQ_EMPTY(&link->requests)) {
        link_drained(link);
    }
}

void link_fail_requests(struct worker_link *link)
{
    struct link_request *request;
    TAILQ_FOREACH(request, &link->requests, node)
    {
        worker_reply_fn done = request->done;
        request->done = NULL;
        if (done != NULL) {
            done(request->arg, -ERR_IO, NULL, NULL, "");
        }
    }
}

static int write_request(const void *what, struct buf *room, struct err *err)
{
    return msg_encode(room, what, err);
}

int worker_link_ask(struct worker_link *link, struct msg *m, uint64_t timeout_ms,
                    worker_reply_fn done, void *arg, struct err *err)
{
    if (link->sm.state >= LINK_LEAVING) {
        return err_set(err, ERR_IO, "the worker is going away");
    }
    m->seq = ++link->seq;
    struct link_request *request = alloc_one(struct link_request);
    request->link = link;
    request->type = m->type;
    request->seq = m->seq;
    request->done = done;
    request->arg = arg;
    int rc = ipc_client_ask(link->ipc, msg_encode_bound(m), write_request, m, timeout_ms,
                            on_request_reply, request, err);
    if (rc < 0) {
        free(request);
        return rc;
    }
    TAILQ_INSERT_TAIL(&link->requests, request, node);
    if (m->type != MSG_PING) {
        link->unanswered++;
        if (link->unanswered == 1) {
            /* silence counts from the first unanswered request */
            link->heard_ms = uv_now(link->host->loop);
        }
        link_start_heartbeat(link);
    }
    return 0;
}
