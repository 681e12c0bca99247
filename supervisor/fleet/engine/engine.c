/*
 * Whether a runtime works here is tried rather than asked: a one-shot worker starts a real
 * container with every limit, checks it from inside, and reports (PROBE). That costs about as much
 * as a sandbox, so a successful choice is kept until a creation fails with it, together with its
 * `mode`, the backend's own note of what works on this host. A failure is not kept: somebody will
 * read the message, install what is missing, and try again.
 *
 * Versions of runtimes differ in what they can do on the same host. The first runtime of a backend
 * that passes is chosen if it applies everything; otherwise the others are tried as well, and the
 * one with the fewest missing limits is chosen.
 *
 * A server often lives for one conversation, so a result is kept for the next ones (kept.c). Such a
 * choice is not trusted further than to the first creation that fails with it: then it is
 * forgotten, and this server tries for real from then on.
 * The doctor, whose survey is about this moment, neither reads nor writes what is kept.
 *
 * Asking for a container engine costs next to nothing, so "auto" asks for that first. If the
 * configuration names an engine, it is expected to be used, so going on without it is logged.
 *
 * An engine that answers is of no use without an image. So where there is a choice, the engine is
 * also asked whether it has the default image or its registry does. If that is in doubt, another
 * backend that works is preferred, and the log says so; if there is none, the engine is used all
 * the same, and the creation tells what went wrong with the image.
 */
#include "supervisor/fleet/engine/engine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/place.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/fleet/engine/kept.h"
#include "supervisor/fleet/engine/spoken.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/removals.h"
#include "supervisor/fleet/workers/oneshot.h"

#define SEE_DOCTOR "; `cloister doctor` shows what was tried and why it was rejected"

#define CANDIDATES_MAX (BACKEND_COUNT * BACKEND_RUNTIMES_MAX)
#define SWEEPS_MAX     2
#define RETRY_MS       1000
#define REASONS_MAX    420 /* bytes of all reasons in the error; the doctor prints them in full */

typedef void (*survey_each_fn)(void *arg, const char *backend, const struct msg_probed *result);

struct engine {
    struct fleet_host *host;
    /* their texts belong to the configuration, or are literals */
    struct oneshot_target candidates[CANDIDATES_MAX];
    size_t candidate_count;
    char *hint;  /* what to do if none works */
    char *cause; /* the same, by one that is there but did not pass this round; or NULL */

    bool known;
    bool suspicious; /* a creation has failed: what earlier servers found does not count */
    const struct oneshot_target *chosen; /* the candidate of the choice; NULL: there was none yet */
    struct engine_choice choice;         /* the best one so far, during a round */
    struct engine_rank rank;             /* of the choice */
    char *doubt;                         /* of the choice, told if another one is better; or NULL */
    char *passed_over;                   /* why a doubted one was not chosen; NULL: none was */
    char *runtime; /* owns the text of choice.runtime; choice.place is owned, too */
    struct spoken spoken;
    struct spoken silent; /* images for programs only */

    TAILQ_HEAD(, engine_wait) waiting;
    struct deferred_task begin;
    struct deferred_task tell;

    /* ---- the current round ---- */
    bool probing;
    bool survey;
    bool found;      /* a candidate of this round has passed: `choice` */
    bool blocked;    /* the survey cannot probe; `failure` has the reason */
    size_t next;     /* index of the candidate that is being probed */
    bool again;      /* by a second worker: the first one died before it was asked */
    int64_t began_s; /* when the probe began, by the clock of file times */
    char probe_id[FLEET_ID_SIZE];
    char *probe_dir;
    char reasons[REASONS_MAX]; /* why earlier candidates were rejected */
    struct err failure;
    survey_each_fn each;
    void (*done)(void *arg);
    void *arg;
};

static void on_begin(void *arg);
static void try_next(struct engine *e);

static void add_candidates(struct engine *e, const struct backend_row *row)
{
    const struct config *c = e->host->config;
    bool named = c->runtime[0] != '\0';
    bool needs_image =
        config_backend(c) == NULL && row->images == BACKEND_IMAGES_REFERENCES; /* see above */
    for (size_t i = 0; i < (named ? 1 : BACKEND_RUNTIMES_MAX) && row->runtimes[i] != NULL; i++) {
        e->candidates[e->candidate_count++] = (struct oneshot_target){
            .backend = row->name,
            .place = place_configured(row->name, c->engine),
            .runtime = named ? c->runtime : row->runtimes[i],
            .image = needs_image ? row->default_image : NULL,
            .pull = strcmp(c->pull, "never") != 0,
        };
    }
}

static void list_candidates(struct engine *e)
{
    const struct backend_row *meant = config_backend(e->host->config);
    if (meant != NULL) {
        add_candidates(e, meant);
        e->hint = alloc_printf("%s%s" SEE_DOCTOR, meant->remedy, meant->remedy_alone);
        return;
    }
    char *remedies = alloc_strdup("");
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        if (backend_rows[i].is_automatic) {
            add_candidates(e, &backend_rows[i]);
            char *before = remedies;
            remedies = alloc_printf("%s%s%s", before, before[0] != '\0' ? ", or " : "",
                                    backend_rows[i].remedy);
            free(before);
        }
    }
    e->hint = alloc_printf("%s" SEE_DOCTOR, remedies);
    free(remedies);
}

/* Whether the configuration says where the engine is, so that one should exist. */
static bool is_engine_named(const struct config *c, const struct backend_row *row)
{
    bool named = row->has_engine && c->engine[0] != '\0';
    for (size_t i = 0; i < BACKEND_VARIABLES_MAX && row->engine_variables[i] != NULL; i++) {
        const char *value = getenv(row->engine_variables[i]);
        named = named || (value != NULL && value[0] != '\0');
    }
    return named;
}

struct engine *engine_create(struct fleet_host *host)
{
    struct engine *e = alloc_one(struct engine);
    e->host = host;
    TAILQ_INIT(&e->waiting);
    list_candidates(e);
    return e;
}

void engine_destroy(struct engine *e)
{
    if (e == NULL) {
        return;
    }
    assert(TAILQ_EMPTY(&e->waiting) && !e->probing);
    deferred_cancel(&e->host->deferred, &e->begin);
    deferred_cancel(&e->host->deferred, &e->tell);
    free(e->hint);
    free(e->cause);
    free(e->passed_over);
    free(e->doubt);
    for (size_t i = 0; i < e->candidate_count; i++) {
        alloc_listfree(&e->candidates[i].place);
    }
    alloc_listfree(&e->choice.place);
    free(e->runtime);
    spoken_finish(&e->spoken);
    spoken_finish(&e->silent);
    free(e);
}

void engine_heard(struct engine *e, const char *backend, const char *image)
{
    spoken_note(&e->spoken, backend, image);
}

bool engine_has_heard(const struct engine *e, const char *backend, const char *image)
{
    return spoken_has(&e->spoken, backend, image);
}

void engine_heard_nothing(struct engine *e, const char *backend, const char *image)
{
    spoken_note(&e->silent, backend, image);
}

bool engine_is_silent(const struct engine *e, const char *backend, const char *image)
{
    return spoken_has(&e->silent, backend, image);
}

const struct engine_choice *engine_chosen(const struct engine *e)
{
    return e->known ? &e->choice : NULL;
}

const char *engine_backend(const struct engine *e)
{
    size_t last = e->candidate_count - 1;
    for (size_t i = 0; i <= last; i++) { /* a question to an engine leaves nothing */
        if (backend_row_find(e->candidates[i].backend)->trial_leaves) {
            return e->candidates[i].backend;
        }
    }
    return e->candidates[last].backend;
}

/* Answers all waiting callers with the choice or the failure. */
static void on_engine_tell(void *arg)
{
    struct engine *e = arg;
    struct engine_wait *wait;
    while (!e->probing && (wait = TAILQ_FIRST(&e->waiting)) != NULL) {
        TAILQ_REMOVE(&e->waiting, wait, node);
        wait->queued = false;
        if (e->known) {
            wait->fn(wait->arg, 0, &e->choice, NULL, "");
        } else {
            wait->fn(wait->arg, -e->failure.code, NULL, &e->failure,
                     e->cause != NULL ? e->cause : e->hint);
        }
    }
}

/* Which backend it is has come out only now, so some of what is configured may be for another. */
static void warn_of_options(const struct engine *e)
{
    const struct backend_row *row = backend_row_find(e->choice.backend);
    CLEANUP_FREE char *options = config_not_taken(e->host->config, row);
    if (options != NULL) {
        log_warn("engine: sandboxes are kept by %s, to which this means nothing: %s", row->name,
                 options);
    }
}

static void end_round(struct engine *e)
{
    e->probing = false;
    if (e->survey) {
        e->survey = false;
        e->done(e->arg);
        if (!TAILQ_EMPTY(&e->waiting)) { /* they came during the survey, which makes no choice */
            deferred_post(&e->host->deferred, &e->begin, on_begin, e);
        }
        return;
    }
    if (e->host->stopping) {
        err_set(&e->failure, ERR_SHUTTING_DOWN, "the server is shutting down");
    } else if (e->found) {
        e->known = true;
        CLEANUP_FREE char *at = place_list_text(e->choice.place);
        log_info("engine: %s with %s, limits that it cannot apply: %zu at=%s mode=%llu",
                 e->choice.backend, e->runtime, e->rank.lacks, at,
                 (unsigned long long)e->choice.mode);
        if (e->passed_over != NULL) {
            log_warn("engine: sandboxes are kept by %s, since %s", e->choice.backend,
                     e->passed_over);
        }
        warn_of_options(e);
    } else {
        err_set(&e->failure, ERR_ENGINE, "no sandbox runtime works on this host: %s", e->reasons);
        log_error("engine: %s", e->failure.text);
    }
    deferred_post(&e->host->deferred, &e->tell, on_engine_tell, e);
}

static void choose(struct engine *e, const struct oneshot_target *tried,
                   const struct msg_probed *probed)
{
    log_debug("engine: %s %s (%.*s) is usable, %zu of what is asked for cannot be applied",
              tried->backend, tried->runtime, VIEW_ARG(probed->version), probed->unapplied.count);
    struct engine_rank rank = engine_rank(tried->backend, probed);
    if (e->found && !engine_is_better(&rank, &e->rank)) {
        return;
    }
    if (e->found && e->rank.doubted && !rank.doubted) {
        free(e->passed_over);
        e->passed_over = STEAL_PTR(e->doubt);
    }
    if (rank.doubted) {
        free(e->doubt);
        e->doubt =
            alloc_printf("%s may have no sandbox: %.*s", tried->backend, VIEW_ARG(probed->doubt));
    }
    e->found = true;
    alloc_listfree(&e->choice.place);
    free(e->runtime);
    e->runtime = alloc_viewdup(probed->runtime);
    e->chosen = tried;
    e->choice.backend = tried->backend;
    e->choice.place = alloc_listdup(probed->place);
    e->choice.runtime = e->runtime;
    e->choice.mode = probed->mode;
    e->rank = rank;
}

struct engine_rank engine_rank(const char *backend, const struct msg_probed *probed)
{
    return (struct engine_rank){backend, probed->unapplied.count, probed->doubt.len > 0};
}

bool engine_is_better(const struct engine_rank *one, const struct engine_rank *than)
{
    if (one->doubted != than->doubted) {
        return than->doubted;
    }
    return strcmp(one->backend, than->backend) == 0 && one->lacks < than->lacks;
}

/* After a success, skips the candidates that cannot be better. */
static void skip_needless(struct engine *e)
{
    while (e->found && !e->rank.doubted && e->next < e->candidate_count &&
           (e->rank.lacks == 0 || strcmp(e->candidates[e->next].backend, e->choice.backend) != 0)) {
        e->next++;
    }
}

static void reject_candidate(struct engine *e, const struct oneshot_target *tried,
                             const struct msg_probed *probed)
{
    CLEANUP_FREE char *text =
        alloc_printf("%.*s%s%.*s%s", VIEW_ARG(probed->reason), probed->hint.len > 0 ? " (" : "",
                     VIEW_ARG(probed->hint), probed->hint.len > 0 ? ")" : "");
    struct view reason = view_of(text);
    if (e->cause == NULL && probed->version.len > 0 && probed->hint.len > 0) {
        e->cause = alloc_printf("%.*s" SEE_DOCTOR, VIEW_ARG(probed->hint));
    }
    const struct backend_row *row = backend_row_find(tried->backend);
    if (e->candidate_count > 1 && is_engine_named(e->host->config, row)) {
        log_warn("engine: the container engine that is configured cannot be used, going on without "
                 "it: %.*s",
                 VIEW_ARG(reason));
    } else {
        log_debug("engine: %s %s is not usable: %.*s", tried->backend, tried->runtime,
                  VIEW_ARG(reason));
    }
    size_t used = strlen(e->reasons);
    size_t share = sizeof(e->reasons) / e->candidate_count - sizeof("; docker: ");
    if (reason.len > share) {
        reason.len = share; /* leave room for the next candidates' reasons */
    }
    snprintf(e->reasons + used, sizeof(e->reasons) - used, "%s%s: %.*s", used > 0 ? "; " : "",
             row->is_its_runtime ? tried->runtime : tried->backend, VIEW_ARG(reason));
}

/* The worker names where its engine is, and workers of sandboxes are to go there. */
static int check_result(const struct msg_probed *probed, struct err *err)
{
    struct place place = {.kind = PLACE_NONE};
    int rc = place_decode(probed->place, &place, err);
    place_finish(&place);
    return rc < 0 ? err_wrap(err, "the worker's answer to PROBE") : 0;
}

/* Handles the result of one candidate: the worker's, or one that we make if there was none. */
static void take_result(struct engine *e, const struct msg_probed *probed)
{
    const struct oneshot_target *tried = &e->candidates[e->next];
    e->next++;
    if (e->survey) {
        e->each(e->arg, tried->backend, probed);
    } else if (probed->usable) {
        choose(e, tried, probed);
    } else {
        reject_candidate(e, tried, probed);
    }
    skip_needless(e);
    if (e->next < e->candidate_count && !e->host->stopping) {
        try_next(e);
    } else {
        end_round(e);
    }
}

static void take_failure(struct engine *e, const struct err *err)
{
    struct msg_probed none = {.usable = false};
    none.runtime = view_of(e->candidates[e->next].runtime);
    none.reason = view_of(err->text);
    take_result(e, &none);
}

/* What an unfinished probe leaves. */
struct remains {
    struct fleet_host *host;
    const struct oneshot_target *target;
    char id[FLEET_ID_SIZE];
    char *dir;
    uint64_t sweeps;
};

static void free_trial_remains(struct remains *r)
{
    free(r->dir);
    free(r);
}

static void sweep_trial(struct remains *r);

static void on_trial_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                           const char *hint)
{
    struct remains *r = arg;
    (void)reply, (void)hint;
    if (rc == 0) {
        removals_add(r->host, r->id, r->dir, NULL, 0, 0);
        free_trial_remains(r);
    } else {
        log_warn("engine: sweep after a probe failed: %s dir=%s", err->text, r->dir);
        sweep_trial(r);
    }
}

static void sweep_trial(struct remains *r)
{
    struct err err = ERR_INIT;
    while (r->sweeps < SWEEPS_MAX && !r->host->forcing) {
        r->sweeps++;
        struct worker_args args = {
            .sandbox = r->id,
            .dir = r->dir,
            .shared_dir = r->host->instance->shared,
            .generation = r->sweeps,
        };
        if (worker_oneshot_start(r->host, &args, MSG_SWEEP, r->target, on_trial_swept, r, &err) ==
            0) {
            return;
        }
    }
    log_warn("engine: a probe left something behind%s%s dir=%s", err.code != 0 ? ": " : "",
             err.text, r->dir);
    removals_add(r->host, r->id, r->dir, r->target, r->sweeps + 1, RETRY_MS);
    free_trial_remains(r);
}

/* A worker that ends a trial early answers when nothing is left of it. Without an answer another
 * worker sweeps, also during a shutdown, since nothing else records the trial. */
static void sweep_probe(struct engine *e)
{
    struct remains *r = alloc_one(struct remains);
    r->host = e->host;
    r->target = &e->candidates[e->next];
    snprintf(r->id, sizeof(r->id), "%s", e->probe_id);
    r->dir = alloc_strdup(e->probe_dir);
    sweep_trial(r);
}

static void on_probed(void *arg, int rc, const struct msg *reply, const struct err *err,
                      const char *hint)
{
    struct engine *e = arg;
    (void)hint;
    /* GONE: it was never asked, so nothing was tried. Some backends make nothing for a trial. */
    bool leaves = backend_row_find(e->candidates[e->next].backend)->trial_leaves;
    if (rc == 0 || rc == -ERR_GONE || !leaves) {
        removals_add(e->host, e->probe_id, e->probe_dir, NULL, 0, 0);
    } else {
        sweep_probe(e);
    }
    free(STEAL_PTR(e->probe_dir));
    if (rc == -ERR_GONE && !e->again && !e->host->stopping) {
        log_warn("a worker is started once more: %s", err->text);
        e->again = true;
        try_next(e);
        return;
    }
    e->again = false;
    struct err bad = ERR_INIT;
    if (rc == 0 && check_result(&reply->probed, &bad) == 0) {
        if (!e->survey) {
            kept_note(e->host, &e->candidates[e->next], &reply->probed, e->began_s);
        }
        take_result(e, &reply->probed);
    } else {
        take_failure(e, rc == 0 ? &bad : err);
    }
}

static int start_probe(struct engine *e, struct err *err)
{
    struct fleet_host *host = e->host;
    int rc = random_id(e->probe_id, 16, err);
    if (rc < 0) {
        return rc;
    }
    e->probe_dir = alloc_printf("%s/%s", host->instance->sandboxes, e->probe_id);
    struct worker_args args = {
        .sandbox = e->probe_id,
        .dir = e->probe_dir,
        .shared_dir = host->instance->shared,
        .generation = 0,
        .expendable = true,
    };
    e->began_s = (int64_t)time(NULL);
    rc = instance_restore(host->instance, e->probe_dir, err);
    if (rc == 0) {
        rc = worker_oneshot_start(host, &args, MSG_PROBE, &e->candidates[e->next], on_probed, e,
                                  err);
    }
    if (rc < 0) {
        rmdir(e->probe_dir);
        free(STEAL_PTR(e->probe_dir));
    }
    return rc;
}

static void probe_next(struct engine *e)
{
    struct err err = e->failure;
    if ((e->survey && e->blocked) || start_probe(e, &err) < 0) {
        take_failure(e, &err);
    }
}

static void on_kept(void *arg, const struct msg_probed *probed)
{
    struct engine *e = arg;
    const struct oneshot_target *target = &e->candidates[e->next];
    struct err err = ERR_INIT;
    if (e->host->stopping) {
        end_round(e);
    } else if (probed != NULL && !e->suspicious && check_result(probed, &err) == 0) {
        log_debug("engine: %s %s was tried by an earlier server, and nothing has changed since",
                  target->backend, target->runtime);
        take_result(e, probed);
    } else {
        probe_next(e);
    }
}

/* What is kept is worth it only in place of a trial: asking an engine costs nothing, and it may
 * have been stopped. */
static void try_next(struct engine *e)
{
    const struct oneshot_target *target = &e->candidates[e->next];
    if (e->next == 0) {
        e->reasons[0] = '\0';
        free(STEAL_PTR(e->cause));
    }
    if (e->survey || e->suspicious || e->again ||
        !backend_row_find(target->backend)->trial_leaves) {
        probe_next(e);
    } else {
        kept_find(e->host, target, on_kept, e);
    }
}

static void on_begin(void *arg)
{
    struct engine *e = arg;
    if ((e->probing || e->host->stopping || TAILQ_EMPTY(&e->waiting)) && !e->survey) {
        return; /* at a shutdown, waiting sandboxes are closed and leave in this same turn */
    }
    if (e->survey || !e->known) {
        e->probing = true;
        e->found = false;
        e->next = 0;
        free(STEAL_PTR(e->passed_over));
        free(STEAL_PTR(e->doubt));
        try_next(e);
    } else {
        on_engine_tell(e);
    }
}

void engine_want(struct engine *e, struct engine_wait *wait, engine_fn fn, void *arg)
{
    wait->fn = fn;
    wait->arg = arg;
    wait->queued = true;
    TAILQ_INSERT_TAIL(&e->waiting, wait, node);
    if (!e->probing) {
        deferred_post(&e->host->deferred, &e->begin, on_begin, e);
    }
}

void engine_doubt(struct engine *e)
{
    e->known = false;
    e->suspicious = true;
    if (e->chosen != NULL) {
        kept_forget(e->host, e->chosen);
    }
}

void engine_forget(struct engine *e, struct engine_wait *wait)
{
    if (wait->queued) {
        TAILQ_REMOVE(&e->waiting, wait, node);
        wait->queued = false;
    }
}

void engine_survey(struct engine *e, const struct err *blocked, survey_each_fn each,
                   void (*done)(void *arg), void *arg)
{
    assert(!e->probing);
    e->blocked = blocked != NULL;
    if (blocked != NULL) {
        e->failure = *blocked;
    }
    e->probing = true;
    e->survey = true;
    e->each = each;
    e->done = done;
    e->arg = arg;
    deferred_post(&e->host->deferred, &e->begin, on_begin, e);
}
