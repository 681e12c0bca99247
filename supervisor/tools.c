/*
 * The table. A tool's schemas are texts beside its code; here they become trees, once, at start:
 * the one tree both checks arguments and is shown to clients, so the two cannot differ.
 *
 * Whatever a tool answers when it succeeds, when it fails it answers error{code,message,hint}.
 * Output schemas allow for that here rather than in every table: an "error" member, and as a second
 * choice beside the tool's own required members.
 */
#include "supervisor/tools.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/config.h"
#include "supervisor/schema.h"
#include "supervisor/tools/schema_text.h"
#include "supervisor/tools/tool.h"

#define SCHEMA_MAX_BYTES (64u << 10)
#define SCHEMA_MAX_DEPTH 16

/* The order clients see; it is stable, since they cache by it. */
static const struct tool *const table[] = {
    &tool_execute_code,     &tool_create_sandbox,   &tool_get_sandbox_status, &tool_close_sandbox,
    &tool_create_run_close, &tool_list_files,       &tool_read_file,          &tool_write_file,
    &tool_get_execution,    &tool_cancel_execution,
};
#define TOOL_COUNT (sizeof(table) / sizeof(table[0]))

struct tools {
    struct {
        char *description;
        cJSON *input_schema;
        cJSON *output_schema;
    } of[TOOL_COUNT];
};

/* Our own texts: anything wrong with them is our bug, and shows at the first start. */
static char *expand(const char *text, const struct config *config)
{
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf out;
    buf_init(&out, SCHEMA_MAX_BYTES);
    int rc = schema_text_expand(&out, text, config, &err);
    if (rc < 0) {
        log_error("%s", err.text);
    }
    assert(rc == 0);
    return alloc_viewdup(view_bytes(out.data, out.len));
}

static cJSON *parse(const char *text, const struct config *config)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    CLEANUP_FREE char *json = expand(text, config);
    int rc = json_parse(json, strlen(json), SCHEMA_MAX_BYTES, SCHEMA_MAX_DEPTH, &tree, NULL, &err);
    if (rc < 0) {
        log_error("%s in schema: %s", err.text, json);
    }
    assert(rc == 0);
    return tree;
}

/* {"required": [only]} */
static cJSON *requires(cJSON *names)
{
    cJSON *choice = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(choice, "required", names);
    return choice;
}

static void allow_failure(cJSON *schema, const struct config *config)
{
    cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    if (json_get(properties, "error") == NULL) {
        cJSON *error = parse("{@error@}", config);
        cJSON_AddItemToObjectCS(properties, "error", cJSON_DetachItemFromObject(error, "error"));
        cJSON_Delete(error);
    }
    cJSON *own = cJSON_DetachItemFromObject(schema, "required");
    if (own != NULL) {
        static const char *const error_only[] = {"error"};
        cJSON *any = cJSON_CreateArray();
        cJSON_AddItemToArray(any, requires(own));
        cJSON_AddItemToArray(any, requires(cJSON_CreateStringArray(error_only, 1)));
        cJSON_AddItemToObjectCS(schema, "anyOf", any);
    }
}

struct tools *tools_create(const struct config *config)
{
    struct tools *t = alloc_one(struct tools);
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        t->of[i].description = expand(table[i]->description, config);
        t->of[i].input_schema = parse(table[i]->input_schema, config);
        t->of[i].output_schema = parse(table[i]->output_schema, config);
        allow_failure(t->of[i].output_schema, config);
    }
    return t;
}

void tools_destroy(struct tools *t)
{
    for (size_t i = 0; t != NULL && i < TOOL_COUNT; i++) {
        free(t->of[i].description);
        cJSON_Delete(t->of[i].input_schema);
        cJSON_Delete(t->of[i].output_schema);
    }
    free(t);
}

const struct tool *tools_find(const struct tools *t, const char *name)
{
    (void)t;
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return table[i];
        }
    }
    return NULL;
}

static size_t index_of(const struct tool *tool)
{
    size_t i = 0;
    while (table[i] != tool) {
        i++;
    }
    return i;
}

int tools_check(const struct tools *t, const struct tool *tool, const cJSON *arguments,
                struct err *err)
{
    const cJSON none = {.type = cJSON_Object};
    return schema_check(t->of[index_of(tool)].input_schema, arguments != NULL ? arguments : &none,
                        err);
}

static cJSON *annotations(const struct tool *tool)
{
    cJSON *a = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(a, "title", cJSON_CreateStringReference(tool->title));
    cJSON_AddItemToObjectCS(a, "readOnlyHint", cJSON_CreateBool(tool->read_only));
    cJSON_AddItemToObjectCS(a, "destructiveHint", cJSON_CreateBool(tool->destructive));
    cJSON_AddItemToObjectCS(a, "idempotentHint", cJSON_CreateBool(tool->idempotent));
    /* Sandboxes have no network: nothing outside this server can be reached. */
    cJSON_AddItemToObjectCS(a, "openWorldHint", cJSON_CreateBool(false));
    return a;
}

cJSON *tools_list(const struct tools *t, enum revision revision)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(entry, "name", cJSON_CreateStringReference(table[i]->name));
        if (revision_has_structure(revision)) {
            cJSON_AddItemToObjectCS(entry, "title", cJSON_CreateStringReference(table[i]->title));
        }
        cJSON_AddItemToObjectCS(entry, "description",
                                cJSON_CreateStringReference(t->of[i].description));
        cJSON_AddItemToObjectCS(entry, "inputSchema",
                                cJSON_CreateObjectReference(t->of[i].input_schema->child));
        if (revision_has_structure(revision)) {
            cJSON_AddItemToObjectCS(entry, "outputSchema",
                                    cJSON_CreateObjectReference(t->of[i].output_schema->child));
        }
        if (revision_has_annotations(revision)) {
            cJSON_AddItemToObjectCS(entry, "annotations", annotations(table[i]));
        }
        cJSON_AddItemToArray(list, entry);
    }
    return list;
}
