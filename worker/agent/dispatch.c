/*
 * What each request does. A request that takes time only changes an operation here; the loop's
 * settling pass (agent.c) starts operations and answers waits, so a request never depends on what
 * another one is doing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "config.h"
#include "proto/codec.h"
#include "proto/version.h"
#include "worker/agent/agent.h"
#include "worker/agent/files/op.h"
#include "worker/agent/link/request.h"
#include "worker/agent/process/places.h"
#include "worker/agent/run/connect.h"

#define OP_INFO_MAX 256u /* bytes of one encoded OP_INFO */
#define LISTED_MAX  400  /* of a hint that says where interpreters were looked for */
#define LOOKED_MAX  (2 * PLACES_MAX + 16)

void agent_send(struct agent *a, struct link *l, const struct msg *m)
{
    struct err err = ERR_INIT;
    if (link_is_open(l) && link_send(l, m, &err) < 0) {
        log_debug("link lost: %s", err.text);
        agent_drop_link(a, l);
    }
}

static void fail_request(struct agent *a, struct link *l, uint64_t seq, const struct err *why,
                         const char *hint)
{
    struct msg m = {.type = MSG_FAILED, .seq = seq};
    m.failed.code = (uint64_t)why->code;
    m.failed.message = view_of(why->text);
    m.failed.hint = view_of(hint);
    agent_send(a, l, &m);
}

/* ---- hello ----------------------------------------------------------------------------------- */

#define LANGUAGES_MAX (AGENT_INTERPS + LIMIT_RUNNERS)

/* Live languages first, each name once. */
static size_t list_languages(struct agent *a, struct view ret[LANGUAGES_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        if (a->interps[i].path != NULL) {
            ret[n++] = view_of(a->interps[i].lang->name);
        }
    }
    const struct runners *r = &a->programs.runners;
    for (size_t i = 0; i < r->count; i++) {
        struct view name = view_of(r->items[i].language);
        if (runners_find(r, name) == &r->items[i] && agent_find_interp(a, name) == NULL) {
            ret[n++] = name;
        }
    }
    return n;
}

static int check_hello(const struct agent *a, const struct msg_hello *h, struct err *err)
{
    if (!view_is(h->protocol, PROTO_AGENT_NAME)) {
        return err_set(err, ERR_PROTOCOL, "this is %s, not \"%.*s\"", PROTO_AGENT_NAME,
                       VIEW_ARG(h->protocol));
    }
    if (h->version != PROTO_VERSION) {
        return err_set(err, ERR_VERSION, "the agent (%s) speaks version %d, the worker %" PRIu64,
                       CLOISTER_VERSION, PROTO_VERSION, h->version);
    }
    if (!view_is(h->sandbox, a->config.sandbox)) {
        return err_set(err, ERR_PROTOCOL, "this is sandbox %s", a->config.sandbox);
    }
    if (h->generation < a->generation) {
        return err_set(err, ERR_PROTOCOL,
                       "a newer worker (generation %" PRIu64 ") has this sandbox", a->generation);
    }
    return 0;
}

/* Only the first HELLO's runners count, so running operations keep the table that they began
 * with. */
static int take_runners(struct agent *a, struct view_list list, struct err *err)
{
    struct runners *r = &a->programs.runners;
    return r->known ? 0 : runners_load(r, list, err);
}

/* A worker tells what the first answer says to clients, so that one waits until it is true. Later
 * workers must reach the sandbox whatever happens in it. */
static int find_languages(struct agent *a, struct err *err)
{
    agent_look_for_languages(a);
    return a->languages_told ? 0 : agent_check_languages(a, err);
}

/* What there was when nothing was found, if that is so now or if it was so before: then the worker
 * can tell why. "" for an agent that has found languages at once, or some later that only a worker
 * could name. */
static const char *explain_hello(const struct agent *a, size_t languages, char *out, size_t size)
{
    char now[PLACES_MAX];
    const char *before = a->looked != NULL ? a->looked : "";
    if (languages > 0) {
        return agent_has_interp(a) ? before : "";
    }
    agent_explain_languages(a, now, sizeof(now));
    snprintf(out, size, "%s%s%s", now,
             before[0] != '\0' && strcmp(before, now) != 0 ? "; before: " : "",
             strcmp(before, now) != 0 ? before : "");
    return out;
}

static int hello(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    struct err why = ERR_INIT;
    if (check_hello(a, &m->hello, &why) < 0 || take_runners(a, m->hello.runners, &why) < 0 ||
        find_languages(a, &why) < 0) {
        l->last = true;
        fail_request(a, l, m->seq, &why, "");
        return 0;
    }
    a->languages_told = true;
    if (a->current != NULL) {
        agent_drop_link(a, a->current);
    }
    a->current = l;
    a->generation = m->hello.generation;
    for (size_t i = 0; i < a->ops.count; i++) {
        a->ops.items[i]->announced = false; /* this worker may not know what runs */
    }
    struct view languages[LANGUAGES_MAX];
    struct msg reply = msg_answer(m->type, m->seq);
    reply.hello_ok.protocol = view_of(PROTO_AGENT_NAME);
    reply.hello_ok.version = PROTO_VERSION;
    reply.hello_ok.build = view_of(CLOISTER_VERSION);
    reply.hello_ok.pid = (uint64_t)getpid();
    reply.hello_ok.languages.items = languages;
    reply.hello_ok.languages.count = list_languages(a, languages);
    char looked[LOOKED_MAX];
    reply.hello_ok.looked =
        view_of(explain_hello(a, reply.hello_ok.languages.count, looked, sizeof(looked)));
    agent_send(a, l, &reply);
    free(a->looked);
    a->looked = NULL;
    return 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Acknowledges the output before the waiter's offsets and waits for what follows. */
static void begin_wait(struct agent *a, struct link *l, struct op *op, struct op_waiter waiter,
                       bool skip)
{
    struct err why = ERR_INIT;
    if (op->waiter.active) {
        struct msg m;
        struct op_lists lists;
        op_output(op, &op->waiter, false, &lists, &m);
        op->waiter.active = false;
        agent_send(a, l, &m);
    }
    if (op_ack(op, &waiter, skip, &why) < 0) {
        fail_request(a, l, waiter.seq, &why, "ask from the end of what was received");
        return;
    }
    op->waiter = waiter;
}

static void forget_acknowledged(struct agent *a, struct view_list acks)
{
    for (size_t i = 0; i < acks.count; i++) {
        struct op *op = op_find(&a->ops, acks.items[i]);
        if (op != NULL && op_state(op) == OP_DONE) {
            op_forget(&a->ops, op);
        }
    }
}

static int begin_eval(struct agent *a, struct interp *i, struct op *op, const struct msg_start *s,
                      struct err *err)
{
    struct buf request;
    buf_init(&request, LIMIT_FRAME);
    int rc = request_pack(s, &request, err);
    if (rc == 0) {
        rc = op_hold_request(&a->ops, op, &request, err);
    }
    buf_finish(&request);
    if (rc == 0) {
        op->interp = i;
        op->language = i->lang->name;
    }
    return rc;
}

/* "this sandbox has python and bash" */
static void hint_languages(struct agent *a, char *hint, size_t size)
{
    struct view names[LANGUAGES_MAX];
    size_t n = list_languages(a, names);
    size_t at = 0;
    for (size_t i = 0; i < n && at < size; i++) {
        const char *before = i == 0 ? "this sandbox has " : i + 1 == n ? " and " : ", ";
        int len = snprintf(hint + at, size - at, "%s%.*s", before, VIEW_ARG(names[i]));
        at += len > 0 ? (size_t)len : 0;
    }
    if (n == 0) {
        char places[LISTED_MAX];
        places_list(&a->config.spawn, places, sizeof(places));
        snprintf(hint, size, "this sandbox has no interpreter at all (looked in %s)", places);
    }
}

static int check_connects(const struct agent *a, struct err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < a->ops.count; i++) {
        count += a->ops.items[i]->connect != NULL;
    }
    return count < LIMIT_CONNECTS
               ? 0
               : err_set(err, ERR_BUSY, "%d connections to ports are open already", LIMIT_CONNECTS);
}

/* A failed import takes its interpreter along, so there must be nothing of anybody in it. */
static int check_preload(const struct agent *a, const struct msg_start *s, const struct interp *i,
                         struct err *err)
{
    if (!i->lang->preloads) {
        return err_set(err, ERR_LANGUAGE, "%s imports nothing in advance", i->lang->name);
    }
    if (s->args.count != 1) {
        return err_set(err, ERR_INVALID, "expected one module to import, got %zu", s->args.count);
    }
    return a->ops.evals == 0 ? 0
                             : err_set(err, ERR_INVALID, "code has run in this sandbox already");
}

/* What the operation runs in: either a live interpreter or a program. */
static int find_language(struct agent *a, const struct msg_start *s, struct interp **ret_interp,
                         const struct runner **ret_runner, char *hint, size_t hint_size,
                         struct err *err)
{
    bool is_code = s->kind == OP_EVAL;
    agent_look_for_languages(a);
    struct interp *i = agent_find_interp(a, s->language);
    const struct runner *runner = NULL;
    if (i == NULL && is_code) {
        runner = runners_find(&a->programs.runners, s->language);
    } else if (i != NULL && is_code && (s->flags & OP_FLAG_TTY) != 0) {
        /* a live interpreter has no terminal */
        runner = runners_of_live(s->language);
        i = NULL;
    }
    if (i == NULL && runner == NULL) {
        hint_languages(a, hint, hint_size);
        return err_set(err, ERR_LANGUAGE, "this sandbox has nothing to run \"%.*s\" with",
                       VIEW_ARG(s->language));
    }
    *ret_interp = i;
    *ret_runner = runner;
    return is_code ? 0 : check_preload(a, s, i, err);
}

static int create(struct agent *a, const struct msg_start *s, struct op **ret, char *hint,
                  size_t hint_size, struct err *err)
{
    struct interp *i = NULL;
    const struct runner *runner = NULL;
    if (s->kind < OP_EVAL || s->kind > OP_PRELOAD) {
        return err_set(err, ERR_INVALID, "operation of unknown kind %" PRIu64, s->kind);
    }
    int rc = 0;
    if (s->kind == OP_EVAL || s->kind == OP_PRELOAD) {
        rc = find_language(a, s, &i, &runner, hint, hint_size, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct op *op = NULL;
    rc = s->kind == OP_CONNECT ? check_connects(a, err) : 0;
    if (rc == 0) {
        rc = op_create(&a->ops, s->op, (enum op_kind)s->kind, &op, err);
    }
    if (rc < 0) {
        snprintf(hint, hint_size, "wait for one of them to end");
        return rc;
    }
    op->timeout_ms = s->timeout_ms;
    if (op_is_execution(op->kind) || op->kind == OP_CONNECT) {
        rc = input_expect(&op->input, s, err);
    }
    if (rc < 0) {
        snprintf(hint, hint_size, "%s", rc == -ERR_TOO_BIG ? "put it into a file" : "");
    } else if (s->kind == OP_TELL) {
        installs_tell(&a->installs, s->offset, s->data, (s->flags & OP_FLAG_LAST) != 0,
                      (unsigned)(s->mode & UINT8_MAX));
        op->status = OP_STATUS_OK;
        op_done(&a->ops, op);
    } else if (op->kind == OP_CONNECT) {
        connect_begin(&a->ops, op, s);
    } else if (!op_is_run(op->kind)) {
        fileop_begin(&a->ops, op, s, &a->config.spawn);
    } else if (i == NULL) {
        rc = programs_queue(&a->ops, op, runner, s, err);
    } else {
        rc = begin_eval(a, i, op, s, err);
    }
    if (rc < 0) {
        op_refuse(&a->ops, op);
        return rc;
    }
    *ret = op;
    return 0;
}

static void fail_unknown(struct agent *a, struct link *l, uint64_t seq)
{
    struct err why = ERR_INIT;
    err_set(&why, ERR_EXECUTION_NOT_FOUND, "the agent knows no such operation");
    fail_request(a, l, seq, &why, "");
}

static int accept_start(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    const struct msg_start *s = &m->start;
    forget_acknowledged(a, s->acks);
    struct op *op = op_find(&a->ops, s->op);
    if (op == NULL && s->join) {
        fail_unknown(a, l, m->seq);
        return 0;
    }
    if (op == NULL) {
        struct err why = ERR_INIT;
        char hint[512] = "";
        if (create(a, s, &op, hint, sizeof(hint), &why) < 0) {
            fail_request(a, l, m->seq, &why, hint);
            return 0;
        }
    }
    op->announced = false;
    struct op_waiter waiter = {.active = true,
                               .seq = m->seq,
                               .out_from = s->out_from,
                               .err_from = s->err_from,
                               .until_ms = clock_ms() + s->wait_ms};
    begin_wait(a, l, op, waiter, s->skip);
    return 0;
}

static int wait_for(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    const struct msg_wait *w = &m->wait;
    struct op *op = op_find(&a->ops, w->op);
    if (op == NULL) {
        fail_unknown(a, l, m->seq);
        return 0;
    }
    struct op_waiter waiter = {.active = true,
                               .seq = m->seq,
                               .out_from = w->out_from,
                               .err_from = w->err_from,
                               .until_ms = clock_ms() + w->wait_ms};
    begin_wait(a, l, op, waiter, w->skip);
    return 0;
}

static int cancel(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    const struct msg_cancel *c = &m->cancel;
    if (c->reason != OP_STOP_CANCEL && c->reason != OP_STOP_TIMEOUT) {
        struct err why = ERR_INIT;
        err_set(&why, ERR_INVALID, "unknown reason %" PRIu64, c->reason);
        fail_request(a, l, m->seq, &why, "");
        return 0;
    }
    enum op_stop reason = (enum op_stop)c->reason;
    struct op *op = op_find(&a->ops, c->op);
    if (op != NULL && op_state(op) == OP_QUEUED) {
        op->stop = reason;
        op->status = reason == OP_STOP_TIMEOUT ? OP_STATUS_TIMEOUT : OP_STATUS_CANCELLED;
        op_done(&a->ops, op);
    } else if (op != NULL && op_state(op) == OP_RUNNING && op->file != NULL) {
        fileop_stop(op, reason);
    } else if (op != NULL && op->connect != NULL) {
        connect_stop(&a->ops, op, reason);
    } else if (op != NULL && op->scan != NULL) {
        log_debug("cancel: the run is over, only its files are looked for");
    } else if (op != NULL && op_state(op) == OP_RUNNING && op->program != NULL) {
        program_stop(op, reason, c->force);
    } else if (op != NULL && op_state(op) == OP_RUNNING) {
        interp_stop(op->interp, &a->ops, reason, c->force);
    }
    struct msg reply = msg_answer(m->type, m->seq);
    agent_send(a, l, &reply);
    return 0;
}

/* What has ended, or is about to, reads nothing any more. */
static int input(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    struct err why = ERR_INIT;
    struct op *op = op_find(&a->ops, m->input.op);
    if (op == NULL) {
        fail_unknown(a, l, m->seq);
        return 0;
    }
    bool over = op_state(op) == OP_DONE || op->scan != NULL;
    int rc =
        over ? err_set(&why, ERR_INVALID, "it has ended") : input_take(&op->input, &m->input, &why);
    if (rc < 0) {
        fail_request(a, l, m->seq, &why,
                     rc == -ERR_TOO_BIG ? "write less, or again when it has read them" : "");
        return 0;
    }
    struct msg reply = msg_answer(m->type, m->seq);
    size_t unread = op->input.pending.len;
    reply.input_ok.next = op->input.next;
    reply.input_ok.unread = unread < LIMIT_INPUT ? unread : LIMIT_INPUT;
    agent_send(a, l, &reply);
    return 0;
}

static int status(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    struct msg reply = msg_answer(m->type, m->seq);
    struct msg_status_ok *s = &reply.status_ok;
    struct statvfs fs;
    if (statvfs(a->config.spawn.workspace, &fs) == 0) {
        s->disk_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        s->ops_running += op_state(a->ops.items[i]) != OP_DONE;
    }
    s->ops_total = a->ops.started;
    s->oom_kills = oom_kills(&a->oom);
    agent_send(a, l, &reply);
    return 0;
}

/* All entries are encoded before views of them are taken, because the buffer may move while it
 * grows. */
static int ops(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    struct err why = ERR_INIT;
    struct view items[LIMIT_OPS];
    size_t ends[LIMIT_OPS];
    struct buf infos;
    uint64_t now_ms = clock_ms();
    int rc = 0;
    buf_init(&infos, LIMIT_OPS * OP_INFO_MAX);
    for (size_t i = 0; i < a->ops.count && rc == 0; i++) {
        struct msg info;
        op_info(a->ops.items[i], now_ms, &info);
        rc = msg_encode(&infos, &info, &why);
        ends[i] = infos.len;
    }
    if (rc < 0) {
        fail_request(a, l, m->seq, &why, "");
        buf_finish(&infos);
        return 0;
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        size_t at = i > 0 ? ends[i - 1] : 0;
        items[i] = view_bytes(infos.data + at, ends[i] - at);
    }
    struct msg reply = msg_answer(m->type, m->seq);
    reply.ops_ok.ops = (struct view_list){items, a->ops.count};
    reply.ops_ok.idle_ms = now_ms > a->ops.active_ms ? now_ms - a->ops.active_ms : 0;
    reply.ops_ok.evals = a->ops.evals;
    agent_send(a, l, &reply);
    buf_finish(&infos);
    return 0;
}

/* A kernel of the sandbox's own has the memory that it was started with. */
static bool kernel_has_memory(uint64_t bytes)
{
    struct sysinfo info;
    return sysinfo(&info) < 0 || bytes / info.mem_unit <= info.totalram;
}

/* Control groups hold the sandbox to them; an interpreter that is started later is told how much
 * memory there is. */
static int limits(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    uint64_t *memory = &a->config.spawn.memory_bytes;
    struct err why = ERR_INIT;
    if (m->limits.memory_bytes > *memory && !kernel_has_memory(m->limits.memory_bytes)) {
        err_set(&why, ERR_CONFIG, "the sandbox cannot have more memory than its kernel");
        fail_request(a, l, m->seq, &why, "");
        return 0;
    }
    *memory = m->limits.memory_bytes;
    struct msg reply = msg_answer(m->type, m->seq);
    agent_send(a, l, &reply);
    return 0;
}

static int accept_shutdown(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    a->stopping = true;
    return 0;
}

static bool worker_has_room(void *arg)
{
    const struct agent *a = arg;
    return a->current != NULL && link_has_room(a->current);
}

static void tell_worker(void *arg, const struct msg *m)
{
    struct agent *a = arg;
    if (a->current != NULL) {
        agent_send(a, a->current, m);
    }
}

struct doorway_link agent_doorway_link(struct agent *a)
{
    return (struct doorway_link){.has_room = worker_has_room, .send = tell_worker, .arg = a};
}

static int door(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    return doorway_take(&a->doorway, m, err);
}

/* ---- which request is legal when ------------------------------------------------------------- */

struct handler {
    enum msg_type type;
    bool before_hello; /* legal before HELLO, and illegal after it */
    int (*handle)(struct agent *a, struct link *l, const struct msg *m, struct err *err);
};

static const struct handler handlers[] = {
    {MSG_HELLO, true, hello},      {MSG_START, false, accept_start},
    {MSG_WAIT, false, wait_for},   {MSG_CANCEL, false, cancel},
    {MSG_STATUS, false, status},   {MSG_SHUTDOWN, false, accept_shutdown},
    {MSG_OPS, false, ops},         {MSG_INPUT, false, input},
    {MSG_DOOR_DATA, false, door},  {MSG_DOOR_CREDIT, false, door},
    {MSG_DOOR_CLOSE, false, door}, {MSG_LIMITS, false, limits},
};

int agent_request(struct agent *a, struct link *l, const struct msg *m, struct err *err)
{
    bool greeted = l == a->current;
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        if (handlers[i].type == m->type && handlers[i].before_hello == !greeted) {
            return handlers[i].handle(a, l, m, err);
        }
    }
    return err_set(err, ERR_PROTOCOL, "%s is not legal %s", msg_name(m->type),
                   greeted ? "here" : "before hello");
}
