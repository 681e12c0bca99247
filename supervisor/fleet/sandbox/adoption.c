/*
 * The directories of its sandboxes describe what a server left, so the takeover begins by reading
 * them: record, note, and whether the noted process still runs.
 *
 * Only sandboxes that a client knows are taken over: a creation that was not answered, a trial of a
 * runtime, and directories without a complete record go to the sweep. So does everything of another
 * boot, since nothing of it can live.
 *
 * A living worker dials by itself, and we only listen, so all of these are adopted at once. A dead
 * worker has to be replaced, and fifty programs that start at the same moment are slower than one
 * after another, so few are started at a time.
 */
#include "supervisor/fleet/sandbox/adoption.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/sweep.h"

#define STARTS_AT_ONCE 8

TAILQ_HEAD(sandbox_queue, sandbox);

struct adopt {
    struct adopt_setup setup;
    struct sandbox_queue waiting; /* they wait for the start of a worker */
    size_t starting;
    size_t unsettled;
    size_t adopted;
    unsigned leftovers;
    uint64_t began_us;
    struct deferred_task task;
};

static void on_adoption_turn(void *arg)
{
    struct adopt *a = arg;
    struct fleet_host *host = a->setup.sandbox.host;
    struct sandbox *s;
    while (a->starting < STARTS_AT_ONCE && !host->stopping &&
           (s = TAILQ_FIRST(&a->waiting)) != NULL) {
        TAILQ_REMOVE(&a->waiting, s, adoption.node);
        sm_move(&s->adoption.sm, ADOPTION_STARTING);
        s->repair.broken_ms =
            uv_now(host->loop); /* the wait in this queue does not count against it */
        a->starting++;
        sandbox_start_worker(s); /* may settle it before it returns */
    }
    if (a->unsettled == 0) {
        log_info("adoption ended: sandboxes=%zu after_us=%" PRIu64, a->adopted,
                 clock_us() - a->began_us);
        a->setup.settled(a->setup.arg, a->leftovers);
    }
}

/* Deferred, since this is called during a change of state. */
static void turn_later(struct adopt *a)
{
    deferred_post(&a->setup.sandbox.host->deferred, &a->task, on_adoption_turn, a);
}

void adopt_started(struct adopt *a, struct sandbox *s)
{
    if (s->adoption.sm.state == ADOPTION_STARTING) {
        sm_move(&s->adoption.sm, ADOPTION_RUNNING);
        a->starting--;
        turn_later(a);
    }
}

void adopt_settled(struct adopt *a, struct sandbox *s)
{
    if (s->adoption.sm.state == ADOPTION_QUEUED) {
        TAILQ_REMOVE(&a->waiting, s, adoption.node);
    }
    if (s->adoption.sm.state == ADOPTION_STARTING) {
        a->starting--;
    }
    sm_move(&s->adoption.sm, ADOPTION_SETTLED);
    a->unsettled--;
    turn_later(a);
}

static void find_worker(struct adopt *a, struct sandbox *s)
{
    struct record_worker worker;
    struct err err = ERR_INIT;
    s->adoption.run = a;
    sm_move(&s->adoption.sm, ADOPTION_RUNNING);
    a->unsettled++;
    a->adopted++;
    if (record_load_worker(s->dir, &worker, &err) < 0) {
        log_warn("adoption: %s sandbox=%s", err.text, s->id);
        sandbox_fail(s, "the next server could not read who worked on the sandbox");
    } else if (!sandbox_adopt_worker(s, &worker)) {
        sm_move(&s->adoption.sm, ADOPTION_QUEUED);
        TAILQ_INSERT_TAIL(&a->waiting, s, adoption.node);
    }
}

/* Returns why it cannot be taken over; NULL if it can. */
static const char *reject_record(const struct record *record)
{
    const struct msg_record *whose = &record->whose.record;
    const char *boot = record_boot();
    if (boot[0] == '\0' || !view_is(whose->boot, boot)) {
        return "it is of another boot";
    }
    if (!whose->answered) {
        return "nobody was told of it";
    }
    if (record->open.open.packages_write) {
        return "it is an installer";
    }
    return whose->created_ms > clock_ms() ? "it was made in the future" : NULL;
}

static void insert_by_age(struct sandbox_queue *queue, struct sandbox *s)
{
    struct sandbox *other;
    TAILQ_FOREACH_REVERSE(other, queue, sandbox_queue, adoption.node)
    {
        if (other->clock.created_ms <= s->clock.created_ms) {
            TAILQ_INSERT_AFTER(queue, other, s, adoption.node);
            return;
        }
    }
    TAILQ_INSERT_HEAD(queue, s, adoption.node);
}

static void take_over(struct adopt *a, const char *id, struct sandbox_queue *found)
{
    struct fleet_host *host = a->setup.sandbox.host;
    CLEANUP_FREE char *dir = alloc_printf("%s/%s", host->instance->sandboxes, id);
    struct record record;
    struct err err = ERR_INIT;
    int rc = record_load(dir, &record, &err);
    if (rc < 0 && rc != -ERR_FILE_NOT_FOUND && rc != -ERR_PROTOCOL) {
        /* its record may be complete, so it is not swept */
        log_error("adoption: left alone: %s sandbox=%s", err.text, id);
        return;
    }
    if (rc < 0) {
        log_info("adoption: left to the sweep: %s sandbox=%s", err.text, id);
        sweep_add(a->setup.sweep, id);
        a->leftovers++;
        return;
    }
    const char *why = record_is_closing(dir) ? "it was being removed" : reject_record(&record);
    if (why != NULL) {
        log_info("adoption: left to the sweep: %s sandbox=%s", why, id);
        sweep_add(a->setup.sweep, id);
        a->leftovers++;
    } else {
        insert_by_age(found, sandbox_restore(&a->setup.sandbox, id, &record));
    }
    record_finish(&record);
}

struct adopt *adopt_begin(const struct adopt_setup *setup)
{
    struct adopt *a = alloc_one(struct adopt);
    struct sandbox_queue found;
    struct dirent *entry;
    size_t count = 0;
    a->setup = *setup;
    a->began_us = clock_us();
    TAILQ_INIT(&a->waiting);
    TAILQ_INIT(&found);
    DIR *dir = opendir(setup->sandbox.host->instance->sandboxes);
    while (dir != NULL && count < INSTANCE_SANDBOXES_MAX && (entry = readdir(dir)) != NULL) {
        if (instance_is_sandbox_id(entry->d_name)) {
            take_over(a, entry->d_name, &found);
            count++;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (count == INSTANCE_SANDBOXES_MAX) {
        log_warn("adoption: %zu sandboxes were looked at, the others are left alone dir=%s", count,
                 setup->sandbox.host->instance->sandboxes);
    }
    struct sandbox *s;
    while ((s = TAILQ_FIRST(&found)) != NULL) {
        TAILQ_REMOVE(&found, s, adoption.node);
        setup->found(setup->arg, s);
        find_worker(a, s);
    }
    turn_later(a);
    return a;
}

/* ---- of another server ---- */

/* Times of a record are of its host's clock and boot; those by which it is closed are ours. */
static void translate_times(struct msg_record *whose)
{
    uint64_t wall_ms = clock_wall_ms(), now_ms = clock_ms();
    uint64_t age_ms = wall_ms > whose->created_wall_ms ? wall_ms - whose->created_wall_ms : 0;
    whose->created_ms = now_ms > age_ms ? now_ms - age_ms : 0;
    whose->boot = view_of(record_boot());
}

/* What the engine keeps may have been changed by whoever may write there, so it gives nothing that
 * this server would not give a client. */
static const char *reject_taken(const struct config *c, const struct record *record,
                                const char *backend)
{
    const struct msg_open *open = &record->open.open;
    if (open->packages_write || !record->whose.record.answered) {
        return "no client knows it";
    }
    if (!view_is(open->backend, backend)) {
        return "it is of another backend";
    }
    if (open->network == NET_DOOR || (open->network != NET_NONE && !c->allow_network)) {
        return "it has network, which this server does not allow";
    }
    return NULL;
}

static uint64_t at_most(uint64_t wanted, uint64_t most)
{
    return wanted < most ? wanted : most;
}

/* Nothing of this host is reached by what another one has written. */
static void bound_taken(const struct config *c, struct record *record)
{
    struct msg_open *open = &record->open.open;
    struct msg_record *whose = &record->whose.record;
    open->mounts = (struct view_list){.items = NULL};
    open->shares = (struct view_list){.items = NULL};
    open->door = (struct view_list){.items = NULL};
    open->packages = view_of("");
    open->io_device = view_of("");
    open->door_proxy = view_of("");
    open->door_proxy_auth = view_of("");
    whose->timeout_ms = at_most(whose->timeout_ms, c->max_timeout_s * 1000);
    whose->lifetime_ms = at_most(whose->lifetime_ms, c->max_lifetime_s * 1000);
    whose->ttl_ms = at_most(whose->ttl_ms, whose->lifetime_ms);
}

static void begin_taken(struct adopt *a, struct sandbox *s)
{
    struct fleet_host *host = a->setup.sandbox.host;
    a->setup.found(a->setup.arg, s);
    if (a->unsettled == 0) {
        a->began_us = clock_us();
        a->adopted = 0;
        a->leftovers = 0;
    }
    host->adopting = true;
    s->adoption.run = a;
    sm_move(&s->adoption.sm, ADOPTION_RUNNING);
    a->unsettled++;
    a->adopted++;
    sm_move(&s->adoption.sm, ADOPTION_QUEUED);
    TAILQ_INSERT_TAIL(&a->waiting, s, adoption.node);
    turn_later(a);
}

int adopt_taken(struct adopt *a, const struct msg_taken *taken, const char *backend,
                struct view_list place, struct err *err)
{
    struct record record;
    CLEANUP_FREE char *id = alloc_viewdup(taken->sandbox);
    int rc = instance_is_sandbox_id(id) ? record_read(taken->record, &record, err)
                                        : err_set(err, ERR_PROTOCOL, "it has no id of ours");
    if (rc < 0) {
        return rc;
    }
    const struct config *config = a->setup.sandbox.host->config;
    const char *why = reject_taken(config, &record, backend);
    if (why != NULL) {
        rc = err_set(err, ERR_PROTOCOL, "%s", why);
    } else {
        struct record bounded = record; /* its lists stay with the record */
        translate_times(&bounded.whose.record);
        bound_taken(config, &bounded);
        bounded.open.open.place = place;
        struct sandbox *s = sandbox_restore(&a->setup.sandbox, id, &bounded);
        struct err unsaved = ERR_INIT;
        if (sandbox_import(s, taken->generation, &unsaved) < 0) {
            log_warn("sandbox: %s sandbox=%s", unsaved.text, id); /* it goes on without a record */
        }
        begin_taken(a, s);
    }
    record_finish(&record);
    return rc;
}

void adopt_destroy(struct adopt *a)
{
    if (a != NULL) {
        deferred_cancel(&a->setup.sandbox.host->deferred, &a->task);
        free(a);
    }
}
