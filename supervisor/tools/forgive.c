/*
 * Only arguments that the schema refuses get here, so correct ones are never reinterpreted. The
 * order matters: what is absent first, then names, then values by the type that the schema wants
 * for that name.
 *
 * Many hosts make their models fill in every argument. What is left for those that a model has no
 * value for is null, "", [] or {}. Where the schema has a use for that, it is what it says: the
 * empty content of a file. Where it refuses it for an argument that may be left out, it was left
 * out.
 */
#include "supervisor/tools/forgive.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/links/uri.h"
#include "supervisor/tools/schema.h"

#define TEXT_MAX_BYTES 65536 /* longest string that is tried as JSON */
#define TEXT_MAX_DEPTH 4
#define MEMBERS_MAX    64 /* limit, since each member is compared with the others */

/* Names of arguments in other servers' tools. One name may stand for several of ours. */
static const struct {
    const char *said, *meant;
} names[] = {
    {"timeout", "timeout_seconds"},
    {"timeout_s", "timeout_seconds"},
    {"timeout_secs", "timeout_seconds"},
    {"session_id", "sandbox_id"},
    {"sandbox", "sandbox_id"},
    {"sandboxId", "sandbox_id"},
    {"container_id", "sandbox_id"},
    {"executionId", "execution_id"},
    {"file_path", "path"},
    {"filepath", "path"},
    {"filename", "path"},
    {"file_name", "path"},
    {"file", "path"},
    {"directory", "path"},
    {"dir", "path"},
    {"cmd", "code"},
    {"command", "code"},
    {"script", "code"},
    {"source", "code"},
    {"lang", "language"},
    {"input", "stdin"},
    {"text", "content"},
    {"contents", "content"},
    {"package", "packages"},
    {"package", "package_name"},
    {"environment", "env"},
    {"env_vars", "env"},
};

/* Names of languages beside those that the schema lists. */
static const struct {
    const char *said, *meant;
} languages[] = {
    {"ipython", "python"}, {"node.js", "javascript"}, {"shell", "bash"},
    {"zsh", "bash"},       {"console", "bash"},
};

static bool lists_word(const cJSON *words, const char *word, const char **ret)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, words)
    {
        if (cJSON_IsString(item) && strcasecmp(item->valuestring, word) == 0) {
            *ret = item->valuestring;
            return true;
        }
    }
    return false;
}

/* Returns the allowed value that the client meant, or NULL. */
static const char *meant_word(const cJSON *words, const char *name, const char *said)
{
    const char *found = NULL;
    if (lists_word(words, said, &found)) {
        return found;
    }
    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
        if (strcmp(name, "language") == 0 && strcasecmp(languages[i].said, said) == 0 &&
            lists_word(words, languages[i].meant, &found)) {
            return found;
        }
    }
    return NULL;
}

static cJSON *parsed(const char *text)
{
    cJSON *tree = NULL;
    bool has_nul = false;
    if (json_parse(text, strlen(text), TEXT_MAX_BYTES, TEXT_MAX_DEPTH, &tree, &has_nul, NULL) < 0) {
        return NULL;
    }
    if (has_nul) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}

/* Converts a text to this type: a new value, or NULL if that is impossible. A single word becomes a
 * list of one; several words cannot be told apart. */
static cJSON *text_as(const char *type, const char *text)
{
    if (strcmp(type, "boolean") == 0) {
        bool yes = strcasecmp(text, "true") == 0;
        return yes || strcasecmp(text, "false") == 0 ? cJSON_CreateBool(yes) : NULL;
    }
    cJSON *tree = parsed(text);
    bool number = strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    if ((number && cJSON_IsNumber(tree)) || (strcmp(type, "array") == 0 && cJSON_IsArray(tree)) ||
        (strcmp(type, "object") == 0 && cJSON_IsObject(tree))) {
        return tree;
    }
    cJSON_Delete(tree);
    bool word = text[0] != '\0' && text[strcspn(text, " \t\n,[")] == '\0';
    return word && strcmp(type, "array") == 0 ? cJSON_CreateStringArray(&text, 1) : NULL;
}

/* Converts an object's members to a list of NAME=value; NULL if that is impossible. */
static cJSON *listed_pairs(const cJSON *object)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *member;
    cJSON_ArrayForEach(member, object)
    {
        CLEANUP_FREE char *number = cJSON_IsNumber(member) ? cJSON_PrintUnformatted(member) : NULL;
        const char *value = number != NULL ? number : cJSON_GetStringValue(member);
        if (value == NULL) {
            cJSON_Delete(list);
            return NULL;
        }
        CLEANUP_FREE char *pair = alloc_printf("%s=%s", member->string, value);
        cJSON_AddItemToArray(list, cJSON_CreateString(pair));
    }
    return list;
}

/* Returns a new value that fits this property, or NULL if the given one is right already. */
static cJSON *meant_value(const cJSON *property, const char *name, const cJSON *value)
{
    const char *type = json_get_str(property, "type");
    const cJSON *words = json_get(property, "enum");
    if (strcmp(name, "env") == 0 && cJSON_IsObject(value)) {
        return listed_pairs(value);
    }
    if (type == NULL || !cJSON_IsString(value)) {
        return NULL;
    }
    if (strcmp(type, "string") != 0) {
        return text_as(type, value->valuestring);
    }
    const char *word = words != NULL ? meant_word(words, name, value->valuestring) : NULL;
    return word != NULL && strcmp(word, value->valuestring) != 0 ? cJSON_CreateString(word) : NULL;
}

/* Returns the absent property that the client meant by this name, or NULL. */
static const char *meant_name(const cJSON *properties, const cJSON *args, const char *said)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].said, said) == 0 && json_get(properties, names[i].meant) != NULL &&
            json_get(args, names[i].meant) == NULL) {
            return names[i].meant;
        }
    }
    return NULL;
}

/* Whether the name ("cmd" and the like) implies a shell. */
static bool means_shell(const char *said)
{
    return strcmp(said, "cmd") == 0 || strcmp(said, "command") == 0;
}

static bool is_required(const cJSON *schema, const char *name)
{
    const char *found;
    return lists_word(json_get(schema, "required"), name, &found) && strcmp(found, name) == 0;
}

static bool is_empty(const cJSON *value)
{
    return cJSON_IsNull(value) || (cJSON_IsString(value) && value->valuestring[0] == '\0') ||
           ((cJSON_IsArray(value) || cJSON_IsObject(value)) && value->child == NULL);
}

/* Whether this stands where there is no value: it is empty, and the schema refuses it for an
 * argument that may be left out. */
static bool is_filler(const cJSON *schema, const cJSON *item)
{
    const cJSON *property = json_get(json_get(schema, "properties"), item->string);
    return property != NULL && is_empty(item) && !is_required(schema, item->string) &&
           schema_check(property, item, NULL) < 0;
}

/* Removes members that stand for absent ones; `nulls`: and all that are null. */
static bool drop_absent(const cJSON *schema, cJSON *meant, bool nulls)
{
    bool changed = false;
    cJSON *item = meant->child;
    while (item != NULL) {
        cJSON *next = item->next;
        if ((nulls && cJSON_IsNull(item)) || is_filler(schema, item)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(meant, item));
            changed = true;
        }
        item = next;
    }
    return changed;
}

/* Renames known aliases. A renamed member moves to the end of the list, where it is seen again
 * under a name that stays. */
static bool forgive_names(const cJSON *properties, cJSON *meant)
{
    bool changed = false;
    cJSON *item = meant->child;
    while (item != NULL) {
        cJSON *next = item->next;
        bool known = json_get(properties, item->string) != NULL;
        const char *name = known ? NULL : meant_name(properties, meant, item->string);
        if (name != NULL) {
            bool shell = means_shell(item->string) && json_get(meant, "language") == NULL &&
                         json_get(properties, "language") != NULL;
            cJSON_AddItemToObject(meant, name, cJSON_DetachItemViaPointer(meant, item));
            if (shell) {
                cJSON_AddStringToObject(meant, "language", "bash");
            }
            changed = true;
        }
        item = next;
    }
    return changed;
}

static bool forgive_values(const cJSON *properties, cJSON *meant)
{
    bool changed = false;
    const cJSON *property;
    cJSON_ArrayForEach(property, properties)
    {
        const cJSON *said = json_get(meant, property->string);
        cJSON *value = said != NULL ? meant_value(property, property->string, said) : NULL;
        if (value != NULL) {
            changed = true;
            cJSON_ReplaceItemInObjectCaseSensitive(meant, property->string, value);
        }
    }
    return changed;
}

cJSON *forgive_arguments(const cJSON *schema, const cJSON *args)
{
    const cJSON *properties = json_get(schema, "properties");
    if (args == NULL || cJSON_GetArraySize(args) > MEMBERS_MAX) {
        return NULL;
    }
    cJSON *meant = alloc_check(cJSON_Duplicate(args, true));
    bool changed = drop_absent(schema, meant, true);
    if (forgive_names(properties, meant)) {
        changed = true;
        drop_absent(schema, meant, true); /* now also under names of other servers */
    }
    if (!forgive_values(properties, meant) && !changed) {
        cJSON_Delete(meant);
        return NULL;
    }
    return meant;
}

cJSON *forgive_absent(const cJSON *schema, const cJSON *args)
{
    if (cJSON_GetArraySize(args) > MEMBERS_MAX) {
        return NULL;
    }
    cJSON *meant = alloc_check(cJSON_Duplicate(args, true));
    if (!drop_absent(schema, meant, false)) {
        cJSON_Delete(meant);
        return NULL;
    }
    return meant;
}

/* Replaces the tilde by the home of user code. */
static cJSON *path_in_home(const cJSON *args, const char *rest)
{
    cJSON *meant = alloc_check(cJSON_Duplicate(args, true));
    CLEANUP_FREE char *whole = alloc_printf(BACKEND_HOME "%s", rest);
    cJSON_ReplaceItemInObjectCaseSensitive(meant, "path", cJSON_CreateString(whole));
    return meant;
}

static cJSON *path_of_uri(const cJSON *args, const char *path)
{
    struct uri uri;
    const char *sandbox = json_get_str(args, "sandbox_id");
    if (!uri_parse(path, &uri) || uri.kind != URI_FILE ||
        (sandbox != NULL && strcmp(sandbox, uri.id) != 0)) {
        return NULL;
    }
    cJSON *meant = alloc_check(cJSON_Duplicate(args, true));
    cJSON_ReplaceItemInObjectCaseSensitive(meant, "path", cJSON_CreateString(uri.path));
    if (sandbox == NULL) {
        cJSON_AddStringToObject(meant, "sandbox_id", uri.id);
    }
    return meant;
}

cJSON *forgive_path(const cJSON *schema, const cJSON *args)
{
    const char *path = json_get_str(args, "path");
    if (path == NULL || json_get(json_get(schema, "properties"), "sandbox_id") == NULL) {
        return NULL;
    }
    if (strcmp(path, "~") == 0 || strncmp(path, "~/", 2) == 0) {
        return path_in_home(args, path + 1);
    }
    return strncmp(path, URI_SANDBOX, strlen(URI_SANDBOX)) == 0 ? path_of_uri(args, path) : NULL;
}
