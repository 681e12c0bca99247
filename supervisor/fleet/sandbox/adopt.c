/*
 * How a sandbox passes from one server to the next. The files (record.h) say what was requested and
 * who owns it; that does not change while the sandbox lives, so a call costs no write. What has
 * happened in the sandbox since is in no file: we ask the agent.
 *
 * Until the agent has answered, the sandbox stays RECOVERING and calls wait, because a client that
 * repeats a call must find the execution that it lost. That lasts as long as nothing answers: an
 * engine or agent that is stopped has not ended. Waiting callers get an error when their time is
 * up.
 *
 * Stored times are monotonic, which all processes of one boot share; a record of another boot is
 * refused before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "proto/codec.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/host/runs.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define GENERATION_MAX 1000 /* limit of the search for sockets of started workers */

static struct msg_record whose_of(const struct sandbox *s, bool answered)
{
    return (struct msg_record){
        .owner = view_of(s->owner),
        .name = view_of(s->name),
        .is_default = s->is_default,
        .session = view_of(s->session),
        .answered = answered,
        .boot = view_of(record_boot()),
        .created_ms = s->clock.created_ms,
        .created_wall_ms = s->clock.created_wall_ms,
        .timeout_ms = s->timeout_ms,
        .ttl_ms = s->clock.ttl_ms,
        .lifetime_ms = s->clock.lifetime_ms,
    };
}

int sandbox_save(struct sandbox *s, bool answered, disk_done_fn done, struct err *err)
{
    const struct msg_record whose = whose_of(s, answered);
    return record_save(s->host, s->dir, &s->spec, &whose, done, s, err);
}

int sandbox_publish(struct sandbox *s, worker_reply_fn done, struct err *err)
{
    const struct msg_record whose = whose_of(s, true);
    struct msg m = {.type = MSG_KEEP};
    CLEANUP_BUF struct buf text;
    buf_init(&text, LIMIT_ITEM);
    int rc = record_encode_public(&text, &s->spec, &whose, err);
    if (rc < 0) {
        return rc;
    }
    m.keep.record = view_bytes(text.data, text.len);
    return worker_link_ask(s->link, &m, TIME_OPEN_MS, done, s, err);
}

int sandbox_publish_spare(struct sandbox *s, worker_reply_fn done, struct err *err)
{
    struct msg m = {.type = MSG_KEEP};
    return worker_link_ask(s->link, &m, TIME_OPEN_MS, done, s, err);
}

static void restore_spec(struct sandbox *s, const struct msg_open *open)
{
    s->spec = *open;
    sandbox_take_place(s, alloc_viewdup(open->backend), alloc_listdup(open->place),
                       alloc_viewdup(open->runtime));
    s->spec.image = view_of(alloc_viewdup(open->image));
    s->asked.env = alloc_array(open->env.count + 1, sizeof(s->asked.env[0]));
    for (size_t i = 0; i < open->env.count; i++) {
        s->asked.env[i] = view_bytes(alloc_viewdup(open->env.items[i]), open->env.items[i].len);
    }
    s->spec.env.items = s->asked.env;
    s->spec.runners = s->host->runners; /* the agent keeps those that it has */
    s->spec.packages = view_of(alloc_viewdup(open->packages));
    s->asked.mounts = alloc_array(open->mounts.count + 1, sizeof(s->asked.mounts[0]));
    for (size_t i = 0; i < open->mounts.count; i++) {
        s->asked.mounts[i] =
            view_bytes(alloc_viewdup(open->mounts.items[i]), open->mounts.items[i].len);
    }
    s->spec.mounts.items = s->asked.mounts;
    s->spec.shares = alloc_listdup(open->shares);
    s->spec.io_device = view_of(alloc_viewdup(open->io_device));
    s->spec.door = alloc_listdup(open->door);
    s->spec.door_proxy = view_of(alloc_viewdup(open->door_proxy));
    s->spec.door_proxy_auth = view_of(alloc_viewdup(open->door_proxy_auth));
    free(s->image);
    s->image = alloc_viewdup(open->image);
}

struct sandbox *sandbox_restore(const struct sandbox_setup *setup, const char *id,
                                const struct record *record)
{
    const struct msg_record *whose = &record->whose.record;
    CLEANUP_FREE char *owner = alloc_viewdup(whose->owner);
    CLEANUP_FREE char *name = alloc_viewdup(whose->name);
    struct sandbox *s = sandbox_new(setup, id, owner, name, SANDBOX_RECOVERING);
    restore_spec(s, &record->open.open);
    s->dir = alloc_printf("%s/%s", s->host->instance->sandboxes, id);
    s->is_default = whose->is_default;
    free(s->session);
    s->session = alloc_viewdup(whose->session);
    s->evict_idle_ms = s->is_default ? FLEET_EVICT_IDLE_MS : 0;
    s->timeout_ms = whose->timeout_ms;
    s->clock.ttl_ms = whose->ttl_ms;
    s->clock.lifetime_ms = whose->lifetime_ms;
    s->clock.created_ms = whose->created_ms;
    s->clock.created_wall_ms = whose->created_wall_ms;
    s->record_saved = true;
    sandbox_made_begin(s);
    sandbox_start_clock(s);
    return s;
}

/* The last server may have started workers after the noted one, which still dial their sockets.
 * Skips these generations, so that none is used twice. */
static void skip_started(struct sandbox *s)
{
    for (int i = 0; i < GENERATION_MAX; i++) {
        CLEANUP_FREE char *path = worker_socket_path(s->dir, s->generation + 1);
        if (access(path, F_OK) < 0) {
            return;
        }
        s->generation++;
    }
}

bool sandbox_adopt_worker(struct sandbox *s, const struct record_worker *worker)
{
    struct err err = ERR_INIT;
    s->generation = worker->generation;
    if (worker->alive) {
        struct worker_args args = sandbox_worker_args(s, s->generation);
        if (worker_link_adopt(s->host, &args, worker->pid, worker->start_time,
                              &sandbox_worker_events, s, &s->link, &err) == 0) {
            return true;
        }
        /* A worker that cannot be watched must not run beside its replacement. */
        log_warn("adoption: worker %d is replaced: %s sandbox=%s", worker->pid, err.text, s->id);
        record_kill_worker(s->dir);
    }
    skip_started(s);
    return false;
}

/* ---- its operations -------------------------------------------------------------------------- */

static void on_connection_ended(void *arg, int rc, const struct msg *reply, const struct err *err,
                                const char *hint)
{
    /* One that goes on all the same ends at its deadline. */
    (void)arg, (void)rc, (void)reply, (void)err, (void)hint;
}

/* Whoever talked there has lost the connection with the earlier server. */
static void end_connection(struct sandbox *s, struct view op)
{
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = op;
    m.cancel.reason = OP_STOP_CANCEL;
    err_ignore(worker_link_ask(s->link, &m, 0, on_connection_ended, NULL, NULL));
}

static void take_op(struct sandbox *s, const struct msg_op_info *info)
{
    if (info->kind == OP_CONNECT && info->state != OP_DONE) {
        end_connection(s, info->op);
    } else if (op_is_execution((enum op_kind)info->kind)) {
        s->host->runs->adopt(s, info);
    } else if (info->state == OP_DONE) {
        /* Nobody waits for a file operation any more. */
        char op[FLEET_ID_SIZE];
        snprintf(op, sizeof(op), "%.*s", VIEW_ARG(info->op));
        sandbox_ack(s, op, false);
    }
}

/* Decodes all of them before the first is used. */
static int take_ops(struct sandbox *s, const struct view_list *ops, struct err *err)
{
    struct msg *infos = alloc_array(ops->count + 1, sizeof(infos[0]));
    int rc = 0;
    size_t count = 0;
    while (rc == 0 && count < ops->count) {
        rc = msg_decode(MSG_LINK_W, ops->items[count].data, ops->items[count].len, &infos[count],
                        err);
        if (rc == 0) {
            count++;
            const struct msg *m = &infos[count - 1];
            if (m->type != MSG_OP_INFO || m->op_info.op.len == 0 ||
                m->op_info.op.len >= FLEET_ID_SIZE) {
                rc = err_set(err, ERR_PROTOCOL, "it is no operation");
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (rc == 0) {
            take_op(s, &infos[i].op_info);
        }
        msg_finish(&infos[i]);
    }
    free(infos);
    return rc;
}

static void on_past(void *arg, int rc, const struct msg *reply, const struct err *err,
                    const char *hint)
{
    struct sandbox *s = arg;
    struct err bad = ERR_INIT;
    (void)hint;
    if (sandbox_is_leaving(s) || (rc < 0 && err == NULL)) {
        return; /* the worker died: the next one is asked */
    }
    if (rc == -ERR_GONE || rc == -ERR_SHUTTING_DOWN) { /* or the sandbox is being removed */
        sandbox_gone(s, err->text);
        return;
    }
    if (rc < 0) {
        worker_link_kill(s->link, "could not tell what runs: %s", err->text);
        return;
    }
    const struct msg_ops_ok *past = &reply->ops_ok;
    if (take_ops(s, &past->ops, &bad) < 0) {
        worker_link_kill(s->link, "sent garbage about what runs: %s", bad.text);
        return;
    }
    s->executions = past->evals;
    sandbox_set_idle(s, past->idle_ms);
    log_info("sandbox taken over after_us=%" PRIu64 " operations=%zu idle_ms=%" PRIu64
             " sandbox=%s gen=%" PRIu64,
             clock_us() - s->repair.died_us, past->ops.count, past->idle_ms, s->id, s->generation);
    sandbox_ready(s, "taken over");
}

/* There is no time limit: the heartbeat detects a worker that hangs, and one whose agent or engine
 * is stopped answers when that continues. */
void sandbox_ask_past(struct sandbox *s)
{
    struct msg m = {.type = MSG_OPS};
    struct err err = ERR_INIT;
    if (worker_link_ask(s->link, &m, 0, on_past, s, &err) < 0) {
        worker_link_kill(s->link, "%s", err.text);
    }
}
