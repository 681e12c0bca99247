/*
 * The interface between calls and fleet: the functions of fleet.h that run something, and the table
 * by which the fleet reports to the calls.
 */
#include "supervisor/fleet/host/runs.h"

#include "supervisor/calls/call.h"
#include "supervisor/calls/executions.h"
#include "supervisor/calls/input.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/internal.h"

/* ---- the table ------------------------------------------------------------------------------- */

static void adopt(struct sandbox *s, const struct msg_op_info *info)
{
    executions_adopt(s->host->executions, s, info);
}

static void adopted(struct fleet_host *host)
{
    executions_adopted(host->executions);
}

static void close_all(struct fleet_host *host, void (*closed)(void *arg), void *arg)
{
    executions_close(host->executions, closed, arg);
    host->executions = NULL;
}

static const struct fleet_runs runs = {
    .resume = call_resume_all,
    .check = call_check_all,
    .fail = call_fail_all,
    .cancel = call_cancel_all,
    .leave = call_leave_all,
    .adopt = adopt,
    .adopted = adopted,
    .close = close_all,
};

struct fleet *fleet_create(uv_loop_t *loop, const struct config *config)
{
    struct fleet *f = fleet_create_for(loop, config, &runs);
    f->host.executions = executions_create(&f->host);
    return f;
}

/* ---- operations ---- */

struct fleet_call *fleet_run(struct fleet *f, const char *id, const struct fleet_op *op,
                             fleet_outcome_fn done, void *arg)
{
    struct err err = ERR_INIT;
    const char *hint;
    struct sandbox *s = fleet_find_usable(f, id, &err, &hint);
    if (s == NULL) {
        return call_refuse(&f->host, &err, hint, done, arg);
    }
    return call_begin(s, op, done, arg);
}

void fleet_cancel(struct fleet_call *call)
{
    call_cancel(call);
}

/* ---- connections ---- */

struct fleet_call *fleet_connect(struct fleet *f, const char *id, uint16_t port, struct view first,
                                 uint64_t timeout_ms, fleet_more_fn more, fleet_outcome_fn done,
                                 void *arg)
{
    const struct fleet_op op = {
        .kind = OP_CONNECT,
        .has_stdin = true,
        .stdin_data = first,
        .path = "",
        .offset = port,
        .flags = OP_FLAG_STDIN_OPEN,
        .timeout_ms = timeout_ms,
    };
    struct fleet_call *call = fleet_run(f, id, &op, done, arg);
    call_flow(call, more);
    return call;
}

void fleet_pause(struct fleet_call *call, bool paused)
{
    call_pause(call, paused);
}

void fleet_tell(struct fleet_call *call, const struct fleet_input *in, fleet_input_fn done,
                void *arg)
{
    call_input(call, in, done, arg);
}

/* ---- executions ---- */

void fleet_execute(struct fleet *f, const char *owner, const char *id, const struct fleet_op *op,
                   char ret_id[FLEET_ID_SIZE])
{
    struct err err = ERR_INIT;
    const char *hint;
    struct sandbox *s = fleet_find_usable(f, id, &err, &hint);
    if (s == NULL) {
        executions_refuse(f->host.executions, owner, &err, hint, ret_id);
    } else {
        executions_begin(f->host.executions, s, op, ret_id);
    }
}

struct fleet_await *fleet_await(struct fleet *f, const char *owner, const char *execution,
                                uint64_t wait_ms, fleet_outcome_fn done, void *arg)
{
    fleet_retry_adoption(f);
    return executions_await(f->host.executions, owner, execution, wait_ms, done, arg);
}

void fleet_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output)
{
    executions_await_output(await, every_ms, output);
}

void fleet_await_quiet(struct fleet_await *await, uint64_t quiet_ms)
{
    executions_await_quiet(await, quiet_ms);
}

void fleet_input(struct fleet *f, const char *owner, const char *execution,
                 const struct fleet_input *in, fleet_input_fn done, void *arg)
{
    executions_input(f->host.executions, owner, execution, in, done, arg);
}

void fleet_told(struct fleet *f, const char *owner, const char *execution, uint64_t out_bytes,
                uint64_t err_bytes)
{
    executions_told(f->host.executions, owner, execution, out_bytes, err_bytes);
}

void fleet_await_end(struct fleet_await *await)
{
    executions_await_end(await);
}

int fleet_stop(struct fleet *f, const char *owner, const char *execution, struct err *err)
{
    fleet_retry_adoption(f);
    return executions_stop(f->host.executions, owner, execution, err);
}

bool fleet_has_execution(struct fleet *f, const char *owner, const char *execution)
{
    fleet_retry_adoption(f);
    return executions_has(f->host.executions, owner, execution);
}

const char *fleet_execution_owner(struct fleet *f, const char *execution)
{
    fleet_retry_adoption(f);
    return executions_owner(f->host.executions, execution);
}

void fleet_executions(struct fleet *f, const char *owner, const char *id,
                      void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg)
{
    executions_list(f->host.executions, owner, id, each, arg);
}
