/*
 * A sandbox that was made for nobody, and is given to somebody. It is a creation whose answer is
 * held back: it stays CREATING, so whatever ends it meanwhile ends it as a creation that fails, and
 * no server takes it over, since its record does not say that it was answered.
 *
 * When it is claimed it gets its owner and what he chooses at once, so that names and limits count
 * it like one that is being created, and calls to it wait. Then it is asked for a sign of life, by
 * LIMITS: the answer means that its worker and its agent live and that it has the limits that were
 * asked for. Without such an answer it is closed and another one is made. One that was claimed is
 * never kept again.
 *
 * Of several servers of one engine each fills a pool of its own. It is said of an entry that nobody
 * knows it, before it is kept, so that the others remove it as soon as its server is gone; one that
 * was still being made then ends by its own time. One that is given to somebody is published as any
 * other: if the others have removed it by then, that fails and its client gets another one.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define CLAIM_MS 2000 /* 1 ms is usual; making another one takes less than this */

void sandbox_hold_back(struct sandbox *s, const struct sandbox_preload *preload,
                       void (*kept)(void *arg))
{
    s->pooled.kept = kept;
    s->pooled.preload = *preload;
    s->spec.lifetime_s = 0; /* it begins when somebody gets it, and a backend counts from now on */
    sm_move(&s->pooled.sm, POOLED_FILLING);
}

static void keep_entry(struct sandbox *s)
{
    sm_move(&s->pooled.sm, POOLED_KEPT);
    s->pooled.kept(s->opening.arg);
}

static void on_spare_published(void *arg, int rc, const struct msg *reply, const struct err *err,
                               const char *hint)
{
    struct sandbox *s = arg;
    (void)reply, (void)hint;
    if (sandbox_is_leaving(s) || (rc < 0 && err == NULL)) {
        return; /* closed meanwhile, or the worker died: on_worker_dead() follows */
    }
    if (rc < 0) {
        log_debug("without us it ends by itself only: %s sandbox=%s", err->text, s->id);
    }
    keep_entry(s);
}

bool sandbox_keep(struct sandbox *s)
{
    if (s->pooled.sm.state != POOLED_FILLING) {
        return false;
    }
    sandbox_begin_preload(s);
    return true;
}

void sandbox_preloaded(struct sandbox *s)
{
    struct err err = ERR_INIT;
    if (s->host->config->front_lease_s == 0 ||
        sandbox_publish_spare(s, on_spare_published, &err) < 0) {
        keep_entry(s);
    }
}

bool sandbox_claim_is_lost(const struct sandbox *s)
{
    return s->pooled.sm.state == POOLED_LOST;
}

void sandbox_claim_lose(struct sandbox *s)
{
    if (s->pooled.sm.state == POOLED_CLAIMED || sandbox_is_sought(s)) {
        sm_move(&s->pooled.sm, POOLED_LOST);
        s->evicted = true; /* its owner's limits count the next one */
    }
}

static void give_claimed(struct sandbox *s)
{
    sm_move(&s->pooled.sm, POOLED_GIVEN);
    log_info("sandbox claimed%s: memory_mb=%" PRIu64 " cpu_milli=%" PRIu64 " after_us=%" PRIu64
             " sandbox=%s",
             s->pooled.elsewhere ? " of another server" : "", s->spec.memory_bytes >> 20,
             s->spec.cpu_milli, clock_us() - s->pooled.claimed_us, s->id);
    sandbox_created(s, "claimed");
}

/* Only a record that is there takes it from the others: without the answer they may claim it. */
static void on_claim_published(void *arg, int rc, const struct msg *reply, const struct err *err,
                               const char *hint)
{
    struct sandbox *s = arg;
    (void)reply;
    if (sandbox_is_leaving(s) || (rc < 0 && err == NULL)) {
        return; /* closed meanwhile, or the worker died: on_worker_dead() follows */
    }
    if (rc < 0) {
        sandbox_create_failed(s, err, hint);
    } else {
        give_claimed(s);
    }
}

static void on_claim_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                              const char *hint)
{
    struct sandbox *s = arg;
    struct err unsent = ERR_INIT;
    (void)reply;
    if (sandbox_is_leaving(s) || (rc < 0 && err == NULL)) {
        return; /* closed meanwhile, or the worker died: on_worker_dead() follows */
    }
    if (rc < 0) {
        sandbox_create_failed(s, err, hint);
    } else if (s->host->config->front_lease_s == 0 || s->host->instance->own) {
        give_claimed(s);
    } else if (sandbox_publish(s, on_claim_published, &unsent) < 0) {
        sandbox_create_failed(s, &unsent, "");
    }
}

/* The question whether it is any good; it is given when that is answered. */
static void ask_claimed(struct sandbox *s)
{
    struct msg m = {.type = MSG_LIMITS};
    struct err err = ERR_INIT;
    m.limits.memory_bytes = s->spec.memory_bytes;
    m.limits.cpu_milli = s->spec.cpu_milli;
    if (worker_link_ask(s->link, &m, CLAIM_MS, on_claim_answered, s, &err) < 0) {
        worker_link_kill(s->link, "%s", err.text);
    }
}

/* The record is written when it is given, as after any creation. */
void sandbox_claim(struct sandbox *s, const char *owner, const struct fleet_spec *spec,
                   fleet_info_fn opened, void *arg)
{
    sm_move(&s->pooled.sm, POOLED_CLAIMED);
    s->pooled.claimed_us = clock_us();
    free(s->owner);
    s->owner = alloc_strdup(owner);
    sandbox_take_choices(s, spec);
    sandbox_take_limits(s->host->config, spec, &s->spec);
    s->opening.done = opened;
    s->opening.progress = spec->progress;
    s->opening.arg = arg;
    sandbox_start_clock(s);
    sandbox_changed(s, SANDBOX_CHANGE_STATE);
    ask_claimed(s);
}

struct sandbox *sandbox_seek(const struct sandbox_setup *setup, const char *id, uint64_t generation,
                             const char *owner, const struct fleet_spec *spec, fleet_info_fn opened,
                             void *arg)
{
    struct sandbox *s = sandbox_begin(setup, id, owner, spec, opened, arg);
    s->generation = generation;
    s->spec.lifetime_s = 0; /* as it was made, see sandbox_hold_back() */
    s->pooled.elsewhere = true;
    s->pooled.claimed_us = clock_us();
    sm_move(&s->pooled.sm, POOLED_SOUGHT);
    return s;
}

void sandbox_claim_found(struct sandbox *s)
{
    sm_move(&s->pooled.sm, POOLED_CLAIMED);
    ask_claimed(s);
}
