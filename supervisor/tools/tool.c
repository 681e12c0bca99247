/*
 * The life of a tool call, and the default sandbox.
 *
 * A call that names no sandbox uses the session's default one. The first such call creates it;
 * calls that arrive meanwhile queue up and share the outcome, good or bad. The sandbox may end at
 * any time (closed, expired, lost), so its id is looked up again for every call and a new one is
 * created when it is gone; the client is told, since its variables and files went with it. The
 * fleet may have one that an earlier server left: that is the first to be asked.
 */
#include "supervisor/tools/tool.h"

#include <stdio.h>
#include <string.h>

#include "common/io/json.h"
#include "supervisor/tools/args.h"

void tool_session_init(struct tool_session *s, struct fleet *fleet, const struct config *config,
                       const char *owner)
{
    *s = (struct tool_session){.fleet = fleet, .config = config, .owner = owner};
}

void tool_finish(struct tool_call *call, struct result *result)
{
    struct result mine = *result;
    *result = (struct result){NULL, NULL, false};
    call->done(call, &mine);
    result_finish(&mine);
}

void tool_fail(struct tool_call *call, int code, const char *message, const char *hint)
{
    struct result r;
    result_init(&r);
    result_set_failure(&r, code, message, hint);
    tool_finish(call, &r);
}

void tool_fail_fleet(struct tool_call *call, int rc, const struct err *err, const char *hint)
{
    tool_fail(call, rc, err != NULL ? err->text : NULL, hint);
}

static void copy_id(char *to, const char *id)
{
    snprintf(to, FLEET_ID_SIZE, "%s", id);
}

void tool_tell(void *arg, const struct fleet_progress *progress)
{
    struct tool_call *call = arg;
    if (call->progress != NULL) {
        call->progress(call, progress);
    }
}

static void on_default_progress(void *arg, const struct fleet_progress *progress)
{
    struct tool_session *s = arg;
    for (struct tool_call *call = s->waiting; call != NULL; call = call->next_waiting) {
        tool_tell(call, progress);
    }
}

/* Hands the outcome of opening the default sandbox to everyone who waited for it. Ending a call may
 * start others, so the queue is taken off first. */
static void on_default_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                            const char *hint)
{
    struct tool_session *s = arg;
    s->default_opening = false;
    const char *notice = NULL;
    if (rc == 0) {
        copy_id(s->default_id, info->id);
        notice = s->default_lost ? "the session's earlier sandbox has ended, this is a new one: "
                                   "its files and variables are gone"
                                 : NULL;
        s->default_lost = false;
    }
    struct tool_call *call = s->waiting;
    s->waiting = NULL;
    while (call != NULL) {
        struct tool_call *next = call->next_waiting;
        if (rc < 0) {
            tool_fail_fleet(call, rc, err, hint);
        } else {
            copy_id(call->sandbox_id, s->default_id);
            call->notice = notice;
            call->ready(call);
        }
        call = next;
    }
}

static void wait_for_default(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct tool_call **end = &s->waiting;
    while (*end != NULL) {
        end = &(*end)->next_waiting;
    }
    call->next_waiting = NULL;
    *end = call;
    if (!s->default_opening) {
        s->default_opening = true;
        struct fleet_spec spec = {.is_default = true, .progress = on_default_progress};
        fleet_open(s->fleet, s->owner, &spec, on_default_open, s);
    }
}

static void forget_default(struct tool_session *s)
{
    copy_id(s->lost_id, s->default_id);
    s->default_id[0] = '\0';
    s->default_lost = true;
}

static void use_default(struct tool_call *call)
{
    struct tool_session *s = call->session;
    const char *id;
    if (s->default_id[0] != '\0' && fleet_find(s->fleet, s->owner, s->default_id, &id, NULL) < 0) {
        forget_default(s);
    }
    if (s->default_id[0] == '\0' && !s->default_opening) {
        int rc = fleet_find_default(s->fleet, s->owner, &id);
        if (rc == 0 && strcmp(id, s->lost_id) != 0) {
            copy_id(s->default_id, id);
        }
        s->default_lost = s->default_lost || rc == -ERR_GONE; /* under an earlier server, maybe */
    }
    if (s->default_id[0] == '\0') {
        wait_for_default(call);
        return;
    }
    copy_id(call->sandbox_id, s->default_id);
    call->ready(call);
}

void tool_with_sandbox(struct tool_call *call, tool_ready_fn ready)
{
    call->ready = ready;
    const char *wanted = json_get_str(call->args, "sandbox_id");
    if (wanted == NULL) {
        use_default(call);
        return;
    }
    struct tool_session *s = call->session;
    struct err err = ERR_INIT;
    const char *id;
    int rc = args_check_name("sandbox_id", wanted, &err);
    if (rc == 0) {
        rc = fleet_find(s->fleet, s->owner, wanted, &id, &err);
    }
    if (rc < 0) {
        tool_fail_fleet(call, rc, &err, NULL);
        return;
    }
    copy_id(call->sandbox_id, id);
    ready(call);
}

void tool_run_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done)
{
    call->running = fleet_run(call->session->fleet, call->sandbox_id, op, done, call);
}

void tool_await(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done)
{
    struct tool_session *s = call->session;
    call->await = fleet_await(s->fleet, s->owner, call->execution_id, wait_ms, done, call);
}

bool tool_ran(struct tool_call *call, int rc, const struct err *err, const char *hint)
{
    call->running = NULL;
    call->await = NULL;
    if (rc == 0) {
        return true;
    }
    bool gone = rc == -ERR_GONE || rc == -ERR_SANDBOX_NOT_FOUND;
    if (gone && strcmp(call->sandbox_id, call->session->default_id) == 0) {
        forget_default(call->session);
    }
    tool_fail_fleet(call, rc, err, hint);
    return false;
}

bool tool_ran_well(struct tool_call *call, int rc, const struct fleet_outcome *outcome,
                   const struct err *err, const char *hint)
{
    if (!tool_ran(call, rc, err, hint)) {
        return false;
    }
    if (outcome->end->status == OP_STATUS_OK) {
        return true;
    }
    struct result r;
    result_init(&r);
    result_set_operation_failure(&r, outcome);
    tool_finish(call, &r);
    return false;
}

void tool_call_finish(struct tool_call *call)
{
    result_finish(&call->held);
    buf_finish(&call->scratch);
}

void tool_cancel(struct tool_call *call)
{
    if (call->cancelled) {
        return;
    }
    call->cancelled = true;
    for (struct tool_call **c = &call->session->waiting; *c != NULL; c = &(*c)->next_waiting) {
        if (*c == call) {
            *c = call->next_waiting;
            tool_fail(call, ERR_GONE, "cancelled", NULL);
            return;
        }
    }
    if (call->running != NULL) {
        fleet_cancel(call->running);
    } else if (call->await != NULL && !call->stops) {
        fleet_await_end(call->await);
    } else if (call->await != NULL) {
        struct tool_session *s = call->session;
        err_ignore(fleet_stop(s->fleet, s->owner, call->execution_id, NULL)); /* over by itself */
    }
}
