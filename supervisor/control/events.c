/*
 * What happened, as JSON lines. A watcher is a place in the fleet's ring of notes and no queue:
 * when there are new notes, or when its client has read what it had, it goes on from there while no
 * more than CONTROL_QUEUE bytes wait. One that is slower than the ring is told how many notes it
 * has missed. So a watcher costs a connection and nothing else, and their number is limited.
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
    uint64_t seen; /* number of the latest note that was written, or missed */
};

static void write_missed(struct watcher *w, uint64_t count)
{
    cJSON *line = cJSON_CreateObject();
    result_put_text(line, "event", "missed");
    result_put_uint(line, "count", count);
    control_write_line(w->x, line);
}

static void write_notes(struct watcher *w)
{
    const struct fleet_note *note;
    while (web_stream_queued(w->x) < CONTROL_QUEUE &&
           (note = fleet_note_after(w->control->fleet, w->seen)) != NULL) {
        if (note->number > w->seen + 1) {
            write_missed(w, note->number - w->seen - 1);
        }
        w->seen = note->number;
        control_write_line(w->x, control_note(note));
    }
}

static void remove_watcher(struct watcher *w)
{
    TAILQ_REMOVE(&w->control->watchers, w, node);
    w->control->watcher_count--;
    free(w);
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

/* What is kept, once. */
static void list_notes(struct control *c, struct web_exchange *x, uint64_t since)
{
    const struct fleet_note *note;
    web_stream_begin(x, 200, CONTROL_LINES);
    for (uint64_t seen = since; (note = fleet_note_after(c->fleet, seen)) != NULL;) {
        seen = note->number;
        control_write_line(x, control_note(note));
    }
    web_stream_end(x);
}

void control_get_events(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    bool follows = control_asks_for(x, "follow");
    uint64_t since;
    if (!control_number(x, "since", follows ? fleet_note_last(c->fleet) : 0, UINT64_MAX / 2,
                        &since)) {
        return;
    }
    if (since > fleet_note_last(c->fleet)) {
        since = 0; /* of an earlier server: this one has counted from 1 again */
    }
    web_set_header(x, "Cache-Control", "no-store");
    if (!follows) {
        list_notes(c, x, since);
        return;
    }
    if (c->watcher_count >= CONTROL_WATCHERS_MAX || c->quiet) {
        control_fail(x, c->quiet ? ERR_SHUTTING_DOWN : ERR_BUSY,
                     c->quiet ? "the server is shutting down" : "too many watch already",
                     "ask without follow, with since=NUMBER of the last event");
        return;
    }
    struct watcher *w = alloc_one(struct watcher);
    w->control = c;
    w->x = x;
    w->seen = since;
    TAILQ_INSERT_TAIL(&c->watchers, w, node);
    c->watcher_count++;
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
        struct web_exchange *x = w->x;
        web_on_gone(x, NULL, NULL);
        web_on_drain(x, NULL, NULL);
        remove_watcher(w);
        web_stream_end(x);
    }
}
