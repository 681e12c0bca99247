/*
 * Creating a sandbox takes a fraction of a second, or many minutes if an image is pulled. One
 * deadline cannot fit both. Progress tells a slow creation from one that hangs: each step restarts
 * the timeout, up to a cap, because a registry that sends a byte a minute is of no use.
 *
 * Only the last step is kept, with a number, by which a caller recognises a new one. A number that
 * this worker has not given comes from an earlier worker: the caller gets the current one at once.
 * One timer serves all waiting callers and the timeout.
 */
#include "worker/progress.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"

struct waiting {
    struct ipc_request *request;
    uint64_t seq;
    uint64_t until_ms;
};

struct progress {
    struct progress_setup setup;
    uv_timer_t timer;
    bool active;
    uint64_t begun_ms, late_ms;
    uint64_t number, done, total;
    char *text;
    struct waiting waiting[PROGRESS_ASKERS_MAX];
    size_t count;
};

static void on_progress_timer(uv_timer_t *timer);

static void arm_progress(struct progress *p)
{
    uint64_t now = uv_now(p->setup.loop);
    uint64_t due = p->late_ms;
    if (!p->active) {
        uv_timer_stop(&p->timer);
        return;
    }
    for (size_t i = 0; i < p->count; i++) {
        due = p->waiting[i].until_ms < due ? p->waiting[i].until_ms : due;
    }
    uv_timer_start(&p->timer, on_progress_timer, due > now ? due - now : 0, 0);
}

static void answer_progress(struct progress *p, struct ipc_request *request, uint64_t seq)
{
    struct msg m = msg_answer(MSG_PROGRESS, seq);
    m.progress_ok.number = p->number;
    if (p->active) {
        m.progress_ok.text = view_of(p->text);
        m.progress_ok.done = p->done;
        m.progress_ok.total = p->total;
    }
    p->setup.answer(p->setup.arg, request, &m);
}

static void answer_waiting(struct progress *p, size_t i)
{
    struct waiting w = p->waiting[i];
    p->count--;
    memmove(&p->waiting[i], &p->waiting[i + 1], (p->count - i) * sizeof(w));
    answer_progress(p, w.request, w.seq);
}

static void answer_all_progress(struct progress *p)
{
    while (p->count > 0) {
        answer_waiting(p, 0);
    }
}

/* A caller whose wait time is over; -1 if there is none. */
static int find_expired(const struct progress *p, uint64_t now)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->waiting[i].until_ms <= now) {
            return (int)i;
        }
    }
    return -1;
}

static void late(struct progress *p, uint64_t now)
{
    struct err err = ERR_INIT;
    if (p->number == 0 || now >= p->begun_ms + p->setup.cap_ms) {
        err_set(&err, ERR_TIMEOUT, "the sandbox was not ready within %llu s",
                (unsigned long long)(now - p->begun_ms) / 1000);
    } else {
        err_set(&err, ERR_TIMEOUT, "creating the sandbox got stuck for %llu s at: %.200s",
                (unsigned long long)p->setup.patience_ms / 1000, p->text);
    }
    progress_over(p);
    p->setup.on_late(p->setup.arg, &err);
}

static void on_progress_timer(uv_timer_t *timer)
{
    struct progress *p = timer->data;
    uint64_t now = uv_now(p->setup.loop);
    int i;
    while ((i = find_expired(p, now)) >= 0) {
        answer_waiting(p, (size_t)i);
    }
    if (p->active && now >= p->late_ms) {
        late(p, now);
        return;
    }
    arm_progress(p);
}

static void be_patient(struct progress *p)
{
    uint64_t cap = p->begun_ms + p->setup.cap_ms;
    p->late_ms = uv_now(p->setup.loop) + p->setup.patience_ms;
    p->late_ms = p->late_ms < cap ? p->late_ms : cap;
    arm_progress(p);
}

void progress_begin(struct progress *p)
{
    p->active = true;
    p->begun_ms = uv_now(p->setup.loop);
    be_patient(p);
}

void progress_step(struct progress *p, const char *text, uint64_t done, uint64_t total)
{
    if (!p->active) {
        return;
    }
    size_t len = strlen(text);
    free(p->text);
    p->text = alloc_viewdup(
        view_bytes(text, utf8_valid_prefix(text, len < LIMIT_TEXT ? len : LIMIT_TEXT)));
    p->done = done < INT64_MAX ? done : INT64_MAX;
    p->total = total < INT64_MAX ? total : INT64_MAX;
    p->number = p->number < UINT32_MAX ? p->number + 1 : 1;
    answer_all_progress(p);
    be_patient(p);
}

void progress_over(struct progress *p)
{
    p->active = false;
    answer_all_progress(p);
    arm_progress(p);
}

void progress_ask(struct progress *p, struct ipc_request *request, const struct msg *m)
{
    if (!p->active || m->progress.seen != p->number) {
        answer_progress(p, request, m->seq);
        return;
    }
    if (p->count == PROGRESS_ASKERS_MAX) {
        answer_waiting(p, 0);
    }
    p->waiting[p->count++] = (struct waiting){
        .request = request,
        .seq = m->seq,
        .until_ms = uv_now(p->setup.loop) + m->progress.wait_ms,
    };
    arm_progress(p);
}

struct progress *progress_create(const struct progress_setup *setup)
{
    struct progress *p = alloc_one(struct progress);
    p->setup = *setup;
    p->text = alloc_strdup("");
    uv_timer_init(setup->loop, &p->timer);
    p->timer.data = p;
    return p;
}

static void on_progress_timer_closed(uv_handle_t *handle)
{
    struct progress *p = handle->data;
    free(p->text);
    free(p);
}

void progress_destroy(struct progress *p)
{
    if (p != NULL) {
        uv_close((uv_handle_t *)&p->timer, on_progress_timer_closed);
    }
}
