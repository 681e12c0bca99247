/*
 * Clients can be asked for three things: input of the user (elicitation, by a form or a page to
 * visit), a completion of the model (sampling, with or without tools), and the client's folders
 * (roots). Forms came with 2025-06-18, pages and tools with 2025-11-25; pages had an id then, which
 * the latest revision dropped.
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

static bool can_elicit(const cJSON *elicitation, enum revision revision, const cJSON *params)
{
    if (!cJSON_IsObject(elicitation) || revision < REVISION_2025_06_18) {
        return false;
    }
    if (revision < REVISION_2025_11_25) {
        return !wants_page(params);
    }
    bool page = json_get(elicitation, "url") != NULL;
    bool form = json_get(elicitation, "form") != NULL || !page; /* {} means forms */
    return wants_page(params) ? page : form;
}

static bool can_sample(const cJSON *sampling, enum revision revision, const cJSON *params)
{
    bool tools = json_get(params, "tools") != NULL;
    return cJSON_IsObject(sampling) &&
           (!tools || (revision >= REVISION_2025_11_25 && json_get(sampling, "tools") != NULL));
}

const char *input_kind_lacks(const cJSON *capabilities, enum revision revision,
                             const cJSON *question)
{
    const char *method = json_get_str(question, "method");
    const cJSON *params = json_get(question, "params");
    if (method == NULL) {
        return "experimental"; /* no client has this capability */
    }
    if (strcmp(method, "elicitation/create") == 0) {
        bool can = can_elicit(json_get(capabilities, "elicitation"), revision, params);
        return can ? NULL : "elicitation";
    }
    if (strcmp(method, "sampling/createMessage") == 0) {
        return can_sample(json_get(capabilities, "sampling"), revision, params) ? NULL : "sampling";
    }
    if (strcmp(method, "roots/list") == 0) {
        return cJSON_IsObject(json_get(capabilities, "roots")) ? NULL : "roots";
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
