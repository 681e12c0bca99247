/*
 * The objects of the control API. What tools show of a sandbox and of an execution they show as
 * well, made by the same functions; beside that they say whose it is.
 */
#include <string.h>

#include "common/cleanup.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/sandbox_json.h"

cJSON *control_sandbox(const struct fleet_info *info)
{
    cJSON *object = cJSON_CreateObject();
    result_put_words(object, "owner", info->owner);
    sandbox_json_put_status(object, info);
    return object;
}

cJSON *control_worker(const struct fleet_info *info)
{
    cJSON *object = cJSON_CreateObject();
    result_put_text(object, "sandbox_id", info->id);
    result_put_words(object, "owner", info->owner);
    result_put_text(object, "state", info->state);
    result_put_int(object, "pid", info->worker_pid);
    result_put_uint(object, "restarts", info->worker_restarts);
    return object;
}

cJSON *control_execution(const struct fleet_outcome *outcome)
{
    cJSON *object = sandbox_json_execution(outcome);
    result_put_text(object, "sandbox_id", outcome->sandbox);
    result_put_words(object, "owner", outcome->owner);
    return object;
}

cJSON *control_execution_whole(const struct fleet_outcome *outcome, bool with_output)
{
    static const char *const output[] = {"stdout", "stderr"};
    struct result r;
    result_init(&r);
    if (outcome->state == OP_DONE && outcome->end->status == OP_STATUS_FAILED) {
        result_set_operation_failure(&r, outcome);
    } else {
        result_set_execution(&r, outcome, NULL, NULL);
    }
    cJSON *object = STEAL_PTR(r.structured);
    result_finish(&r);
    for (size_t i = 0; i < sizeof(output) / sizeof(output[0]) && !with_output; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, output[i]);
    }
    result_put_words(object, "owner", outcome->owner);
    result_put_time(object, "started_at", outcome->started_wall_ms);
    return object;
}

cJSON *control_note(const struct fleet_note *note)
{
    cJSON *object = cJSON_CreateObject();
    result_put_uint(object, "number", note->number);
    result_put_time(object, "at", note->wall_ms);
    result_put_text(object, "event", note->what);
    result_put_words(object, "owner", note->owner);
    result_put_text(object, "sandbox_id", note->sandbox);
    if (note->execution[0] != '\0') {
        result_put_text(object, "execution_id", note->execution);
    }
    result_put_words(object, "text", note->text);
    return object;
}

bool control_is_ending(const struct fleet_info *info)
{
    return strcmp(info->state, "closing") == 0 || strcmp(info->state, "closed") == 0 ||
           strcmp(info->state, "left") == 0;
}
