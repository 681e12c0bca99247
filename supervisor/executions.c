/*
 * An execution belongs to whoever began it and not to the request that did: the request only waits.
 * So a client whose connection breaks, or that gives up waiting, loses nothing but the answer, and
 * asks for it again by id.
 *
 * While it runs an execution is a call (call.c) and a list of those who wait. When the call is
 * answered the outcome is copied into one piece of memory of its exact size, so that what is kept
 * can be counted: bounds are worth nothing if a kilobyte of output sits in a buffer of a megabyte.
 * Who waits is told from the call's own buffers, before the copy can be given up again.
 *
 * While sandboxes of an earlier server are being taken over, an execution that is asked for and not
 * known may still turn up. It is put on the list as an expected one, like a failed one that says
 * "no such execution" and can still be replaced by the real one.
 *
 * One timer serves all who wait. It is set for the first of them and left alone when they end
 * early, as they nearly always do: it finds out when it fires. It is no reason to keep the loop
 * going; the calls that run are.
 */
#include "supervisor/executions.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/hash.h"
#include "common/str.h"
#include "supervisor/call.h"
#include "supervisor/config.h"
#include "supervisor/fleet_host.h"

#define BUCKETS      256
#define CONFIRM_MS   100 /* between two looks whether the agent has it */
#define EXPECTED_MAX 256

struct execution {
    LIST_ENTRY(execution) same_bucket;
    TAILQ_ENTRY(execution) by_begin;
    TAILQ_ENTRY(execution) by_end; /* once it is over */
    struct executions *registry;
    char id[FLEET_ID_SIZE];
    char sandbox[FLEET_ID_SIZE];
    char language[LIMIT_NAME + 1];
    char *owner;
    struct fleet_call *call; /* NULL: over, or left to the next server */
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
    TAILQ_ENTRY(fleet_await) node;  /* of the execution */
    TAILQ_ENTRY(fleet_await) timed; /* of the registry, if it may end by time */
    struct executions *registry;
    struct execution *execution; /* NULL: there is none */
    uint64_t wait_ms;
    bool is_timed;
    uint64_t due_ms;
    fleet_outcome_fn done;
    void *arg;
    struct deferred_task task;
};

struct executions {
    struct fleet_host *host;
    LIST_HEAD(, execution) buckets[BUCKETS];
    TAILQ_HEAD(execution_list, execution) all;
    struct execution_list over;
    size_t over_count;
    size_t over_bytes;
    size_t expected_count;
    uint64_t refused; /* names those that never began */
    TAILQ_HEAD(, fleet_await) timed;
    uv_timer_t timer;
    uint64_t timer_due_ms; /* 0: not set */
    void (*closed)(void *arg);
    void *closed_arg;
};

struct executions *executions_create(struct fleet_host *host)
{
    struct executions *x = alloc_one(struct executions);
    x->host = host;
    for (size_t i = 0; i < BUCKETS; i++) {
        LIST_INIT(&x->buckets[i]);
    }
    TAILQ_INIT(&x->all);
    TAILQ_INIT(&x->over);
    TAILQ_INIT(&x->timed);
    uv_timer_init(host->loop, &x->timer);
    uv_unref((uv_handle_t *)&x->timer);
    x->timer.data = x;
    return x;
}

/* ---- the list ---- */

static struct execution *find(struct executions *x, const char *owner, const char *id)
{
    struct execution *e;
    LIST_FOREACH(e, &x->buckets[hash_text(id) % BUCKETS], same_bucket)
    {
        if (strcmp(e->id, id) == 0 && strcmp(e->owner, owner) == 0) {
            return e;
        }
    }
    return NULL;
}

static struct execution *add(struct executions *x, const char *owner, const char *id)
{
    struct execution *e = alloc_one(struct execution);
    e->registry = x;
    e->owner = alloc_strdup(owner);
    snprintf(e->id, sizeof(e->id), "%s", id);
    TAILQ_INIT(&e->awaits);
    LIST_INSERT_HEAD(&x->buckets[hash_text(id) % BUCKETS], e, same_bucket);
    TAILQ_INSERT_TAIL(&x->all, e, by_begin);
    return e;
}

static bool is_needed(const struct execution *e)
{
    return e->pins > 0 || !TAILQ_EMPTY(&e->awaits);
}

static void forget(struct execution *e)
{
    struct executions *x = e->registry;
    assert(e->call == NULL && !is_needed(e));
    LIST_REMOVE(e, same_bucket);
    TAILQ_REMOVE(&x->all, e, by_begin);
    TAILQ_REMOVE(&x->over, e, by_end);
    x->over_count--;
    x->over_bytes -= e->size;
    free(e->owner);
    free(e->err);
    free(e->hint);
    free(e->bytes);
    free(e);
}

static void make_room(struct executions *x)
{
    struct execution *e = TAILQ_FIRST(&x->over);
    size_t most = EXECUTIONS_KEPT + EXECUTIONS_PER_SANDBOX * x->host->config->max_sandboxes;
    while (e != NULL && (x->over_count > most || x->over_bytes > EXECUTIONS_BYTES)) {
        struct execution *next = TAILQ_NEXT(e, by_end);
        if (!is_needed(e)) { /* else its turn comes when they are told */
            forget(e);
        }
        e = next;
    }
}

static void unpin(struct execution *e)
{
    struct executions *x = e->registry;
    e->pins--;
    if (e->fleeting && !is_needed(e)) {
        forget(e);
    }
    make_room(x);
}

/* ---- telling ---- */

/* From here on it is gone, and its `done` has to be called. */
static void take_off(struct fleet_await *w)
{
    deferred_cancel(&w->registry->host->deferred, &w->task);
    if (w->is_timed) {
        TAILQ_REMOVE(&w->registry->timed, w, timed);
    }
    if (w->execution != NULL) {
        TAILQ_REMOVE(&w->execution->awaits, w, node);
    }
}

static void tell(struct fleet_await *w, int rc, const struct fleet_outcome *outcome,
                 const struct err *err, const char *hint)
{
    struct fleet_host *host = w->registry->host;
    take_off(w);
    w->done(w->arg, rc, outcome, err, hint);
    free(w);
    fleet_host_release(host);
}

/* How it stands. */
static struct fleet_outcome look(const struct execution *e)
{
    struct fleet_outcome outcome = e->call != NULL ? call_look(e->call) : e->outcome;
    outcome.op = e->id;
    outcome.sandbox = e->sandbox;
    outcome.language = e->language;
    return outcome;
}

static void tell_present(struct fleet_await *w)
{
    const struct execution *e = w->execution;
    if (e->call == NULL && e->rc < 0) {
        tell(w, e->rc, NULL, e->err, e->hint);
    } else {
        struct fleet_outcome outcome = look(e);
        tell(w, 0, &outcome, NULL, "");
    }
}

static void on_tell(void *arg)
{
    struct fleet_await *w = arg;
    struct execution *e = w->execution;
    if (e == NULL) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_EXECUTION_NOT_FOUND, "no such execution");
        tell(w, -ERR_EXECUTION_NOT_FOUND, NULL, &err, "");
        return;
    }
    e->pins++;
    tell_present(w);
    unpin(e);
}

static void tell_all(struct execution *e)
{
    /* Who begins to wait inside a callback has a turn of its own. */
    struct fleet_await *last = TAILQ_LAST(&e->awaits, execution_awaits);
    struct fleet_await *w;
    bool more = last != NULL;
    e->pins++;
    while (more && (w = TAILQ_FIRST(&e->awaits)) != NULL) {
        more = w != last;
        tell_present(w);
    }
    unpin(e);
}

/* ---- the end of one ---- */

static struct view keep(char **at, struct view v)
{
    char *to = *at;
    if (v.len > 0) {
        memcpy(to, v.data, v.len);
    }
    *at += v.len;
    return view_bytes(to, v.len);
}

static void keep_outcome(struct execution *e, const struct fleet_outcome *o)
{
    const struct msg_output *end = o->end;
    e->outcome = *o;
    e->end = *end;
    e->end.out = e->end.err = e->end.op = view_bytes(NULL, 0);
    e->outcome.end = &e->end;
    e->size = o->out.len + o->err.len + end->result.len + end->error_name.len +
              end->error_message.len + end->traceback.len;
    e->bytes = alloc_array(e->size + 1, 1);
    char *at = e->bytes;
    e->outcome.out = keep(&at, o->out);
    e->outcome.err = keep(&at, o->err);
    e->end.result = keep(&at, end->result);
    e->end.error_name = keep(&at, end->error_name);
    e->end.error_message = keep(&at, end->error_message);
    e->end.traceback = keep(&at, end->traceback);
}

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

/* Its call is answered: it is over, or (with another state than OP_DONE) this server leaves it. */
static void on_answer(void *arg, int rc, const struct fleet_outcome *outcome, const struct err *err,
                      const char *hint)
{
    struct execution *e = arg;
    e->call = NULL;
    if (rc == 0) {
        keep_outcome(e, outcome);
    } else {
        keep_failure(e, rc, err, hint);
        e->fleeting = rc == -ERR_EXECUTION_NOT_FOUND;
    }
    put_over(e);
    tell_all(e); /* which makes room */
}

/* ---- the beginning of one ---- */

static void put_in(struct execution *e, const struct sandbox *s, struct view language)
{
    snprintf(e->sandbox, sizeof(e->sandbox), "%s", s->id);
    snprintf(e->language, sizeof(e->language), "%.*s", VIEW_ARG(language));
}

void executions_refuse(struct executions *x, const char *owner, const struct err *err,
                       const char *hint, char ret_id[FLEET_ID_SIZE])
{
    /* Not a secret: there is nothing behind it, and only its owner finds it. */
    snprintf(ret_id, FLEET_ID_SIZE, "refused-%llu", (unsigned long long)++x->refused);
    struct execution *e = add(x, owner, ret_id);
    e->fleeting = true;
    keep_failure(e, -err->code, err, hint);
    put_over(e);
    e->pins++;
    make_room(x); /* but not of this one */
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
    struct execution *e = add(x, s->owner, ret_id);
    put_in(e, s, view_of(op->language));
    e->call = call_execute(s, ret_id, op, on_answer, e);
}

/* ---- waiting ---- */

static void on_time(uv_timer_t *timer);

static void set_timer(struct executions *x, uint64_t due_ms)
{
    uint64_t now_ms = uv_now(x->host->loop);
    x->timer_due_ms = due_ms;
    uv_timer_start(&x->timer, on_time, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* "It runs" is a promise that it will be found again, by the next server if need be. While a worker
 * hangs, its START may not have arrived; then there is nothing to say yet. */
static bool must_be_confirmed(const struct fleet_await *w)
{
    const struct execution *e = w->execution;
    return e != NULL && e->call != NULL && !call_is_known(e->call);
}

static void on_time(uv_timer_t *timer)
{
    struct executions *x = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    uint64_t next_ms = 0;
    struct fleet_await *w;
    x->timer_due_ms = 0;
    TAILQ_FOREACH(w, &x->timed, timed)
    {
        if (w->due_ms <= now_ms && must_be_confirmed(w)) {
            w->due_ms = now_ms + CONFIRM_MS;
        }
        if (w->due_ms <= now_ms) {
            executions_await_end(w);
        } else if (next_ms == 0 || w->due_ms < next_ms) {
            next_ms = w->due_ms;
        }
    }
    if (next_ms != 0) {
        set_timer(x, next_ms);
    }
}

/* What it waits for is known: either it is told soon, or its time begins to count. Before that it
 * is not told that there is no such execution, however long that takes: a client that believes it
 * runs its code again. */
static void begin_wait(struct fleet_await *w)
{
    struct executions *x = w->registry;
    const struct execution *e = w->execution;
    if (e == NULL || e->call == NULL || (w->wait_ms == 0 && !must_be_confirmed(w))) {
        executions_await_end(w);
    } else if (w->wait_ms != FLEET_WAIT_FOR_EVER) {
        w->is_timed = true;
        w->due_ms = uv_now(x->host->loop) + w->wait_ms;
        TAILQ_INSERT_TAIL(&x->timed, w, timed);
        if (x->timer_due_ms == 0 || w->due_ms < x->timer_due_ms) {
            set_timer(x, w->due_ms);
        }
    }
}

static void set_unknown(struct err *err)
{
    err_set(err, ERR_EXECUTION_NOT_FOUND, "no such execution");
}

/* The execution, even if it may only turn up; NULL if it cannot. */
static struct execution *find_or_expect(struct executions *x, const char *owner, const char *id)
{
    struct err err = ERR_INIT;
    struct execution *e = find(x, owner, id);
    if (e != NULL || !x->host->adopting || strlen(id) >= FLEET_ID_SIZE ||
        x->expected_count == EXPECTED_MAX) {
        return e;
    }
    set_unknown(&err);
    e = add(x, owner, id);
    keep_failure(e, -err.code, &err, "");
    e->expected = true;
    x->expected_count++;
    return e;
}

struct fleet_await *executions_await(struct executions *x, const char *owner, const char *id,
                                     uint64_t wait_ms, fleet_outcome_fn done, void *arg)
{
    struct fleet_await *w = alloc_one(struct fleet_await);
    struct execution *e = find_or_expect(x, owner, id);
    w->registry = x;
    w->execution = e;
    w->wait_ms = wait_ms;
    w->done = done;
    w->arg = arg;
    fleet_host_hold(x->host);
    if (e != NULL) {
        TAILQ_INSERT_TAIL(&e->awaits, w, node);
    }
    if (e == NULL || !e->expected) {
        begin_wait(w);
    }
    return w;
}

void executions_await_end(struct fleet_await *await)
{
    deferred_post(&await->registry->host->deferred, &await->task, on_tell, await);
}

/* ---- from an earlier server ---- */

void executions_adopt(struct executions *x, struct sandbox *s, const struct msg_op_info *info)
{
    char id[FLEET_ID_SIZE];
    if (info->kind != OP_EVAL || info->op.len == 0 || info->op.len >= sizeof(id)) {
        return;
    }
    snprintf(id, sizeof(id), "%.*s", VIEW_ARG(info->op));
    struct execution *e = find(x, s->owner, id);
    if (e != NULL && !e->expected) {
        return;
    }
    if (e == NULL) {
        e = add(x, s->owner, id);
    } else {
        e->expected = false;
        x->expected_count--;
        TAILQ_REMOVE(&x->all, e, by_begin); /* its place is behind what began before it */
        TAILQ_INSERT_TAIL(&x->all, e, by_begin);
        e->rc = 0;
        e->size = 0;
        free(STEAL_PTR(e->err));
        free(STEAL_PTR(e->hint));
    }
    put_in(e, s, info->language);
    e->call = call_join(s, info, on_answer, e);
    if (e->unwanted) {
        call_cancel(e->call);
    }
    struct fleet_await *w;
    TAILQ_FOREACH(w, &e->awaits, node)
    {
        begin_wait(w);
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
        if (x->host->stopping) { /* the next server may well find it */
            err_set(e->err, ERR_SHUTTING_DOWN, "the server is shutting down");
            e->rc = -ERR_SHUTTING_DOWN;
        }
        put_over(e);
        tell_all(e); /* which forgets it */
    }
}

/* ---- the rest ---- */

int executions_stop(struct executions *x, const char *owner, const char *id, struct err *err)
{
    struct execution *e = find_or_expect(x, owner, id);
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

void executions_list(struct executions *x, const char *owner, const char *sandbox,
                     void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg)
{
    struct execution *e;
    TAILQ_FOREACH_REVERSE(e, &x->all, execution_list, by_begin)
    {
        /* Not what the agent may never have got: its id would be a promise. */
        bool has_outcome = e->call != NULL ? call_is_known(e->call) : e->rc == 0;
        if (has_outcome && strcmp(e->sandbox, sandbox) == 0 && strcmp(e->owner, owner) == 0) {
            struct fleet_outcome outcome = look(e);
            each(arg, &outcome);
        }
    }
}

static void on_closed(uv_handle_t *handle)
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
        forget(e);
    }
    assert(TAILQ_EMPTY(&x->all));
    x->closed = closed;
    x->closed_arg = arg;
    uv_close((uv_handle_t *)&x->timer, on_closed);
}
