/*
 * A text without fields or links must say where files are: one line each, with the URL for a
 * browser if there is one, which helps people as well. Some clients refuse results with links, and
 * most show a link as JSON. For a file that the call itself named, the line has only the URL.
 *
 * Fields with their usual value are left out, since hosts that show fields show all of them.
 */
#include "supervisor/results/form.h"

#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/results/result.h"

#define LINES_MAX_BYTES (1u << 20)
#define LONG_BYTES      25000 /* hosts hide longer texts */

/* ---- text ----------------------------------------------------------------------------------- */

/* The URL of this resource in a list of objects that have both. */
static const char *url_in(const cJSON *list, const char *uri)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *its = json_get_str(item, "uri");
        if (its != NULL && strcmp(its, uri) == 0) {
            return json_get_str(item, "url");
        }
    }
    return NULL;
}

/* The URL for a browser of the resource behind a link; NULL if it has none. */
static const char *url_of(const cJSON *structured, const char *uri)
{
    const char *url = json_get_str(structured, "url");
    const cJSON *display;
    if (url == NULL) {
        url = url_in(json_get(structured, "files"), uri);
    }
    cJSON_ArrayForEach(display, json_get(structured, "displays"))
    {
        url = url != NULL ? url : url_in(display, uri);
    }
    return url;
}

static void add_link_line(struct buf *lines, const cJSON *structured, const cJSON *link)
{
    bool named_by_call = json_get_str(structured, "path") != NULL;
    const char *uri = json_get_str(link, "uri");
    const char *url = url_of(structured, uri);
    if (named_by_call && url != NULL) {
        text_printf(lines, "[for a browser: %s]\n", url);
    } else if (!named_by_call) {
        CLEANUP_FREE char *size = cJSON_PrintUnformatted(json_get(link, "size"));
        text_printf(lines, "[%s, %s bytes: %s]\n", json_get_str(link, "name"),
                    size != NULL ? size : "?", url != NULL ? url : uri);
    }
}

static bool is_link(const cJSON *block)
{
    return strcmp(json_get_str(block, "type"), "resource_link") == 0;
}

static void write_as_text(struct result *r)
{
    CLEANUP_BUF struct buf lines;
    buf_init(&lines, LINES_MAX_BYTES);
    cJSON *block = r->content->child;
    while (block != NULL) {
        cJSON *next = block->next;
        if (is_link(block)) {
            add_link_line(&lines, r->structured, block);
            cJSON_Delete(cJSON_DetachItemViaPointer(r->content, block));
        }
        block = next;
    }
    if (lines.len > 0) {
        lines.len--; /* the last line ends with the text */
        result_add_text(r, text_cstr(&lines));
    }
}

/* ---- fields --------------------------------------------------------------------------------- */

static bool says_nothing(const cJSON *field)
{
    return (cJSON_IsString(field) && field->valuestring[0] == '\0') ||
           (cJSON_IsArray(field) && field->child == NULL) || cJSON_IsFalse(field);
}

/* Removes empty fields of an execution, which has most of them; for other results an empty file or
 * list is an answer. */
static void leave_out_empty(cJSON *execution)
{
    static const char *const names[] = {"stdout",   "stderr", "stdout_bytes", "stderr_bytes",
                                        "displays", "files",  "truncated",    "files_truncated"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        cJSON *field = cJSON_GetObjectItemCaseSensitive(execution, names[i]);
        bool zero = cJSON_IsNumber(field) && field->valuedouble == 0;
        if (field != NULL && (zero || says_nothing(field))) {
            cJSON_Delete(cJSON_DetachItemViaPointer(execution, field));
        }
    }
}

cJSON *result_set_form(struct result *r, enum result_form form)
{
    if (r->structured == NULL) {
        return NULL;
    }
    if (form == RESULT_FORM_TEXT) {
        write_as_text(r);
        return STEAL_PTR(r->structured);
    }
    if (form == RESULT_FORM_STRUCTURED && json_get(r->structured, "stdout") != NULL) {
        leave_out_empty(r->structured);
    }
    return NULL;
}

/* ---- length --------------------------------------------------------------------------------- */

bool result_is_long(const struct result *r)
{
    size_t bytes = 0;
    const cJSON *block;
    cJSON_ArrayForEach(block, r->content)
    {
        const char *text = json_get_str(block, "text");
        bytes += text != NULL ? strlen(text) : 0;
    }
    return bytes > LONG_BYTES;
}

/* Claude Code hides texts that are longer than its limit, unless the result or tool raises the
 * limit; this is the largest value that it accepts. Other hosts ignore it. */
void result_allow_long(cJSON *object)
{
    cJSON *meta = cJSON_AddObjectToObject(object, "_meta");
    cJSON_AddItemToObjectCS(meta, "anthropic/maxResultSizeChars", cJSON_CreateNumber(500000));
}

/* ---- views ---------------------------------------------------------------------------------- */

void result_add_view_fields(cJSON *result, cJSON *fields)
{
    cJSON *meta = cJSON_GetObjectItemCaseSensitive(result, "_meta");
    if (meta == NULL) {
        meta = cJSON_AddObjectToObject(result, "_meta");
    }
    cJSON_AddItemToObjectCS(meta, "cloister/fields", fields);
}
