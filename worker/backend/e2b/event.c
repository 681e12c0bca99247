/*
 * Events are Protocol Buffers' JSON: bytes in base64, default values left out, the member of a
 * oneof by its bare name, numbers of 64 bits as text. Members that are not known are passed over,
 * since later versions may add some; what is known must be what it is said to be.
 */
#include "worker/backend/e2b/event.h"

#include <string.h>

#include "common/base64.h"
#include "common/io/json.h"
#include "worker/backend/e2b/envelope.h"

#define JSON_DEPTH 16
#define PID_MAX    4194304.0 /* of Linux */

static void keep_words(const struct e2b_secrets *secrets, const char *text, char *ret, size_t size)
{
    e2b_words(secrets, view_of(text != NULL ? text : ""), ret, size);
}

static int parse_message(struct view message, cJSON **ret, struct err *err)
{
    struct err why = ERR_INIT;
    if (json_parse(message.data != NULL ? message.data : "", message.len, ENVELOPE_MESSAGE_MAX,
                   JSON_DEPTH, ret, NULL, &why) < 0) {
        return err_set(err, ERR_PROTOCOL, "a message that is no JSON: %.200s", why.text);
    }
    return 0;
}

static int read_start(const cJSON *start, struct e2b_event *ret, struct err *err)
{
    const cJSON *pid = json_get(start, "pid");
    if (!json_is_int(pid) || pid->valuedouble < 1 || pid->valuedouble > PID_MAX) {
        return err_set(err, ERR_PROTOCOL, "a process has started without a pid");
    }
    ret->kind = E2B_EVENT_STARTED;
    ret->pid = (uint64_t)pid->valuedouble;
    return 0;
}

static int read_data(const cJSON *event, struct buf *data, struct e2b_event *ret, struct err *err)
{
    const char *out = json_get_str(event, "stdout");
    const char *problem = json_get_str(event, "stderr");
    const char *text = out != NULL ? out : problem;
    if (text == NULL) {
        return 0; /* of a terminal, which nobody has asked for */
    }
    ret->kind = out != NULL ? E2B_EVENT_STDOUT : E2B_EVENT_STDERR;
    struct err why = ERR_INIT;
    if (base64_decode(data, view_of(text), &why) < 0) {
        return err_set(err, ERR_PROTOCOL, "output that is no base64: %.200s", why.text);
    }
    return 0;
}

static void read_end(const cJSON *end, const struct e2b_secrets *secrets, struct e2b_event *ret)
{
    const char *status = json_get_str(end, "status");
    const char *error = json_get_str(end, "error");
    ret->kind = E2B_EVENT_ENDED;
    keep_words(secrets, status != NULL ? status : error, ret->words, sizeof(ret->words));
}

int e2b_event_read(struct view message, const struct e2b_secrets *secrets, struct buf *data,
                   struct e2b_event *ret, struct err *err)
{
    cJSON *json = NULL;
    int rc = parse_message(message, &json, err);
    if (rc < 0) {
        return rc;
    }
    const cJSON *event = json_get(json, "event");
    const cJSON *start = json_get(event, "start");
    const cJSON *output = json_get(event, "data");
    const cJSON *end = json_get(event, "end");
    *ret = (struct e2b_event){.kind = E2B_EVENT_OTHER};
    if (!cJSON_IsObject(event)) {
        rc = err_set(err, ERR_PROTOCOL, "a message that is no event of a process");
    } else if (start != NULL) {
        rc = read_start(start, ret, err);
    } else if (output != NULL) {
        rc = read_data(output, data, ret, err);
    } else if (end != NULL) {
        read_end(end, secrets, ret);
    }
    cJSON_Delete(json);
    return rc;
}

int e2b_event_last(struct view message, const struct e2b_secrets *secrets, struct err *err)
{
    cJSON *json = NULL;
    char code[40], words[300];
    if (parse_message(message, &json, err) < 0) {
        return -err->code;
    }
    const cJSON *error = json_get(json, "error");
    keep_words(secrets, json_get_str(error, "code"), code, sizeof(code));
    keep_words(secrets, json_get_str(error, "message"), words, sizeof(words));
    cJSON_Delete(json);
    if (error == NULL) {
        return err_set(err, ERR_GONE, "the stream of the process has ended");
    }
    return err_set(err, strcmp(code, "not_found") == 0 ? ERR_GONE : ERR_ENGINE,
                   "the sandbox's daemon says: %s%s%s", code, words[0] != '\0' ? ": " : "", words);
}
