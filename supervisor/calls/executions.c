/*
 * An execution belongs to its owner, not to the request that started it: the request only waits. So
 * a client whose connection breaks, or that gives up, loses only the answer, and can ask for it
 * again by id.
 *
 * A running execution consists of a call (call.c) and a list of waits (await.c). When the call is
 * answered, the outcome is kept (keep.c) and the displays are read (displays.c). Only then are the
 * waits called back, because a reported outcome never changes.
 *
 * While sandboxes of an earlier server are being taken over, an unknown execution may still be
 * found. A request for it adds an "expected" one to the list: it looks like a failed one ("no such
 * execution"), and can still be replaced by the real one.
 */
#include "supervisor/calls/executions.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "supervisor/base/config.h"
#include "supervisor/calls/call.h"
#include "supervisor/calls/displays.h"
#include "supervisor/calls/executions_internal.h"
#include "supervisor/calls/input.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/metrics/metrics.h"

#define EXPECTED_MAX 256

struct executions *executions_create(struct fleet_host *host)
{
    struct executions *x = alloc_one(struct executions);
    x->host = host;
    for (size_t i = 0; i < EXECUTIONS_BUCKETS; i++) {
        LIST_INIT(&x->buckets[i]);
    }
    TAILQ_INIT(&x->all);
    TAILQ_INIT(&x->over);
    TAILQ_INIT(&x->timed);
    TAILQ_INIT(&x->followers);
    uv_timer_init(host->loop, &x->timer);
    uv_unref((uv_handle_t *)&x->timer);
    x->timer.data = x;
    return x;
}

/* ---- the list ---- */

static struct execution *find_execution(struct executions *x, const char *owner, const char *id)
{
    struct execution *e;
    LIST_FOREACH(e, &x->buckets[hash_text(id) % EXECUTIONS_BUCKETS], same_bucket)
    {
        if (strcmp(e->id, id) == 0 && strcmp(e->owner, owner) == 0) {
            return e;
        }
    }
    return NULL;
}

static struct execution *add_execution(struct executions *x, const char *owner, const char *id)
{
    struct execution *e = alloc_one(struct execution);
    e->registry = x;
    e->owner = alloc_strdup(owner);
    snprintf(e->id, sizeof(e->id), "%s", id);
    TAILQ_INIT(&e->awaits);
    LIST_INSERT_HEAD(&x->buckets[hash_text(id) % EXECUTIONS_BUCKETS], e, same_bucket);
    TAILQ_INSERT_TAIL(&x->all, e, by_begin);
    return e;
}

static bool is_needed(const struct execution *e)
{
    return e->pins > 0 || !TAILQ_EMPTY(&e->awaits);
}

static void forget_execution(struct execution *e)
{
    struct executions *x = e->registry;
    assert(execution_is_over(e) && !is_needed(e));
    LIST_REMOVE(e, same_bucket);
    TAILQ_REMOVE(&x->all, e, by_begin);
    TAILQ_REMOVE(&x->over, e, by_end);
    x->over_count--;
    x->over_bytes -= e->size;
    free(e->owner);
    free(e->err);
    free(e->hint);
    execution_keep_finish(e);
    free(e);
}

static void make_execution_room(struct executions *x)
{
    struct execution *e = TAILQ_FIRST(&x->over);
    size_t most = EXECUTIONS_KEPT + EXECUTIONS_PER_SANDBOX * x->host->config->max_sandboxes;
    while (e != NULL && (x->over_count > most || x->over_bytes > EXECUTIONS_BYTES)) {
        struct execution *next = TAILQ_NEXT(e, by_end);
        if (!is_needed(e)) { /* else it is freed after its waits were called back */
            forget_execution(e);
        }
        e = next;
    }
}

void execution_unpin(struct execution *e)
{
    struct executions *x = e->registry;
    e->pins--;
    if (e->fleeting && !is_needed(e)) {
        forget_execution(e);
    }
    make_execution_room(x);
}

/* ---- end ------------------------------------------------------------------------------------- */

static void keep_failure(struct execution *e, int rc, const struct err *err, const char *hint)
{
    e->rc = rc;
    e->err = alloc_one(struct err);
    *e->err = *err;
    e->hint = alloc_strdup(hint);
    e->size = sizeof(*err) + strlen(hint);
}

static void put_over(struct execution *e)
{
    struct executions *x = e->registry;
    TAILQ_INSERT_TAIL(&x->over, e, by_end);
    x->over_count++;
    x->over_bytes += e->size;
}

static void note_execution(const struct execution *e, const char *what, const char *text)
{
    struct fleet_host *host = e->registry->host;
    const struct fleet_note note = {
        .what = what, .owner = e->owner, .sandbox = e->sandbox, .execution = e->id, .text = text};
    journal_add(&host->journal, &host->deferred, &note);
}

/* One that is left to the next server goes on. */
static void note_end(const struct execution *e)
{
    if (e->rc < 0 && e->rc != -ERR_EXECUTION_NOT_FOUND) {
        note_execution(e, "execution.ended", e->err->text);
    } else if (e->rc == 0 && e->outcome.state == OP_DONE) {
        note_execution(e, "execution.ended", op_status_name(e->outcome.end->status));
    }
}

/* The execution is complete: ended, or (in another state than OP_DONE) left to the next server. */
static void finish_execution(struct execution *e)
{
    const struct fleet_host *host = e->registry->host;
    e->reading = false;
    execution_keep_displays(e);
    put_over(e);
    note_end(e);
    if (host->events != NULL && e->rc == 0 && e->outcome.state == OP_DONE) {
        host->events->execution(host->events_arg, e->owner, e->id);
    }
    execution_tell_all(e); /* this also makes room */
}

static void on_displays(void *arg)
{
    finish_execution(arg);
}

/* One that is left to the next server is counted there. */
static void count_execution(int rc, const struct fleet_outcome *o)
{
    if (rc == 0 && o->state == OP_DONE) {
        const char *status = op_status_name(o->end->status);
        metrics_count(METRIC_EXECUTIONS,
                      metric_label_find(METRIC_LABEL_STATUS, status, METRIC_STATUS_LOST));
        metrics_observe(METRIC_EXECUTION_DURATION, 0, o->duration_us);
        metrics_add(METRIC_EXECUTION_CPU, 0, 0, o->end->cpu_us);
        metrics_add(METRIC_OUTPUT_BYTES, METRIC_STREAM_STDOUT, 0, o->out_bytes);
        metrics_add(METRIC_OUTPUT_BYTES, METRIC_STREAM_STDERR, 0, o->err_bytes);
    } else if (rc < 0 && rc != -ERR_EXECUTION_NOT_FOUND) {
        metrics_count(METRIC_EXECUTIONS, METRIC_STATUS_LOST);
    }
}

/* Its call was answered. */
static void on_execution_answer(void *arg, int rc, const struct fleet_outcome *outcome,
                                const struct err *err, const char *hint)
{
    struct execution *e = arg;
    e->call = NULL;
    count_execution(rc, outcome);
    if (rc == 0) {
        execution_keep_outcome(e, outcome);
    } else {
        keep_failure(e, rc, err, hint);
        e->fleeting = rc == -ERR_EXECUTION_NOT_FOUND;
    }
    e->reading = e->displays != NULL && displays_read(e->displays, e->call_in, on_displays, e);
    if (!e->reading) {
        finish_execution(e);
    }
}

/* Its end was not reported yet, so it still counts as running. */
static struct fleet_outcome look_ending(const struct execution *e)
{
    static const struct msg_output none = {.state = OP_RUNNING};
    struct fleet_outcome outcome = e->outcome;
    outcome.state = OP_RUNNING;
    outcome.end = &none;
    return outcome;
}

struct fleet_outcome execution_look(const struct execution *e)
{
    struct fleet_outcome outcome = e->call != NULL ? call_look(e->call)
                                   : e->reading    ? look_ending(e)
                                                   : e->outcome;
    outcome.op = e->id;
    outcome.sandbox = e->sandbox;
    outcome.owner = e->owner;
    outcome.language = e->language;
    outcome.told_out = e->told_out;
    outcome.told_err = e->told_err;
    return outcome;
}

/* ---- start ----------------------------------------------------------------------------------- */

static void put_in(struct execution *e, struct sandbox *s, struct view language)
{
    e->call_in = s;
    snprintf(e->sandbox, sizeof(e->sandbox), "%s", s->id);
    snprintf(e->language, sizeof(e->language), "%.*s", VIEW_ARG(language));
}

void executions_refuse(struct executions *x, const char *owner, const struct err *err,
                       const char *hint, char ret_id[FLEET_ID_SIZE])
{
    /* Need not be random: there is nothing behind it, and only its owner finds it. */
    snprintf(ret_id, FLEET_ID_SIZE, "refused-%llu", (unsigned long long)++x->refused);
    struct execution *e = add_execution(x, owner, ret_id);
    e->fleeting = true;
    keep_failure(e, -err->code, err, hint);
    put_over(e);
    e->pins++;
    make_execution_room(x); /* does not drop this one */
    e->pins--;
}

void executions_begin(struct executions *x, struct sandbox *s, const struct fleet_op *op,
                      char ret_id[FLEET_ID_SIZE])
{
    struct err err = ERR_INIT;
    if (random_id(ret_id, CALL_ID_CHARS, &err) < 0) {
        executions_refuse(x, s->owner, &err, "", ret_id);
        return;
    }
    struct execution *e = add_execution(x, s->owner, ret_id);
    put_in(e, s, view_of(op->language));
    e->begun_ms = uv_now(x->host->loop);
    note_execution(e, "execution.started", e->language);
    e->call = call_execute(s, ret_id, op, on_execution_answer, e);
}

static void set_unknown(struct err *err)
{
    err_set(err, ERR_EXECUTION_NOT_FOUND, "no such execution");
}

struct execution *executions_find_or_expect(struct executions *x, const char *owner, const char *id)
{
    struct err err = ERR_INIT;
    struct execution *e = find_execution(x, owner, id);
    if (e != NULL || !x->host->adopting || strlen(id) >= FLEET_ID_SIZE ||
        x->expected_count == EXPECTED_MAX) {
        return e;
    }
    set_unknown(&err);
    e = add_execution(x, owner, id);
    keep_failure(e, -err.code, &err, "");
    e->expected = true;
    x->expected_count++;
    return e;
}

/* ---- executions of an earlier server --------------------------------------------------------- */

void executions_adopt(struct executions *x, struct sandbox *s, const struct msg_op_info *info)
{
    char id[FLEET_ID_SIZE];
    if (!op_is_execution((enum op_kind)info->kind) || info->op.len == 0 ||
        info->op.len >= sizeof(id)) {
        return;
    }
    snprintf(id, sizeof(id), "%.*s", VIEW_ARG(info->op));
    struct execution *e = find_execution(x, s->owner, id);
    if (e != NULL && !e->expected) {
        return;
    }
    if (e == NULL) {
        e = add_execution(x, s->owner, id);
    } else {
        e->expected = false;
        x->expected_count--;
        TAILQ_REMOVE(&x->all, e, by_begin); /* it was started before others of the list */
        TAILQ_INSERT_TAIL(&x->all, e, by_begin);
        e->rc = 0;
        e->size = 0;
        free(STEAL_PTR(e->err));
        free(STEAL_PTR(e->hint));
    }
    put_in(e, s, info->language);
    e->call = call_join(s, info, on_execution_answer, e);
    execution_follow_call(e);
    if (e->unwanted) {
        call_cancel(e->call);
    }
    struct fleet_await *w;
    TAILQ_FOREACH(w, &e->awaits, node)
    {
        execution_begin_wait(w);
    }
}

static struct execution *first_expected(struct executions *x)
{
    struct execution *e = x->expected_count > 0 ? TAILQ_FIRST(&x->all) : NULL;
    while (e != NULL && !e->expected) {
        e = TAILQ_NEXT(e, by_begin);
    }
    return e;
}

void executions_adopted(struct executions *x)
{
    struct execution *e;
    while ((e = first_expected(x)) != NULL) {
        e->expected = false;
        x->expected_count--;
        e->fleeting = true;
        if (x->host->stopping) { /* the next server may find it */
            err_set(e->err, ERR_SHUTTING_DOWN, "the server is shutting down");
            e->rc = -ERR_SHUTTING_DOWN;
        }
        put_over(e);
        execution_tell_all(e); /* this also frees it */
    }
}

/* ---- interface ------------------------------------------------------------------------------- */

int executions_stop(struct executions *x, const char *owner, const char *id, struct err *err)
{
    struct execution *e = executions_find_or_expect(x, owner, id);
    if (e == NULL) {
        set_unknown(err);
        return -ERR_EXECUTION_NOT_FOUND;
    }
    if (e->call != NULL) {
        call_cancel(e->call);
    }
    e->unwanted = true;
    return 0;
}

void executions_input(struct executions *x, const char *owner, const char *id,
                      const struct fleet_input *in, fleet_input_fn done, void *arg)
{
    struct err err = ERR_INIT;
    struct execution *e = find_execution(x, owner, id);
    const char *hint = "";
    if (e != NULL && e->call != NULL) {
        call_input(e->call, in, done, arg);
        return;
    }
    if (e == NULL || e->rc < 0) {
        set_unknown(&err);
    } else {
        hint = call_input_over(e->outcome.state != OP_DONE, &err);
    }
    call_input_refuse(x->host, &err, hint, done, arg);
}

void executions_told(struct executions *x, const char *owner, const char *id, uint64_t out_bytes,
                     uint64_t err_bytes)
{
    struct execution *e = find_execution(x, owner, id);
    if (e != NULL) {
        e->told_out = out_bytes;
        e->told_err = err_bytes;
    }
}

const char *executions_owner(struct executions *x, const char *id)
{
    const struct execution *e;
    LIST_FOREACH(e, &x->buckets[hash_text(id) % EXECUTIONS_BUCKETS], same_bucket)
    {
        if (strcmp(e->id, id) == 0 && !e->expected && !e->fleeting) {
            return e->owner;
        }
    }
    return NULL;
}

bool executions_has(struct executions *x, const char *owner, const char *id)
{
    const struct execution *e = find_execution(x, owner, id);
    return e != NULL && !e->expected && !e->fleeting;
}

void executions_list(struct executions *x, const char *owner, const char *sandbox,
                     void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg)
{
    struct execution *e;
    TAILQ_FOREACH_REVERSE(e, &x->all, execution_list, by_begin)
    {
        /* Without executions that the agent may not have: listing the id would be a promise. */
        bool has_outcome = e->call != NULL ? call_is_known(e->call) : e->rc == 0;
        bool is_meant = (sandbox == NULL || strcmp(e->sandbox, sandbox) == 0) &&
                        (owner == NULL || strcmp(e->owner, owner) == 0);
        if (has_outcome && is_meant) {
            struct fleet_outcome outcome = execution_look(e);
            each(arg, &outcome);
        }
    }
}

static void on_sweep_timer_closed(uv_handle_t *handle)
{
    struct executions *x = handle->data;
    void (*closed)(void *arg) = x->closed;
    void *arg = x->closed_arg;
    free(x);
    closed(arg);
}

void executions_close(struct executions *x, void (*closed)(void *arg), void *arg)
{
    struct execution *e;
    executions_adopted(x);
    while ((e = TAILQ_FIRST(&x->over)) != NULL) {
        forget_execution(e);
    }
    assert(TAILQ_EMPTY(&x->all));
    x->closed = closed;
    x->closed_arg = arg;
    uv_close((uv_handle_t *)&x->timer, on_sweep_timer_closed);
}
