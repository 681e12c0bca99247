/*
 * Observers of the fleet are called from the loop, never inside the function that makes a change,
 * because its caller may be in the middle of something. Several changes of one kind before that are
 * reported once.
 */
#include "supervisor/fleet/sandbox/sandbox.h"

static void on_change_tell(void *arg)
{
    struct sandbox *s = arg;
    const struct fleet_events *events = s->host->events;
    unsigned changes = s->change.pending;
    s->change.pending = 0;
    if (events == NULL) {
        return;
    }
    if ((changes & SANDBOX_CHANGE_STATE) != 0) {
        events->sandboxes(s->host->events_arg, s->owner);
    }
    if ((changes & SANDBOX_CHANGE_FILES) != 0) {
        events->files(s->host->events_arg, s->owner, s->id, s->name);
    }
}

void sandbox_changed(struct sandbox *s, enum sandbox_change change)
{
    if (s->host->events != NULL && !sandbox_is_installer(s) && !sandbox_is_entry(s)) {
        s->change.pending |= (unsigned)change;
        deferred_post(&s->host->deferred, &s->change.task, on_change_tell, s);
    }
}

void sandbox_changes_flush(struct sandbox *s)
{
    if (s->change.pending != 0) {
        deferred_cancel(&s->host->deferred, &s->change.task);
        on_change_tell(s);
    }
}
