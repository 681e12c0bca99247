/*
 * From arguments to an operation and from its outcome to a result. Code and input are passed on
 * without a copy of ours: the fleet copies them into its message.
 */
#include "supervisor/tools/execution.h"

#include <assert.h>
#include <stdio.h>

#include "common/io/json.h"
#include "proto/limits.h"
#include "supervisor/config.h"
#include "supervisor/tools/args.h"

static const char *language_of(const cJSON *args)
{
    const char *language = json_get_str(args, "language");
    return language != NULL ? language : "python";
}

int execution_check(const cJSON *args, struct err *err)
{
    int rc = args_check_size("code", json_get_str(args, "code"), LIMIT_CODE, err);
    if (rc == 0) {
        rc = args_check_size("stdin", json_get_str(args, "stdin"), LIMIT_CODE, err);
    }
    struct args_list list;
    if (rc == 0) {
        rc = args_env(args, &list, err);
    }
    if (rc == 0) {
        args_list_finish(&list);
        rc = args_strings(args, "args", &list, err);
    }
    if (rc == 0) {
        args_list_finish(&list);
    }
    return rc;
}

void execution_start(struct tool_call *call, fleet_outcome_fn done)
{
    const cJSON *args = call->args;
    struct args_list env;
    struct args_list words;
    bool checked = args_env(args, &env, NULL) == 0 && args_strings(args, "args", &words, NULL) == 0;
    assert(checked);
    const char *input = json_get_str(args, "stdin");
    struct fleet_op op = {
        .kind = OP_EVAL,
        .language = language_of(args),
        .data = view_of(json_get_str(args, "code")),
        .has_stdin = input != NULL,
        .stdin_data = view_of(input),
        .env = args_list_view(&env),
        .args = args_list_view(&words),
        .timeout_ms = args_ms(args, "timeout_seconds"),
        .keep_bytes = RESULT_KEEP_BYTES,
    };
    struct tool_session *s = call->session;
    fleet_execute(s->fleet, s->owner, call->sandbox_id, &op, call->execution_id);
    args_list_finish(&env);
    args_list_finish(&words);
    call->stops = true;
    tool_await(call, s->config->sync_budget_s * 1000, done);
}

void execution_name(struct tool_call *call)
{
    snprintf(call->execution_id, sizeof(call->execution_id), "%s",
             json_get_str(call->args, "execution_id")); /* one that is too long is nobody's */
}

void execution_result(struct tool_call *call, const struct fleet_outcome *outcome,
                      const struct result_range *range, struct result *ret)
{
    if (outcome->end->status == OP_STATUS_FAILED) {
        result_set_operation_failure(ret, outcome);
    } else {
        result_set_execution(ret, outcome, range, call->notice);
    }
}
