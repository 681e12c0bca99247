/*
 * What executions.c (the list, start and end), await.c (waits) and keep.c (kept outcomes) share,
 * and nothing else uses. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_EXECUTIONS_INTERNAL_H
#define CLOISTER_SUPERVISOR_CALLS_EXECUTIONS_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/calls/executions.h"
#include "supervisor/fleet/host/deferred.h"

#define EXECUTIONS_BUCKETS 256

struct displays;
struct output_progress;

struct execution {
    LIST_ENTRY(execution) same_bucket;
    TAILQ_ENTRY(execution) by_begin;
    TAILQ_ENTRY(execution) by_end; /* list of ended ones */
    struct executions *registry;
    char id[FLEET_ID_SIZE];
    char sandbox[FLEET_ID_SIZE];
    char language[LIMIT_NAME + 1];
    char *owner;
    struct fleet_call *call;     /* NULL: it has ended, or is left to the next server */
    struct sandbox *call_in;     /* valid while there is a call */
    uint64_t begun_ms;           /* when it was requested */
    bool reading;                /* it has ended, and its displays are being read */
    struct displays *displays;   /* NULL: none */
    uint64_t told_out, told_err; /* output that its owner has been shown */
    TAILQ_HEAD(execution_awaits, fleet_await) awaits;

    /* ---- set when there is no call ---- */
    int rc;
    struct err *err; /* rc < 0 */
    char *hint;
    bool fleeting; /* freed after the first callback */
    unsigned pins; /* callbacks that use it */
    bool expected; /* requested, and may still be found */
    bool unwanted; /* stop it when it is found */
    struct fleet_outcome outcome;
    struct msg_output end; /* the end of the outcome */
    char *bytes;           /* owns the bytes of outcome and end */
    size_t size;
};

struct fleet_await {
    TAILQ_ENTRY(fleet_await) node;     /* list of the execution */
    TAILQ_ENTRY(fleet_await) timed;    /* list of the registry, if it has a time limit */
    TAILQ_ENTRY(fleet_await) follower; /* list of the registry, if it follows the output */
    struct executions *registry;
    struct execution *execution; /* NULL: unknown */
    uint64_t wait_ms;
    bool is_timed;
    uint64_t due_ms;
    uint64_t quiet_ms; /* 0: it does not end earlier */
    uint64_t last_ms;  /* when it ends at the latest, if it may */
    fleet_outcome_fn done;
    void *arg;
    struct deferred_task task;
    struct output_progress *progress; /* NULL: does not follow the output */
    struct deferred_task progress_task;
};

struct executions {
    struct fleet_host *host;
    LIST_HEAD(, execution) buckets[EXECUTIONS_BUCKETS];
    TAILQ_HEAD(execution_list, execution) all;
    struct execution_list over;
    size_t over_count;
    size_t over_bytes;
    size_t expected_count;
    uint64_t refused; /* makes ids for refused executions */
    TAILQ_HEAD(, fleet_await) timed;
    TAILQ_HEAD(, fleet_await) followers;
    uv_timer_t timer;
    uint64_t timer_due_ms; /* 0: not set */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- executions.c ---- */

/* Whether it does not change any more. */
static inline bool execution_is_over(const struct execution *e)
{
    return e->call == NULL && !e->reading;
}

/* Finds the execution, or makes an expected one if it may still be found; otherwise NULL. */
struct execution *executions_find_or_expect(struct executions *x, const char *owner,
                                            const char *id);

/* Ends a callback's use of it; it may be freed now, and others. */
void execution_unpin(struct execution *e);

/* The present state; borrowed until the loop's next turn. */
struct fleet_outcome execution_look(const struct execution *e);

/* ---- await.c ---- */

/* Calls back all waits that it has now. Frees it if it is fleeting. */
void execution_tell_all(struct execution *e);

/* Its call is a new one: followers get the output of that. */
void execution_follow_call(struct execution *e);

/* Its execution is known now: it is called back soon, or its time starts. Before that it never
 * reports "no such execution". */
void execution_begin_wait(struct fleet_await *w);

/* ---- keep.c ---- */

/* Copies the outcome, and takes the displays. */
void execution_keep_outcome(struct execution *e, const struct fleet_outcome *o);

/* The displays were read, or will not be. */
void execution_keep_displays(struct execution *e);

/* Frees everything that was kept. */
void execution_keep_finish(struct execution *e);

#endif
