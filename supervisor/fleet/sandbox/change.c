/*
 * Who watches the fleet hears of changes by the loop, never inside whatever made them: a change may
 * be the doing of somebody who is in the middle of a call to us. What changes again before it was
 * told is told once.
 */
#include "supervisor/fleet/sandbox/sandbox.h"

static void on_change_tell(void *arg)
{
    struct sandbox *s = arg;
    const struct fleet_events *events = s->host->events;
    unsigned changes = s->changes;
    s->changes = 0;
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
    if (s->host->events != NULL && !sandbox_is_installer(s)) {
        s->changes |= (unsigned)change;
        deferred_post(&s->host->deferred, &s->change_task, on_change_tell, s);
    }
}

void sandbox_changes_flush(struct sandbox *s)
{
    if (s->changes != 0) {
        deferred_cancel(&s->host->deferred, &s->change_task);
        on_change_tell(s);
    }
}
