/*
 * The server's part of MCP Apps: it names the view in the entries of tools and gives out its
 * document. The server never talks to the view; the host passes results on to it.
 *
 * The document needs nothing from elsewhere, and the lists of addresses that it may reach are
 * empty, so a host allows it no network.
 */
#include "supervisor/view/view.h"

#include "supervisor/mcp/request.h"
#include "supervisor/results/result.h"
#include "supervisor/view/document.h"

/* Some hosts know only the older name of the member. */
#define OLD_MEMBER "ui/resourceUri"

void view_name_in(cJSON *tool)
{
    cJSON *meta = cJSON_GetObjectItemCaseSensitive(tool, "_meta");
    if (meta == NULL) {
        meta = result_put_object(tool, "_meta");
    }
    result_put_text(result_put_object(meta, "ui"), "resourceUri", VIEW_URI);
    result_put_text(meta, OLD_MEMBER, VIEW_URI);
}

static void put_policy(cJSON *object)
{
    static const char *const kinds[] = {"connectDomains", "resourceDomains", "frameDomains",
                                        "baseUriDomains"};
    cJSON *ui = result_put_object(result_put_object(object, "_meta"), "ui");
    cJSON *policy = result_put_object(ui, "csp");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        result_put_array(policy, kinds[i]);
    }
    result_put_bool(ui, "prefersBorder", true);
}

cJSON *view_item(void)
{
    cJSON *item = cJSON_CreateObject();
    result_put_text(item, "uri", VIEW_URI);
    result_put_text(item, "name", "result_view");
    result_put_text(item, "title", "View of results");
    result_put_text(item, "description", "Shows people what code has written, drawn and returned");
    result_put_text(item, "mimeType", MCP_VIEW_TYPE);
    return item;
}

void view_answer(struct mcp_request *r)
{
    cJSON *result = cJSON_CreateObject();
    cJSON *content = cJSON_CreateObject();
    result_put_text(content, "uri", VIEW_URI);
    result_put_text(content, "mimeType", MCP_VIEW_TYPE);
    result_put_text(content, "text", view_document);
    put_policy(content);
    cJSON_AddItemToArray(result_put_array(result, "contents"), content);
    mcp_answer(r, result);
}
