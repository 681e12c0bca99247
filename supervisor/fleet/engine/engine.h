/*
 * Chooses the backend and runtime of new sandboxes.
 *
 * Loop thread only; nothing blocks; no callback runs inside the call that registers it.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_ENGINE_ENGINE_H
#define CLOISTER_SUPERVISOR_FLEET_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/err.h"
#include "proto/msg.h"

struct fleet_host;
struct engine;

struct engine_choice {
    const char *backend;
    struct view_list place; /* of its engine, from PROBED; none if the backend has none */
    const char *runtime;
    uint64_t mode; /* from PROBED, opaque */
};

/* The choice is borrowed during the call. */
typedef void (*engine_fn)(void *arg, int rc, const struct engine_choice *choice,
                          const struct err *err, const char *hint);

/* Embedded in its owner. */
struct engine_wait {
    TAILQ_ENTRY(engine_wait) node;
    engine_fn fn;
    void *arg;
    bool queued;
};

struct engine *engine_create(struct fleet_host *host);

/* No probe or survey may be in progress. NULL is fine. */
void engine_destroy(struct engine *e);

/* Calls fn with the choice, after a probe if there has been no successful one. All waiting callers
 * share one probe. */
void engine_want(struct engine *e, struct engine_wait *wait, engine_fn fn, void *arg);

/* A creation with this choice failed for a reason that may be the engine's: the next engine_want()
 * probes again, and believes no earlier server. Engines are stopped, upgraded and moved while we
 * run. */
void engine_doubt(struct engine *e);

/* Note and look up that sandboxes of this image have languages. Bounded: images that were noted
 * longest ago are forgotten. */
void engine_heard(struct engine *e, const char *backend, const char *image);
bool engine_has_heard(const struct engine *e, const char *backend, const char *image);

/* The same of images whose sandboxes have none, made twice: they are for programs only. */
void engine_heard_nothing(struct engine *e, const char *backend, const char *image);
bool engine_is_silent(const struct engine *e, const char *backend, const char *image);

/* Drops the wait: fn will not be called. */
void engine_forget(struct engine *e, struct engine_wait *wait);

/* Probes all candidates, one after another, without a choice. One survey at a time. With `blocked`
 * nothing can be probed, and that is each candidate's result. */
void engine_survey(struct engine *e, const struct err *blocked,
                   void (*each)(void *arg, const char *backend, const struct msg_probed *result),
                   void (*done)(void *arg), void *arg);

/* What counts of one that passed its probe. */
struct engine_rank {
    const char *backend;
    size_t lacks; /* limits that cannot be applied */
    bool doubted; /* it may have no sandbox of the default image */
};
struct engine_rank engine_rank(const char *backend, const struct msg_probed *probed);

/* Whether one is better than another that passed before: it is not doubted while that one is, or
 * it has the same backend and applies more limits. */
bool engine_is_better(const struct engine_rank *one, const struct engine_rank *than);

/* The choice of the last probe that found one; NULL: there was none, or it is doubted. Borrowed
 * until the next probe. */
const struct engine_choice *engine_chosen(const struct engine *e);

/* The backend of sandboxes without a record, as far as the configuration tells. */
const char *engine_backend(const struct engine *e);

#endif
