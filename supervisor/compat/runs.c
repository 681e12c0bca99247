/*
 * Those servers know one kind of failure: an exception. Everything else that can end code here (a
 * deadline, memory, a crash) is reported as an exception with a fitting name, the one that Python
 * would have raised if it could.
 */
#include "supervisor/compat/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"

#define ARGS_MAX 8

/* Whether the fleet accepts it as a name; an empty name would mean "none". */
static bool is_name(const char *text)
{
    size_t len = strlen(text);
    bool good = len >= 1 && len <= LIMIT_NAME;
    for (size_t i = 0; good && i < len; i++) {
        good = (unsigned char)text[i] >= 0x20 && text[i] != 0x7f;
    }
    return good;
}

void runs_name(const char *session_id, char ret[RUNS_NAME_SIZE])
{
    if (is_name(session_id)) {
        snprintf(ret, RUNS_NAME_SIZE, "%s", session_id);
    } else {
        snprintf(ret, RUNS_NAME_SIZE, "session-%016" PRIx64, hash_text(session_id));
    }
}

bool runs_has_ended(const struct fleet_info *info)
{
    return strcmp(info->state, "failed") == 0 || strcmp(info->state, "closing") == 0 ||
           strcmp(info->state, "closed") == 0;
}

bool runs_find_any(struct tool_call *call, const char *session_id)
{
    const char *id;
    char name[RUNS_NAME_SIZE];
    runs_name(session_id, name);
    if (fleet_find(call->session->fleet, call->session->owner, name, &id, NULL) < 0) {
        return false;
    }
    snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", id);
    return true;
}

struct search {
    const char *id;
    bool ended;
};

static void look_at_info(void *arg, const struct fleet_info *info)
{
    struct search *search = arg;
    search->ended |= strcmp(info->id, search->id) == 0 && runs_has_ended(info);
}

bool runs_find(struct tool_call *call, const char *session_id)
{
    if (!runs_find_any(call, session_id)) {
        return false;
    }
    struct search search = {call->sandbox_id, false};
    fleet_list(call->session->fleet, call->session->owner, look_at_info, &search);
    return !search.ended;
}

void runs_open(struct tool_call *call, const char *session_id, fleet_info_fn done)
{
    char name[RUNS_NAME_SIZE];
    struct fleet_spec spec = {
        .network = call->session->config->allow_network,
        .progress = tool_tell,
    };
    if (session_id != NULL) {
        runs_name(session_id, name);
        spec.name = name;
    }
    tool_open(call->session, &spec, done, call);
}

void runs_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done)
{
    struct tool_session *s = call->session;
    fleet_execute(s->fleet, s->owner, call->sandbox_id, op, call->execution_id);
    call->stops = true;
    tool_await(call, tool_wait_ms(call), done);
}

void runs_code(struct tool_call *call, const char *language, const char *code, struct view input,
               fleet_outcome_fn done)
{
    const struct fleet_op op = {
        .kind = OP_EVAL,
        .language = language,
        .data = view_of(code),
        .has_stdin = input.data != NULL,
        .stdin_data = input,
        .keep_bytes = RESULT_KEEP_BYTES,
    };
    runs_op(call, &op, done);
}

void runs_program(struct tool_call *call, const char *const *args, size_t count, struct view input,
                  fleet_outcome_fn done)
{
    struct view words[ARGS_MAX];
    for (size_t i = 0; i < count && i < ARGS_MAX; i++) {
        words[i] = view_of(args[i]);
    }
    const struct fleet_op op = {
        .kind = OP_RUN,
        .args = {words, count < ARGS_MAX ? count : ARGS_MAX},
        .path = "",
        .has_stdin = true,
        .stdin_data = input,
        .keep_bytes = REPLY_BYTES,
    };
    runs_op(call, &op, done);
}

void runs_done(struct tool_call *call)
{
    call->await = NULL;
    call->running = NULL;
}

char *runs_trouble(int rc, const struct fleet_outcome *outcome, const struct err *err)
{
    if (rc < 0) {
        return alloc_strdup(err->text);
    }
    if (outcome->state != OP_DONE) {
        return alloc_printf("it still runs: get_execution with execution_id \"%s\" waits for its "
                            "end, cancel_execution stops it",
                            outcome->op);
    }
    const struct msg_output *end = outcome->end;
    switch (end->status) {
    case OP_STATUS_OK:
    case OP_STATUS_ERROR:
        return NULL;
    case OP_STATUS_TIMEOUT:
        return alloc_printf("timed out after %.1f s", (double)outcome->duration_us / 1e6);
    case OP_STATUS_MEMORY:
        return alloc_strdup("the sandbox ran out of memory");
    case OP_STATUS_CANCELLED:
        return alloc_strdup("cancelled");
    default:
        return end->error_message.len > 0 ? alloc_viewdup(end->error_message)
                                          : alloc_strdup("the interpreter ended unexpectedly");
    }
}

cJSON *runs_stream(enum reply_style style, const struct fleet_outcome *o, bool is_stderr)
{
    return is_stderr ? reply_stream(style, o->err, o->err_tail, o->err_bytes, REPLY_SHARE_BYTES)
                     : reply_stream(style, o->out, o->out_tail, o->out_bytes, REPLY_SHARE_BYTES);
}

static const char *error_name(const struct fleet_outcome *o)
{
    if (o->state != OP_DONE) {
        return "StillRunning";
    }
    switch (o->end->status) {
    case OP_STATUS_TIMEOUT:
        return "TimeoutError";
    case OP_STATUS_MEMORY:
        return "MemoryError";
    case OP_STATUS_CANCELLED:
        return "CancelledError";
    case OP_STATUS_ERROR:
        return "SystemExit";
    default:
        return "RuntimeError";
    }
}

cJSON *runs_error(enum reply_style style, const struct fleet_outcome *o)
{
    const struct msg_output *end = o->end;
    if (end->status == OP_STATUS_OK) {
        return NULL;
    }
    cJSON *error = cJSON_CreateObject();
    CLEANUP_FREE char *trouble = runs_trouble(0, o, NULL);
    bool raised = end->error_name.len > 0 && trouble == NULL;
    struct view name = raised ? end->error_name : view_of(error_name(o));
    char code[32];
    snprintf(code, sizeof(code), "%lld", (long long)end->exit_code);
    struct view value = raised            ? end->error_message
                        : trouble != NULL ? view_of(trouble)
                                          : view_of(code);
    result_put(error, "name", reply_bytes(style, name, RESULT_MESSAGE_BYTES));
    result_put(error, "value", reply_bytes(style, value, RESULT_MESSAGE_BYTES));
    result_put(error, "traceback", reply_bytes(style, end->traceback, RESULT_TRACEBACK_BYTES));
    return error;
}

void runs_fail(struct tool_call *call, const char *prefix, const char *what)
{
    CLEANUP_FREE char *text = alloc_printf("%s: %s", prefix, what);
    cJSON *answer = cJSON_CreateObject();
    result_put(answer, "error", reply_bytes(REPLY_DUMPS, view_of(text), RESULT_MESSAGE_BYTES));
    reply_json(call, REPLY_DUMPS, answer);
}
