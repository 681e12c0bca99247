/*
 * The inside of the executions: executions.c (the list, beginning and end), await.c (who
 * waits) and keep.c (what is kept), and nothing else. Loop thread only.
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
    TAILQ_ENTRY(execution) by_end; /* once it is over */
    struct executions *registry;
    char id[FLEET_ID_SIZE];
    char sandbox[FLEET_ID_SIZE];
    char language[LIMIT_NAME + 1];
    char *owner;
    struct fleet_call *call;   /* NULL: it has ended, or is left to the next server */
    struct sandbox *call_in;   /* valid as long as there is a call */
    uint64_t begun_ms;         /* when it was given to us */
    bool reading;              /* it has ended, and its displays are being fetched */
    struct displays *displays; /* NULL: it has none */
    TAILQ_HEAD(execution_awaits, fleet_await) awaits;

    /* Once there is no call. */
    int rc;
    struct err *err; /* rc < 0 */
    char *hint;
    bool fleeting; /* forgotten as soon as somebody has been told */
    unsigned pins; /* callbacks that look at it */
    bool expected; /* asked for, and may still be found */
    bool unwanted; /* to be stopped when it is */
    struct fleet_outcome outcome;
    struct msg_output end; /* of the outcome */
    char *bytes;           /* behind the views of both */
    size_t size;
};

struct fleet_await {
    TAILQ_ENTRY(fleet_await) node;     /* of the execution */
    TAILQ_ENTRY(fleet_await) timed;    /* of the registry, if it may end by time */
    TAILQ_ENTRY(fleet_await) follower; /* of the registry, if it follows the output */
    struct executions *registry;
    struct execution *execution; /* NULL: there is none */
    uint64_t wait_ms;
    bool is_timed;
    uint64_t due_ms;
    fleet_outcome_fn done;
    void *arg;
    struct deferred_task task;
    struct output_progress *news; /* NULL: does not follow the output */
    struct deferred_task news_task;
};

struct executions {
    struct fleet_host *host;
    LIST_HEAD(, execution) buckets[EXECUTIONS_BUCKETS];
    TAILQ_HEAD(execution_list, execution) all;
    struct execution_list over;
    size_t over_count;
    size_t over_bytes;
    size_t expected_count;
    uint64_t refused; /* names those that never began */
    TAILQ_HEAD(, fleet_await) timed;
    TAILQ_HEAD(, fleet_await) followers;
    uv_timer_t timer;
    uint64_t timer_due_ms; /* 0: not set */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- executions.c ---- */

/* Nothing will change about it any more. */
static inline bool execution_is_over(const struct execution *e)
{
    return e->call == NULL && !e->reading;
}

/* The execution, even if it may only turn up; NULL if it cannot. */
struct execution *executions_find_or_expect(struct executions *x, const char *owner,
                                            const char *id);

/* A callback that looked at it is through; it may be forgotten now, and others. */
void execution_unpin(struct execution *e);

/* How it stands; borrows till the loop's next turn. */
struct fleet_outcome execution_look(const struct execution *e);

/* ---- await.c ---- */

/* Tells all who wait for it now how it is. Forgets it if it is fleeting. */
void execution_tell_all(struct execution *e);

/* Its call is a new one: what that writes is told to those who follow. */
void execution_follow_call(struct execution *e);

/* What it waits for is known: either it is told soon, or its time begins to count. Before that it
 * is never told that there is no such execution. */
void execution_begin_wait(struct fleet_await *w);

/* ---- keep.c ---- */

/* Copies the outcome, and takes over what was displayed. */
void execution_keep_outcome(struct execution *e, const struct fleet_outcome *o);

/* The displays have been fetched, or never will. */
void execution_keep_displays(struct execution *e);

/* Frees all that was kept. */
void execution_keep_finish(struct execution *e);

#endif
