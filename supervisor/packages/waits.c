/*
 * Callers that wait for installations. Each gets one final callback, when the outcome is known or
 * its time is over, and until then progress: no more often than people can read it, and often
 * enough to show that the installation goes on.
 *
 * A callback may start and end other waits. So a wait leaves all lists before its final callback,
 * and the lists are read from their start after each callback.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/packages/internal.h"

#define PROGRESS_MS 520  /* interval of new progress: clients get it twice a second */
#define REPEAT_MS   5000 /* interval of repeated progress */

/* ---- callbacks ------------------------------------------------------------------------------- */

struct package_report install_report(const struct installation *i)
{
    return (struct package_report){
        .id = i->id,
        .sandbox = i->sandbox,
        .manager = i->manager,
        .state = i->state,
        .packages = i->packages,
        .requirements = (const char *const *)i->requirements,
        .count = i->count,
        .output = view_bytes(i->tail.data, i->tail.len),
        .output_whole = i->tail_whole,
        .said = i->said,
        .cancelled = i->cancelled,
        .rc = i->rc,
        .message = i->message != NULL ? i->message : "",
        .hint = i->hint != NULL ? i->hint : "",
        .begun_wall_ms = i->begun_wall_ms,
        .ended_wall_ms = i->ended_wall_ms,
    };
}

/* Takes it off all lists; the caller must call its `done`. */
static void take_wait_off(struct packages_wait *w)
{
    TAILQ_REMOVE(&w->p->waits, w, queued);
    if (w->installation != NULL) {
        TAILQ_REMOVE(&w->installation->waits, w, node);
    }
}

static void tell_wait(struct packages_wait *w)
{
    take_wait_off(w);
    if (w->look != NULL) {
        look_tell(w);
    } else if (w->installation != NULL) {
        struct package_report report = install_report(w->installation);
        w->done(w->arg, &report);
    } else {
        const struct package_report report = {
            .id = "",
            .sandbox = "",
            .state = PACKAGE_FAILED,
            .rc = -ERR_EXECUTION_NOT_FOUND,
            .message = "no such installation",
            .hint = "check_package_status tells what a sandbox has",
        };
        w->done(w->arg, &report);
    }
    free(w);
}

/* The last line that is not blank. */
static void last_line(const struct installation *i, char *out, size_t size)
{
    const char *text = (const char *)i->tail.data;
    size_t end = i->tail.len;
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' ')) {
        end--;
    }
    size_t from = end;
    while (from > 0 && text[from - 1] != '\n') {
        from--;
    }
    snprintf(out, size, "%.*s", (int)(end - from), end > from ? text + from : "");
}

static void report_wait_progress(struct packages_wait *w, uint64_t now_ms)
{
    static const char *const about[] = {
        [INSTALL_WAITING] = "waiting for another installation",
        [INSTALL_OPENING] = "starting an installer",
        [INSTALL_RUNNING] = "installing",
        [INSTALL_CLOSING] = "installed",
        [INSTALL_OVER] = "installed",
    };
    char line[240];
    last_line(w->installation, line, sizeof(line));
    const struct fleet_progress progress = {
        .text = line[0] != '\0' ? line : about[w->installation->phase],
    };
    w->has_progress = false;
    w->progress_ms = now_ms;
    w->progress(w->arg, &progress); /* may end it, and others */
}

static uint64_t progress_due_ms(const struct packages_wait *w)
{
    return w->progress_ms + (w->has_progress ? PROGRESS_MS : REPEAT_MS);
}

static bool tell_next_wait(struct packages *p)
{
    uint64_t now_ms = uv_now(p->loop);
    struct packages_wait *w;
    TAILQ_FOREACH(w, &p->waits, queued)
    {
        if (w->is_due || w->due_ms <= now_ms) {
            tell_wait(w);
            return true;
        }
        if (w->progress != NULL && progress_due_ms(w) <= now_ms) {
            report_wait_progress(w, now_ms);
            return true;
        }
    }
    return false;
}

void waits_tell(struct packages *p)
{
    while (tell_next_wait(p)) {
    }
}

uint64_t waits_due_ms(const struct packages *p)
{
    const struct packages_wait *w;
    uint64_t due_ms = UINT64_MAX;
    TAILQ_FOREACH(w, &p->waits, queued)
    {
        uint64_t mine_ms = w->is_due ? 0 : w->due_ms;
        if (w->progress != NULL && progress_due_ms(w) < mine_ms) {
            mine_ms = progress_due_ms(w);
        }
        due_ms = mine_ms < due_ms ? mine_ms : due_ms;
    }
    return due_ms;
}

/* ---- events ---------------------------------------------------------------------------------- */

void packages_settled(struct installation *i)
{
    struct packages_wait *w;
    TAILQ_FOREACH(w, &i->waits, node)
    {
        w->is_due = true;
    }
    packages_turn(i->p);
}

void packages_progressed(struct installation *i)
{
    struct packages_wait *w;
    TAILQ_FOREACH(w, &i->waits, node)
    {
        w->has_progress = true;
    }
    packages_turn(i->p);
}

void waits_all_due(struct packages *p)
{
    struct packages_wait *w;
    TAILQ_FOREACH(w, &p->waits, queued)
    {
        w->is_due = true;
    }
}

/* ---- waiting ---- */

struct packages_wait *packages_wait_begin(struct packages *p, package_report_fn done, void *arg)
{
    struct packages_wait *w = alloc_one(struct packages_wait);
    w->p = p;
    w->done = done;
    w->arg = arg;
    w->due_ms = UINT64_MAX;
    TAILQ_INSERT_TAIL(&p->waits, w, queued);
    return w;
}

struct packages_wait *packages_await(struct packages *p, const char *owner, const char *id,
                                     uint64_t wait_ms, package_report_fn done, void *arg)
{
    struct packages_wait *w = packages_wait_begin(p, done, arg);
    w->installation = packages_find(p, owner, id);
    w->is_due = w->installation == NULL || w->installation->state != PACKAGE_INSTALLING;
    if (w->installation != NULL) {
        TAILQ_INSERT_TAIL(&w->installation->waits, w, node);
    }
    uint64_t now_ms = uv_now(p->loop);
    w->due_ms = wait_ms < UINT64_MAX - now_ms ? now_ms + wait_ms : UINT64_MAX;
    packages_turn(p);
    return w;
}

void packages_await_end(struct packages_wait *wait)
{
    wait->is_due = true;
    packages_turn(wait->p);
}

void packages_await_progress(struct packages_wait *wait, fleet_progress_fn progress)
{
    if (wait->installation != NULL) {
        wait->progress = progress;
        wait->has_progress = true;
        wait->progress_ms = 0;
        packages_turn(wait->p);
    }
}

void waits_free(struct packages *p)
{
    struct packages_wait *w;
    while ((w = TAILQ_FIRST(&p->waits)) != NULL) {
        TAILQ_REMOVE(&p->waits, w, queued);
        look_stop(w);
        free(w);
    }
}
