/*
 * How the control API answers: objects, errors in the form that tools have ({code, message, hint}),
 * lines of a stream, and the words of a query.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

void control_answer(struct web_exchange *x, int status, cJSON *owned)
{
    char *text = alloc_check(json_print(owned));
    cJSON_Delete(owned);
    if (status < 300) {
        control_deed_done(x, 0);
    }
    web_set_header(x, "Cache-Control", "no-store");
    web_set_header(x, "X-Content-Type-Options", "nosniff");
    web_respond_text(x, status, CONTROL_JSON, text);
}

static int status_of_code(int code)
{
    switch (code < 0 ? -code : code) {
    case ERR_INVALID:
    case ERR_CONFIG:
    case ERR_PATH:
    case ERR_IMAGE:
    case ERR_LANGUAGE:
    case ERR_NETWORK:
        return 400;
    case ERR_DENIED:
        return 403;
    case ERR_SANDBOX_NOT_FOUND:
    case ERR_EXECUTION_NOT_FOUND:
    case ERR_FILE_NOT_FOUND:
    case ERR_GONE:
        return 404;
    case ERR_TOO_BIG:
    case ERR_NO_SPACE:
        return 413;
    case ERR_SANDBOX_LIMIT:
    case ERR_BUSY:
        return 429;
    case ERR_ENGINE:
    case ERR_TIMEOUT:
    case ERR_SHUTTING_DOWN:
        return 503;
    default:
        return 500;
    }
}

void control_put_error(cJSON *object, int code, const char *message, const char *hint)
{
    cJSON *error = result_put_object(object, "error");
    result_put_text(error, "code", err_wire_name(code));
    result_put_words(error, "message", message);
    if (hint != NULL && hint[0] != '\0') {
        result_put_words(error, "hint", hint);
    }
}

void control_fail_as(struct web_exchange *x, int status, int code, const char *message,
                     const char *hint)
{
    cJSON *body = cJSON_CreateObject();
    control_put_error(body, code, message, hint);
    control_deed_done(x, code);
    control_answer(x, status, body);
}

void control_fail(struct web_exchange *x, int code, const char *message, const char *hint)
{
    control_fail_as(x, status_of_code(code), code, message, hint);
}

void control_write_line(struct web_exchange *x, cJSON *owned)
{
    CLEANUP_FREE char *text = alloc_check(json_print(owned));
    cJSON_Delete(owned);
    char *line = alloc_printf("%s\n", text);
    web_stream_write(x, line, strlen(line));
}

bool control_asks_for(const struct web_exchange *x, const char *name)
{
    const char *value = web_query(x, name);
    return value != NULL && (value[0] == '\0' || strcmp(value, "1") == 0 ||
                             strcmp(value, "yes") == 0 || strcmp(value, "true") == 0);
}

bool control_number(struct web_exchange *x, const char *name, uint64_t usual, uint64_t max,
                    uint64_t *ret)
{
    struct err err = ERR_INIT;
    const char *value = web_query(x, name);
    *ret = usual;
    if (value == NULL || str_to_u64(value, 0, max, ret, &err) == 0) {
        return true;
    }
    CLEANUP_FREE char *text = alloc_printf("%s: %s", name, err.text);
    control_fail(x, ERR_INVALID, text, NULL);
    return false;
}
