/*
 * Forms came with 2025-06-18; pages to visit, and tools for a model that is asked, with 2025-11-25.
 * An object without members means forms, since it did before there was anything else.
 */
#include "supervisor/mcp/wire/capabilities.h"

#include <string.h>

#include "common/io/json.h"

static bool has_view_type(const cJSON *ui)
{
    const cJSON *type;
    cJSON_ArrayForEach(type, json_get(ui, "mimeTypes"))
    {
        if (cJSON_IsString(type) && strcmp(type->valuestring, MCP_VIEW_TYPE) == 0) {
            return true;
        }
    }
    return false;
}

static void read_elicitation(struct mcp_client_capabilities *c, const cJSON *elicitation,
                             enum revision revision)
{
    c->elicitation = cJSON_IsObject(elicitation);
    if (!c->elicitation || revision < REVISION_2025_06_18) {
        return;
    }
    c->pages = revision >= REVISION_2025_11_25 && json_get(elicitation, "url") != NULL;
    c->forms = !c->pages || json_get(elicitation, "form") != NULL;
}

struct mcp_client_capabilities mcp_client_capabilities_read(const cJSON *declared,
                                                            enum revision revision)
{
    const cJSON *sampling = json_get(declared, "sampling");
    const cJSON *extensions = json_get(declared, "extensions");
    const cJSON *ui = json_get(extensions, MCP_EXTENSION_UI);
    struct mcp_client_capabilities c = {
        .roots = cJSON_IsObject(json_get(declared, "roots")),
        .sampling = cJSON_IsObject(sampling),
        .sampling_tools = revision >= REVISION_2025_11_25 && cJSON_IsObject(sampling) &&
                          json_get(sampling, "tools") != NULL,
        .tasks = cJSON_IsObject(json_get(extensions, MCP_EXTENSION_TASKS)),
        .ui = cJSON_IsObject(ui),
        .views = cJSON_IsObject(ui) && has_view_type(ui),
    };
    read_elicitation(&c, json_get(declared, "elicitation"), revision);
    return c;
}

bool mcp_client_capabilities_have(const struct mcp_client_capabilities *c, const char *name)
{
    const struct {
        const char *name;
        bool there;
    } all[] = {
        {"roots", c->roots},
        {"sampling", c->sampling},
        {"elicitation", c->elicitation},
        {MCP_EXTENSION_TASKS, c->tasks},
        {MCP_EXTENSION_UI, c->ui},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].name, name) == 0) {
            return all[i].there;
        }
    }
    return false;
}
