/*
 * Clients can be asked for three things: input of the user (elicitation, by a form or a page to
 * visit), a completion of the model (sampling, with or without tools), and the client's folders
 * (roots). Pages had an id in 2025-11-25, which the latest revision dropped.
 */
#include "supervisor/mcp/input_kinds.h"

#include <string.h>

#include "common/err.h"
#include "common/io/json.h"
#include "common/str.h"

static bool wants_page(const cJSON *params)
{
    const char *mode = json_get_str(params, "mode");
    return mode != NULL && strcmp(mode, "url") == 0;
}

const char *input_kind_lacks(const struct mcp_client_capabilities *capabilities,
                             const cJSON *question)
{
    const char *method = json_get_str(question, "method");
    const cJSON *params = json_get(question, "params");
    if (method == NULL) {
        return "experimental"; /* no client has this capability */
    }
    if (strcmp(method, "elicitation/create") == 0) {
        bool can = wants_page(params) ? capabilities->pages : capabilities->forms;
        return can ? NULL : "elicitation";
    }
    if (strcmp(method, "sampling/createMessage") == 0) {
        bool tools = json_get(params, "tools") != NULL;
        return (tools ? capabilities->sampling_tools : capabilities->sampling) ? NULL : "sampling";
    }
    if (strcmp(method, "roots/list") == 0) {
        return capabilities->roots ? NULL : "roots";
    }
    return "experimental";
}

void input_kind_adapt(cJSON *question, enum revision revision)
{
    cJSON *params = cJSON_GetObjectItemCaseSensitive(question, "params");
    bool page = wants_page(params);
    if (revision < REVISION_2025_11_25) {
        cJSON_DeleteItemFromObjectCaseSensitive(params, "mode");
    }
    if (revision != REVISION_2025_11_25) {
        cJSON_DeleteItemFromObjectCaseSensitive(params, "elicitationId");
    } else if (page && json_get_str(params, "elicitationId") == NULL) {
        char id[27];
        struct err err = ERR_INIT;
        if (random_id(id, sizeof(id) - 1, &err) == 0) {
            cJSON_AddItemToObjectCS(params, "elicitationId", cJSON_CreateString(id));
        }
    }
}
