/*
 * The table of tools. Schemas are texts beside a tool's code; they are parsed here once, at the
 * start. The same tree checks arguments and is shown to clients, so the two cannot differ.
 *
 * Arguments that do not fit may be repaired (tools/forgive.c); tools of other servers take theirs
 * literally.
 *
 * A failed tool answers error{code,message,hint}, whatever it answers on success. Output schemas
 * get that here rather than in every table: an "error" member, and as an alternative to the tool's
 * own required members.
 */
#include "supervisor/front/tools.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/base/local/file.h"
#include "supervisor/base/share.h"
#include "supervisor/compat/profile.h"
#include "supervisor/results/form.h"
#include "supervisor/tools/forgive.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/tools/schema.h"
#include "supervisor/tools/schema_text.h"
#include "supervisor/tools/tool.h"
#include "supervisor/view/view.h"

#define SCHEMA_MAX_BYTES (64u << 10)
#define SCHEMA_MAX_DEPTH 16

/* The order that clients see. It stays, because clients cache by it. */
static const struct tool *const native[] = {
    &tool_execute_code,    &tool_create_sandbox,       &tool_get_sandbox_status,
    &tool_close_sandbox,   &tool_create_run_close,     &tool_list_files,
    &tool_read_file,       &tool_write_file,           &tool_upload_file,
    &tool_save_file,       &tool_get_execution,        &tool_cancel_execution,
    &tool_install_package, &tool_check_package_status, &tool_write_stdin,
    &tool_expose_port,
};
#define NATIVE_COUNT (sizeof(native) / sizeof(native[0]))
#define TOOLS_MAX    96

struct row {
    const struct tool *tool;
    const struct config *config;
    struct mcp_tool entry;
    char *description;
    cJSON *input_schema;
    cJSON *output_schema; /* NULL if the tool has none */
};

struct tools {
    struct row of[TOOLS_MAX];
    size_t count;
    const char *useless[4]; /* arguments of our own tools that are not shown */
    size_t useless_count;
};

/* Sources of @names@. */
struct words {
    const struct config *config;
    const struct languages *languages;
};

/* Expands our own texts: an error is our bug, and shows at the first start. */
static char *expand(const char *text, const struct words *w)
{
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf out;
    buf_init(&out, SCHEMA_MAX_BYTES);
    int rc = schema_text_expand(&out, text, w->config, w->languages, &err);
    if (rc < 0) {
        log_error("%s", err.text);
    }
    assert(rc == 0);
    return alloc_viewdup(view_bytes(out.data, out.len));
}

static cJSON *parse(const char *text, const struct words *w)
{
    struct err err = ERR_INIT;
    cJSON *tree = NULL;
    CLEANUP_FREE char *json = expand(text, w);
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

static void allow_failure(cJSON *schema, const struct words *w)
{
    cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    if (json_get(properties, "error") == NULL) {
        cJSON *error = parse("{@error@}", w);
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

/* Adds a tool unless the name is taken: profiles come before our own tools. */
static void add_tool(struct tools *t, const struct tool *tool, const struct words *w)
{
    if (tools_find(t, tool->name) != NULL) {
        return;
    }
    assert(t->count < TOOLS_MAX);
    struct row *row = &t->of[t->count++];
    row->tool = tool;
    row->config = w->config;
    row->description = expand(tool->description, w);
    row->input_schema = parse(tool->input_schema, w);
    if (tool->output_schema != NULL) {
        row->output_schema = parse(tool->output_schema, w);
        allow_failure(row->output_schema, w);
    }
    row->entry = (struct mcp_tool){
        .name = tool->name,
        .input_schema = row->input_schema,
        .tasks = tool->takes_long ? MCP_TASK_OPTIONAL : MCP_TASK_NEVER,
    };
}

char *tools_text(const char *text, const struct config *config, const struct languages *languages)
{
    const struct words words = {config, languages};
    return expand(text, &words);
}

static void find_useless(struct tools *t, const struct config *c)
{
    const struct backend_row *backend = config_backend(c);
    if (backend != NULL && !config_names_references(c) && c->image_dir[0] == '\0') {
        t->useless[t->useless_count++] = "image";
    }
    if (!c->allow_network) {
        t->useless[t->useless_count++] = "network";
    }
    struct shares shares = shares_of(c->share);
    bool offered = false;
    for (size_t i = 0; i < shares.count; i++) {
        offered = offered || shares.of[i].on_request;
    }
    if (!offered) {
        t->useless[t->useless_count++] = "shares";
    }
    if (c->local_files[0] == '\0') {
        t->useless[t->useless_count++] = "local_path";
    }
}

/* Who cannot use a tool is not told of it. */
static bool is_offered(const struct tool *tool, const struct config *c)
{
    if (tool == &tool_save_file) {
        return local_dirs_writable(c->local_files);
    }
    return tool != &tool_expose_port || c->ports;
}

struct tools *tools_create(const struct config *config, const struct languages *languages)
{
    const struct words words = {config, languages};
    struct tools *t = alloc_one(struct tools);
    find_useless(t, config);
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        const struct profile *p = profiles[i];
        for (size_t j = 0; config_lists(config->compat, p->name) && j < p->tool_count; j++) {
            add_tool(t, p->tools[j], &words);
        }
    }
    for (size_t i = 0; i < NATIVE_COUNT; i++) {
        if (is_offered(native[i], config)) {
            add_tool(t, native[i], &words);
        }
    }
    return t;
}

void tools_destroy(struct tools *t)
{
    for (size_t i = 0; t != NULL && i < t->count; i++) {
        free(t->of[i].description);
        cJSON_Delete(t->of[i].input_schema);
        cJSON_Delete(t->of[i].output_schema);
    }
    free(t);
}

const struct mcp_tool *tools_find(const struct tools *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->of[i].tool->name, name) == 0) {
            return &t->of[i].entry;
        }
    }
    return NULL;
}

static const struct row *row_of(const struct mcp_tool *entry)
{
    return (const struct row *)((const char *)entry - offsetof(struct row, entry));
}

const struct tool *tools_tool(const struct mcp_tool *entry)
{
    return row_of(entry)->tool;
}

/* Tools of other servers have no fields, and no options for them. */
static bool is_our_tool(const struct tool *tool)
{
    return tool->output_schema != NULL;
}

/* The schema refuses a number above a ceiling; this says whose ceiling it is. */
static void name_ceiling(const struct row *row, const cJSON *args, struct err *err)
{
    struct err better = ERR_INIT;
    if (json_get(json_get(row->input_schema, "properties"), "memory_mb") != NULL &&
        sandbox_choice_check(args, row->config, &better) < 0) {
        *err = better;
    }
}

int tools_read(const struct mcp_tool *tool, const cJSON *arguments, cJSON **ret_meant,
               struct err *err)
{
    static const cJSON none = {.type = cJSON_Object};
    const cJSON *schema = tool->input_schema;
    const cJSON *args = arguments != NULL ? arguments : &none;
    int rc = schema_check(schema, args, err);
    *ret_meant = NULL;
    bool ours = is_our_tool(tools_tool(tool));
    if (rc < 0) {
        /* What is made here is another value, and nobody has checked that one yet. */
        *ret_meant = ours ? forgive_arguments(schema, args) : forgive_absent(schema, args);
        rc = *ret_meant != NULL ? schema_check(schema, *ret_meant, err) : rc;
        if (rc < 0) {
            name_ceiling(row_of(tool), *ret_meant != NULL ? *ret_meant : args, err);
            cJSON_Delete(STEAL_PTR(*ret_meant));
            return rc;
        }
    }
    if (!ours) {
        return 0;
    }
    cJSON *here = forgive_path(schema, *ret_meant != NULL ? *ret_meant : args);
    if (here != NULL) {
        cJSON_Delete(*ret_meant);
        *ret_meant = here;
    }
    return 0;
}

static cJSON *annotations(const struct tool *tool)
{
    cJSON *a = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(a, "title", cJSON_CreateStringReference(tool->title));
    cJSON_AddItemToObjectCS(a, "readOnlyHint", cJSON_CreateBool(tool->read_only));
    cJSON_AddItemToObjectCS(a, "destructiveHint", cJSON_CreateBool(tool->destructive));
    cJSON_AddItemToObjectCS(a, "idempotentHint", cJSON_CreateBool(tool->idempotent));
    /* Sandboxes have no network, so only installations reach other systems. */
    cJSON_AddItemToObjectCS(a, "openWorldHint", cJSON_CreateBool(tool->open_world));
    return a;
}

/* cJSON prints at most 15 digits before it uses an exponent, and rounds; larger whole numbers are
 * converted to raw text. The parser limits the depth of schemas. */
static void print_exactly(cJSON *tree)
{
    cJSON *item;
    cJSON_ArrayForEach(item, tree)
    {
        if (json_is_int(item) && fabs(item->valuedouble) >= 1e15) {
            item->valuestring = alloc_printf("%lld", (long long)item->valuedouble);
            item->type = cJSON_Raw;
        }
        print_exactly(item);
    }
}

/* A copy for clients: calls are checked against the numbers of the original. */
static cJSON *shown_schema(const cJSON *schema)
{
    cJSON *shown = alloc_check(cJSON_Duplicate(schema, true));
    print_exactly(shown);
    return shown;
}

/* Removes the arguments that accept only their default value with this configuration. A client that
 * uses one anyway gets an explanation. */
static cJSON *shown_input(const struct tools *t, const cJSON *schema)
{
    cJSON *shown = shown_schema(schema);
    cJSON *properties = cJSON_GetObjectItemCaseSensitive(shown, "properties");
    for (size_t i = 0; i < t->useless_count; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(properties, t->useless[i]);
    }
    return shown;
}

cJSON *tools_list(const struct tools *t, enum result_form form)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < t->count; i++) {
        const struct row *row = &t->of[i];
        const struct tool *tool = row->tool;
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(entry, "name", cJSON_CreateStringReference(tool->name));
        cJSON_AddItemToObjectCS(entry, "title", cJSON_CreateStringReference(tool->title));
        cJSON_AddItemToObjectCS(entry, "description",
                                cJSON_CreateStringReference(row->description));
        cJSON_AddItemToObjectCS(entry, "inputSchema",
                                is_our_tool(tool) ? shown_input(t, row->input_schema)
                                                  : shown_schema(row->input_schema));
        if (row->output_schema != NULL && form == RESULT_FORM_STRUCTURED) {
            cJSON_AddItemToObjectCS(entry, "outputSchema", shown_schema(row->output_schema));
        }
        cJSON_AddItemToObjectCS(entry, "annotations", annotations(tool));
        if (tool->long_results) {
            result_allow_long(entry);
        }
        cJSON_AddItemToArray(list, entry);
    }
    return list;
}

void tools_list_views(const struct tools *t, cJSON *list)
{
    cJSON *entry = list->child;
    for (size_t i = 0; i < t->count; i++, entry = entry->next) {
        if (t->of[i].tool->has_view) {
            view_name_in(entry);
        }
    }
}
