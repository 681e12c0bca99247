/*
 * Whether a runtime works here is not asked of the runtime but tried: a throw-away worker starts a
 * real container with every limit, looks at it from inside, and reports (PROBE). That costs about
 * as much as a sandbox, so the first runtime that passes is remembered for the life of the server,
 * with its `mode`, the backend's own note of what works on this host. A failure is not remembered:
 * the person who reads the message will install what is missing and try again.
 */
#include "supervisor/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/config.h"
#include "supervisor/disk.h"
#include "supervisor/fleet.h"
#include "supervisor/fleet_host.h"
#include "supervisor/instance.h"
#include "supervisor/worker_errand.h"

#define HINT_INSTALL                                                                               \
    "install an OCI runtime (runc or crun, for example `apt install runc`) or name one with "      \
    "--runtime; `cloister doctor` shows what was tried and why it was rejected"

struct candidate {
    const char *backend;
    const char *runtime;
};

#define CANDIDATES_MAX 4
#define REASON_MAX     180 /* bytes of one candidate's reason in the error; the doctor prints all */

typedef void (*survey_each_fn)(void *arg, const char *backend, const struct msg_probed *result);

struct engine {
    struct fleet_host *host;
    struct candidate candidates[CANDIDATES_MAX];
    size_t candidate_count;

    bool known;
    struct engine_choice choice;
    char *runtime; /* behind choice.runtime */

    TAILQ_HEAD(, engine_wait) waiting;
    struct deferred_task begin;
    struct deferred_task tell;

    /* The round under way. */
    bool probing;
    bool survey;
    bool blocked; /* the survey has failed beforehand, with `failure` */
    size_t next;  /* candidate that is being tried */
    char probe_id[FLEET_ID_SIZE];
    char *probe_dir;
    char reasons[400]; /* why the candidates so far were rejected */
    struct err failure;
    survey_each_fn each;
    void (*done)(void *arg);
    void *arg;
};

static void on_begin(void *arg);
static void try_next(struct engine *e);

static void list_candidates(struct engine *e)
{
    const struct config *c = e->host->config;
    bool fake = c->backend != NULL && strcmp(c->backend, "fake") == 0;
    bool named = c->runtime != NULL && c->runtime[0] != '\0';
    const char *runtimes[] = {"runc", "crun"};
    if (fake || named) {
        e->candidates[0].backend = fake ? "fake" : "oci";
        e->candidates[0].runtime = named ? c->runtime : "";
        e->candidate_count = 1;
        return;
    }
    for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
        e->candidates[i].backend = "oci";
        e->candidates[i].runtime = runtimes[i];
        e->candidate_count++;
    }
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
    free(e->runtime);
    free(e);
}

const char *engine_backend(const struct engine *e)
{
    return e->candidates[0].backend;
}

/* Answers everybody who waits, with the choice or with the failure. */
static void on_tell(void *arg)
{
    struct engine *e = arg;
    struct engine_wait *wait;
    while (!e->probing && (wait = TAILQ_FIRST(&e->waiting)) != NULL) {
        TAILQ_REMOVE(&e->waiting, wait, node);
        wait->queued = false;
        if (e->known) {
            wait->fn(wait->arg, 0, &e->choice, NULL, "");
        } else {
            wait->fn(wait->arg, -e->failure.code, NULL, &e->failure, HINT_INSTALL);
        }
    }
}

static void end_round(struct engine *e)
{
    e->probing = false;
    if (e->survey) {
        e->survey = false;
        e->done(e->arg);
        if (!TAILQ_EMPTY(&e->waiting)) { /* they came during the survey, which chooses nothing */
            deferred_post(&e->host->deferred, &e->begin, on_begin, e);
        }
        return;
    }
    if (e->host->stopping) {
        err_set(&e->failure, ERR_SHUTTING_DOWN, "the server is shutting down");
    } else if (!e->known) {
        err_set(&e->failure, ERR_ENGINE, "no sandbox runtime works on this host: %s", e->reasons);
        log_error("engine: %s", e->failure.text);
    }
    deferred_post(&e->host->deferred, &e->tell, on_tell, e);
}

static void on_removed(void *arg, int rc, const struct err *err)
{
    (void)arg;
    if (rc < 0) {
        log_warn("engine: probe directory stays: %s", err->text);
    }
}

static void choose(struct engine *e, const struct candidate *tried, const struct msg_probed *probed)
{
    e->known = true;
    e->runtime = alloc_viewdup(probed->runtime);
    e->choice.backend = tried->backend;
    e->choice.runtime = e->runtime;
    e->choice.mode = probed->mode;
    log_info("engine: %s with %s (%.*s) mode=%llu", tried->backend, e->runtime,
             VIEW_ARG(probed->version), (unsigned long long)probed->mode);
}

static void reject(struct engine *e, const struct candidate *tried, struct view reason)
{
    size_t used = strlen(e->reasons);
    if (reason.len > REASON_MAX) {
        reason.len = REASON_MAX; /* the next candidate has something to say, too */
    }
    snprintf(e->reasons + used, sizeof(e->reasons) - used, "%s%s: %.*s", used > 0 ? "; " : "",
             tried->runtime[0] != '\0' ? tried->runtime : tried->backend, VIEW_ARG(reason));
}

/* The result of one candidate: the worker's, or one that we make up if there was none. */
static void take_result(struct engine *e, const struct msg_probed *probed)
{
    const struct candidate *tried = &e->candidates[e->next];
    e->next++;
    if (e->survey) {
        e->each(e->arg, tried->backend, probed);
    } else if (probed->usable) {
        choose(e, tried, probed);
        e->next = e->candidate_count;
    } else {
        reject(e, tried, probed->reason);
    }
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

/* What a probe leaves that did not come to its end. */
struct remains {
    struct fleet_host *host;
    char *dir;
};

static void on_swept(void *arg, int rc, const struct msg *reply, const struct err *err,
                     const char *hint)
{
    struct remains *r = arg;
    (void)reply, (void)hint;
    if (rc == 0) {
        disk_remove(r->host, r->dir, on_removed, NULL);
    } else { /* with its directory it stays findable for the next server's sweep */
        log_warn("engine: a probe left something behind: %s dir=%s", err->text, r->dir);
    }
    free(r->dir);
    free(r);
}

static void sweep_probe(struct engine *e)
{
    struct fleet_host *host = e->host;
    const struct candidate *candidate = &e->candidates[e->next];
    struct remains *r = alloc_one(struct remains);
    r->host = host;
    r->dir = alloc_strdup(e->probe_dir);
    CLEANUP_FREE char *socket = alloc_printf("%s/sweep.sock", r->dir);
    struct worker_args args = {
        .sandbox = e->probe_id,
        .socket = socket,
        .dir = r->dir,
        .shared_dir = host->instance->shared,
        .generation = 1,
        .expendable = true,
    };
    struct err err = ERR_INIT;
    int rc = host->stopping ? err_set(&err, ERR_SHUTTING_DOWN, "no time to sweep it")
                            : worker_errand_start(host, &args, MSG_SWEEP, candidate->backend,
                                                  candidate->runtime, on_swept, r, &err);
    if (rc < 0) {
        on_swept(r, rc, NULL, &err, "");
    }
}

static void on_probed(void *arg, int rc, const struct msg *reply, const struct err *err,
                      const char *hint)
{
    struct engine *e = arg;
    (void)hint;
    if (rc == 0) {
        disk_remove(e->host, e->probe_dir, on_removed, NULL);
    } else {
        sweep_probe(e);
    }
    free(STEAL_PTR(e->probe_dir));
    if (rc == 0) {
        take_result(e, &reply->probed);
    } else {
        take_failure(e, err);
    }
}

static int start_probe(struct engine *e, struct err *err)
{
    struct fleet_host *host = e->host;
    const struct candidate *candidate = &e->candidates[e->next];
    int rc = random_id(e->probe_id, 16, err);
    if (rc < 0) {
        return rc;
    }
    e->probe_dir = alloc_printf("%s/%s", host->instance->sandboxes, e->probe_id);
    CLEANUP_FREE char *socket = alloc_printf("%s/probe.sock", e->probe_dir);
    struct worker_args args = {
        .sandbox = e->probe_id,
        .socket = socket,
        .dir = e->probe_dir,
        .shared_dir = host->instance->shared,
        .generation = 0,
        .expendable = true,
    };
    if (mkdir(e->probe_dir, 0700) < 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", e->probe_dir);
    } else {
        rc = worker_errand_start(host, &args, MSG_PROBE, candidate->backend, candidate->runtime,
                                 on_probed, e, err);
    }
    if (rc < 0) {
        rmdir(e->probe_dir);
        free(STEAL_PTR(e->probe_dir));
    }
    return rc;
}

static void try_next(struct engine *e)
{
    struct err err = e->failure;
    if (e->next == 0) {
        e->reasons[0] = '\0';
    }
    if ((e->survey && e->blocked) || start_probe(e, &err) < 0) {
        take_failure(e, &err);
    }
}

static void on_begin(void *arg)
{
    struct engine *e = arg;
    if ((e->probing || TAILQ_EMPTY(&e->waiting)) && !e->survey) {
        return;
    }
    if (e->survey || !e->known) {
        e->probing = true;
        e->next = 0;
        try_next(e);
    } else {
        on_tell(e);
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
