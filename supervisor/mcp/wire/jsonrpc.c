/*
 * Ids are kept as JSON text. So they are echoed exactly (clients use 0, strings, and milliseconds
 * since 1970), and 1 and "1" stay different. cJSON would print 1e15 with an exponent, so integers
 * are printed here.
 *
 * An answer is built as one tree and printed once, into memory that passes to the transport.
 */
#include "supervisor/mcp/wire/jsonrpc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"

#define MESSAGE_MAX_BYTES 8192

char *jsonrpc_id_text(const cJSON *id)
{
    if (cJSON_IsString(id)) {
        return strlen(id->valuestring) <= JSONRPC_ID_BYTES ? cJSON_PrintUnformatted(id) : NULL;
    }
    if (!json_is_int(id)) {
        return NULL;
    }
    char digits[32];
    snprintf(digits, sizeof(digits), "%.0f", id->valuedouble);
    return alloc_strdup(digits);
}

static void refuse_jsonrpc(struct jsonrpc_message *m, int code, const char *problem)
{
    m->kind = JSONRPC_INVALID;
    m->code = code;
    m->problem = problem;
}

void jsonrpc_read(const cJSON *value, struct jsonrpc_message *ret)
{
    *ret = (struct jsonrpc_message){.kind = JSONRPC_INVALID};
    if (!cJSON_IsObject(value)) {
        refuse_jsonrpc(ret, JSONRPC_INVALID_REQUEST,
                       "Invalid request: a message is one JSON object");
        return;
    }
    const cJSON *id = json_get(value, "id");
    const cJSON *method = json_get(value, "method");
    const cJSON *params = json_get_given(value, "params");
    const char *version = json_get_str(value, "jsonrpc");
    ret->id = id != NULL ? jsonrpc_id_text(id) : NULL;
    if (version == NULL || strcmp(version, "2.0") != 0) {
        refuse_jsonrpc(ret, JSONRPC_INVALID_REQUEST,
                       "Invalid request: \"jsonrpc\" must be \"2.0\"");
    } else if (method == NULL &&
               (json_get(value, "result") != NULL || json_get(value, "error") != NULL)) {
        ret->kind = JSONRPC_RESPONSE;
    } else if (!cJSON_IsString(method)) {
        refuse_jsonrpc(ret, JSONRPC_INVALID_REQUEST,
                       "Invalid request: \"method\" must be a string");
    } else if (id != NULL && ret->id == NULL) {
        refuse_jsonrpc(
            ret, JSONRPC_INVALID_REQUEST,
            "Invalid request: \"id\" must be a string of at most 512 bytes or an integer "
            "within +-(2^53-1)");
    } else if (params != NULL && !cJSON_IsObject(params)) {
        refuse_jsonrpc(ret, JSONRPC_INVALID_PARAMS, "Invalid params: \"params\" must be an object");
        /* A notification is never answered, not even an invalid one. */
        ret->kind = id != NULL ? JSONRPC_INVALID : JSONRPC_IGNORED;
    } else {
        ret->kind = id != NULL ? JSONRPC_REQUEST : JSONRPC_NOTIFICATION;
        ret->method = method->valuestring;
        ret->params = params;
    }
}

void jsonrpc_message_finish(struct jsonrpc_message *m)
{
    free(m->id);
    m->id = NULL;
}

static cJSON *envelope(const char *id, bool null_id)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(root, "jsonrpc", cJSON_CreateStringReference("2.0"));
    if (id != NULL) {
        cJSON_AddItemToObjectCS(root, "id", cJSON_CreateRaw(id));
    } else if (null_id) {
        cJSON_AddItemToObjectCS(root, "id", cJSON_CreateNull());
    }
    return root;
}

static char *print(cJSON *root, const char *id)
{
    char *line = json_print(root);
    cJSON_Delete(root);
    if (line != NULL) {
        return line;
    }
    /* This fails only for want of memory, so the error is small. */
    return alloc_printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":"
                        "\"Internal error: out of memory\"}}",
                        id != NULL ? id : "null", JSONRPC_INTERNAL);
}

char *jsonrpc_result(const char *id, cJSON *result)
{
    cJSON *root = envelope(id, false);
    cJSON_AddItemToObjectCS(root, "result", result);
    return print(root, id);
}

char *jsonrpc_notification(const char *method, cJSON *params)
{
    cJSON *root = envelope(NULL, false);
    cJSON_AddItemToObjectCS(root, "method", cJSON_CreateStringReference(method));
    cJSON_AddItemToObjectCS(root, "params", params);
    char *line = json_print(root);
    cJSON_Delete(root);
    return line;
}

char *jsonrpc_error(const char *id, bool null_id, int code, const char *message, cJSON *data)
{
    cJSON *root = envelope(id, null_id);
    cJSON *error = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(error, "code", cJSON_CreateNumber(code));
    /* The message may quote the client, cut anywhere. */
    CLEANUP_BUF struct buf text;
    buf_init(&text, MESSAGE_MAX_BYTES);
    text_add(&text, view_of(message), MESSAGE_MAX_BYTES / 4, false);
    cJSON_AddItemToObjectCS(error, "message", cJSON_CreateString(text_cstr(&text)));
    if (data != NULL) {
        cJSON_AddItemToObjectCS(error, "data", data);
    }
    cJSON_AddItemToObjectCS(root, "error", error);
    return print(root, id);
}
