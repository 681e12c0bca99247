/*
 * Makes operations from arguments and results from outcomes. Code and input are passed on without a
 * copy of ours (except for code that cell.c rewrites): the fleet copies them into its message.
 */
#include "supervisor/tools/execution.h"

#include <stdio.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/languages/languages.h"
#include "supervisor/tools/cell.h"
#include "supervisor/tools/hints.h"

#define TALK_WAIT_MS  3000 /* for code whose stdin is open */
#define CHARACTER_MAX 4    /* bytes in UTF-8 */

/* The schema allows known names only. */
static const char *call_language(const struct tool_call *call)
{
    const char *language = json_get_str(call->args, "language");
    return languages_find(call->session->services->languages,
                          language != NULL ? language : "python");
}

static bool has_tty(const struct tool_call *call)
{
    return cJSON_IsTrue(json_get(call->args, "tty"));
}

/* Whether write_stdin can write to it. */
static bool takes_input(const struct tool_call *call)
{
    return has_tty(call) || cJSON_IsTrue(json_get(call->args, "stdin_open"));
}

static uint64_t start_flags(const struct tool_call *call)
{
    return has_tty(call) ? OP_FLAG_TTY : takes_input(call) ? OP_FLAG_STDIN_OPEN : 0;
}

/* A dialogue takes as long as its partners do. */
static uint64_t time_limit_ms(const struct tool_call *call)
{
    const struct config *config = call->session->config;
    bool chosen = json_get(call->args, "timeout_seconds") != NULL;
    return chosen || !takes_input(call) ? args_ms(call->args, "timeout_seconds")
                                        : config->max_timeout_s * 1000;
}

int execution_choice_read(struct execution_choice *ret, const struct tool_call *call,
                          struct err *err)
{
    const cJSON *args = call->args;
    const char *code = json_get_str(args, "code");
    const char *input = json_get_str(args, "stdin");
    int rc = args_check_size("code", code, LIMIT_CODE, err);
    if (rc == 0) {
        rc = args_check_size("stdin", input, LIMIT_CODE, err);
    }
    if (rc == 0) {
        rc = args_env(args, &ret->env, err);
    }
    if (rc == 0) {
        rc = args_strings(args, "args", &ret->words, err);
    }
    ret->op = (struct fleet_op){
        .kind = OP_EVAL,
        .language = call_language(call),
        .data = view_of(code),
        .has_stdin = input != NULL,
        .stdin_data = view_of(input),
        .env = args_list_view(&ret->env),
        .args = args_list_view(&ret->words),
        .flags = start_flags(call),
        .timeout_ms = time_limit_ms(call),
        .keep_bytes = RESULT_KEEP_BYTES,
    };
    return rc;
}

void execution_choice_finish(struct execution_choice *choice)
{
    args_list_finish(&choice->env);
    args_list_finish(&choice->words);
}

static void on_still_running(void *arg, int rc, const struct fleet_outcome *outcome,
                             const struct err *err, const char *hint);

/* Sets the task's status; true if the call is a task now. */
static bool tell_execution(struct tool_call *call)
{
    CLEANUP_FREE char *status =
        alloc_printf("execution %s in sandbox %s", call->execution_id, call->sandbox_id);
    return tool_is_task(call, status);
}

/* Waits within the call's budget. A call that may become a task waits until that moment first, and
 * without limit once it is a task. */
static void wait_for_outcome(struct tool_call *call)
{
    const struct config *config = call->session->config;
    uint64_t budget_ms = config->sync_budget_s * 1000;
    uint64_t after_ms = config->task_after_s * 1000;
    uint64_t passed_ms = clock_ms() - call->begun_ms;
    enum tool_task task = call->task != NULL ? call->task(call) : TOOL_TASK_NO;
    if (task == TOOL_TASK_IS) {
        (void)tell_execution(call);
        tool_await(call, FLEET_WAIT_FOR_EVER, call->outcome);
    } else if (takes_input(call)) {
        uint64_t rest_ms = tool_wait_ms(call);
        tool_await(call, rest_ms < TALK_WAIT_MS ? rest_ms : TALK_WAIT_MS, call->outcome);
        fleet_await_quiet(call->await, EXECUTION_QUIET_MS);
    } else if (task == TOOL_TASK_MAY && after_ms < budget_ms) {
        tool_await(call, passed_ms < after_ms ? after_ms - passed_ms : 0, on_still_running);
    } else {
        /* Opening a sandbox for this call may have taken some of its time. */
        tool_await(call, tool_wait_ms(call), call->outcome);
    }
}

static void on_still_running(void *arg, int rc, const struct fleet_outcome *outcome,
                             const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    const struct config *config = call->session->config;
    if (rc < 0 || outcome->state == OP_DONE || call->cancelled) {
        call->outcome(call, rc, outcome, err, hint);
        return;
    }
    /* The wait was measured by the loop's time, which lags a little behind the clock. */
    if (clock_ms() - call->begun_ms < config->task_after_s * 1000) {
        wait_for_outcome(call);
        return;
    }
    bool is_task = tell_execution(call);
    /* If there is no room for another task, the client waits, as for any call. */
    tool_await(call, is_task ? FLEET_WAIT_FOR_EVER : tool_budget_left_ms(call), call->outcome);
}

void execution_start(struct tool_call *call, const struct execution_choice *choice,
                     fleet_outcome_fn done)
{
    struct fleet_op op = choice->op;
    CLEANUP_BUF struct buf room;
    op.data = cell_code(op.language, op.data, &room);
    struct tool_session *s = call->session;
    fleet_execute(s->fleet, s->owner, call->sandbox_id, &op, call->execution_id);
    call->stops = true;
    call->outcome = done;
    wait_for_outcome(call);
}

void execution_name(struct tool_call *call)
{
    snprintf(call->execution_id, sizeof(call->execution_id), "%s",
             json_get_str(call->args, "execution_id")); /* an id that is too long matches nothing */
}

/* Up to where a result shows a stream: to its end, unless that is half a character, which waits for
 * its rest. What a long one leaves out counts as shown, since the result says how to see it. */
static uint64_t shown_to(const struct result *r, const char *field, uint64_t end)
{
    const cJSON *next = json_get(r->structured, field);
    uint64_t at = cJSON_IsNumber(next) ? (uint64_t)next->valuedouble : end;
    return at <= end && end - at < CHARACTER_MAX ? at : end;
}

void execution_result(struct tool_call *call, const struct fleet_outcome *outcome,
                      const struct result_range *range, struct result *ret)
{
    struct tool_session *s = call->session;
    struct result_range here = {.out = 0};
    const char *id;
    if (outcome->end->status == OP_STATUS_FAILED) {
        result_set_operation_failure(ret, outcome);
        return;
    }
    if (range != NULL) {
        here = *range;
    }
    here.most = (size_t)args_uint(call->args, "max_output_bytes");
    if (outcome->sandbox_ended) {
        tool_sandbox_ended(s, outcome->sandbox);
    }
    if (fleet_find(s->fleet, s->owner, outcome->sandbox, &id, NULL) == 0) {
        here.workspace = fleet_workspace(s->fleet, id);
        here.links = s->services->links;
    }
    /* pip prints hints of its own */
    if (!packages_has(s->services->packages, s->owner, outcome->op)) {
        here.hint = hint_for(s->config, outcome, here.gone || here.workspace == NULL);
    }
    result_set_execution(ret, outcome, &here, call->notice);
    if (outcome->state != OP_DONE) {
        fleet_told(s->fleet, s->owner, outcome->op,
                   shown_to(ret, "next_offset", outcome->out_bytes),
                   shown_to(ret, "next_stderr_offset", outcome->err_bytes));
    }
}
