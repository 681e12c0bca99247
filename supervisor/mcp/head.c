/*
 * HTTP requests of the latest revision repeat parts of their body in headers, for proxies that
 * route without reading bodies. We use only the body, but the headers must agree with it, because a
 * proxy may have acted on them.
 *
 * Values that do not fit a header come as =?base64?...?=, decoded here before they are compared.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"
#include "supervisor/mcp/internal.h"

#define MARK_FRONT      "=?base64?"
#define MARK_BACK       "?="
#define VALUE_MAX_BYTES (64u << 10) /* no listener takes longer heads */
#define SCHEMA_DEPTH    16

/* Refuses the request. Always returns false. */
static bool mismatch(struct mcp_request *r, const char *header, const char *problem)
{
    CLEANUP_FREE char *text = alloc_printf("Header mismatch: %.100s %s", header, problem);
    mcp_refuse(r, MCP_STATUS_BAD_REQUEST, JSONRPC_HEADER_MISMATCH, text, NULL);
    return false;
}

/* Decodes a header's value; NULL if it is badly encoded. `room` keeps the result. */
static const char *decode_value(const char *value, struct buf *room)
{
    size_t len = strlen(value);
    size_t front = strlen(MARK_FRONT);
    size_t back = strlen(MARK_BACK);
    if (len < front + back || strncmp(value, MARK_FRONT, front) != 0 ||
        strcmp(value + len - back, MARK_BACK) != 0) {
        return value;
    }
    struct view encoded = view_bytes(value + front, len - front - back);
    if (base64_decode(room, encoded, NULL) < 0 ||
        !utf8_valid((const char *)room->data, room->len) ||
        (room->len > 0 && memchr(room->data, '\0', room->len) != NULL)) {
        return NULL;
    }
    return buf_cstr(room);
}

bool mcp_head_check_version(struct mcp_request *r, const struct mcp_head *head)
{
    const char *claim = json_get_str(json_get(r->params, "_meta"), MCP_META_VERSION);
    if (head->version == NULL) {
        return mismatch(r, "MCP-Protocol-Version", "is missing");
    }
    if (claim == NULL || strcmp(head->version, claim) != 0) {
        return mismatch(r, "MCP-Protocol-Version", "is not what params._meta says");
    }
    return true;
}

bool mcp_head_check_method(struct mcp_request *r, const struct mcp_head *head)
{
    if (head->method == NULL) {
        return mismatch(r, "Mcp-Method", "is missing");
    }
    if (strcmp(head->method, r->method_name) != 0) {
        return mismatch(r, "Mcp-Method", "is not the method of the body");
    }
    const char *member = r->method != NULL ? r->method->name_member : NULL;
    const char *name = member != NULL ? json_get_str(r->params, member) : NULL;
    if (name == NULL) {
        return true; /* not required, or the check of params will refuse it */
    }
    if (head->name == NULL) {
        return mismatch(r, "Mcp-Name", "is missing");
    }
    CLEANUP_BUF struct buf room;
    buf_init(&room, VALUE_MAX_BYTES);
    const char *said = decode_value(head->name, &room);
    if (said == NULL) {
        return mismatch(r, "Mcp-Name", "is badly encoded: expected =?base64?...?= of UTF-8");
    }
    if (strcmp(said, name) != 0) {
        return mismatch(r, "Mcp-Name", "is not the name in the body");
    }
    return true;
}

/* ---- Mcp-Param-* ---------------------------------------------------------------------------- */

static bool says_number(const char *text, double number)
{
    if (text[strspn(text, "+-.0123456789eE")] != '\0') {
        return false; /* strtod() accepts more spellings of a number */
    }
    char *end;
    double said = strtod(text, &end);
    return end != text && *end == '\0' && said == number;
}

static bool says(const char *text, const cJSON *value)
{
    if (cJSON_IsString(value)) {
        return strcmp(text, value->valuestring) == 0;
    }
    if (cJSON_IsBool(value)) {
        return strcmp(text, cJSON_IsTrue(value) ? "true" : "false") == 0;
    }
    return says_number(text, value->valuedouble);
}

/* Returns what is wrong with the header for this value, or NULL. */
static const char *param_problem(const struct mcp_head *head, const char *name, const cJSON *value)
{
    if (!cJSON_IsString(value) && !cJSON_IsBool(value) && !cJSON_IsNumber(value)) {
        return NULL; /* absent, null, or of a type that the check of arguments refuses */
    }
    const char *header = head->param != NULL ? head->param(head->arg, name) : NULL;
    if (header == NULL) {
        return "is missing";
    }
    CLEANUP_BUF struct buf room;
    buf_init(&room, VALUE_MAX_BYTES);
    const char *said = decode_value(header, &room);
    if (said == NULL) {
        return "is badly encoded: expected =?base64?...?= of UTF-8";
    }
    return says(said, value) ? NULL : "is not the argument in the body";
}

/* Finds the first property below `schema` whose header is wrong; stores its name in *ret_name. */
static const char *find_problem(const struct mcp_head *head, const cJSON *schema,
                                const cJSON *arguments, int depth, const char **ret_name)
{
    const cJSON *property;
    cJSON_ArrayForEach(property, json_get(schema, "properties"))
    {
        const cJSON *value = json_get(arguments, property->string);
        const char *name = json_get_str(property, "x-mcp-header");
        const char *problem = name != NULL ? param_problem(head, name, value) : NULL;
        if (problem != NULL) {
            *ret_name = name;
            return problem;
        }
        if (depth > 0 && cJSON_IsObject(value)) {
            problem = find_problem(head, property, value, depth - 1, ret_name);
            if (problem != NULL) {
                return problem;
            }
        }
    }
    return NULL;
}

bool mcp_head_check_params(struct mcp_request *r, const struct mcp_head *head)
{
    if (r->tool == NULL) {
        return true;
    }
    const char *name = NULL;
    const char *problem = find_problem(head, r->tool->input_schema,
                                       json_get(r->params, "arguments"), SCHEMA_DEPTH, &name);
    if (problem == NULL) {
        return true;
    }
    CLEANUP_FREE char *header = alloc_printf("Mcp-Param-%.64s", name);
    return mismatch(r, header, problem);
}
