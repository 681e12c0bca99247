/*
 * A sandbox outlives its workers. The backend and the agent keep what is in it (processes,
 * variables, files); a worker only gives access. So when a worker dies, the sandbox is RECOVERING:
 * the next generation adopts it (OPEN with attach), and all calls in flight continue. Only if there
 * is nothing to adopt, or adopting fails again and again, is the sandbox FAILED. It then stays on
 * the list as a tombstone without resources, so that its owner learns the reason, until its idle
 * time is over.
 *
 * A creation is simpler: a worker that dies before OPEN was sent is replaced, since nothing exists
 * yet; after that half a sandbox may exist, so the creation fails and is swept.
 *
 * The drawings of its states are in states.c, the way out is in close.c.
 */
#include "supervisor/fleet/sandbox/sandbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/exit_codes.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/host/runs.h"
#include "supervisor/fleet/sandbox/adoption.h"
#include "supervisor/fleet/state/record.h"
#include "supervisor/metrics/metrics.h"

#define ENDED_ALONE    "the sandbox ended while no server was there"
#define CALLS_CHECK_MS 1000
#define SEEK_MS        5000 /* to claim one of another server; making one takes hardly longer */
#define HINT_HOST      "the host may be out of processes, descriptors, memory or disk space; see the log"

/* The host has no room for the sandbox, which the client sees as an engine that is not usable. */
static void create_refused(struct sandbox *s, const struct err *err)
{
    struct err failed = *err;
    bool host =
        failed.code == ERR_IO || failed.code == ERR_NO_MEMORY || failed.code == ERR_NO_SPACE;
    failed.code = host ? ERR_ENGINE : failed.code;
    sandbox_create_failed(s, &failed, host || failed.code == ERR_ENGINE ? HINT_HOST : "");
}

enum sandbox_state sandbox_state(const struct sandbox *s)
{
    return (enum sandbox_state)s->sm.state;
}

/* Replaces the tick of the link while there is no worker. */
static void on_calls_check(uv_timer_t *timer)
{
    struct sandbox *s = timer->data;
    s->host->runs->check(s);
    sandbox_status_check(s);
}

static void check_calls_if_recovering(struct sandbox *s)
{
    if (sandbox_state(s) == SANDBOX_RECOVERING) {
        uv_timer_start(&s->calls_check, on_calls_check, CALLS_CHECK_MS, CALLS_CHECK_MS);
    } else {
        uv_timer_stop(&s->calls_check);
    }
}

/* It was taken over, or was found to have ended; what its owner or the server ends meanwhile is
 * neither. */
static void count_adoption(enum sandbox_state next)
{
    if (next == SANDBOX_READY || next == SANDBOX_FAILED) {
        metrics_count(METRIC_ADOPTIONS,
                      next == SANDBOX_READY ? METRIC_SUCCESS_OK : METRIC_SUCCESS_FAILED);
    }
}

/* What is in the pool, and installers, are nobody's business. */
static void note_state(struct sandbox *s, const char *cause)
{
    char what[FLEET_ID_SIZE];
    snprintf(what, sizeof(what), "sandbox.%s", sm_name(&s->sm));
    if (!sandbox_is_installer(s) && !sandbox_is_entry(s)) {
        const struct fleet_note note = {
            .what = what, .owner = s->owner, .sandbox = s->id, .text = cause};
        journal_add(&s->host->journal, &s->host->deferred, &note);
    }
}

void sandbox_set_state(struct sandbox *s, enum sandbox_state next, const char *cause)
{
    const char *left = sm_move(&s->sm, next);
    check_calls_if_recovering(s);
    note_state(s, cause);
    /* CLOSING was told, with its cause, and what goes wrong after it has lines of its own */
    log_line(next == SANDBOX_CLOSED || next == SANDBOX_LEFT ? LOG_DEBUG : LOG_INFO,
             "sandbox %s -> %s: %s sandbox=%s pid=%d gen=%" PRIu64, left, sm_name(&s->sm), cause,
             s->id, s->link != NULL ? worker_link_pid(s->link) : 0, s->generation);
    /* clients have not seen it since CLOSING */
    if (next != SANDBOX_CLOSED && next != SANDBOX_LEFT) {
        sandbox_changed(s, SANDBOX_CHANGE_STATE);
    }
    if (next == SANDBOX_FAILED || next == SANDBOX_CLOSING) {
        sandbox_changed(s, SANDBOX_CHANGE_FILES);
    }
    if (s->adoption.run != NULL) { /* it leaves RECOVERING for the first time */
        count_adoption(next);
        adopt_settled(STEAL_PTR(s->adoption.run), s);
        sandbox_status_known(s);
    }
}

bool sandbox_is_leaving(const struct sandbox *s)
{
    return sandbox_state(s) >= SANDBOX_FAILED;
}

void sandbox_fail(struct sandbox *s, const char *reason)
{
    if (sandbox_is_leaving(s)) {
        return;
    }
    if (sandbox_state(s) == SANDBOX_CREATING) {
        struct err failed = ERR_INIT;
        err_set(&failed, ERR_GONE, "%s", reason);
        sandbox_create_failed(s, &failed, HINT_NEW_SANDBOX);
        return;
    }
    free(s->reason);
    s->reason = alloc_strdup(reason);
    sandbox_set_state(s, SANDBOX_FAILED, reason);
    metrics_count(METRIC_SANDBOXES_FAILED, 0);
    sandbox_cleanup(s);
    struct err err = ERR_INIT;
    err_set(&err, ERR_GONE, "%s", reason);
    sandbox_answer_opened(s, &err, HINT_NEW_SANDBOX);
    s->host->runs->fail(s, &err, HINT_NEW_SANDBOX);
}

void sandbox_gone(struct sandbox *s, const char *reason)
{
    if (!sandbox_is_leaving(s)) {
        worker_link_retire(s->link, TIME_CLOSE_MS);
        sandbox_fail(s, reason);
    }
}

/* ---- opening ---- */

void sandbox_ready(struct sandbox *s, const char *cause)
{
    sandbox_set_state(s, SANDBOX_READY, cause);
    s->host->runs->resume(s);
}

static void on_record_saved(void *arg, int rc, const struct err *err);
static void save_answered(struct sandbox *s)
{
    struct err err = ERR_INIT;
    s->record_saved = false;
    int rc = sandbox_save(s, true, on_record_saved, &err);
    if (rc < 0) {
        on_record_saved(s, rc, &err);
    }
}

/* ---- for other servers ---- */

static void publish_failed(struct sandbox *s, const struct err *err)
{
    s->unpublished = true;
    log_warn("sandbox: no other server can take it over: %s sandbox=%s", err->text, s->id);
}

static void on_published(void *arg, int rc, const struct msg *reply, const struct err *err,
                         const char *hint)
{
    struct sandbox *s = arg;
    (void)reply, (void)hint;
    s->unpublished = rc < 0;
    if (rc == -ERR_GONE && err != NULL) {
        sandbox_fail(s, err->text); /* other servers have taken us for dead */
        return;
    }
    if (rc < 0 && err != NULL) {
        publish_failed(s, err);
    }
    if (!sandbox_is_leaving(s)) {
        save_answered(s);
    }
}

static void on_published_late(void *arg, int rc, const struct msg *reply, const struct err *err,
                              const char *hint)
{
    struct sandbox *s = arg;
    (void)reply, (void)hint;
    s->unpublished = rc < 0;
    if (rc < 0 && err != NULL) {
        publish_failed(s, err);
    }
}

/* Its worker died before it had done it. */
static void publish_again(struct sandbox *s)
{
    struct err err = ERR_INIT;
    if (s->unpublished && sandbox_publish(s, on_published_late, &err) < 0) {
        publish_failed(s, &err);
    }
}

/* The creation is answered when the record says so: the next server must never take a sandbox that
 * a client knows for an unknown one. If no server will read the record, this does not wait for it.
 */
void sandbox_created(struct sandbox *s, const char *cause)
{
    struct err err = ERR_INIT;
    sandbox_touch(s); /* creating counts as use */
    sandbox_ready(s, cause);
    if (!sandbox_is_installer(s)) {
        metrics_count(METRIC_SANDBOXES_OPENED, METRIC_SUCCESS_OK);
        metrics_observe(METRIC_SANDBOX_START, 0, (clock_ms() - s->clock.created_ms) * 1000);
    }
    if (s->host->instance->own) {
        sandbox_answer_opened(s, NULL, "");
        return;
    }
    bool is_published = s->pooled.sm.state == POOLED_GIVEN; /* by its claim */
    if (s->host->config->front_lease_s > 0 && !sandbox_is_installer(s) && !is_published) {
        if (sandbox_publish(s, on_published, &err) == 0) {
            return;
        }
        publish_failed(s, &err);
    }
    save_answered(s);
}

static void on_open_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                             const char *hint)
{
    struct sandbox *s = arg;
    bool creating = sandbox_state(s) == SANDBOX_CREATING;
    if (sandbox_is_leaving(s) || (rc < 0 && err == NULL)) {
        return; /* the worker died: on_worker_dead() follows */
    }
    if (rc < 0 && creating) {
        bool doubtful = !sandbox_is_sought(s);
        if (doubtful &&
            (rc == -ERR_ENGINE || rc == -ERR_TIMEOUT || rc == -ERR_INVALID || rc == -ERR_GONE)) {
            engine_doubt(s->engine);
        }
        /* It exits by itself, and nng (1.5) loses a message that is sent while its link ends. */
        worker_link_retire(s->link, TIME_CLOSE_MS);
        if (hint[0] != '\0') {
            sandbox_create_failed(s, err, hint);
        } else {
            create_refused(s, err);
        }
    } else if (rc == -ERR_GONE || rc == -ERR_SHUTTING_DOWN) { /* or the sandbox is being removed */
        sandbox_gone(s, s->adoption.run != NULL ? ENDED_ALONE : err->text);
    } else if (rc < 0) {
        sm_move(&s->attempt, rc == -ERR_TIMEOUT ? ATTEMPT_SILENT : ATTEMPT_REFUSED);
        worker_link_kill(s->link, "could not adopt the sandbox: %s", err->text);
    } else {
        sm_move(&s->attempt, ATTEMPT_REACHED);
        sandbox_take_opened(s, &reply->opened);
        worker_policy_reached(&s->policy);
        sandbox_note_late(s, reply->opened.looked);
        if (sandbox_is_sought(s)) {
            sandbox_claim_found(s);
        } else if (sandbox_is_mute(s) && creating) {
            sandbox_make_again(s, reply->opened.looked);
        } else if (creating && !sandbox_keep(s)) {
            sandbox_created(s, "created");
        } else if (creating) {
            log_debug("sandbox is for whoever comes sandbox=%s", s->id);
        } else if (s->adoption.run != NULL) {
            sandbox_ask_past(s);
        } else {
            sandbox_ready(s, "adopted");
            publish_again(s);
            metrics_observe(METRIC_WORKER_REPAIR, 0, clock_us() - s->repair.died_us);
            log_info("sandbox recovered after_us=%" PRIu64 " calls=%zu sandbox=%s gen=%" PRIu64,
                     clock_us() - s->repair.died_us, s->call_count, s->id, s->generation);
        }
    }
}

/* OPEN needs two things that happen in parallel: a worker that said HELLO, and a record on disk. */
static void open_if_prepared(struct sandbox *s)
{
    if (sandbox_is_leaving(s) || s->attempt.state != ATTEMPT_UNASKED || !s->record_saved ||
        s->link == NULL || !worker_link_is_ready(s->link)) {
        return;
    }
    struct msg m = {.type = MSG_OPEN};
    m.open = s->spec;
    m.open.claim = sandbox_is_sought(s);
    m.open.attach = sandbox_state(s) == SANDBOX_RECOVERING || m.open.claim;
    struct err err = ERR_INIT;
    sm_move(&s->attempt, ATTEMPT_ASKED);
    sandbox_made_begin(s);
    /* A creation may take long while it makes progress, which is watched; adopting is quick. */
    uint64_t timeout_ms = m.open.claim    ? SEEK_MS
                          : m.open.attach ? TIME_OPEN_MS
                                          : TIME_OPEN_MAX_MS + SANDBOX_MARGIN_MS;
    int rc = worker_link_ask(s->link, &m, timeout_ms, on_open_answered, s, &err);
    /* the client's arguments do not fit into the message */
    if (rc == -ERR_TOO_BIG || rc == -ERR_PROTOCOL) {
        err.code = ERR_INVALID;
        sandbox_create_failed(s, &err, "shorten image and env, or leave them out");
    } else if (rc < 0) {
        worker_link_kill(s->link, "%s", err.text);
    } else if (!m.open.attach) {
        sandbox_watch(s);
    }
}

static void on_worker_ready(void *arg)
{
    struct sandbox *s = arg;
    if (s->adoption.run != NULL) {
        adopt_started(s->adoption.run, s);
    }
    open_if_prepared(s);
}

static void on_record_saved(void *arg, int rc, const struct err *err)
{
    struct sandbox *s = arg;
    s->record_saved = true;
    if (rc < 0 && sandbox_state(s) == SANDBOX_CREATING) {
        create_refused(s, err);
    } else if (rc < 0) {
        log_warn("sandbox: the next server will not take it over: %s sandbox=%s", err->text, s->id);
    }
    if (s->end.sm.state != CLEANUP_NONE) {
        /* the cleanup has waited for us, because it removes the file that we wrote */
        sandbox_cleanup(s);
    } else if (!sandbox_is_leaving(s) && sandbox_state(s) != SANDBOX_CREATING) {
        sandbox_answer_opened(s, NULL, "");
    }
    open_if_prepared(s);
}

int sandbox_import(struct sandbox *s, uint64_t generation, struct err *err)
{
    s->generation = generation;
    int rc = instance_restore(s->host->instance, s->dir, err);
    if (rc < 0) {
        return rc;
    }
    s->record_saved = false;
    rc = sandbox_save(s, true, on_record_saved, err);
    s->record_saved = rc < 0;
    return rc;
}

/* ---- its worker ------------------------------------------------------------------------------ */

static void on_restart(uv_timer_t *timer)
{
    struct sandbox *s = timer->data;
    if (!sandbox_is_leaving(s) && s->link == NULL) {
        sandbox_start_worker(s);
    }
}

/* The sandbox has no worker now: restarts one, or gives up. `refused`: because of the host. */
static void lost_worker(struct sandbox *s, bool refused, const char *reason)
{
    uint64_t now_ms = uv_now(s->host->loop);
    uint64_t delay_ms;
    if (s->attempt.state == ATTEMPT_SILENT) {
        s->repair.broken_ms =
            now_ms; /* an engine that hangs ends no sandbox, however long it hangs */
    }
    if ((refused ? worker_policy_refused : worker_policy_died)(&s->policy, now_ms,
                                                               s->repair.broken_ms, &delay_ms)) {
        metrics_count(METRIC_WORKER_RESTARTS,
                      refused ? METRIC_RESTART_REFUSED : METRIC_RESTART_DIED);
        if (delay_ms == 0) {
            sandbox_start_worker(s);
        } else {
            uv_timer_start(&s->repair.timer, on_restart, delay_ms, 0);
        }
        return;
    }
    log_error("sandbox given up: worker died %u times without an answer and was refused %u times, "
              "last: %s sandbox=%s gen=%" PRIu64,
              s->policy.deaths, s->policy.refusals, reason, s->id, s->generation);
    struct err err = ERR_INIT;
    err_set(&err, ERR_ENGINE, "the sandbox is given up, %s: %s",
            refused ? "no worker can reach it" : "its worker keeps dying", reason);
    if (sandbox_state(s) == SANDBOX_CREATING) {
        sandbox_create_failed(s, &err, HINT_HOST);
    } else {
        sandbox_fail(s, err.text);
    }
}

static void on_worker_dead(void *arg, const struct worker_death *death)
{
    struct sandbox *s = arg;
    struct worker_link *link = s->link;
    s->link = NULL;
    if (s->adoption.run != NULL) {
        adopt_started(s->adoption.run, s);
    }
    /* Such a worker has cleaned up, or tried to; the sweep that follows finds out. */
    bool gone =
        death->exit_code == EXIT_CODE_SANDBOX_GONE || death->exit_code == EXIT_CODE_ORPHANED;
    bool other_version = death->other_version;
    bool refused = s->attempt.state == ATTEMPT_REFUSED || s->attempt.state == ATTEMPT_SILENT ||
                   death->exit_code == EXIT_CODE_NO_MEMORY ||
                   (!death->said_hello && death->exit_code == EXIT_CODE_SETUP);
    CLEANUP_FREE char *reason = alloc_strdup(death->reason);
    if (death->exit_code == EXIT_CODE_REPLACED && sandbox_is_entry(s)) {
        log_info("another server has claimed what was made in advance sandbox=%s", s->id);
        s->evicted = true; /* the pool goes on as if it had been given here */
    }
    worker_link_destroy(link);
    if (sandbox_is_leaving(s)) {
        sandbox_cleanup_worker_dead(s);
        return;
    }
    if (sandbox_state(s) == SANDBOX_CREATING && sandbox_may_exist(s)) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_ENGINE, "the worker died %s: %s",
                s->attempt.state == ATTEMPT_REACHED ? "before the sandbox was used"
                                                    : "while it created the sandbox",
                reason);
        sandbox_create_failed(s, &err, HINT_HOST);
        return;
    }
    if (s->made.state == MADE_UNMADE) { /* it has removed the first sandbox, as it was asked to */
        sm_move(&s->made, MADE_PENDING);
        sandbox_start_worker(s);
        return;
    }
    if (gone) {
        CLEANUP_FREE char *text = alloc_printf("the sandbox has ended (its worker %s)", reason);
        sandbox_fail(s, s->adoption.run != NULL ? ENDED_ALONE : text);
        return;
    }
    if (other_version && sandbox_state(s) != SANDBOX_CREATING) {
        CLEANUP_FREE char *text = alloc_printf("the sandbox is given up: its worker %s", reason);
        sandbox_fail(s, text);
        return;
    }
    if (sandbox_state(s) == SANDBOX_READY) {
        s->repair.broken_ms = uv_now(s->host->loop);
        s->repair.died_us = clock_us();
        sandbox_set_state(s, SANDBOX_RECOVERING, reason);
    }
    /* A client waits for a creation and can retry, so the policy for shortages does not apply. */
    lost_worker(s, refused && sandbox_state(s) == SANDBOX_RECOVERING, reason);
}

static void on_sandbox_tick(void *arg)
{
    struct sandbox *s = arg;
    s->host->runs->check(s);
}

const struct worker_link_events sandbox_worker_events = {
    .ready = on_worker_ready, .tick = on_sandbox_tick, .dead = on_worker_dead};

struct worker_args sandbox_worker_args(const struct sandbox *s, uint64_t generation)
{
    return (struct worker_args){
        .sandbox = s->id,
        .dir = s->dir,
        .shared_dir = s->host->instance->shared,
        .backend = s->backend,
        .generation = generation,
    };
}

void sandbox_start_worker(struct sandbox *s)
{
    s->generation++;
    sm_move(&s->attempt, ATTEMPT_UNASKED);
    struct worker_args args = sandbox_worker_args(s, s->generation);
    struct err err = ERR_INIT;
    int rc = instance_restore(s->host->instance, s->dir, &err);
    if (rc == 0) {
        rc = worker_link_start(s->host, &args, &sandbox_worker_events, s, &s->link, &err);
    }
    if (rc == 0) {
        rc = record_save_worker(s->dir, worker_link_pid(s->link), s->generation, &err);
        if (rc < 0) {
            log_warn("sandbox: %s sandbox=%s gen=%" PRIu64, err.text, s->id, s->generation);
        }
        return;
    }
    if (s->policy.refusals == 0) { /* the later ones have the same reason, or the end has its own */
        log_error("sandbox: %s sandbox=%s gen=%" PRIu64, err.text, s->id, s->generation);
    }
    if (sandbox_state(s) == SANDBOX_CREATING) {
        create_refused(s, &err);
    } else {
        lost_worker(s, true, err.text);
    }
}

/* ---- creating ---- */

void sandbox_take_place(struct sandbox *s, char *backend, struct view_list place, char *runtime)
{
    s->backend = backend;
    s->runtime = runtime;
    s->spec.backend = view_of(backend);
    s->spec.place = place;
    s->spec.runtime = view_of(runtime);
}

/* The meaning of an image depends on the backend, which is known only now. */
static int settle_image(struct sandbox *s, const struct backend_row *row, struct err *err)
{
    struct view *image = &s->spec.image;
    bool on_engine = row->images == BACKEND_IMAGES_REFERENCES;
    if (s->asked.image_is_reference && !on_engine) {
        return err_set(err, ERR_IMAGE,
                       "image %.*s: no container engine answered on this host, and sandboxes of "
                       "%s have no images to choose from",
                       VIEW_ARG(*image), s->backend);
    }
    if (image->len == 0 && row->default_image != NULL) {
        free((char *)(uintptr_t)image->data);
        *image = view_of(alloc_strdup(row->default_image));
    }
    return 0;
}

/* So does what a sandbox can reach. Packages are for those that have any: an installer of others
 * cannot be. */
static int settle_reach(struct sandbox *s, const struct backend_row *row, struct err *err)
{
    if (s->spec.network == NET_FULL && !backend_row_has_network(row)) {
        return err_set(err, ERR_NETWORK, "sandboxes of %s have no network", row->name);
    }
    if (s->spec.shares.count > 0 && !backend_row_has_shares(row)) {
        return err_set(err, ERR_CONFIG, "sandboxes of %s see no directory of this host", row->name);
    }
    if (backend_row_has_packages(row)) {
        return 0;
    }
    if (s->spec.packages_write) {
        return err_set(err, ERR_PACKAGE, "sandboxes of %s have no packages", row->name);
    }
    free((char *)(uintptr_t)s->spec.packages.data);
    s->spec.packages = view_of(alloc_strdup(""));
    s->spec.packages_bytes = 0;
    return 0;
}

static void on_engine(void *arg, int rc, const struct engine_choice *choice, const struct err *err,
                      const char *hint)
{
    struct sandbox *s = arg;
    if (sandbox_is_leaving(s)) {
        return; /* closed in the same moment: nothing exists yet */
    }
    if (rc < 0) {
        sandbox_create_failed(s, err, hint);
        return;
    }
    free(s->backend); /* of a choice that has failed */
    free(s->runtime);
    alloc_listfree(&s->spec.place);
    sandbox_take_place(s, alloc_strdup(choice->backend), alloc_listdup(choice->place),
                       alloc_strdup(choice->runtime));
    s->spec.mode = choice->mode;
    struct err failed = ERR_INIT;
    const struct backend_row *row = backend_row_find(s->backend);
    if (settle_image(s, row, &failed) < 0) {
        sandbox_create_failed(s, &failed, "leave image out");
        return;
    }
    if (settle_reach(s, row, &failed) < 0) {
        sandbox_create_failed(s, &failed,
                              failed.code == ERR_CONFIG ? "start the server without --share"
                              : s->spec.packages_write  ? "use what the sandbox has"
                                                        : "leave network out");
        return;
    }
    char *dir = alloc_printf("%s/%s", s->host->instance->sandboxes, s->id);
    if (instance_restore(s->host->instance, dir, &failed) < 0) {
        err_wrap(&failed, "cannot create a sandbox");
        free(dir);
        create_refused(s, &failed);
        return;
    }
    free(s->dir);
    s->dir = dir;
    s->record_saved = false;
    if (sandbox_save(s, false, on_record_saved, &failed) < 0) {
        s->record_saved = true; /* no server comes back */
        failed.code = ERR_INVALID;
        sandbox_create_failed(s, &failed, "shorten image and env, or leave them out");
        return;
    }
    sandbox_start_worker(s);
}

struct sandbox *sandbox_new(const struct sandbox_setup *setup, const char *id, const char *owner,
                            const char *name, enum sandbox_state first)
{
    struct sandbox *s = alloc_one(struct sandbox);
    snprintf(s->id, sizeof(s->id), "%s", id);
    s->host = setup->host;
    s->engine = setup->engine;
    s->on_gone = setup->on_gone;
    s->on_gone_arg = setup->on_gone_arg;
    s->owner = alloc_strdup(owner);
    s->name = alloc_strdup(name);
    s->session = alloc_strdup("");
    s->reason = alloc_strdup("");
    s->image = alloc_strdup("");
    s->workspace = alloc_strdup("");
    sandbox_init_states(s, first);
    TAILQ_INIT(&s->calls);
    TAILQ_INIT(&s->end.waiters);
    TAILQ_INIT(&s->adoption.waiters);
    TAILQ_INIT(&s->installing.installers);
    s->repair.broken_ms = uv_now(s->host->loop);
    s->repair.died_us = clock_us();
    uv_timer_init(s->host->loop, &s->clock.timer);
    s->clock.timer.data = s;
    uv_timer_init(s->host->loop, &s->repair.timer);
    s->repair.timer.data = s;
    uv_timer_init(s->host->loop, &s->opening.poll_timer);
    s->opening.poll_timer.data = s;
    uv_timer_init(s->host->loop, &s->calls_check);
    s->calls_check.data = s;
    s->timers_open = 4;
    check_calls_if_recovering(s);
    fleet_host_hold(s->host);
    return s;
}

int sandbox_create(const struct sandbox_setup *setup, const char *owner,
                   const struct fleet_spec *spec, fleet_info_fn opened, void *arg,
                   struct sandbox **ret, struct err *err)
{
    char id[17];
    int rc = random_id(id, sizeof(id) - 1, err);
    if (rc < 0) {
        return rc;
    }
    id[0] = spec->installs_for != NULL ? INSTANCE_INSTALLER_MARK : id[0];
    *ret = sandbox_begin(setup, id, owner, spec, opened, arg);
    return 0;
}

struct sandbox *sandbox_begin(const struct sandbox_setup *setup, const char *id, const char *owner,
                              const struct fleet_spec *spec, fleet_info_fn opened, void *arg)
{
    struct sandbox *s = sandbox_new(setup, id, owner, "", SANDBOX_CREATING);
    sandbox_take_spec(s, spec);
    sandbox_take_choices(s, spec);
    s->opening.done = opened;
    s->opening.arg = arg;
    s->opening.progress = spec->progress;
    sandbox_start_clock(s);
    log_info("sandbox creating: memory_mb=%" PRIu64 " cpu_milli=%" PRIu64 " pids=%" PRIu64
             " sandbox=%s",
             s->spec.memory_bytes >> 20, s->spec.cpu_milli, s->spec.pids, s->id);
    engine_want(s->engine, &s->opening.engine_wait, on_engine, s);
    return s;
}

/* ---- acknowledgements ---- */

_Static_assert(LIMIT_CONNECTS <= SANDBOX_CALLS_MAX / 2,
               "connections to ports leave half of the places to calls of tools");

/* Operations that the agent can have when a START arrives and its acknowledgements are handled. */
_Static_assert(SANDBOX_CALLS_MAX + SANDBOX_LATE_ACKS <= LIMIT_OPS,
               "an agent has to remember every operation that matters");

static void ack(struct sandbox *s, const char op[FLEET_ID_SIZE])
{
    if (s->acks_to - s->acks_from == SANDBOX_ACKS_MAX) {
        s->acks_from++; /* the agent drops the oldest by itself */
    }
    memcpy(s->acks[s->acks_to % SANDBOX_ACKS_MAX], op, FLEET_ID_SIZE);
    s->acks_to++;
}

void sandbox_ack(struct sandbox *s, const char op[FLEET_ID_SIZE], bool is_execution)
{
    if (!is_execution) {
        ack(s, op);
        return;
    }
    char *slot = s->late_acks[s->late_count % SANDBOX_LATE_ACKS];
    if (s->late_count >= SANDBOX_LATE_ACKS) {
        ack(s, slot);
    }
    memcpy(slot, op, FLEET_ID_SIZE);
    s->late_count++;
}

struct view_list sandbox_acks(const struct sandbox *s, struct view *items)
{
    struct view_list list = {items, 0};
    for (uint64_t i = s->acks_from; i < s->acks_to; i++) {
        items[list.count++] = view_of(s->acks[i % SANDBOX_ACKS_MAX]);
    }
    return list;
}
