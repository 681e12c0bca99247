/*
 * The list of sandboxes, and the interface to it. What happens in a sandbox is in sandbox/, what
 * runs there in the calls (runs.h); this file decides who may see which sandbox, and the order of
 * starting. Limits of new ones are in admit.c, the shutdown in stop.c.
 *
 * Nothing on the system is touched before the first sandbox is wanted: clients start a throw-away
 * copy of every server just to list its tools. Then, in this order: programs are found, instance
 * and lock taken, a runtime probed, the sandbox created. After that the sandboxes of dead servers
 * are swept in the background. Only a named instance that has had a server before is opened at
 * once, since its sandboxes do not wait for long.
 */
#include "supervisor/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/engine/engine.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/host/runs.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/pool.h"
#include "supervisor/fleet/sandbox/adoption.h"
#include "supervisor/fleet/sandbox/fronts.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "supervisor/fleet/state/sweep.h"
#include "supervisor/fleet/state/sweeper.h"
#include "supervisor/metrics/metrics.h"

#define HINT_LIST "get_sandbox_status without sandbox_id lists the sandboxes that exist"

/* An answer for the loop's next turn. */
struct reply {
    struct deferred_task task;
    struct fleet *fleet;
    struct err err;
    const char *hint; /* string literal */
    char id[FLEET_ID_SIZE];
    fleet_info_fn info;
    fleet_done_fn done;
    void *arg;
};

/* ---- answers for later ---- */

static struct reply *new_reply(struct fleet *f, void *arg)
{
    struct reply *r = alloc_one(struct reply);
    r->fleet = f;
    r->arg = arg;
    r->hint = "";
    fleet_host_hold(&f->host);
    return r;
}

static void end_reply(struct reply *r)
{
    struct fleet *f = r->fleet;
    free(r);
    fleet_host_release(&f->host);
}

static void on_fail(void *arg)
{
    struct reply *r = arg;
    if (r->info != NULL) {
        r->info(r->arg, -r->err.code, NULL, &r->err, r->hint);
    } else {
        r->done(r->arg, -r->err.code, &r->err, r->hint);
    }
    end_reply(r);
}

static void fail_info_later(struct fleet *f, const struct err *err, const char *hint,
                            fleet_info_fn done, void *arg)
{
    struct reply *r = new_reply(f, arg);
    r->err = *err;
    r->hint = hint;
    r->info = done;
    deferred_post(&f->host.deferred, &r->task, on_fail, r);
}

/* ---- birth ---- */

static void on_host_released(struct fleet_host *host)
{
    fleet_maybe_stopped((struct fleet *)host);
}

static void on_sandbox_gone(void *arg, struct sandbox *s)
{
    struct fleet *f = arg;
    TAILQ_REMOVE(&f->sandboxes, s, node);
    pool_look(f->pool);
    fleet_maybe_leave_others(f);
}

static struct sandbox_setup setup_of(struct fleet *f)
{
    return (struct sandbox_setup){&f->host, f->engine, on_sandbox_gone, f};
}

struct fleet *fleet_create_for(uv_loop_t *loop, const struct config *config,
                               const struct fleet_runs *runs)
{
    struct fleet *f = alloc_one(struct fleet);
    f->host.loop = loop;
    f->host.config = config;
    f->host.lifeline_read = -1;
    f->host.lifeline_write = -1;
    f->host.on_released = on_host_released;
    TAILQ_INIT(&f->host.links);
    TAILQ_INIT(&f->sandboxes);
    deferred_init(&f->host.deferred, loop);
    uv_timer_init(loop, &f->stop_timer);
    f->stop_timer.data = f;
    f->engine = engine_create(&f->host);
    f->host.runs = runs;
    const struct sandbox_setup setup = setup_of(f);
    f->pool = pool_create(f, &setup);
    return f;
}

void fleet_set_runners(struct fleet *f, struct view_list runners)
{
    f->host.runners = runners;
}

void fleet_set_shared(struct fleet *f, bool shared)
{
    f->shared = shared;
}

bool fleet_is_shared(const struct fleet *f)
{
    return f->shared;
}

void fleet_observe(struct fleet *f, const struct fleet_events *events, void *arg)
{
    f->host.events = events;
    f->host.events_arg = arg;
}

bool fleet_engine(const struct fleet *f, struct fleet_engine *ret)
{
    const struct engine_choice *choice = f->engine != NULL ? engine_chosen(f->engine) : NULL;
    if (choice == NULL) {
        return false;
    }
    const char *runtime = choice->runtime != NULL ? choice->runtime : "";
    *ret = (struct fleet_engine){choice->backend, runtime, choice->place};
    return true;
}

void fleet_on_instance(struct fleet *f, fleet_instance_fn opened, void *arg)
{
    f->host.opened = opened;
    f->host.opened_arg = arg;
    if (f->host.instance != NULL && opened != NULL) {
        opened(arg, f->host.instance->dir);
    }
}

void fleet_watch(struct fleet *f, void (*more)(void *arg), void *arg)
{
    f->host.journal.more = more;
    f->host.journal.more_arg = arg;
}

const struct fleet_note *fleet_note_after(const struct fleet *f, uint64_t number)
{
    return journal_after(&f->host.journal, number);
}

uint64_t fleet_note_last(const struct fleet *f)
{
    return f->host.journal.last;
}

void fleet_on_install(struct fleet *f, fleet_install_fn install, void *arg)
{
    f->host.install = install;
    f->host.install_arg = arg;
}

/* ---- taking over ---- */

static void on_found(void *arg, struct sandbox *s)
{
    struct fleet *f = arg;
    TAILQ_INSERT_TAIL(&f->sandboxes, s, node);
}

/* Sandboxes left to the sweep need not wait for the next new sandbox. */
static void on_settled(void *arg, unsigned leftovers)
{
    struct fleet *f = arg;
    f->host.adopting = false;
    f->host.runs->adopted(&f->host);
    if (leftovers > 0 && !f->host.stopping) {
        sweep_run(f->sweep);
    }
}

static struct sandbox *find_id(struct fleet *f, const char *id);

static bool is_known(void *arg, const char *id)
{
    const struct sandbox *s = find_id(arg, id);
    return s != NULL && sandbox_state(s) < SANDBOX_FAILED;
}

static void forget_tombstone(void *arg, const char *id)
{
    struct sandbox *s = find_id(arg, id);
    if (s != NULL && sandbox_state(s) == SANDBOX_FAILED) {
        log_info("the sandbox comes back from another server sandbox=%s", id);
        sandbox_close(s, "it has come back from another server", NULL, NULL);
    }
}

/* From now on this server is one of several, if it is to be; an earlier one may have been. */
static void join_fronts(struct fleet *f)
{
    const struct fronts_setup setup = {
        .host = &f->host,
        .adopt = f->adopt,
        .backend = engine_backend(f->engine),
        .known = is_known,
        .forget = forget_tombstone,
        .arg = f,
    };
    if (f->host.config->front_lease_s > 0) {
        f->fronts = fronts_begin(&setup);
    } else {
        fronts_leave(f->host.instance);
    }
}

/* Prepares everything that the first worker needs, once; after a failure the next caller tries
 * again. */
static int prepare_fleet(struct fleet *f, struct err *err, const char **ret_hint)
{
    struct fleet_host *host = &f->host;
    if (host->instance != NULL) {
        return 0;
    }
    int rc = fleet_host_prepare(host, err, ret_hint);
    if (rc < 0) {
        return rc;
    }
    if (host->opened != NULL) {
        host->opened(host->opened_arg, host->instance->dir);
    }
    f->sweep = sweep_create(host, engine_backend(f->engine));
    if (!host->instance->own) {
        const struct adopt_setup setup = {setup_of(f), f->sweep, on_found, on_settled, f};
        host->adopting = true;
        f->adopt = adopt_begin(&setup);
        join_fronts(f);
    }
    return 0;
}

void fleet_adopt(struct fleet *f)
{
    struct err err = ERR_INIT;
    const char *hint = "";
    bool at_once = f->host.config->front_lease_s > 0 || instance_exists(f->host.config);
    if (f->host.instance != NULL || f->host.stopping || !at_once) {
        return;
    }
    if (prepare_fleet(f, &err, &hint) < 0) {
        log_line(f->adopt_failed ? LOG_DEBUG : LOG_WARN,
                 "sandboxes of an earlier server are not taken over yet: %s", err.text);
        f->adopt_failed = true;
    } else {
        f->adopt_failed = false;
    }
}

int fleet_open_instance(struct fleet *f, struct err *err)
{
    const char *hint = "";
    if (f->host.instance != NULL || f->host.config->instance[0] == '\0') {
        return 0;
    }
    if (f->host.stopping) {
        return err_set(err, ERR_SHUTTING_DOWN, "the server is shutting down");
    }
    return prepare_fleet(f, err, &hint);
}

/* The first attempt failed; a later lookup of a sandbox tries again. */
void fleet_retry_adoption(struct fleet *f)
{
    if (f->adopt_failed) {
        fleet_adopt(f);
    }
}

/* ---- finding ---- */

/* For clients: what is in the pool is none of theirs. */
static bool is_open_to_clients(const struct sandbox *s)
{
    return sandbox_state(s) < SANDBOX_CLOSING && !sandbox_is_entry(s);
}

static struct sandbox *find_id(struct fleet *f, const char *id)
{
    struct sandbox *s;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (strcmp(s->id, id) == 0 && is_open_to_clients(s)) {
            return s;
        }
    }
    return NULL;
}

struct sandbox *fleet_find_name(struct fleet *f, const char *owner, const char *name)
{
    struct sandbox *s;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (name[0] != '\0' && strcmp(s->name, name) == 0 && strcmp(s->owner, owner) == 0 &&
            is_open_to_clients(s)) {
            return s;
        }
    }
    return NULL;
}

/* While the server ends it releases sandboxes that may live on, so it does not say that they do not
 * exist. Returns the error that it sets. */
static int set_not_found(const struct fleet *f, struct err *err, const char *id)
{
    if (f->host.stopping) {
        return err_set(err, ERR_SHUTTING_DOWN, "the server is shutting down");
    }
    return err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox \"%.64s\"", id);
}

int fleet_find_default(struct fleet *f, const char *owner, const char *session, const char **ret_id)
{
    struct sandbox *s;
    int rc = -ERR_SANDBOX_NOT_FOUND;
    fleet_retry_adoption(f);
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (!s->is_default || !is_open_to_clients(s) || strcmp(s->owner, owner) != 0 ||
            strcmp(s->session, session) != 0) {
            continue;
        }
        if (sandbox_state(s) < SANDBOX_FAILED) {
            *ret_id = s->id;
            return 0;
        }
        rc = -ERR_GONE;
    }
    return rc;
}

int fleet_find(struct fleet *f, const char *owner, const char *id_or_name, const char **ret_id,
               struct err *err)
{
    fleet_retry_adoption(f);
    struct sandbox *s = find_id(f, id_or_name);
    if (s == NULL || strcmp(s->owner, owner) != 0) {
        s = fleet_find_name(f, owner, id_or_name);
    }
    if (s == NULL) {
        return set_not_found(f, err, id_or_name);
    }
    *ret_id = s->id;
    return 0;
}

int fleet_find_any(struct fleet *f, const char *id_or_name, const char **ret_id, struct err *err)
{
    fleet_retry_adoption(f);
    const struct sandbox *found = find_id(f, id_or_name), *s;
    bool by_id = found != NULL;
    TAILQ_FOREACH(s, &f->sandboxes, node)
    {
        if (by_id || id_or_name[0] == '\0' || strcmp(s->name, id_or_name) != 0 ||
            !is_open_to_clients(s)) {
            continue;
        }
        if (found != NULL) {
            return err_set(
                err, ERR_INVALID,
                "several sandboxes are called \"%.64s\", of %.64s and of %.64s: name one "
                "by its id",
                id_or_name, found->owner, s->owner);
        }
        found = s;
    }
    if (found == NULL) {
        return set_not_found(f, err, id_or_name);
    }
    *ret_id = found->id;
    return 0;
}

void fleet_list(struct fleet *f, const char *owner,
                void (*each)(void *arg, const struct fleet_info *info), void *arg)
{
    fleet_retry_adoption(f);
    struct sandbox *s = TAILQ_FIRST(&f->sandboxes);
    while (s != NULL) {
        struct sandbox *next = TAILQ_NEXT(s, node);
        bool is_meant = owner == NULL || strcmp(s->owner, owner) == 0;
        if (is_meant && !sandbox_is_installer(s) && !sandbox_is_entry(s)) {
            struct fleet_info info = sandbox_info(s);
            each(arg, &info);
        }
        s = next;
    }
}

/* ---- opening ---- */

/* A sandbox that is wanted, until it is there. What was asked for is kept if it comes out of the
 * pool, since that may go wrong. */
struct opening {
    struct fleet *fleet;
    fleet_info_fn done;
    fleet_progress_fn progress; /* may be NULL */
    void *arg;
    struct sandbox *claimed; /* that of the pool, while it is being claimed */
    struct fleet_spec spec;  /* if it is; its texts and the owner are ours */
    char *owner;
};

static char *copy_text(const char *text)
{
    return text != NULL ? alloc_strdup(text) : NULL;
}

static void keep_spec(struct opening *o, const char *owner, const struct fleet_spec *spec)
{
    o->spec = *spec; /* without lists, or it would not be claimed */
    o->spec.name = copy_text(spec->name);
    o->spec.image = copy_text(spec->image);
    o->spec.session = copy_text(spec->session);
    o->owner = alloc_strdup(owner);
}

static void end_opening(struct opening *o)
{
    if (o->owner != NULL) {
        free((char *)(uintptr_t)o->spec.name);
        free((char *)(uintptr_t)o->spec.image);
        free((char *)(uintptr_t)o->spec.session);
        free(o->owner);
    }
    free(o);
}

static void on_fleet_progress(void *arg, const struct fleet_progress *progress)
{
    struct opening *o = arg;
    if (o->progress != NULL) {
        o->progress(o->arg, progress);
    }
}

static int make_sandbox(struct opening *o, const char *owner, const struct fleet_spec *spec,
                        struct sandbox **ret, struct err *err);

/* What the pool had was no good, so its owner gets another one. */
static bool make_another(struct opening *o)
{
    struct err err = ERR_INIT;
    struct sandbox *s = NULL;
    if (o->fleet->host.stopping || make_sandbox(o, o->owner, &o->spec, &s, &err) < 0) {
        return false;
    }
    pool_give_way(o->fleet->pool);
    return true;
}

/* The first successful answer starts the sweep of dead servers, and the pool. */
static void on_sandbox_opened(void *arg, int rc, const struct fleet_info *info,
                              const struct err *err, const char *hint)
{
    struct opening *o = arg;
    struct fleet *f = o->fleet;
    struct sandbox *claimed = STEAL_PTR(o->claimed);
    if (claimed != NULL) {
        pool_taken(f->pool, claimed, rc, err);
        if (rc < 0 && sandbox_claim_is_lost(claimed) && make_another(o)) {
            return;
        }
    }
    if (!f->host.stopping) {
        sweep_run(f->sweep);
    }
    if (rc == 0) {
        pool_begin(f->pool);
    }
    pool_look(f->pool);
    o->done(o->arg, rc, info, err, hint);
    end_opening(o);
}

static int make_sandbox(struct opening *o, const char *owner, const struct fleet_spec *spec,
                        struct sandbox **ret, struct err *err)
{
    struct fleet *f = o->fleet;
    struct sandbox_setup setup = setup_of(f);
    struct fleet_spec own = *spec;
    own.progress = on_fleet_progress;
    int rc = sandbox_create(&setup, owner, &own, on_sandbox_opened, o, ret, err);
    if (rc == 0) {
        TAILQ_INSERT_TAIL(&f->sandboxes, *ret, node);
    }
    return rc;
}

/* Finds the sandbox for which an installer works; the installer has the same root, and that
 * sandbox's package directory must exist. */
static int find_target(struct fleet *f, const char *id, struct sandbox **ret, struct err *err)
{
    struct sandbox *s = find_id(f, id);
    if (s == NULL) {
        return err_set(err, ERR_GONE, "the sandbox was closed");
    }
    if (sandbox_state(s) != SANDBOX_READY && sandbox_state(s) != SANDBOX_RECOVERING) {
        return err_set(err, ERR_GONE, "the sandbox is %s", sm_name(&s->sm));
    }
    *ret = s;
    return 0;
}

/* Out of the pool, or a new one; `target` is that of an installer. */
static int open_sandbox(struct opening *o, const char *owner, const struct fleet_spec *spec,
                        struct sandbox *target, struct err *err)
{
    struct fleet *f = o->fleet;
    struct sandbox *s = NULL;
    struct fleet_spec own = *spec;
    CLEANUP_FREE char *image = target != NULL ? alloc_viewdup(target->spec.image) : NULL;
    own.image = image != NULL ? image : spec->image;
    own.progress = on_fleet_progress;
    o->claimed = pool_take(f->pool, owner, &own, on_sandbox_opened, o);
    if (o->claimed != NULL) {
        keep_spec(o, owner, spec);
    } else if (make_sandbox(o, owner, &own, &s, err) < 0) {
        return -err->code;
    }
    if (target != NULL) {
        sandbox_install_for(s, target);
    }
    pool_give_way(f->pool);
    pool_look(f->pool);
    return 0;
}

void fleet_open(struct fleet *f, const char *owner, const struct fleet_spec *spec,
                fleet_info_fn done, void *arg)
{
    struct err err = ERR_INIT;
    const char *hint = "";
    int rc;
    if (f->host.stopping) {
        rc = err_set(&err, ERR_SHUTTING_DOWN, "the server is shutting down");
    } else if ((rc = fleet_admit_owner(owner, &err)) == 0) {
        /* comes first, since adopted sandboxes may have the name or exhaust a limit */
        rc = prepare_fleet(f, &err, &hint);
    }
    if (rc == 0) {
        rc = fleet_admit(f, owner, spec, &err, &hint);
    }
    struct sandbox *target = NULL;
    if (rc == 0 && spec->installs_for != NULL) {
        rc = find_target(f, spec->installs_for, &target, &err);
    }
    if (rc == 0) {
        sweeper_start(&f->host, engine_backend(f->engine));
        fleet_bound_tombstones(f);
        struct opening *o = alloc_one(struct opening);
        o->fleet = f;
        o->done = done;
        o->progress = spec->progress;
        o->arg = arg;
        rc = open_sandbox(o, owner, spec, target, &err);
        if (rc < 0) {
            end_opening(o);
        }
    }
    if (rc == -ERR_SANDBOX_LIMIT) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_SANDBOX_LIMIT);
    }
    if (rc < 0) {
        fail_info_later(f, &err, hint, done, arg);
    }
}

/* ---- the rest of the interface --------------------------------------------------------------- */

const char *fleet_workspace(struct fleet *f, const char *id)
{
    const struct sandbox *s = find_id(f, id);
    return s != NULL ? s->workspace : "";
}

uint64_t fleet_life_left_ms(struct fleet *f, const char *id)
{
    const struct sandbox *s = find_id(f, id);
    return s != NULL ? sandbox_life_left_ms(s) : 0;
}

struct fleet_pool fleet_pool(const struct fleet *f)
{
    return pool_figures(f->pool);
}

const char *fleet_owner(struct fleet *f, const char *id)
{
    const struct sandbox *s = find_id(f, id);
    return s != NULL ? s->owner : NULL;
}

static void on_status_begin(void *arg)
{
    struct reply *r = arg;
    struct sandbox *s = find_id(r->fleet, r->id);
    if (s == NULL) {
        (void)set_not_found(r->fleet, &r->err, r->id);
        r->hint = HINT_LIST;
        on_fail(r);
        return;
    }
    sandbox_status(s, r->info, r->arg);
    end_reply(r);
}

void fleet_status(struct fleet *f, const char *id, fleet_info_fn done, void *arg)
{
    struct reply *r = new_reply(f, arg);
    r->info = done;
    snprintf(r->id, sizeof(r->id), "%s", id);
    deferred_post(&f->host.deferred, &r->task, on_status_begin, r);
}

void fleet_close(struct fleet *f, const char *id, fleet_done_fn done, void *arg)
{
    struct sandbox *s = find_id(f, id);
    if (s != NULL) {
        sandbox_close(s, "closed by its owner", done, arg);
        return;
    }
    struct reply *r = new_reply(f, arg);
    (void)set_not_found(f, &r->err, id);
    r->hint = HINT_LIST;
    r->done = done;
    deferred_post(&f->host.deferred, &r->task, on_fail, r);
}

bool fleet_retire(struct fleet *f, const char *id)
{
    struct sandbox *s = find_id(f, id);
    return s != NULL && sandbox_retire(s);
}

struct sandbox *fleet_find_usable(struct fleet *f, const char *id, struct err *err,
                                  const char **ret_hint)
{
    struct sandbox *s = find_id(f, id);
    *ret_hint = "";
    if (f->host.stopping) {
        err_set(err, ERR_SHUTTING_DOWN, "the server is shutting down");
    } else if (s == NULL) {
        (void)set_not_found(f, err, id);
        *ret_hint = HINT_LIST;
    } else if (sandbox_state(s) == SANDBOX_FAILED) {
        err_set(err, ERR_GONE, "%s", s->reason);
        *ret_hint = HINT_NEW_SANDBOX;
    } else if (s->call_count >= SANDBOX_CALLS_MAX) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_SANDBOX_OPERATIONS);
        err_set(err, ERR_BUSY, "%d operations are in flight in this sandbox", SANDBOX_CALLS_MAX);
        *ret_hint = "wait for one of them, or use another sandbox";
    } else {
        return s;
    }
    return NULL;
}

void fleet_doctor(struct fleet *f,
                  void (*each)(void *arg, const char *backend, const struct msg_probed *result),
                  void (*done)(void *arg), void *arg)
{
    struct err err = ERR_INIT;
    const char *hint = "";
    int rc = prepare_fleet(f, &err, &hint);
    engine_survey(f->engine, rc < 0 ? &err : NULL, each, done, arg);
}
