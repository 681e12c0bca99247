/*
 * Starts a call: a new one, or one that joins an operation of an earlier server.
 *
 * A joined call has no code, only an id, so its START never begins anything. It reads the streams
 * from their first byte. Where the agent has dropped bytes, it continues after them, which leaves
 * the gap between head and tail.
 */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/str.h"
#include "supervisor/base/config.h"
#include "supervisor/calls/call_internal.h"

static struct fleet_call *new_call(struct fleet_host *host, size_t keep_bytes,
                                   fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = alloc_one(struct fleet_call);
    call->host = host;
    call->entered_ms = uv_now(host->loop);
    fleet_host_hold(host);
    call->done = done;
    call->arg = arg;
    sm_init(&call->sm, call_states, CALL_STATE_COUNT, CALL_WAITING);
    call_start_init(&call->memory);
    stream_keep_init(&call->out, keep_bytes, 0);
    stream_keep_init(&call->err, keep_bytes, 0);
    call_inputs_init(&call->inputs, true);
    return call;
}

struct fleet_call *call_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                               fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = new_call(host, 0, done, arg);
    call_fail_later(call, err, hint);
    return call;
}

/* Makes it an execution: the end of its output is kept, too. */
static void set_execution(struct fleet_call *call, size_t keep_bytes)
{
    call->is_execution = true;
    stream_keep_init(&call->out, keep_bytes, STREAM_KEEP_TAIL);
    stream_keep_init(&call->err, keep_bytes, STREAM_KEEP_TAIL);
}

static struct fleet_call *enter(struct sandbox *s, size_t keep_bytes, uint64_t timeout_ms,
                                bool is_look, fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = new_call(s->host, keep_bytes, done, arg);
    call->timeout_ms = timeout_ms;
    call->sandbox = s;
    call->started_wall_ms = clock_wall_ms();
    call->is_look = is_look;
    TAILQ_INSERT_TAIL(&s->calls, call, node);
    s->call_count++;
    if (!is_look) {
        sandbox_touch(s);
    }
    return call;
}

static void start_call(struct fleet_call *call, const struct fleet_op *op)
{
    struct err err = ERR_INIT;
    call->start.op = view_of(call->op);
    if (call_start_copy(&call->start, &call->memory, op, &err) < 0) {
        call_fail_later(call, &err, "");
    } else {
        call_ask(call);
    }
}

static uint64_t timeout_of(const struct sandbox *s, const struct fleet_op *op)
{
    uint64_t wanted_ms = op->timeout_ms != 0 ? op->timeout_ms : s->timeout_ms;
    uint64_t most_ms = s->host->config->max_timeout_s * 1000;
    bool limited = most_ms != 0 && !sandbox_is_installer(s); /* the limit is for clients */
    return limited && wanted_ms > most_ms ? most_ms : wanted_ms;
}

struct fleet_call *call_begin(struct sandbox *s, const struct fleet_op *op, fleet_outcome_fn done,
                              void *arg)
{
    struct fleet_call *call = enter(s, op->keep_bytes, timeout_of(s, op), op->is_look, done, arg);
    struct err err = ERR_INIT;
    if (random_id(call->op, CALL_ID_CHARS, &err) < 0) {
        call_fail_later(call, &err, "");
    } else {
        start_call(call, op);
    }
    return call;
}

struct fleet_call *call_execute(struct sandbox *s, const char id[FLEET_ID_SIZE],
                                const struct fleet_op *op, fleet_outcome_fn done, void *arg)
{
    struct fleet_call *call = enter(s, op->keep_bytes, timeout_of(s, op), false, done, arg);
    set_execution(call, op->keep_bytes);
    memcpy(call->op, id, sizeof(call->op));
    start_call(call, op);
    return call;
}

struct fleet_call *call_join(struct sandbox *s, const struct msg_op_info *info,
                             fleet_outcome_fn done, void *arg)
{
    /* The worker enforces the deadline that the earlier server gave. */
    uint64_t timeout_ms = info->timeout_ms != 0 ? info->timeout_ms : UINT32_MAX;
    struct fleet_call *call = enter(s, LIMIT_OP_KEPT, timeout_ms, false, done, arg);
    char language[LIMIT_NAME + 1];
    snprintf(language, sizeof(language), "%.*s", VIEW_ARG(info->language));
    const struct fleet_op op = {.kind = (enum op_kind)info->kind, .language = language};
    set_execution(call, LIMIT_OP_KEPT);
    call->known = true;
    call->joined = true;
    call_inputs_init(&call->inputs, false);
    call->was_over = info->state == OP_DONE;
    call->heard_of = true;
    call->started_wall_ms -= info->age_ms;
    call->runs = info->state != OP_QUEUED;
    call->ran_us = info->ran_us;
    call->heard_ms = call_now_ms(call);
    memcpy(call->op, info->op.data, info->op.len);
    start_call(call, &op);
    return call;
}
