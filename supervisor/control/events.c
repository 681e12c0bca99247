/*
 * What happened, as JSON lines. A watcher is a place in the fleet's ring of notes and no queue:
 * when there are new notes, or when its client has read what it had, it goes on from there while no
 * more than CONTROL_QUEUE bytes wait. One that is slower than the ring is told how many notes it
 * has missed. So a watcher costs a connection and nothing else, and the number of those that follow
 * is limited. One that asks for what there is ends behind the note that was the latest then.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

struct watcher {
    TAILQ_ENTRY(watcher) node;
    struct control *control;
    struct web_exchange *x;
    uint64_t seen;  /* number of the latest note that was written, or missed */
    uint64_t until; /* the number with which it ends; UINT64_MAX: it follows */
};

static bool follows_events(const struct watcher *w)
{
    return w->until == UINT64_MAX;
}

static void write_missed(struct watcher *w, uint64_t count)
{
    cJSON *line = cJSON_CreateObject();
    result_put_text(line, "event", "missed");
    result_put_uint(line, "count", count);
    control_write_line(w->x, line);
}

static void remove_watcher(struct watcher *w)
{
    TAILQ_REMOVE(&w->control->watchers, w, node);
    w->control->watcher_count -= follows_events(w) ? 1 : 0;
    free(w);
}

static void end_watcher(struct watcher *w)
{
    struct web_exchange *x = w->x;
    web_on_gone(x, NULL, NULL);
    web_on_drain(x, NULL, NULL);
    remove_watcher(w);
    web_stream_end(x);
}

/* A reader who was so slow that the ring is beyond `until` is told of what he asked for only. */
static void write_note(struct watcher *w, const struct fleet_note *note)
{
    uint64_t next = note->number <= w->until ? note->number : w->until + 1;
    if (next > w->seen + 1) {
        write_missed(w, next - w->seen - 1);
    }
    if (note->number <= w->until) {
        control_write_line(w->x, control_note(note));
    }
    w->seen = note->number;
}

/* May end the watcher. */
static void write_notes(struct watcher *w)
{
    const struct fleet_note *note;
    while (w->seen < w->until && web_stream_queued(w->x) < CONTROL_QUEUE &&
           (note = fleet_note_after(w->control->fleet, w->seen)) != NULL) {
        write_note(w, note);
    }
    if (w->seen >= w->until) {
        end_watcher(w);
    }
}

static void on_watcher_gone(void *arg)
{
    remove_watcher(arg);
}

static void on_watcher_drained(void *arg)
{
    write_notes(arg);
}

static void on_notes(void *arg)
{
    struct control *c = arg;
    struct watcher *w, *next;
    for (w = TAILQ_FIRST(&c->watchers); w != NULL; w = next) {
        next = TAILQ_NEXT(w, node);
        write_notes(w);
    }
}

void control_watch(struct control *c)
{
    fleet_watch(c->fleet, on_notes, c);
}

/* The number behind which a watcher begins. 0 means all that is kept, and so does a number of an
 * earlier server, since this one has counted from 1 again. */
static uint64_t begin_behind(const struct control *c, uint64_t since, uint64_t last)
{
    const struct fleet_note *oldest = fleet_note_after(c->fleet, 0);
    bool all = since == 0 || since > last;
    return !all ? since : oldest != NULL ? oldest->number - 1 : 0;
}

void control_get_events(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    bool follows = control_asks_for(x, "follow");
    uint64_t since, last = fleet_note_last(c->fleet);
    if (!control_number(x, "since", follows ? last : 0, UINT64_MAX / 2, &since)) {
        return;
    }
    if (follows && c->watcher_count >= CONTROL_WATCHERS_MAX) {
        control_fail(x, ERR_BUSY, "too many watch already",
                     "ask without follow, with since=NUMBER of the last event");
        return;
    }
    web_set_header(x, "Cache-Control", "no-store");
    struct watcher *w = alloc_one(struct watcher);
    w->control = c;
    w->x = x;
    w->seen = begin_behind(c, since, last);
    w->until = follows ? UINT64_MAX : last;
    TAILQ_INSERT_TAIL(&c->watchers, w, node);
    c->watcher_count += follows ? 1 : 0;
    web_stream_begin(x, 200, CONTROL_LINES);
    web_on_drain(x, on_watcher_drained, w);
    web_on_gone(x, on_watcher_gone, w);
    write_notes(w);
}

void control_end_watchers(struct control *c)
{
    struct watcher *w;
    fleet_watch(c->fleet, NULL, NULL);
    while ((w = TAILQ_FIRST(&c->watchers)) != NULL) {
        end_watcher(w);
    }
}
