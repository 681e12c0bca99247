/*
 * Results are written in the shape of the latest revision. Here they lose what an older client does
 * not know. Most of it would be harmless, but some clients check strictly, and reject a whole
 * result with a block of unknown type: such a block becomes a text that says the same.
 *
 * The two latest revisions know the same blocks, so the results of nearly all clients pass through
 * untouched.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/mcp/internal.h"

struct member {
    const char *name;
    enum revision since;
};

/* Members of everything that has a name. */
static const struct member of_items[] = {
    {"title", REVISION_2025_06_18},
    {"icons", REVISION_2025_11_25},
    {"_meta", REVISION_2025_06_18},
};

static void drop_member(cJSON *object, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
}

static void strip_object(cJSON *object, const struct member *members, size_t count,
                         enum revision revision)
{
    for (size_t i = 0; i < count; i++) {
        if (revision < members[i].since) {
            drop_member(object, members[i].name);
        }
    }
}
#define STRIP(object, members, revision)                                                           \
    strip_object(object, members, sizeof(members) / sizeof(members[0]), revision)

static cJSON *member(cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static void shape_annotations(enum revision revision, cJSON *object)
{
    if (revision < REVISION_2025_06_18) {
        cJSON *annotations = member(object, "annotations");
        if (annotations != NULL) {
            drop_member(annotations, "lastModified");
        }
    }
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void shape_tool(enum revision revision, cJSON *tool)
{
    const char *type = json_get_str(member(tool, "outputSchema"), "type");
    if (!revision_has_structure(revision) || type == NULL || strcmp(type, "object") != 0) {
        /* other values than objects came with the latest revision */
        drop_member(tool, "outputSchema");
    }
    if (!revision_has_annotations(revision)) {
        drop_member(tool, "annotations");
    }
}

static void shape_prompt(enum revision revision, cJSON *prompt)
{
    cJSON *argument;
    cJSON_ArrayForEach(argument, member(prompt, "arguments"))
    {
        STRIP(argument, of_items, revision);
    }
}

void mcp_shape_items(enum revision revision, enum mcp_list list, cJSON *items)
{
    cJSON *item;
    cJSON_ArrayForEach(item, items)
    {
        if (revision != REVISION_2025_11_25) {
            /* whether the tool can be a task; only 2025-11-25 has it */
            drop_member(item, "execution");
        }
        if (revision_is_modern(revision)) {
            continue;
        }
        STRIP(item, of_items, revision);
        shape_annotations(revision, item);
        if (list == MCP_LIST_TOOLS) {
            shape_tool(revision, item);
        } else if (list == MCP_LIST_PROMPTS) {
            shape_prompt(revision, item);
        }
    }
}

/* ---- content -------------------------------------------------------------------------------- */

static bool is_type(const cJSON *block, const char *type)
{
    const char *is = json_get_str(block, "type");
    return is != NULL && strcmp(is, type) == 0;
}

static const char *text_or(const cJSON *object, const char *name, const char *otherwise)
{
    const char *text = json_get_str(object, name);
    return text != NULL ? text : otherwise;
}

/* A replacement for a block whose type the revision does not know; NULL if it knows it. */
static cJSON *stand_in(enum revision revision, const cJSON *block)
{
    CLEANUP_FREE char *text = NULL;
    if (revision < REVISION_2025_06_18 && is_type(block, "resource_link")) {
        const char *description = text_or(block, "description", "");
        text = alloc_printf("[resource %s: %s%s%s]", text_or(block, "name", ""),
                            text_or(block, "uri", ""), description[0] != '\0' ? ", " : "",
                            description);
    } else if (revision < REVISION_2025_03_26 && is_type(block, "audio")) {
        text = alloc_printf("[audio of type %s, which this version of the protocol cannot carry]",
                            text_or(block, "mimeType", "unknown"));
    } else {
        return NULL;
    }
    cJSON *instead = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(instead, "type", cJSON_CreateStringReference("text"));
    cJSON_AddItemToObjectCS(instead, "text", cJSON_CreateString(text));
    return instead;
}

/* Shapes a block in place: an item of an array, or the member "content" of an object. */
static void shape_block(enum revision revision, cJSON *parent, cJSON *block)
{
    cJSON *instead = stand_in(revision, block);
    if (instead != NULL && cJSON_IsArray(parent)) {
        cJSON_ReplaceItemViaPointer(parent, block, instead);
        return;
    }
    if (instead != NULL) {
        cJSON_ReplaceItemInObjectCaseSensitive(parent, "content", instead);
        return;
    }
    STRIP(block, of_items, revision);
    shape_annotations(revision, block);
    if (member(block, "resource") != NULL) {
        STRIP(member(block, "resource"), of_items, revision);
    }
}

static void shape_blocks(enum revision revision, cJSON *blocks)
{
    cJSON *next;
    for (cJSON *block = blocks != NULL ? blocks->child : NULL; block != NULL; block = next) {
        next = block->next;
        shape_block(revision, blocks, block);
    }
}

static void shape_call(enum revision revision, cJSON *result)
{
    cJSON *structured = member(result, "structuredContent");
    if (structured != NULL && (!revision_has_structure(revision) || !cJSON_IsObject(structured))) {
        drop_member(result, "structuredContent");
    }
    if (revision < REVISION_2025_11_25) {
        shape_blocks(revision, member(result, "content"));
    }
}

static void shape_messages(enum revision revision, cJSON *result)
{
    cJSON *message;
    cJSON_ArrayForEach(message, member(result, "messages"))
    {
        if (member(message, "content") != NULL) {
            shape_block(revision, message, member(message, "content"));
        }
    }
}

static void shape_contents(enum revision revision, cJSON *result)
{
    cJSON *item;
    cJSON_ArrayForEach(item, member(result, "contents"))
    {
        STRIP(item, of_items, revision);
    }
}

void mcp_shape(const struct mcp_request *r, cJSON *result)
{
    bool modern = revision_is_modern(r->revision);
    const char *method = r->method_name;
    if (modern && strcmp(method, "resources/read") == 0) {
        mcp_cacheable(r->revision, result, false, 0);
    } else if (modern) {
        return;
    } else if (strcmp(method, "tools/call") == 0) {
        shape_call(r->revision, result);
    } else if (strcmp(method, "prompts/get") == 0) {
        shape_messages(r->revision, result);
    } else if (strcmp(method, "resources/read") == 0) {
        shape_contents(r->revision, result);
    }
}

/* ---- members of the latest revision ---------------------------------------------------------- */

cJSON *mcp_raw(const char *text)
{
    cJSON *item = cJSON_CreateStringReference(text);
    if (item != NULL) {
        item->type = cJSON_Raw | cJSON_IsReference;
    }
    return item;
}

void mcp_cacheable(enum revision revision, cJSON *result, bool by_all, double ttl_ms)
{
    if (!revision_is_modern(revision)) {
        return;
    }
    if (member(result, "ttlMs") == NULL) {
        cJSON_AddItemToObjectCS(result, "ttlMs", cJSON_CreateNumber(ttl_ms));
    }
    if (member(result, "cacheScope") == NULL) {
        cJSON_AddItemToObjectCS(result, "cacheScope",
                                cJSON_CreateStringReference(by_all ? "public" : "private"));
    }
}

void mcp_seal(struct mcp_server *s, enum revision revision, cJSON *result)
{
    if (!revision_is_modern(revision)) {
        drop_member(result, "resultType");
        drop_member(result, "ttlMs");
        drop_member(result, "cacheScope");
        return;
    }
    if (member(result, "resultType") == NULL) {
        cJSON_AddItemToObjectCS(result, "resultType", cJSON_CreateStringReference("complete"));
    }
    cJSON *meta = member(result, "_meta");
    if (meta == NULL) {
        meta = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(result, "_meta", meta);
    }
    if (member(meta, MCP_META_SERVER_INFO) == NULL) {
        cJSON_AddItemToObjectCS(meta, MCP_META_SERVER_INFO, mcp_raw(mcp_server_signature(s)));
    }
}
