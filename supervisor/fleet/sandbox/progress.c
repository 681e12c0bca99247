/*
 * Progress of a creation. Most creations take a moment, and nobody asks. A long one may be pulling
 * an image, which can take minutes, while a client waits. So after a second the worker is asked for
 * progress by long polls, until it has answered OPEN.
 *
 * Progress also decides how long a creation may take: the limit applies to the time since the last
 * progress, and OPEN itself has a far larger one. The worker follows the same rule and knows better
 * what it was doing, so its limits are a bit shorter than ours.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define FIRST_MS 1000 /* a creation that ends within this time reports nothing */
#define GAP_MS   600  /* between progress and the next poll; clients are not told more often */
#define WAIT_MS  5000 /* of one long poll */
#define LOG_MS   5000 /* between two log lines */

static void on_progress_turn(uv_timer_t *timer);

void sandbox_progress_begin(struct sandbox_progress *n, uint64_t now_ms)
{
    n->seen = 0;
    n->moved_ms = now_ms;
    n->logged_ms = 0;
}

bool sandbox_progress_take(struct sandbox_progress *n, uint64_t number, uint64_t now_ms)
{
    if (number <= n->seen) {
        return false;
    }
    n->seen = number;
    n->moved_ms = now_ms;
    return true;
}

bool sandbox_progress_overdue(const struct sandbox_progress *n, uint64_t now_ms)
{
    return now_ms - n->moved_ms >= TIME_OPEN_MS + SANDBOX_MARGIN_MS;
}

static bool is_opening(const struct sandbox *s)
{
    return sandbox_state(s) == SANDBOX_CREATING && s->attempt.state == ATTEMPT_ASKED &&
           s->link != NULL && worker_link_is_ready(s->link);
}

static void tell_progress(struct sandbox *s, const struct msg_progress_ok *m, uint64_t now_ms)
{
    char text[LIMIT_TEXT + 1];
    snprintf(text, sizeof(text), "%.*s", VIEW_ARG(m->text));
    if (s->opening.watch.logged_ms == 0 || now_ms - s->opening.watch.logged_ms >= LOG_MS) {
        s->opening.watch.logged_ms = now_ms;
        log_info("sandbox creating: %s done=%" PRIu64 " total=%" PRIu64 " sandbox=%s", text,
                 m->done, m->total, s->id);
    }
    if (s->opening.progress != NULL && s->opening.done != NULL) {
        struct fleet_progress progress = {text, m->done, m->total};
        s->opening.progress(s->opening.arg, &progress);
    }
}

static void on_progress_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                                 const char *hint)
{
    struct sandbox *s = arg;
    (void)err, (void)hint;
    if (!is_opening(s)) {
        return;
    }
    uint64_t now_ms = uv_now(s->host->loop);
    if (rc == 0 && sandbox_progress_take(&s->opening.watch, reply->progress_ok.number, now_ms)) {
        tell_progress(s, &reply->progress_ok, now_ms);
    }
    uv_timer_start(&s->opening.poll_timer, on_progress_turn, GAP_MS, 0);
}

static void on_progress_turn(uv_timer_t *timer)
{
    struct sandbox *s = timer->data;
    if (!is_opening(s)) {
        return;
    }
    if (sandbox_progress_overdue(&s->opening.watch, uv_now(timer->loop))) {
        worker_link_kill(s->link, "made no progress with OPEN for %d s", TIME_OPEN_MS / 1000);
        return;
    }
    struct msg m = {.type = MSG_PROGRESS};
    struct err err = ERR_INIT;
    m.progress.seen = s->opening.watch.seen;
    m.progress.wait_ms = WAIT_MS;
    if (worker_link_ask(s->link, &m, WAIT_MS + TIME_SILENCE_MS, on_progress_answered, s, &err) <
        0) {
        worker_link_kill(s->link, "%s", err.text);
    }
}

void sandbox_watch(struct sandbox *s)
{
    sandbox_progress_begin(&s->opening.watch, uv_now(s->host->loop));
    uv_timer_start(&s->opening.poll_timer, on_progress_turn, FIRST_MS, 0);
}
