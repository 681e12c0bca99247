/*
 * Notes are kept whether or not somebody watches, since people look after something has happened.
 * The ring is bounded by number and each note by the lengths below, so that all of it is 1 MiB at
 * worst, and some 200 KiB when texts are as usual. A watcher reads the ring with a number of its
 * own and so needs no queue: one that is slow finds older notes gone, and sees that by the numbers.
 */
#include "supervisor/fleet/host/journal.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/clock.h"

#define NAME_MAX_BYTES 128 /* of an owner */
#define TEXT_MAX_BYTES 512

static size_t kept_length(const char *text, size_t max)
{
    return text != NULL ? strnlen(text, max) : 0;
}

/* Copies a text to *at, and moves that behind it. */
static const char *put_note_text(char **at, const char *text, size_t max)
{
    char *copy = *at;
    size_t len = kept_length(text, max);
    memcpy(copy, text != NULL ? text : "", len);
    copy[len] = '\0';
    *at += len + 1;
    return copy;
}

static struct fleet_note *copy_note(const struct fleet_note *from)
{
    size_t size =
        kept_length(from->what, FLEET_ID_SIZE) + kept_length(from->owner, NAME_MAX_BYTES) +
        kept_length(from->sandbox, FLEET_ID_SIZE) + kept_length(from->execution, FLEET_ID_SIZE) +
        kept_length(from->text, TEXT_MAX_BYTES) + 5;
    struct fleet_note *note = alloc_block(sizeof(*note) + size);
    char *at = (char *)(note + 1);
    note->what = put_note_text(&at, from->what, FLEET_ID_SIZE);
    note->owner = put_note_text(&at, from->owner, NAME_MAX_BYTES);
    note->sandbox = put_note_text(&at, from->sandbox, FLEET_ID_SIZE);
    note->execution = put_note_text(&at, from->execution, FLEET_ID_SIZE);
    note->text = put_note_text(&at, from->text, TEXT_MAX_BYTES);
    return note;
}

static void on_journal_more(void *arg)
{
    struct journal *j = arg;
    if (j->more != NULL) {
        j->more(j->more_arg);
    }
}

void journal_add(struct journal *j, struct deferred *deferred, const struct fleet_note *note)
{
    struct fleet_note *copy = copy_note(note);
    copy->number = ++j->last;
    copy->wall_ms = clock_wall_ms();
    struct fleet_note **slot = &j->notes[copy->number % JOURNAL_KEPT];
    free(*slot);
    *slot = copy;
    if (j->more != NULL) {
        deferred_post(deferred, &j->task, on_journal_more, j);
    }
}

const struct fleet_note *journal_after(const struct journal *j, uint64_t number)
{
    uint64_t oldest = j->last > JOURNAL_KEPT ? j->last - JOURNAL_KEPT + 1 : 1;
    uint64_t wanted = number + 1 > oldest ? number + 1 : oldest;
    return number < j->last ? j->notes[wanted % JOURNAL_KEPT] : NULL;
}

void journal_quiet(struct journal *j, struct deferred *deferred)
{
    j->more = NULL;
    deferred_cancel(deferred, &j->task);
}

void journal_finish(struct journal *j)
{
    for (size_t i = 0; i < JOURNAL_KEPT; i++) {
        free(j->notes[i]);
        j->notes[i] = NULL;
    }
}
