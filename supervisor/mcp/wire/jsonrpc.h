/*
 * JSON-RPC 2.0 as MCP uses it: the kind of a message, its id, and the two forms of answers.
 * Transports and methods are not known here. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_WIRE_JSONRPC_H
#define CLOISTER_SUPERVISOR_MCP_WIRE_JSONRPC_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#define JSONRPC_ID_BYTES 512 /* a longer string is no valid id */

enum jsonrpc_code {
    JSONRPC_PARSE_ERROR = -32700,
    JSONRPC_INVALID_REQUEST = -32600,
    JSONRPC_METHOD_NOT_FOUND = -32601,
    JSONRPC_INVALID_PARAMS = -32602,
    JSONRPC_INTERNAL = -32603,
    /* our own, of the codes that servers may define: too much at a time, retry later; data{hint} */
    JSONRPC_BUSY = -32010,
    /* of MCP */
    JSONRPC_HEADER_MISMATCH = -32020,
    JSONRPC_NEEDS_CAPABILITY = -32021,    /* data{requiredCapabilities} */
    JSONRPC_UNSUPPORTED_VERSION = -32022, /* data{supported, requested} */
    JSONRPC_NO_RESOURCE = -32002,         /* data{uri}; not in the latest revision */
};

enum jsonrpc_kind {
    JSONRPC_INVALID, /* answered with an error */
    JSONRPC_REQUEST,
    JSONRPC_NOTIFICATION,
    JSONRPC_RESPONSE,
    JSONRPC_IGNORED, /* not answered: an invalid notification */
};

struct jsonrpc_message {
    enum jsonrpc_kind kind;
    char *id;            /* JSON text of the id, owned; NULL if it cannot be echoed */
    const char *method;  /* borrowed from the value */
    const cJSON *params; /* borrowed, NULL if absent or null, else an object */
    int code;            /* JSONRPC_INVALID: the error, */
    const char *problem; /* and its reason, a string literal */
};

/* Never fails: what is not valid becomes JSONRPC_INVALID or JSONRPC_IGNORED. */
void jsonrpc_read(const cJSON *value, struct jsonrpc_message *ret);
void jsonrpc_message_finish(struct jsonrpc_message *m);

/* Returns the text of an id (a string or an integer within +-(2^53-1)), by which it is echoed and
 * compared; NULL for anything else. The caller frees it. */
char *jsonrpc_id_text(const cJSON *id);

/* One line of JSON without newline; the caller frees it; never NULL. Both take ownership of their
 * values. */
char *jsonrpc_result(const char *id, cJSON *result);

/* NULL if there is no memory, since nobody waits for a notification. Takes ownership of the
 * params. */
char *jsonrpc_notification(const char *method, cJSON *params);

/* `id` NULL: unknown; then `null_id` decides between "id": null and no id. `message` may be any
 * bytes, `data` may be NULL. */
char *jsonrpc_error(const char *id, bool null_id, int code, const char *message, cJSON *data);

#endif
