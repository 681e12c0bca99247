/*
 * Which backend and runtime new sandboxes use.
 * Loop thread only; nothing blocks; no callback runs inside the call that takes it.
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
    const char *engine; /* where it is, from PROBED; "" if the backend has none */
    const char *runtime;
    uint64_t mode; /* from PROBED, opaque */
};

/* The choice is borrowed during the call. */
typedef void (*engine_fn)(void *arg, int rc, const struct engine_choice *choice,
                          const struct err *err, const char *hint);

/* Embedded in whoever waits for the choice. */
struct engine_wait {
    TAILQ_ENTRY(engine_wait) node;
    engine_fn fn;
    void *arg;
    bool queued;
};

struct engine *engine_create(struct fleet_host *host);

/* Nothing may be under way. NULL is fine. */
void engine_destroy(struct engine *e);

/* Calls fn with the choice, after a probe if there has been no successful one. Any number of
 * waiters share one probe. */
void engine_want(struct engine *e, struct engine_wait *wait, engine_fn fn, void *arg);

/* A sandbox could not be created with the choice for a reason that may be the engine's: whoever
 * wants it next has it looked for again. Engines are stopped, upgraded and moved while we run. */
void engine_doubt(struct engine *e);

/* Sandboxes of this image of a backend have languages; whether that has been said. Bounded: of many
 * images those are forgotten that were named longest ago. */
void engine_heard(struct engine *e, const char *backend, const char *image);
bool engine_has_heard(const struct engine *e, const char *backend, const char *image);

/* fn will not be called. */
void engine_forget(struct engine *e, struct engine_wait *wait);

/* Probes every candidate, one after the other, without choosing. One survey at a time. With
 * `blocked` nothing can be probed, and that is the result of each. */
void engine_survey(struct engine *e, const struct err *blocked,
                   void (*each)(void *arg, const char *backend, const struct msg_probed *result),
                   void (*done)(void *arg), void *arg);

/* Whether a runtime that passed its probe is to be taken instead of one that passed before: of the
 * same backend, the one with fewer things that are asked for and cannot be applied. */
bool engine_is_better(const char *backend, const struct msg_probed *probed,
                      const char *than_backend, size_t than_lacks);

/* The backend that a thing without a record may be left of, as far as configuration tells. */
const char *engine_backend(const struct engine *e);

#endif
